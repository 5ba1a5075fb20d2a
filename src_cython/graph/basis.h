// Vectors of an orthogonal basis: inner products of one vector with all of them, and sums of them. Both read
// each vector once, by blocks of entries that stay in the first level of cache. Sums are taken in a fixed
// order within a block, and over the blocks in order: results do not depend on the number of threads.
#pragma once

#include <algorithm>
#include <vector>

#include "common/integers.h"
#include "common/memory.h"
#include "cpu/isa.h"

namespace bmrm {

/// Entries of a block.
constexpr i64 kBasisBlock = 1024;
/// Lanes of a sum.
constexpr int kBasisLanes = 16;

/// The loops of basis_kernels.h.
struct BasisKernels {
    void (*products)(const double* const* basis, int count, const double* w, i64 first, i64 last,
                     double* sums);
    void (*add)(const double* const* basis, const double* factors, int count, i64 first, i64 last, double* w,
                double* square);
};

BMRM_TABLES(BasisKernels, basis_kernels)

/// Calls body(first, last, sums) for blocks of entries, and adds their sums in order: out[s] for s < count.
template <class Body>
void add_over_entries(i64 n, i64 vectors, i64 count, int threads, double* out, const Body& body) {
    const i64 blocks = (n + kBasisBlock - 1) / kBasisBlock;
    std::vector<double> sums(blocks * count, 0.0);
    for_each_task(blocks, threads_for(n * (vectors + 1), threads), [&](i64 t) {
        body(t * kBasisBlock, std::min(n, (t + 1) * kBasisBlock), sums.data() + t * count);
    });
    std::fill_n(out, count, 0.0);
    for (i64 t = 0; t < blocks; ++t)
        for (i64 s = 0; s < count; ++s) out[s] += sums[t * count + s];
}

/// out[j] = the inner product of w and vector j of the basis, for vectors of n entries.
inline void multiply_basis(const double* const* basis, int count, const double* w, i64 n, int threads,
                           double* out) {
    add_over_entries(n, count, count, threads, out, [&](i64 first, i64 last, double* sums) {
        basis_kernels().products(basis, count, w, first, last, sums);
    });
}

/// w += the sum of factors times vectors of the basis; returns the sum of the squares of w.
inline double combine_basis(const double* const* basis, const double* factors, int count, i64 n, int threads,
                            double* w) {
    double square = 0;
    add_over_entries(n, count, 1, threads, &square, [&](i64 first, i64 last, double* sum) {
        basis_kernels().add(basis, factors, count, first, last, w, sum);
    });
    return square;
}

}  // namespace bmrm
