// W doubles in registers of one instruction set.
//
// A hardware gather of 8 doubles takes 10 cycles on Zen 5 (and microcode on patched Intel cores); eight
// scalar loads merged into a register take 6, so gathers are written as loads.
#pragma once

#include "cpu/simd.h"

namespace bmrm {
namespace BMRM_ISA {

template <class T>
BMRM_INLINE T load(const void* p) {
    T v;
    std::memcpy(&v, p, sizeof(T));
    return v;
}

template <int W>
struct Pack {
    static constexpr int L = W < BMRM_DOUBLES ? W : BMRM_DOUBLES;
    static constexpr int N = W / L;
    using Register = typename Lanes<L>::f64;
    Register v[N];

    BMRM_INLINE void clear() {
        for (int n = 0; n < N; ++n) v[n] = Register{};
    }
    BMRM_INLINE void read(const double* p) {
        for (int n = 0; n < N; ++n) v[n] = load<Register>(p + n * L);
    }
    BMRM_INLINE void read(const float* p) {
        for (int n = 0; n < N; ++n)
            v[n] = __builtin_convertvector(load<typename Lanes<L>::f32>(p + n * L), Register);
    }
    /// Reads the first `count` < W values at p, followed by zeros; `room` values may be read.
    template <class V>
    BMRM_INLINE void read_tail(const V* p, i64 count, i64 room) {
        if (room >= W) return read(p);
        V buffer[W] = {};
        std::memcpy(buffer, p, count * sizeof(V));
        read(buffer);
    }
    template <class I>
    BMRM_INLINE void gather(const double* w, const I* idx) {
        for (int n = 0; n < N; ++n)
            if constexpr (L == 8) {
                v[n] = Register{w[idx[0]], w[idx[1]], w[idx[2]], w[idx[3]],
                                w[idx[4]], w[idx[5]], w[idx[6]], w[idx[7]]};
            } else if constexpr (L == 4) {
                const I* i = idx + 4 * n;
                v[n] = Register{w[i[0]], w[i[1]], w[i[2]], w[i[3]]};
            } else {
                const I* i = idx + 2 * n;
                v[n] = Register{w[i[0]], w[i[1]]};
            }
    }
    BMRM_INLINE void write(double* p) const {
        for (int n = 0; n < N; ++n) std::memcpy(p + n * L, &v[n], sizeof(Register));
    }
    BMRM_INLINE void keep_first(i64 count) {
        for (int n = 0; n < N; ++n)
            v[n] = (Register)((typename Lanes<L>::mask)v[n] &
                              load<typename Lanes<L>::mask>(kLaneMask + 8 - count + n * L));
    }
    /// Adds w[idx[from[0]]], w[idx[from[1]]], ... in the lanes l with position < length[l].
    template <class I>
    BMRM_INLINE void add_where(const double* w, const I* const* from, i64 position, const i64* length) {
        using Mask = typename Lanes<L>::mask;
        for (int n = 0; n < N; ++n) {
            Register g;
            for (int l = 0; l < L; ++l) g[l] = w[from[n * L + l][position]];
            v[n] += (Register)((Mask)g & (position < load<Mask>(length + n * L)));
        }
    }
    /// Adds w[from[0][position]], w[from[1][position]], ...
    template <class I>
    BMRM_INLINE void add_across(const double* w, const I* const* from, i64 position) {
        for (int n = 0; n < N; ++n) {
            Register g;
            for (int l = 0; l < L; ++l) g[l] = w[from[n * L + l][position]];
            v[n] += g;
        }
    }
    BMRM_INLINE void add(const Pack& a) {
        for (int n = 0; n < N; ++n) v[n] += a.v[n];
    }
    BMRM_INLINE void multiply(const Pack& a) {
        for (int n = 0; n < N; ++n) v[n] *= a.v[n];
    }
    BMRM_INLINE void add_product(const Pack& a, const Pack& b) {
        for (int n = 0; n < N; ++n) v[n] += a.v[n] * b.v[n];
    }
    BMRM_INLINE void add_product(double a, const Pack& b) {
        for (int n = 0; n < N; ++n) v[n] += a * b.v[n];
    }
    /// ((0 + 4) + (2 + 6)) + ((1 + 5) + (3 + 7)), for W = 8.
    BMRM_INLINE double sum() const {
        static_assert(W == 8);
        if constexpr (L == 8) {
            return sum4(__builtin_shufflevector(v[0], v[0], 0, 1, 2, 3) +
                        __builtin_shufflevector(v[0], v[0], 4, 5, 6, 7));
        } else if constexpr (L == 4) {
            return sum4(v[0] + v[1]);
        } else {
            Register s = (v[0] + v[2]) + (v[1] + v[3]);
            return s[0] + s[1];
        }
    }

  private:
    template <class Four>
    BMRM_INLINE static double sum4(Four a) {
        auto s = __builtin_shufflevector(a, a, 0, 1) + __builtin_shufflevector(a, a, 2, 3);
        return s[0] + s[1];
    }
};

}  // namespace BMRM_ISA
}  // namespace bmrm
