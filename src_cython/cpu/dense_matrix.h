// A dense row-major X. One copy serves both products, since X^T r adds up rows.
#pragma once

#include "cpu/entries.h"
#include "cpu/matrix.h"

namespace bmrm {

template <class V>
class DenseMatrix final : public Matrix, public Rows {
  public:
    DenseMatrix(i64 m, i64 d, const V* X, int threads) : m_(m), d_(d), X_(X), threads_(threads) {
        i64 per_tile = std::max<i64>(8, kTileEntries / std::max<i64>(d, 1) / 8 * 8);
        for (i64 i = 0; i < m; i += per_tile) tiles_.push_back({i, std::min(m, i + per_tile)});
    }

    void matvec(const double* w, double* out) const override {
        const auto& kernels = dense_kernels<V>();
        for_each_task(static_cast<i64>(tiles_.size()), threads_for(m_ * d_, threads_), [&](i64 t) {
            kernels.rows(X_, d_, tiles_[t].begin, tiles_[t].end, w, streams(), out);
        });
    }

    std::vector<double> find_row_squares() const override {
        std::vector<double> out(m_);
        for_each_task(static_cast<i64>(tiles_.size()), threads_for(m_ * d_, threads_), [&](i64 t) {
            for (i64 i = tiles_[t].begin; i < tiles_[t].end; ++i) out[i] = sum_of_squares(X_ + i * d_, d_);
        });
        return out;
    }

    std::uint64_t sum_of_entries(std::uint64_t first, const std::uint64_t* keys) const override {
        return sum_of_dense(X_, m_, d_, first, keys, threads_);
    }

    const Rows& by_rows() const override { return *this; }

    double row_dot(i64 i, const double* w) const override {
        double sum;
        dense_kernels<V>().rows(X_ + i * d_, d_, 0, 1, w, false, &sum);
        return sum;
    }

    void add_row(i64 i, double factor, double* w) const override {
        const V* row = X_ + i * d_;
        dense_kernels<V>().add_rows(&row, &factor, 1, d_, 0, w);
    }

    void row_dots(i64 i, const double* W, i64 ld, double* out) const override {
        dense_kernels<V>().lone_many(X_ + i * d_, d_, W, ld, out);
    }

    void add_row_to(i64 i, const Change* changes, i64 count, i64 ld, double* W) const override {
        const V* row = X_ + i * d_;
        for (i64 j = 0; j < d_; ++j)
            for (i64 c = 0; c < count; ++c) W[j * ld + changes[c].column] += changes[c].factor * row[j];
    }

    void fetch_rows(i64, const double*, i64, i64, i64) const override {}

    void rmatvec_blocks(const double* r, const i64* starts, i64 blocks, double* out) override {
        constexpr i64 kColumns = 1024;
        const auto& kernels = dense_kernels<V>();
        const i64 ahead = d_ <= kColumns ? kRows * d_ : kColumns;
        sum_groups(starts, blocks, d_, 1, out, [&](Range rows, double* acc) {
            for (i64 i = rows.begin; i < rows.end; i += kRows) {
                i64 n = std::min(kRows, rows.end - i);
                for (i64 j = 0; j < d_; j += kColumns) {
                    const V* row[kRows];
                    for (i64 k = 0; k < n; ++k) row[k] = X_ + (i + k) * d_ + j;
                    kernels.add_rows(row, r + i, n, std::min(kColumns, d_ - j), ahead, acc + j);
                }
            }
        });
    }

    void matmat(Vectors<const double> W, i64 K, Vectors<double> out) const override {
        const auto& kernels = dense_kernels<V>();
        for_columns(K, [&](i64 first, i64 columns, int kernel, i64 ld) {
            Buffer<double> in(d_ * ld);
            i64 tasks = (m_ + kPaddedRows - 1) / kPaddedRows;
            int threads = threads_for(m_ * d_ * ld / 8, threads_);
            pad_all(W, first, columns, d_, ld, threads, in.get());
            for_each_task(tasks, threads, [&](i64 t) {
                double sums[kPaddedRows * kWidth[kWidths - 1]];
                i64 i = t * kPaddedRows, end = std::min(i + kPaddedRows, m_);
                kernels.rows_many[kernel](X_ + i * d_, d_, end - i, in.get(), sums);
                unpad_rows(sums, ld, {i, end}, first, columns, out);
            });
        });
    }

    void rmatmat(Vectors<const double> R, i64 K, Vectors<double> out) override {
        const i64 all[2] = {0, m_};
        rmatmat_blocks(R, K, all, 1, out);
    }

    void rmatmat_blocks(Vectors<const double> R, i64 K, const i64* starts, i64 blocks,
                        Vectors<double> out) override {
        const auto& kernels = dense_kernels<V>();
        for_columns(K, [&](i64 first, i64 columns, int kernel, i64 ld) {
            i64 size = d_ * ld;
            Buffer<double> sums(blocks * size);
            sum_groups(starts, blocks, size, ld / 8 + 1, sums.get(), [&](Range rows, double* acc) {
                double in[kPaddedRows * kWidth[kWidths - 1]];
                for (i64 i = rows.begin; i < rows.end; i += kPaddedRows) {
                    i64 end = std::min(i + kPaddedRows, rows.end);
                    pad_rows(R, first, columns, {i, end}, ld, in);
                    kernels.add_rows_many[kernel](X_ + i * d_, d_, end - i, in, acc);
                }
            });
            unpad_rows(sums.get(), ld, {0, blocks * d_}, first, columns, out);
        });
    }

    void weighted_gram(const double* s, double* out) const override {
        const std::vector<double> zeros(d_);
        centred_gram(s, zeros.data(), out, nullptr);
    }

    /// For a narrow X, each of several groups of rows has a sum of its own. For a wide X, there is one sum,
    /// and threads work on different strips of it with the same packed rows.
    void centred_gram(const double* s, const double* shift, double* out, double* totals) const override {
        constexpr i64 kWide = 256, kStrip = 64, kPacks = 8;
        const i64 ld = (d_ + kOuterColumns - 1) / kOuterColumns * kOuterColumns, size = ld * ld;
        const i64 used = (d_ + kOuterRows - 1) / kOuterRows * kOuterRows;  // rows of a sum
        const i64 pack = kPacked * ld;
        const bool wide = d_ > kWide;
        const i64 groups = wide ? 1 : std::clamp<i64>(m_ / (8 * kPacked), 1, 16);
        const i64 packs = wide ? kPacks : groups;
        std::vector<i64> some;
        some.reserve(m_);
        for (i64 i = 0; i < m_; ++i)
            if (s[i] != 0) some.push_back(i);
        const i64 count = static_cast<i64>(some.size());
        Buffer<double> sums(groups * size), packed(2 * packs * pack), rests(packs * ld);
        std::fill_n(sums.get(), groups * size, 0.0);
        std::fill_n(rests.get(), packs * ld, 0.0);
        const int threads = threads_for(count * d_ * d_ / 8, threads_);
        const auto& kernels = dense_kernels<V>();
        const auto plain = [&](i64 p) { return packed.get() + 2 * p * pack; };
        const auto take = [&](i64 begin, i64 end, i64 p) {
            const i64 n = std::clamp<i64>(end - begin, 0, kPacked);
            kernels.pack_rows(X_, d_, s, shift, some.data() + begin, n, std::min(kPacked, count - begin - n),
                              ld, plain(p), plain(p) + pack);
            if (totals) kernels.add_scaled(plain(p) + pack, n, ld, rests.get() + p * ld);
            return n;
        };
        const auto add = [&](i64 p, i64 n, i64 first, i64 last, double* sum) {
            kernels.add_packed(plain(p), plain(p) + pack, n, ld, first, last, sum);
        };
        if (wide) {
            const i64 strips = (ld + kStrip - 1) / kStrip;
            for (i64 begin = 0; begin < count; begin += kPacks * kPacked) {
                i64 rows[kPacks];
                for_each_task(kPacks, threads,
                              [&](i64 p) { rows[p] = take(std::min(begin + p * kPacked, count), count, p); });
                for_each_task(strips, threads, [&](i64 t) {
                    const i64 first = (strips - 1 - t) * kStrip;  // the longest ones first
                    for (i64 p = 0; p < kPacks && rows[p] > 0; ++p)
                        add(p, rows[p], first, std::min(first + kStrip, used), sums.get());
                });
            }
        } else {
            const std::vector<Range> rows = split_evenly(0, count, groups, [](i64 k) { return k; });
            for_each_task(groups, threads, [&](i64 g) {
                for (i64 begin = rows[g].begin; begin < rows[g].end; begin += kPacked)
                    add(g, take(begin, rows[g].end, g), 0, used, sums.get() + g * size);
            });
        }
        for_each_task(d_, threads, [&](i64 a) {
            for (i64 b = 0; b < d_; ++b) {
                double total = 0;
                for (i64 g = 0; g < groups; ++g)
                    total += sums[g * size + std::max(a, b) * ld + std::min(a, b)];
                out[a * d_ + b] = total;
            }
        });
        for (i64 j = 0; totals && j < d_; ++j) {
            totals[j] = 0;
            for (i64 p = 0; p < packs; ++p) totals[j] += rests[p * ld + j];
        }
    }

    /// A sixteenth of the multiply-adds: whole tiles in registers run several times faster than single pairs
    /// of entries.
    double weighted_gram_work() const override {
        auto d = static_cast<double>(d_);
        return static_cast<double>(m_) * d * d / 16;
    }

    void column_squares(double* out) const override {
        const i64 everything[] = {0, m_};
        sum_groups(everything, 1, d_, 1, out, [&](Range rows, double* sum) {
            for (i64 i = rows.begin; i < rows.end; ++i)
                for (i64 j = 0; j < d_; ++j) {
                    const auto v = static_cast<double>(X_[i * d_ + j]);
                    sum[j] += v * v;
                }
        });
    }

    std::unique_ptr<Matrix> reordered(const i64* order, i64*, void* val) const override {
        V* values = static_cast<V*>(val);
        for_each_task(static_cast<i64>(tiles_.size()), threads_for(m_ * d_, threads_), [&](i64 t) {
            for (i64 i = tiles_[t].begin; i < tiles_[t].end; ++i)
                std::copy_n(X_ + order[i] * d_, d_, values + i * d_);
        });
        return std::make_unique<DenseMatrix>(m_, d_, values, threads_);
    }

    i64 bytes() const override { return m_ * d_ * static_cast<i64>(sizeof(V)); }

  private:
    /// Whether X is larger than typical caches.
    bool streams() const { return bytes() > i64{32} << 20; }

    static constexpr i64 kRows = 8;

    /// out (blocks, size) = the sums over the blocks' rows. add(rows, sum) adds some rows to the `size`
    /// entries of a sum; an entry of X costs about `work` multiply-adds.
    template <class Add>
    void sum_groups(const i64* starts, i64 blocks, i64 size, i64 work, double* out, const Add& add) const {
        constexpr i64 kGroups = 32;
        std::vector<Group> groups;
        for (i64 b = 0; b < blocks; ++b) {
            i64 rows = starts[b + 1] - starts[b];
            i64 n = std::clamp<i64>(std::min((kGroups + blocks - 1) / blocks, rows / 64), 1, kGroups);
            for (Range part : split_evenly(starts[b], starts[b + 1], n, [](i64 k) { return k; }))
                groups.push_back({b, part});
        }
        bool direct = static_cast<i64>(groups.size()) == blocks;
        Buffer<double> partial(direct ? 0 : static_cast<i64>(groups.size()) * size);
        double* sums = direct ? out : partial.get();
        int threads = threads_for(m_ * d_ * work, threads_);
        for_each_task(static_cast<i64>(groups.size()), threads, [&](i64 g) {
            double* acc = sums + g * size;
            std::fill_n(acc, size, 0.0);
            add(groups[g].rows, acc);
        });
        if (!direct) add_groups(groups, sums, size, blocks, threads, out);
    }

    i64 m_, d_;
    const V* X_;
    int threads_;
    std::vector<Range> tiles_;
};

}  // namespace bmrm
