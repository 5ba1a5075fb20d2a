#if defined(__x86_64__)
#include "cpu/avx2.h"
//
#include "reductions/nearest_kernels.h"
#include "reductions/scaling_kernels.h"
#endif
