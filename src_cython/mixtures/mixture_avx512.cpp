#if defined(__x86_64__)
#include "cpu/avx512.h"
//
#include "mixtures/mixture_kernels.h"
#endif
