// The first include of a `*_kernels.cpp`, which the build compiles once per instruction set (isa.h), with
// BMRM_FOR_AVX2 or BMRM_FOR_AVX512 defined, or neither.
#pragma once

#if defined(BMRM_FOR_AVX512)
#include "cpu/avx512.h"
#elif defined(BMRM_FOR_AVX2)
#include "cpu/avx2.h"
#else
#include "cpu/baseline.h"
#endif
