// The macro of functions that the host's compiler and that of the device both read.
#pragma once

#ifdef __CUDACC__
#define BMRM_HD __host__ __device__ inline
#elif defined(__GNUC__)
#define BMRM_HD inline __attribute__((always_inline))  // a call is what no loop vectorises
#else
#define BMRM_HD inline
#endif
