#if defined(__x86_64__)
#include "cpu/avx2.h"
//
#include "reductions/mixture_kernels.h"
#endif
