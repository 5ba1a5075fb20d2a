// Completes the header of an instruction set, which defines
//
//     BMRM_ISA      the namespace to compile in,
//     BMRM_TARGET   the attribute of each function, which names the instruction set,
//     BMRM_DOUBLES  the number of float64 in a register.
#pragma once

#pragma GCC diagnostic ignored "-Wpsabi"  // vectors are passed only between inlined functions

/// Instead of BMRM_TARGET, for a function that is inlined into one with that.
#define BMRM_INLINE BMRM_TARGET __attribute__((always_inline)) inline
