// The small dense algebra of the inner QP and of Newton's step: vector kernels, triangular solves, Cholesky.
// Sums run in eight fixed lanes, so that a compiler can use SIMD without reordering them, and results do not
// depend on the width of the registers. Each kernel that is called from outside is compiled for several
// instruction sets. Its parts are inlined into it, since a call through the dispatcher takes as long as a
// short vector.
#pragma once
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#if defined(__x86_64__) && defined(__gnu_linux__) && !defined(__clang__)
#define BMRM_CLONES __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#define BMRM_ALWAYS_INLINE inline __attribute__((always_inline))
#else
#define BMRM_CLONES
#define BMRM_ALWAYS_INLINE inline
#endif

namespace bmrm {

// Eight doubles at any address.
typedef double EightLanes __attribute__((vector_size(64), aligned(8), may_alias));

static BMRM_ALWAYS_INLINE const EightLanes& lanes(const double* x) {
    return *reinterpret_cast<const EightLanes*>(x);
}
static BMRM_ALWAYS_INLINE EightLanes& lanes(double* x) { return *reinterpret_cast<EightLanes*>(x); }

static BMRM_ALWAYS_INLINE double total(const EightLanes& x) {
    return ((x[0] + x[4]) + (x[2] + x[6])) + ((x[1] + x[5]) + (x[3] + x[7]));
}

constexpr size_t whole_lanes(const size_t n) { return (n + 7) / 8 * 8; }

static BMRM_ALWAYS_INLINE double dot_inline(const size_t n, const double* x, const double* y) {
    double lane[8] = {0.0};
    size_t i = 0;
    for (; i + 8 <= n; i += 8)
        for (size_t k = 0; k < 8; ++k) lane[k] += x[i + k] * y[i + k];
    for (size_t k = 0; i + k < n; ++k) lane[k] += x[i + k] * y[i + k];
    return total(lanes(lane));
}

static BMRM_ALWAYS_INLINE void axpy_inline(const size_t n, const double c, const double* x, double* y) {
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
static BMRM_ALWAYS_INLINE void rotate_inline(const size_t n, const double c, const double s, double* x,
                                             double* y) {
    for (size_t i = 0; i < n; ++i) {
        const double u = x[i], v = y[i];
        x[i] = c * u + s * v;
        y[i] = c * v - s * u;
    }
}

// y -= sum_k factor_k row_k, of eight rows.
static BMRM_ALWAYS_INLINE void subtract_eight(const size_t n, const double* factor, const double* const* row,
                                              double* y) {
    size_t i = 0;
    for (; i + 8 <= n; i += 8) {
        EightLanes t = lanes(y + i);
        for (size_t k = 0; k < 8; ++k) t -= lanes(row[k] + i) * factor[k];
        lanes(y + i) = t;
    }
    for (; i < n; ++i)
        for (size_t k = 0; k < 8; ++k) y[i] -= row[k][i] * factor[k];
}

// y -= factor row
static BMRM_ALWAYS_INLINE void subtract_one(const size_t n, const double factor, const double* row,
                                            double* y) {
    size_t i = 0;
    for (; i + 8 <= n; i += 8) lanes(y + i) -= lanes(row + i) * factor;
    for (; i < n; ++i) y[i] -= row[i] * factor;
}

// y -= c sum_k x_k (row index_k of M), for rows of `stride` of which n count.
BMRM_CLONES static void subtract_rows(const size_t count, const int64_t* index, const double* x,
                                      const double c, const size_t n, const double* M, const size_t stride,
                                      double* y) {
    size_t k = 0;
    for (; k + 8 <= count; k += 8) {
        const double* row[8];
        double factor[8];
        for (size_t j = 0; j < 8; ++j) {
            row[j] = M + size_t(index[k + j]) * stride;
            factor[j] = c * x[k + j];
        }
        subtract_eight(n, factor, row, y);
    }
    for (; k < count; ++k) axpy_inline(n, -c * x[k], M + size_t(index[k]) * stride, y);
}

// x <- L^{-1} x, where column j of the lower triangle L starts at L + j stride, and `inverse` has the
// reciprocals of its diagonal. Rows up to a multiple of eight are read and written, in L and x; those after
// the n-th do not count but have to be finite.
BMRM_CLONES static void forward_substitute(const size_t n, const double* L, const size_t stride,
                                           const double* inverse, double* x) {
    size_t b = 0;
    for (; b + 8 <= n; b += 8) {
        const double* block = L + b * stride;
        double u[8];
        for (size_t k = 0; k < 8; ++k) {
            double v = x[b + k];
            for (size_t j = 0; j < k; ++j) v -= block[j * stride + b + k] * u[j];
            x[b + k] = u[k] = v * inverse[b + k];
        }
        for (size_t i = b + 8; i < n; i += 8) {
            EightLanes t = lanes(x + i);
            for (size_t k = 0; k < 8; ++k) t -= lanes(block + k * stride + i) * u[k];
            lanes(x + i) = t;
        }
    }
    for (size_t k = b; k < n; ++k) {
        double v = x[k];
        for (size_t j = b; j < k; ++j) v -= L[j * stride + k] * x[j];
        x[k] = v * inverse[k];
    }
}

// x <- L^{-T} x. The entries after x up to a multiple of eight are overwritten with zeros.
BMRM_CLONES static void back_substitute(const size_t n, const double* L, const size_t stride,
                                        const double* inverse, double* x) {
    size_t b = n / 8 * 8;
    for (size_t k = n; k < whole_lanes(n); ++k) x[k] = 0.0;
    for (size_t k = n; k-- > b;) {
        double v = x[k];
        for (size_t i = k + 1; i < n; ++i) v -= L[k * stride + i] * x[i];
        x[k] = v * inverse[k];
    }
    while (b > 0) {
        b -= 8;
        const double* block = L + b * stride;
        EightLanes sum[8] = {};
        for (size_t i = whole_lanes(n); i > b + 8;) {
            i -= 8;
            const EightLanes t = lanes(x + i);
            for (size_t k = 0; k < 8; ++k) sum[k] += lanes(block + k * stride + i) * t;
        }
        double u[8];
        for (size_t k = 0; k < 8; ++k) u[k] = x[b + k] - total(sum[k]);
        for (size_t k = 8; k-- > 0;) {
            double v = u[k];
            for (size_t i = 7; i > k; --i) v -= block[k * stride + b + i] * u[i];
            x[b + k] = u[k] = v * inverse[b + k];
        }
    }
}

// Finds the largest step t <= 1 that keeps x + t d nonnegative; returns the entry that limits it, n if none
// does. `room` receives the step that each entry would allow.
BMRM_CLONES static size_t blocking_entry(const size_t n, const double* x, const double* d, double* room,
                                         double& t) {
    for (size_t i = 0; i < n; ++i) room[i] = d[i] < 0.0 ? -x[i] / d[i] : 1.0;
    t = 1.0;
    size_t found = n;
    for (size_t i = 0; i < n; ++i)
        if (room[i] < t) {
            t = room[i];
            found = i;
        }
    return found;
}

// x <- max(0, x + t d)
BMRM_CLONES static void step_inside(const size_t n, const double t, const double* d, double* x) {
    for (size_t i = 0; i < n; ++i) {
        const double to = x[i] + t * d[i];
        x[i] = to > 0.0 ? to : 0.0;
    }
}

BMRM_CLONES static double dot_at(const size_t n, const int64_t* index, const double* x, const double* y) {
    double lane[8] = {0.0};
    size_t i = 0;
    for (; i + 8 <= n; i += 8)
        for (size_t k = 0; k < 8; ++k) lane[k] += x[index[i + k]] * y[i + k];
    for (size_t k = 0; i + k < n; ++k) lane[k] += x[index[i + k]] * y[i + k];
    return total(lanes(lane));
}

// Removes row k of L and rotates what is then right of the diagonal into the columns; updates the reciprocals
// of the diagonal, and z.
BMRM_CLONES static void remove_row(const size_t s, const size_t k, double* L, const size_t stride,
                                   double* inverse, double* z) {
    for (size_t j = 0; j < s; ++j) {
        double* column = L + j * stride;
        // In whole lanes, since the rows after the last do not count.
        for (size_t i = j > k + 1 ? j : k + 1; i < s; i += 8) lanes(column + i - 1) = lanes(column + i);
    }
    for (size_t j = k; j + 1 < s; ++j) {
        double *left = L + j * stride + j, *right = left + stride;
        inverse[j] = 1.0 / std::sqrt(left[0] * left[0] + right[0] * right[0]);
        const double c = left[0] * inverse[j], sn = right[0] * inverse[j];
        rotate_inline(s - 1 - j, c, sn, left, right);
        rotate_inline(1, c, sn, z + j, z + j + 1);
    }
}

// x <- M^{-1} x for a positive definite M of n rows of n, whose upper triangle becomes D L' of M = L D L'.
// False if a pivot is not positive; M and x are then undefined.
BMRM_CLONES static bool cholesky_solve(const size_t n, double* M, double* x) {
    std::vector<double> scratch(2 * whole_lanes(n));
    double *inverse = scratch.data(), *y = inverse + whole_lanes(n);
    for (size_t i = 0; i < n; ++i) y[i] = x[i];
    for (size_t b = 0; b < n; b += 8) {
        const size_t end = b + 8 < n ? b + 8 : n;
        const double* row[8];
        double factor[8];
        for (size_t k = b; k < end; ++k) {
            const double *pivot = M + k * n, inv = inverse[k] = 1.0 / pivot[k];
            if (!(pivot[k] > 0.0)) return false;
            // Whole rows of the block, including what is left of the diagonal: this makes the shortest loop.
            for (size_t i = k + 1; i < end; ++i) {
                const double share = pivot[i] * inv;
                y[i] -= share * y[k];
                subtract_one(n - b, share, pivot + b, M + i * n + b);
            }
        }
        for (size_t i = end; i < n; ++i) {
            const size_t from = i / 8 * 8;
            for (size_t k = 0; k < 8; ++k) {
                row[k] = M + (b + k) * n;
                factor[k] = row[k][i] * inverse[b + k];
                y[i] -= factor[k] * y[b + k];
                row[k] += from;
            }
            subtract_eight(n - from, factor, row, M + i * n + from);
        }
    }
    back_substitute(n, M, n, inverse, y);
    for (size_t i = 0; i < n; ++i) x[i] = y[i];
    return true;
}

}  // namespace bmrm
