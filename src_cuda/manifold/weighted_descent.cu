#include "manifold/descent.h"

template const double* bb_scaling::descend<true, double>(int, const double*, double*);
