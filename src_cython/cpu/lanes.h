// Registers of float32 and the operations on them that GCC's vectors lack, for one instruction set
// (cpu/isa.h).
#pragma once

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include <cmath>
#include <cstdint>

namespace bmrm::BMRM_ISA {

constexpr int kLanes = 2 * BMRM_DOUBLES;
typedef float Floats __attribute__((vector_size(4 * kLanes), aligned(4)));
typedef std::int32_t Ints __attribute__((vector_size(4 * kLanes), aligned(4)));
typedef std::uint32_t Words __attribute__((vector_size(4 * kLanes), aligned(4)));

/// A bit per lane.
using LaneBits = std::uint32_t;
constexpr LaneBits kAllLanes = (1u << kLanes) - 1;

BMRM_INLINE Floats load(const float* from) { return *reinterpret_cast<const Floats*>(from); }
BMRM_INLINE void store(float* to, const Floats& value) { *reinterpret_cast<Floats*>(to) = value; }
BMRM_INLINE void store(std::uint32_t* to, const Words& value) { *reinterpret_cast<Words*>(to) = value; }
BMRM_INLINE Floats all(float value) { return Floats{} + value; }

BMRM_INLINE Floats twice_root_plus(Floats x, Floats c);
BMRM_INLINE Floats twice_root(Floats x) { return twice_root_plus(x, Floats{}); }

#if defined(__x86_64__) && BMRM_DOUBLES == 8

BMRM_INLINE Floats least(Floats a, Floats b) { return (Floats)_mm512_min_ps((__m512)a, (__m512)b); }
BMRM_INLINE Floats most(Floats a, Floats b) { return (Floats)_mm512_max_ps((__m512)a, (__m512)b); }
BMRM_INLINE Floats magnitude(Floats a) { return (Floats)_mm512_abs_ps((__m512)a); }
BMRM_INLINE Floats fused(Floats a, Floats b, Floats c) {
    return (Floats)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c);
}
/// 2 sqrt(x) + c for x > 0; the root has a relative error of 1.7 u, and the sum is rounded once. With
/// y = (1 + e) / sqrt(x), |e| <= 2^-14, and s = x y (1 + a), t = 3 - s y is 2 - e (2 + e) but for a and its
/// own rounding, at most u each of 2: s t / 2 misses the root by 1.5 e^2 < 0.1 u, a / 2 and u.
BMRM_INLINE Floats twice_root_plus(Floats x, Floats c) {
    const __m512 v = (__m512)x, y = _mm512_rsqrt14_ps(v), s = _mm512_mul_ps(v, y);
    return (Floats)_mm512_fmadd_ps(s, _mm512_fnmadd_ps(s, y, _mm512_set1_ps(3.0f)), (__m512)c);
}
BMRM_INLINE Ints nearest(Floats a) { return (Ints)_mm512_cvtps_epi32((__m512)a); }
BMRM_INLINE Words shifted(Words a, Words by) { return (Words)_mm512_srlv_epi32((__m512i)a, (__m512i)by); }
BMRM_INLINE Words spliced(Words upper, Words lower, Words mask) {
    return (Words)_mm512_ternarylogic_epi32((__m512i)upper, (__m512i)lower, (__m512i)mask, 0xec);
}
BMRM_INLINE LaneBits zeros(Words a, Words mask) { return _mm512_testn_epi32_mask((__m512i)a, (__m512i)mask); }
BMRM_INLINE LaneBits below(Floats a, Floats b) {
    return _mm512_cmp_ps_mask((__m512)a, (__m512)b, _CMP_LT_OQ);
}
BMRM_INLINE LaneBits at_least(Floats a, Floats b) {
    return _mm512_cmp_ps_mask((__m512)a, (__m512)b, _CMP_GE_OQ);
}
BMRM_INLINE Floats gathered(const float* table, Words at) {
    return (Floats)_mm512_i32gather_ps((__m512i)at, table, 4);
}
/// Stores the lanes of `which` next to each other; the rest of the register is arbitrary.
BMRM_INLINE void store_some(float* to, LaneBits which, Floats a) {
    _mm512_storeu_ps(to, _mm512_maskz_compress_ps(static_cast<__mmask16>(which), (__m512)a));
}

#elif defined(__x86_64__) && BMRM_DOUBLES == 4

/// Lanes of a register that have a bit, in order, for each set of bits.
struct Squeezed {
    std::uint8_t lanes[256][8];
    constexpr Squeezed() : lanes() {
        for (int bits = 0; bits < 256; ++bits) {
            int count = 0;
            for (int lane = 0; lane < 8; ++lane)
                if (bits >> lane & 1) lanes[bits][count++] = static_cast<std::uint8_t>(lane);
        }
    }
};
inline constexpr Squeezed kSqueezed{};

BMRM_INLINE Floats least(Floats a, Floats b) { return (Floats)_mm256_min_ps((__m256)a, (__m256)b); }
BMRM_INLINE Floats most(Floats a, Floats b) { return (Floats)_mm256_max_ps((__m256)a, (__m256)b); }
BMRM_INLINE Floats magnitude(Floats a) { return (Floats)_mm256_andnot_ps(_mm256_set1_ps(-0.0f), (__m256)a); }
BMRM_INLINE Floats fused(Floats a, Floats b, Floats c) {
    return (Floats)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c);
}
BMRM_INLINE Floats twice_root_plus(Floats x, Floats c) {
    return fused((Floats)_mm256_sqrt_ps((__m256)x), all(2.0f), c);
}
BMRM_INLINE Ints nearest(Floats a) { return (Ints)_mm256_cvtps_epi32((__m256)a); }
BMRM_INLINE Words shifted(Words a, Words by) { return (Words)_mm256_srlv_epi32((__m256i)a, (__m256i)by); }
BMRM_INLINE Words spliced(Words upper, Words lower, Words mask) { return (upper & mask) | lower; }
BMRM_INLINE LaneBits zeros(Words a, Words mask) {
    return _mm256_movemask_ps((__m256)((a & mask) == Words{}));
}
BMRM_INLINE LaneBits below(Floats a, Floats b) {
    return _mm256_movemask_ps(_mm256_cmp_ps((__m256)a, (__m256)b, _CMP_LT_OQ));
}
BMRM_INLINE LaneBits at_least(Floats a, Floats b) {
    return _mm256_movemask_ps(_mm256_cmp_ps((__m256)a, (__m256)b, _CMP_GE_OQ));
}
BMRM_INLINE Floats gathered(const float* table, Words at) {
    return (Floats)_mm256_i32gather_ps(table, (__m256i)at, 4);
}
BMRM_INLINE void store_some(float* to, LaneBits which, Floats a) {
    const auto* lanes = reinterpret_cast<const __m128i*>(kSqueezed.lanes[which]);
    _mm256_storeu_ps(to, _mm256_permutevar8x32_ps((__m256)a, _mm256_cvtepu8_epi32(_mm_loadl_epi64(lanes))));
}

#else

BMRM_INLINE Floats least(Floats a, Floats b) { return a < b ? a : b; }
BMRM_INLINE Floats most(Floats a, Floats b) { return a > b ? a : b; }
BMRM_INLINE Floats magnitude(Floats a) { return (Floats)((Words)a & 0x7fffffffu); }
BMRM_INLINE Floats fused(Floats a, Floats b, Floats c) { return a * b + c; }
BMRM_INLINE Floats twice_root_plus(Floats x, Floats c) {
#if defined(__x86_64__)
    const Floats y = (Floats)_mm_sqrt_ps((__m128)x);
#else
    Floats y;
    for (int l = 0; l < kLanes; ++l) y[l] = __builtin_sqrtf(x[l]);
#endif
    return y + y + c;
}
BMRM_INLINE Ints nearest(Floats a) {
#if defined(__x86_64__)
    return (Ints)_mm_cvtps_epi32((__m128)a);
#else
    Ints q;
    for (int l = 0; l < kLanes; ++l) q[l] = static_cast<std::int32_t>(__builtin_rintf(a[l]));
    return q;
#endif
}
/// All lanes by the same number of bits: other shifts are many instructions here.
BMRM_INLINE Words shifted(Words a, Words by) { return a >> by[0]; }
BMRM_INLINE Words spliced(Words upper, Words lower, Words mask) { return (upper & mask) | lower; }
BMRM_INLINE LaneBits bits_of(Words truth) {
#if defined(__x86_64__)
    return _mm_movemask_ps((__m128)truth);
#else
    LaneBits bits = 0;
    for (int l = 0; l < kLanes; ++l) bits |= (truth[l] & 1u) << l;
    return bits;
#endif
}
BMRM_INLINE LaneBits zeros(Words a, Words mask) { return bits_of((Words)((a & mask) == Words{})); }
BMRM_INLINE LaneBits below(Floats a, Floats b) { return bits_of((Words)(a < b)); }
BMRM_INLINE LaneBits at_least(Floats a, Floats b) { return bits_of((Words)(a >= b)); }
BMRM_INLINE Floats gathered(const float* table, Words at) {
    Floats y;
    for (int l = 0; l < kLanes; ++l) y[l] = table[at[l]];
    return y;
}
BMRM_INLINE void store_some(float* to, LaneBits which, Floats a) {
    int count = 0;
    for (int l = 0; l < kLanes; ++l) {
        to[count] = a[l];
        count += which >> l & 1u;
    }
}

#endif

}  // namespace bmrm::BMRM_ISA
