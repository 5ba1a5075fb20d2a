#if defined(__x86_64__)
#include "cpu/avx512.h"
//
#include "cpu/product_kernels.h"
#endif
