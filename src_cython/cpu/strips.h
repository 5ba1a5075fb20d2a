// X split into strips of columns, for adding rows to a long vector: the part of the vector that a strip
// writes stays in the second level of cache, and different threads work on different strips (column blocking;
// compare Im, Yelick, Vuduc, "Sparsity: optimization framework for sparse matrix kernels", 2004). It pays if
// rows are so long that each strip holds a run of entries of a row.
#pragma once

#include "cpu/transpose.h"

namespace bmrm {

/// Number of columns of a vector of sums that stays in the second level of cache.
constexpr i64 kCachedColumns = 1 << 16;
/// Minimum average number of entries of a row in one strip.
constexpr i64 kStripEntries = 96;
/// Maximum number of strips, a power of two.
constexpr i64 kMaxStrips = 16;

inline i64 strips_for(i64 m, i64 d, i64 nnz) {
    i64 strips = 1;
    while (strips < kMaxStrips && d > strips * kCachedColumns && nnz > 2 * strips * kStripEntries * m)
        strips *= 2;
    return strips;
}

/// The entry at which each row enters each strip.
class Strips {
  public:
    /// One strip of whole rows.
    Strips(i64 d, const i64* ptr) : rows_(ptr), bounds_{0, d} {}

    /// As many strips as suit the shape; a single one if the rows are not sorted, or so narrow that their
    /// indices are not of four bytes.
    Strips(i64 m, i64 d, const Entries& X, int threads) : rows_(X.ptr), bounds_{0, d} {
        i64 n = strips_for(m, d, X.ptr[m]);
        if (n == 1 || X.index_bytes < 4) return;
        const i64* const ptr = X.ptr;
        const auto* const idx = static_cast<const std::uint32_t*>(X.idx);
        if (!sorted(m, ptr, idx, threads)) return;
        choose_bounds(n, d, ptr[m], idx);
        cuts_ = Buffer<i64>(m * n + 1);
        rows_ = cuts_.get();
        const auto cut_row = product_kernels().cut_row;
        for_each_task((m + kRows - 1) / kRows, threads_for(ptr[m], threads), [&](i64 t) {
            for (i64 i = t * kRows; i < std::min(m, (t + 1) * kRows); ++i)
                cut_row(idx, ptr[i], ptr[i + 1], bounds_.data(), n, cuts_.get() + i * n);
        });
        cuts_[m * n] = ptr[m];
    }

    i64 count() const { return static_cast<i64>(bounds_.size()) - 1; }
    Range columns(i64 s) const { return {bounds_[s], bounds_[s + 1]}; }
    /// Row i of strip s is the entries rows(s)[i * count()] to rows(s)[i * count() + 1].
    const i64* rows(i64 s) const { return rows_ + s; }
    i64 bytes() const { return cuts_.bytes(); }

  private:
    static constexpr i64 kRows = 1024;

    static bool sorted(i64 m, const i64* ptr, const std::uint32_t* idx, int threads) {
        std::vector<char> good((m + kRows - 1) / kRows);
        for_each_task(static_cast<i64>(good.size()), threads_for(ptr[m], threads), [&](i64 t) {
            bool ascends = true;
            for (i64 i = t * kRows; i < std::min(m, (t + 1) * kRows); ++i)
                for (i64 k = ptr[i] + 1; k < ptr[i + 1]; ++k) ascends &= idx[k - 1] <= idx[k];
            good[t] = ascends;
        });
        return std::all_of(good.begin(), good.end(), [](char ascends) { return ascends; });
    }

    /// Bounds at quantiles of a fixed sample of the indices, weighted so that strips take equal work: an
    /// entry of a rare column costs as much as several entries of columns whose sums stay in a near cache.
    void choose_bounds(i64 n, i64 d, i64 nnz, const std::uint32_t* idx) {
        std::vector<std::uint32_t> sample;
        const i64 step = std::max<i64>(1, nnz >> 16);
        for (i64 k = 0; k < nnz; k += step) sample.push_back(idx[k]);
        std::sort(sample.begin(), sample.end());
        const i64 size = static_cast<i64>(sample.size());
        std::vector<i64> work(size + 1);
        for (i64 k = 0; k < size; ++k) {
            const i64 low = std::max<i64>(k - kSampleRadius, 0), high = std::min(k + kSampleRadius, size - 1);
            const bool near = (high - low) * step > kNearEntries * (sample[high] - sample[low]);
            work[k + 1] = work[k] + (near ? 1 : kFarCost);
        }
        bounds_.assign(1, 0);
        for (i64 s = 1; s < n; ++s) {
            const auto at = std::lower_bound(work.begin(), work.end(), work[size] * s / n) - work.begin();
            bounds_.push_back(sample[std::min<i64>(at, size - 1)]);
        }
        bounds_.push_back(d);
    }

    /// Minimum number of entries of a column whose sum stays in a near cache.
    static constexpr i64 kNearEntries = 16;
    /// Number of sampled entries on either side from which the entries per column are estimated.
    static constexpr i64 kSampleRadius = 32;
    /// Cost of an entry of a rarer column, in entries of the others.
    static constexpr i64 kFarCost = 4;

    const i64* rows_;
    Buffer<i64> cuts_;
    std::vector<i64> bounds_;
};

}  // namespace bmrm
