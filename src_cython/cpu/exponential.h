// exp of registers of float64, for one instruction set (isa.h).
#pragma once

#include "cpu/instruction_set.h"
//
#include <initializer_list>

#include "common/integers.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace bmrm {

/// exp of less is 0: sums of denormal numbers would be slow.
constexpr double kLeastExponent = -600.0;

}  // namespace bmrm

namespace bmrm::BMRM_ISA {

typedef double Doubles __attribute__((vector_size(8 * BMRM_DOUBLES), aligned(8)));
typedef i64 Longs __attribute__((vector_size(8 * BMRM_DOUBLES), aligned(8)));

/// a b + c, rounded once if the instruction set can.
BMRM_INLINE Doubles fused(Doubles a, Doubles b, Doubles c) {
#if BMRM_DOUBLES == 8
    return (Doubles)_mm512_fmadd_pd((__m512d)a, (__m512d)b, (__m512d)c);
#elif BMRM_DOUBLES == 4
    return (Doubles)_mm256_fmadd_pd((__m256d)a, (__m256d)b, (__m256d)c);
#else
    return a * b + c;
#endif
}

constexpr double kInverseLog2 = 0x1.71547652b82fep0;
/// Adding it rounds to a whole number, which the last bits then are.
constexpr double kWhole = 0x1.8p52;

/// 2^n e^r for |r| <= ln 2 / 2, by the Taylor polynomial of degree 13, of error below 2^-54; n is in the last
/// bits of `shifted`.
BMRM_INLINE Doubles scaled_exponential(Doubles r, Doubles shifted) {
    const Doubles zero{};
    Doubles p = zero + 1.0 / 6227020800.0;
    for (const double c :
         {1.0 / 479001600.0, 1.0 / 39916800.0, 1.0 / 3628800.0, 1.0 / 362880.0, 1.0 / 40320.0, 1.0 / 5040.0,
          1.0 / 720.0, 1.0 / 120.0, 1.0 / 24.0, 1.0 / 6.0, 0.5, 1.0, 1.0})
        p = fused(p, r, zero + c);
    return p * (Doubles)(((Longs)shifted + 1023) << 52);
}

/// exp(x) for x <= 0, to 4 u, u = 2^-53. Below kLeastExponent it is 0.
BMRM_INLINE Doubles exponential(Doubles x) {
    constexpr double kLog2 = 0x1.62e42fee00000p-1, kLog2Rest = 0x1.a39ef35793c76p-33;
    const Doubles zero{}, round = zero + kWhole;
    const Longs tiny = x < kLeastExponent;
    const Doubles bounded = tiny ? zero + kLeastExponent : x;
    const Doubles shifted = fused(bounded, zero + kInverseLog2, round);
    const Doubles n = shifted - round;
    const Doubles r = fused(n, zero - kLog2Rest, fused(n, zero - kLog2, bounded));
    return tiny ? zero : scaled_exponential(r, shifted);
}

}  // namespace bmrm::BMRM_ISA
