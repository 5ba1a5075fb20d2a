#if defined(__x86_64__)
#include "cpu/avx2.h"
//
#include "mixtures/mixture_kernels.h"
#endif
