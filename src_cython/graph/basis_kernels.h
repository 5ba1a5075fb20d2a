// Loops over some entries of vectors, for one instruction set (kernels.h).
#pragma once

#include "graph/basis.h"

namespace bmrm::BMRM_ISA {

struct BasisLoops {
    typedef double Lanes __attribute__((vector_size(8 * kBasisLanes), aligned(8), may_alias));

    BMRM_INLINE static Lanes read(const double* from) { return *reinterpret_cast<const Lanes*>(from); }
    BMRM_INLINE static void write(double* to, Lanes lanes) { *reinterpret_cast<Lanes*>(to) = lanes; }

    BMRM_INLINE static double inner_product(const double* x, const double* y, i64 first, i64 last) {
        Lanes sum = {};
        double rest = 0;
        i64 i = first;
        for (; i + kBasisLanes <= last; i += kBasisLanes) sum += read(x + i) * read(y + i);
        for (; i < last; ++i) rest += x[i] * y[i];
        for (int l = 0; l < kBasisLanes; ++l) rest += sum[l];
        return rest;
    }

    /// Adds the inner products of w and each vector of the basis to sums.
    BMRM_TARGET static void products(const double* const* basis, int count, const double* w, i64 first,
                                     i64 last, double* sums) {
        for (int j = 0; j < count; ++j) sums[j] += inner_product(basis[j], w, first, last);
    }

    /// w += the sum of factors times vectors of the basis; adds the sum of the squares of w to *square.
    BMRM_TARGET static void add(const double* const* basis, const double* factors, int count, i64 first,
                                i64 last, double* w, double* square) {
        for (int j = 0; j < count; ++j) {
            const double *v = basis[j], factor = factors[j];
            i64 i = first;
            for (; i + kBasisLanes <= last; i += kBasisLanes)
                write(w + i, read(w + i) + read(v + i) * factor);
            for (; i < last; ++i) w[i] += v[i] * factor;
        }
        *square += inner_product(w, w, first, last);
    }
};

}  // namespace bmrm::BMRM_ISA
