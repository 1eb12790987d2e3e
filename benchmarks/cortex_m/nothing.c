/* An empty call, to measure the cost of the loop alone. In a separate file, so that the compiler cannot remove it. */
#include <stdint.h>

void model_nothing(const T *x, T *y);

void model_nothing(const T *x, T *y)
{
    (void)x;
    (void)y;
}
