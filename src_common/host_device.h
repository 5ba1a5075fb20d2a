// BMRM_HD marks the functions that both the host compiler and nvcc compile.
#pragma once

#ifdef __CUDACC__
#define BMRM_HD __host__ __device__ inline
#elif defined(__GNUC__)
#define BMRM_HD inline __attribute__((always_inline))  // a loop with a call does not vectorise
#else
#define BMRM_HD inline
#endif
