#if defined(__x86_64__)
#include "cpu/avx2.h"
//
#include "qp/plane_kernels.h"
#endif
