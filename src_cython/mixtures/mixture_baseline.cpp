#include "cpu/baseline.h"
//
#include "mixtures/mixture_kernels.h"
