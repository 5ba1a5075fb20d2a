#if defined(__x86_64__)
#define BMRM_AVX512_OPTIONS ",prefer-vector-width=512"
#include "cpu/avx512.h"
//
#include "pairs/exact_kernels.h"
#endif
