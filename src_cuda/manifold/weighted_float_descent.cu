#include "manifold/descent.h"

template const double* bb_scaling::descend<true, float>(int, const double*, double*);
