// The compiler's default instruction set.
#pragma once

#include "cpu/target.h"

#define BMRM_ISA baseline
#define BMRM_TARGET
#define BMRM_DOUBLES 2
