// The small dense algebra of the inner QP and of Newton's step: vector kernels, triangular solves, Cholesky.
// Sums run over eight fixed lanes, so a compiler may use SIMD without reordering: the result does not depend
// on the instruction set's width.  Each kernel that is called from outside is compiled for several
// instruction sets; what it is made of is inlined into it, since a call through the dispatcher takes as long
// as a short vector.
#pragma once
#include <cmath>
#include <cstddef>

#if defined(__x86_64__) && defined(__gnu_linux__) && !defined(__clang__)
#define BMRM_CLONES __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#define BMRM_INLINE inline __attribute__((always_inline))
#else
#define BMRM_CLONES
#define BMRM_INLINE inline
#endif

namespace bmrm {

static BMRM_INLINE double dot_inline(const size_t n, const double* x, const double* y) {
    double lane[8] = {0.0};
    size_t i = 0;
    for (; i + 8 <= n; i += 8)
        for (size_t k = 0; k < 8; ++k) lane[k] += x[i + k] * y[i + k];
    for (size_t k = 0; i + k < n; ++k) lane[k] += x[i + k] * y[i + k];
    return ((lane[0] + lane[4]) + (lane[2] + lane[6])) + ((lane[1] + lane[5]) + (lane[3] + lane[7]));
}

static BMRM_INLINE void axpy_inline(const size_t n, const double c, const double* x, double* y) {
    for (size_t i = 0; i < n; ++i) y[i] += c * x[i];
}

BMRM_CLONES static double dot(const size_t n, const double* x, const double* y) {
    return dot_inline(n, x, y);
}

// y += c x
BMRM_CLONES static void axpy(const size_t n, const double c, const double* x, double* y) {
    axpy_inline(n, c, x, y);
}

// (x, y) <- (c x + s y, c y - s x)
static BMRM_INLINE void rotate_inline(const size_t n, const double c, const double s, double* x, double* y) {
    for (size_t i = 0; i < n; ++i) {
        const double u = x[i], v = y[i];
        x[i] = c * u + s * v;
        y[i] = c * v - s * u;
    }
}

// y_i -= row i of M times x, for M of `rows` rows of n.
BMRM_CLONES static void subtract_product(const size_t rows, const size_t n, const double* M, const double* x,
                                         double* y) {
    for (size_t i = 0; i < rows; ++i) y[i] -= dot_inline(n, M + i * n, x);
}

// y += c M' x
BMRM_CLONES static void add_transposed(const size_t rows, const size_t n, const double c, const double* M,
                                       const double* x, double* y) {
    for (size_t i = 0; i < rows; ++i) axpy_inline(n, c * x[i], M + i * n, y);
}

// x <- L^{-1} x, where column j of the lower triangle L starts at L + j stride.
BMRM_CLONES static void forward_substitute(const size_t n, const double* L, const size_t stride, double* x) {
    for (size_t j = 0; j < n; ++j) {
        const double* column = L + j * stride;
        x[j] /= column[j];
        axpy_inline(n - j - 1, -x[j], column + j + 1, x + j + 1);
    }
}

// x <- L^{-T} x
BMRM_CLONES static void back_substitute(const size_t n, const double* L, const size_t stride, double* x) {
    for (size_t j = n; j-- > 0;) {
        const double* column = L + j * stride;
        x[j] = (x[j] - dot_inline(n - j - 1, column + j + 1, x + j + 1)) / column[j];
    }
}

// Take row k out of L and rotate what is right of the diagonal then into its columns; the rows of Y, n each,
// take part.
BMRM_CLONES static void remove_row(const size_t s, const size_t k, double* L, const size_t stride,
                                   const size_t n, double* Y) {
    for (size_t j = 0; j < s; ++j) {
        double* column = L + j * stride;
        for (size_t i = j > k + 1 ? j : k + 1; i < s; ++i) column[i - 1] = column[i];
    }
    for (size_t j = k; j + 1 < s; ++j) {
        double *left = L + j * stride + j, *right = left + stride;
        const double r = std::sqrt(left[0] * left[0] + right[0] * right[0]);
        const double c = left[0] / r, sn = right[0] / r;
        rotate_inline(s - 1 - j, c, sn, left, right);
        rotate_inline(n, c, sn, Y + j * n, Y + (j + 1) * n);
    }
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
