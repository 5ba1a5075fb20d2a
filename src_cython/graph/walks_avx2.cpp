#if defined(__x86_64__)
#include "cpu/avx2.h"
//
#include "graph/kernels.h"
#endif
