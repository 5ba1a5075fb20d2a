// Includes the file that BMRM_KERNELS names once per instruction set, each time with
//
//     BMRM_ISA      the namespace to compile in,
//     BMRM_TARGET   the attribute of each function, which names the instruction set,
//     BMRM_INLINE   the same for a function that is inlined into one of these,
//     BMRM_DOUBLES  the number of float64 in a register,
//
// and forgets BMRM_KERNELS. cpu/dispatch.h says which set this processor has. BMRM_AVX512_OPTIONS may add to
// the target of AVX-512: by default GCC uses registers of 256 bits in loops that it vectorises itself.
#pragma GCC diagnostic ignored "-Wpsabi"  // vectors are passed only between inlined functions

#ifndef BMRM_AVX512_OPTIONS
#define BMRM_AVX512_OPTIONS ""
#endif
#define BMRM_INLINE BMRM_TARGET __attribute__((always_inline)) inline

#define BMRM_ISA baseline
#define BMRM_TARGET
#define BMRM_DOUBLES 2
#include BMRM_KERNELS
#undef BMRM_ISA
#undef BMRM_TARGET
#undef BMRM_DOUBLES

#if defined(__x86_64__)
#define BMRM_ISA avx2
#define BMRM_TARGET __attribute__((target("avx2,fma,bmi2")))
#define BMRM_DOUBLES 4
#include BMRM_KERNELS
#undef BMRM_ISA
#undef BMRM_TARGET
#undef BMRM_DOUBLES

#define BMRM_ISA avx512
#define BMRM_TARGET \
    __attribute__((target("avx512f,avx512vl,avx512dq,avx512bw,avx2,fma,bmi2" BMRM_AVX512_OPTIONS)))
#define BMRM_DOUBLES 8
#include BMRM_KERNELS
#undef BMRM_ISA
#undef BMRM_TARGET
#undef BMRM_DOUBLES
#endif

#undef BMRM_INLINE
#undef BMRM_AVX512_OPTIONS
#undef BMRM_KERNELS
