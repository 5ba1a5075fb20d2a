#include "cpu/baseline.h"
//
#include "reductions/mixture_kernels.h"
