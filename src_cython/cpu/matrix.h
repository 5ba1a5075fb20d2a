// What every resident matrix offers; vectors are float64, contiguous, and checked by the caller.
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "dispatch.h"
#include "memory.h"
#include "split.h"

namespace bmrm {

class Matrix {
  public:
    virtual ~Matrix() = default;

    /// out (m) = X w.
    virtual void matvec(const double* w, double* out) const = 0;
    /// out (blocks, d): row p is X[starts[p]:starts[p+1]]^T r[starts[p]:starts[p+1]].
    virtual void rmatvec_blocks(const double* r, const i64* starts, i64 blocks, double* out) = 0;
    /// out (m, K) = X W, W (d, K).
    virtual void matmat(const double* W, i64 K, double* out) const = 0;
    /// out (d, K) = X^T R, R (m, K).
    virtual void rmatmat(const double* R, i64 K, double* out) = 0;
    /// out (blocks, d, K): slice p is X[starts[p]:starts[p+1]]^T R[starts[p]:starts[p+1]].
    virtual void rmatmat_blocks(const double* R, i64 K, const i64* starts, i64 blocks, double* out) = 0;
    /// out (d, d) = X^T diag(s) X, both triangles; rows with s[i] == 0 are left out.
    virtual void weighted_gram(const double* s, double* out) const = 0;
    /// Multiply-adds that weighted_gram takes.
    virtual double weighted_gram_work() const = 0;
    /// Build X^T now, where products use it.
    virtual void build_transpose() {}
    /// Bytes held or referred to.
    virtual i64 bytes() const = 0;
    virtual bool has_transpose() const { return false; }
    virtual int index_bytes() const { return 0; }
    virtual bool ones() const { return false; }
};

/// out[p] = the sum of the partial sums of block p, in the order of the groups; each has d entries.
inline void add_groups(const std::vector<Group>& groups, const double* partial, i64 d, i64 blocks,
                       int threads, double* out) {
    constexpr i64 width = 2048;
    for_each_task((d + width - 1) / width, threads, [&](i64 t) {
        i64 begin = t * width, end = std::min(d, begin + width);
        for (i64 p = 0; p < blocks; ++p) std::fill(out + p * d + begin, out + p * d + end, 0.0);
        for (std::size_t g = 0; g < groups.size(); ++g) {
            double* o = out + groups[g].block * d;
            const double* s = partial + static_cast<i64>(g) * d;
            for (i64 j = begin; j < end; ++j) o[j] += s[j];
        }
    });
}

/// Calls body(first, columns, kernel, ld) for each run of up to 32 of K columns: kernels of number `kernel`
/// take them padded to rows of ld.
template <class Body>
void for_columns(i64 K, const Body& body) {
    for (i64 first = 0; first < K; first += kWidth[kWidths - 1]) {
        i64 columns = std::min(kWidth[kWidths - 1], K - first);
        int kernel = static_cast<int>(std::lower_bound(kWidth, kWidth + kWidths, columns) - kWidth);
        body(first, columns, kernel, kWidth[kernel]);
    }
}

/// Copies n rows of `columns` numbers, `from_ld` apart, to rows `to_ld` apart, and zeros behind them where
/// there is place.
inline void copy_rows(const double* from, i64 from_ld, i64 n, i64 columns, i64 to_ld, i64 pad, double* to) {
    for (i64 i = 0; i < n; ++i) {
        std::copy_n(from + i * from_ld, columns, to + i * to_ld);
        std::fill_n(to + i * to_ld + columns, pad, 0.0);
    }
}

}  // namespace bmrm
