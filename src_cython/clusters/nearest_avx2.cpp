#if defined(__x86_64__)
#include "cpu/avx2.h"
//
#include "clusters/nearest_kernels.h"
#endif
