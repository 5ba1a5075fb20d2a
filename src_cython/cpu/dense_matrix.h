// A dense row-major X; one copy serves both products, as X^T r adds rows.
#pragma once

#include "matrix.h"

namespace bmrm {

template <class V>
class DenseMatrix final : public Matrix {
  public:
    DenseMatrix(i64 m, i64 d, const V* X, int threads) : m_(m), d_(d), X_(X), threads_(threads) {
        i64 per_tile = std::max<i64>(8, kTileEntries / std::max<i64>(d, 1) / 8 * 8);
        for (i64 i = 0; i < m; i += per_tile) tiles_.push_back({i, std::min(m, i + per_tile)});
    }

    void matvec(const double* w, double* out) const override {
        const auto& kernels = DenseKernels<V>::get();
        for_each_task(static_cast<i64>(tiles_.size()), threads_for(m_ * d_, threads_), [&](i64 t) {
            kernels.rows(X_, d_, tiles_[t].begin, tiles_[t].end, w, streams(), out);
        });
    }

    void rmatvec_blocks(const double* r, const i64* starts, i64 blocks, double* out) override {
        add_blocks(r, 1, starts, blocks, out);
    }

    void rmatmat(const double* R, i64 K, double* out) override {
        const i64 all[2] = {0, m_};
        Buffer<double> columns(m_ * K), sums(K * d_);
        for (i64 i = 0; i < m_; ++i)
            for (i64 c = 0; c < K; ++c) columns[c * m_ + i] = R[i * K + c];
        add_blocks(columns.get(), K, all, 1, sums.get());
        for (i64 j = 0; j < d_; ++j)
            for (i64 c = 0; c < K; ++c) out[j * K + c] = sums[c * d_ + j];
    }

    void weighted_gram(const double* s, double* out) const override {
        constexpr i64 kRows = 64;
        i64 ld = (d_ + kOuterColumns - 1) / kOuterColumns * kOuterColumns, size = ld * ld;
        i64 groups = std::clamp<i64>(m_ / (16 * kRows), 1, 16);
        std::vector<Range> rows = split_evenly(0, m_, groups, [](i64 k) { return k; });
        Buffer<double> sums(groups * (size + 2 * kRows * ld));
        int threads = threads_for(m_ * d_ * d_ / 8, threads_);
        const auto& kernels = DenseKernels<V>::get();
        for_each_task(groups, threads, [&](i64 g) {
            double* acc = sums.get() + g * size;
            double* scratch = sums.get() + groups * size + g * 2 * kRows * ld;
            std::fill_n(acc, size, 0.0);
            for (i64 i = rows[g].begin; i < rows[g].end; i += kRows)
                kernels.add_outer(X_ + i * d_, d_, s + i, std::min(kRows, rows[g].end - i), ld, scratch, acc);
        });
        for_each_task(d_, threads, [&](i64 a) {
            for (i64 b = 0; b < d_; ++b) {
                double total = 0;
                for (i64 g = 0; g < groups; ++g)
                    total += sums[g * size + std::max(a, b) * ld + std::min(a, b)];
                out[a * d_ + b] = total;
            }
        });
    }

    /// Whole tiles in registers run several times faster than pairs of entries picked one by one.
    double weighted_gram_work() const override {
        auto d = static_cast<double>(d_);
        return static_cast<double>(m_) * d * d / 16;
    }

    i64 bytes() const override { return m_ * d_ * static_cast<i64>(sizeof(V)); }

  private:
    /// Whether X is larger than the caches, by and large.
    bool streams() const { return bytes() > i64{32} << 20; }

    /// out[b] (K, d) = sum over the rows i of block b of r_c[i] x_i, for the K vectors r_c = r + c*m; X is
    /// read once.
    void add_blocks(const double* r, i64 K, const i64* starts, i64 blocks, double* out) const {
        constexpr i64 kRows = 8, kColumns = 1024, kGroups = 32;
        std::vector<Group> groups;
        for (i64 b = 0; b < blocks; ++b) {
            i64 rows = starts[b + 1] - starts[b];
            i64 n = std::clamp<i64>(std::min((kGroups + blocks - 1) / blocks, rows / 64), 1, kGroups);
            for (Range part : split_evenly(starts[b], starts[b + 1], n, [](i64 k) { return k; }))
                groups.push_back({b, part});
        }
        i64 size = K * d_;
        bool direct = static_cast<i64>(groups.size()) == blocks;
        Buffer<double> partial(direct ? 0 : static_cast<i64>(groups.size()) * size);
        double* sums = direct ? out : partial.get();
        int threads = threads_for(m_ * d_ * K, threads_);
        const auto& kernels = DenseKernels<V>::get();
        i64 ahead = streams()        ? kStreamAhead / static_cast<i64>(sizeof(V))
                    : d_ <= kColumns ? kRows * d_
                                     : kColumns;
        for_each_task(static_cast<i64>(groups.size()), threads, [&](i64 g) {
            double* acc = sums + g * size;
            std::fill_n(acc, size, 0.0);
            Range rows = groups[g].rows;
            for (i64 i = rows.begin; i < rows.end; i += kRows) {
                i64 n = std::min(kRows, rows.end - i);
                for (i64 j = 0; j < d_; j += kColumns) {
                    const V* row[kRows];
                    for (i64 k = 0; k < n; ++k) row[k] = X_ + (i + k) * d_ + j;
                    for (i64 c = 0; c < K; ++c)
                        kernels.add_rows(row, r + c * m_ + i, n, std::min(kColumns, d_ - j), streams(), ahead,
                                         acc + c * d_ + j);
                }
            }
        });
        if (!direct) add_groups(groups, sums, size, blocks, threads, out);
    }

    i64 m_, d_;
    const V* X_;
    int threads_;
    std::vector<Range> tiles_;
};

}  // namespace bmrm
