#include "cpu/baseline.h"
//
#include "reductions/nearest_kernels.h"
#include "reductions/scaling_kernels.h"
