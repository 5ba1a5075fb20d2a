#include "manifold/descent.h"

template const double* bb_scaling::descend<false, double>(int, const double*, double*);
