#include "cpu/baseline.h"
//
#include "cpu/product_kernels.h"
