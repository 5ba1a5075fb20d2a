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

/// out[j] = the inner product of w and vector j of the basis, for vectors of n entries.
void multiply_basis(const double* const* basis, int count, const double* w, i64 n, int threads, double* out);

/// w += the sum of factors times vectors of the basis; returns the sum of the squares of w.
double combine_basis(const double* const* basis, const double* factors, int count, i64 n, int threads,
                     double* w);

}  // namespace bmrm
