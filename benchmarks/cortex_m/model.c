/* The exported system in a separate object file, whose size is the size of the system. */
#include "plant.h"

void model_predict(const T *x, T *y);
void model_predict_interval(const T *x, T *low, T *high);

void model_predict(const T *x, T *y)
{
    plant_predict(x, y);
}

void model_predict_interval(const T *x, T *low, T *high)
{
#ifdef INTERVAL
    plant_predict_interval(x, low, high);
#else
    plant_predict(x, low);
    plant_predict(x, high);
#endif
}
