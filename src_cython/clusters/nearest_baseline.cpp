#include "cpu/baseline.h"
//
#include "clusters/nearest_kernels.h"
