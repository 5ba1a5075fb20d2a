// AVX2 with FMA.
#pragma once

#include "cpu/target.h"

#define BMRM_ISA avx2
#define BMRM_TARGET __attribute__((target("avx2,fma,bmi2")))
#define BMRM_DOUBLES 4
