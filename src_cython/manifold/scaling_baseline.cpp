#include "cpu/baseline.h"
//
#include "manifold/scaling_kernels.h"
