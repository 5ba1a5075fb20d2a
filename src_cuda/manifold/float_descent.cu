#include "manifold/descent.h"

template const double* bb_scaling::descend<false, float>(int, const double*, double*);
