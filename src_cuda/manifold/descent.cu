#include "manifold/descent.h"

template const double* bb_scaling::descend<false>(int, const double*, double*);
