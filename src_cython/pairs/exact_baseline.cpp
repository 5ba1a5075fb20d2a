#include "cpu/baseline.h"
//
#include "pairs/exact_kernels.h"
