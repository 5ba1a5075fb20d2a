// The two dense products of a bundle of cutting planes A (n, d), Gram entries of new planes and the
// combination that makes the next point; and points of a line. They do not use BLAS, so that its threads and
// ours do not compete, and so that sums keep their order for any number of threads.
#pragma once

#include <algorithm>
#include <vector>

#include "common/memory.h"
#include "cpu/isa.h"
#include "cpu/simd.h"

namespace bmrm {

/// The loops of cpu/dense_kernels.h over float64 that these products use.
struct PlaneKernels {
    void (*gram)(const double* A, i64 n, const double* B, i64 P, i64 d, i64 lo, i64 hi, double* out);
    void (*add_rows)(const double* const* row, const double* c, i64 n, i64 width, i64 ahead, double* acc);
};

BMRM_TABLES(PlaneKernels, plane_kernels)

/// out (n, P) = A B^T, A (n, d) and B (P, d). Sums run over pieces of columns that stay in cache, and A is
/// read once.
inline void gram(const double* A, i64 n, const double* B, i64 P, i64 d, int threads, double* out) {
    constexpr i64 kColumns = 4096, kRows = 32;
    i64 pieces = std::max<i64>(1, (d + kColumns - 1) / kColumns), strips = (n + kRows - 1) / kRows,
        size = n * P;
    Buffer<double> partial(pieces > 1 ? pieces * size : 0);
    double* sums = pieces > 1 ? partial.get() : out;
    threads = threads_for(n * P * d / 8, threads);
    for_each_task(pieces * strips, threads, [&](i64 t) {
        i64 piece = t / strips, i = t % strips * kRows;
        plane_kernels().gram(A + i * d, std::min(kRows, n - i), B, P, d, piece * kColumns,
                             std::min(d, (piece + 1) * kColumns), sums + piece * size + i * P);
    });
    if (pieces == 1) return;
    for (i64 k = 0; k < size; ++k) {
        double s = 0;
        for (i64 piece = 0; piece < pieces; ++piece) s += partial[piece * size + k];
        out[k] = s;
    }
}

/// out (d) = coef A, without the rows whose coef is 0; A (n, d).
inline void combine(const double* A, i64 n, i64 d, const double* coef, int threads, double* out) {
    constexpr i64 kColumns = 1024;
    std::vector<const double*> rows;
    std::vector<double> factors;
    for (i64 i = 0; i < n; ++i)
        if (coef[i] != 0) {
            rows.push_back(A + i * d);
            factors.push_back(coef[i]);
        }
    i64 used = static_cast<i64>(rows.size());
    for_each_task((d + kColumns - 1) / kColumns, threads_for(used * d / 2, threads), [&](i64 t) {
        i64 j = t * kColumns, width = std::min(kColumns, d - j);
        std::fill_n(out + j, width, 0.0);
        const double* part[8];
        for (i64 i = 0; i < used; i += 8) {
            i64 count = std::min<i64>(8, used - i);
            for (i64 k = 0; k < count; ++k) part[k] = rows[i + k] + j;
            plane_kernels().add_rows(part, factors.data() + i, count, width, kColumns, out + j);
        }
    });
}

/// out (n) = x + t y; out may be x.
inline void along(const double* x, const double* y, double t, i64 n, int threads, double* out) {
    constexpr i64 kEntries = 16384;
    for_each_task((n + kEntries - 1) / kEntries, threads_for(n, threads), [&](i64 task) {
        i64 last = std::min(n, (task + 1) * kEntries);
#pragma omp simd
        for (i64 k = task * kEntries; k < last; ++k) out[k] = x[k] + t * y[k];
    });
}

}  // namespace bmrm
