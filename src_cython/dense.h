// The small dense algebra of the inner QP and of Newton's step: two vector kernels, and Cholesky on them.
// Sums run over eight fixed lanes, so a compiler may use SIMD without reordering: the result does not depend
// on the instruction set's width.
#pragma once
#include <cmath>
#include <cstddef>

#if defined(__x86_64__) && defined(__gnu_linux__) && !defined(__clang__)
#define BMRM_CLONES __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define BMRM_CLONES
#endif

namespace bmrm {

BMRM_CLONES static double dot(const size_t n, const double* x, const double* y) {
    double lane[8] = {0.0};
    size_t i = 0;
    for (; i + 8 <= n; i += 8)
        for (size_t k = 0; k < 8; ++k) lane[k] += x[i + k] * y[i + k];
    for (size_t k = 0; i + k < n; ++k) lane[k] += x[i + k] * y[i + k];
    return ((lane[0] + lane[4]) + (lane[2] + lane[6])) + ((lane[1] + lane[5]) + (lane[3] + lane[7]));
}

// y += c x
BMRM_CLONES static void axpy(const size_t n, const double c, const double* x, double* y) {
    for (size_t i = 0; i < n; ++i) y[i] += c * x[i];
}

// x <- M^{-1} x for a positive definite M of n rows of n, whose lower triangle becomes its Cholesky factor.
// False where a pivot is not positive: M and x are then of no use.
static inline bool cholesky_solve(const size_t n, double* M, double* x) {
    for (size_t i = 0; i < n; ++i) {
        double* row = M + i * n;
        for (size_t j = 0; j < i; ++j) row[j] = (row[j] - dot(j, row, M + j * n)) / M[j * n + j];
        const double pivot = row[i] - dot(i, row, row);
        if (!(pivot > 0.0)) return false;
        row[i] = std::sqrt(pivot);
        x[i] = (x[i] - dot(i, row, x)) / row[i];
    }
    for (size_t i = n; i-- > 0;) {
        x[i] /= M[i * n + i];
        axpy(i, -x[i], M + i * n, x);
    }
    return true;
}

}  // namespace bmrm
