#if defined(__x86_64__)
#include "cpu/avx2.h"
//
#include "manifold/scaling_kernels.h"
#endif
