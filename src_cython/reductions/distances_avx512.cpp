#if defined(__x86_64__)
#define BMRM_AVX512_OPTIONS ",prefer-vector-width=512"
#include "cpu/avx512.h"
//
#include "reductions/nearest_kernels.h"
#include "reductions/scaling_kernels.h"
#endif
