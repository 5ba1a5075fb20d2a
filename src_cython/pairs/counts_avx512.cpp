#if defined(__x86_64__)
#include "cpu/avx512.h"
//
#include "pairs/count_kernels.h"
#endif
