#include "manifold/descent.h"

template const double* bb_scaling::descend<true>(int, const double*, double*);
