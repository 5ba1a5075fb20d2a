#include "cpu/baseline.h"
//
#include "pairs/count_kernels.h"
