/* The exported system as a part of its own, so that its size can be read off the object file. */
#include "plant.h"

void model_predict(const T *x, T *y);
void model_predict_interval(const T *x, T *low, T *high);
void model_nothing(const T *x, T *y);

void model_predict(const T *x, T *y)
{
    plant_predict(x, y);
}

#ifndef WITHOUT_INTERVAL
void model_predict_interval(const T *x, T *low, T *high)
{
#ifdef INTERVAL
    plant_predict_interval(x, low, high);
#else
    plant_predict(x, low);
    plant_predict(x, high);
#endif
}
#endif
