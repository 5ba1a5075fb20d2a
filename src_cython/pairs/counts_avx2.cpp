#if defined(__x86_64__)
#include "cpu/avx2.h"
//
#include "pairs/count_kernels.h"
#endif
