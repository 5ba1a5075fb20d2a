// The compiler's default instruction set. The first include of a translation unit of kernels.
#pragma once

#include "cpu/target.h"

#define BMRM_ISA baseline
#define BMRM_TARGET
#define BMRM_DOUBLES 2
