/* What a loop around a call costs without the call's work; in a file of its own, so that it is not optimised away. */
#include <stdint.h>

void model_nothing(const T *x, T *y);

void model_nothing(const T *x, T *y)
{
    (void)x;
    (void)y;
}
