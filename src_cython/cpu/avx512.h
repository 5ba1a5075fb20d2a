// AVX-512. BMRM_AVX512_OPTIONS may add to the target: by default GCC uses registers of 256 bits in loops that
// it vectorises itself.
#pragma once

#include "cpu/target.h"

#ifndef BMRM_AVX512_OPTIONS
#define BMRM_AVX512_OPTIONS ""
#endif
#define BMRM_ISA avx512
#define BMRM_TARGET \
    __attribute__((target("avx512f,avx512vl,avx512dq,avx512bw,avx2,fma,bmi2" BMRM_AVX512_OPTIONS)))
#define BMRM_DOUBLES 8
