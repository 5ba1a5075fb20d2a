// Functions that both compilers read.
#pragma once

#ifdef __CUDACC__
#define BB_HD __host__ __device__ inline
#else
#define BB_HD inline
#endif
