// X^T in panels of rows of X: each panel is a CSR matrix over the features, whose indices count from the
// first row of the panel. So an index takes two bytes for any number of rows, and the slice of r that a panel
// gathers from stays in the first or second level of cache (column blocking of r, as in Buluc et al.,
// "Parallel sparse matrix-vector and matrix-transpose-vector multiplication using compressed sparse blocks",
// SPAA 2009, here along one dimension). If columns are so short that a pointer per panel and feature would
// cost more than it saves, one panel with four-byte indices holds everything.
#pragma once

#include "cpu/entry_loops.h"
#include "cpu/matrix.h"
#include "cpu/options.h"

namespace bmrm {

/// Minimum number of rows per panel.
constexpr i64 kSmallestPanel = 4096;
/// Maximum number of rows per panel with two-byte indices.
constexpr i64 kLargestPanel = 65536;
/// Panels grow until a feature has on average this many entries in each.
constexpr i64 kSegmentEntries = 64;

/// Number of rows per panel; more than kLargestPanel means a single panel with four-byte indices.
inline i64 panel_rows(i64 m, i64 d, i64 nnz) {
    i64 rows = kSmallestPanel;
    double per_row = static_cast<double>(nnz) /
                     (static_cast<double>(std::max<i64>(m, 1)) * static_cast<double>(std::max<i64>(d, 1)));
    while (rows < kLargestPanel && per_row * static_cast<double>(rows) < kSegmentEntries) rows *= 2;
    if (m <= rows) return rows;
    bool costly = per_row * static_cast<double>(rows) < 4;
    return costly && m <= (i64{1} << 32) ? std::max<i64>(m, kLargestPanel + 1) : rows;
}

/// Whether the `automatic` policy keeps X^T. If panels are small enough for the first level of cache, a
/// product with X^T takes half the time of one with the rows of X, and building X^T takes the time of about
/// ten products. With sparser columns the gain does not repay the build, which takes the time of 40 products.
inline bool transpose_pays(i64 m, i64 d, i64 nnz) { return panel_rows(m, d, nnz) == kSmallestPanel; }

inline bool keeps_transpose(TransposePolicy policy, i64 m, i64 d, i64 nnz) {
    return policy == TransposePolicy::always ||
           (policy == TransposePolicy::automatic && transpose_pays(m, d, nnz));
}

/// The entries of compressed rows, of types that only kernels and loops know.
struct Entries {
    const i64* ptr;
    const void* idx;
    const void* val;
    int index_bytes;
    int value_bytes;  // 0 for ones
};

/// X^T with values of the same type as in X.
class Transpose {
  public:
    Transpose(i64 m, i64 d, const Entries& X, i64 panel, int threads)
        : m_(m),
          d_(d),
          nnz_(X.ptr[m]),
          panel_(panel),
          panels_(std::max<i64>(1, (m + panel - 1) / panel)),
          wide_(panel > kLargestPanel),
          kernels_(sparse_kernels(index_bytes(), X.value_bytes)),
          ptr_(panels_ * d + 1),
          idx_((nnz_ + kIndexPad) * index_bytes()),
          val_(nnz_ * X.value_bytes) {
        build(X, threads);
        std::fill_n(idx_.get() + nnz_ * index_bytes(), kIndexPad * index_bytes(), 0);
        cut_tasks();
    }

    i64 bytes() const { return ptr_.bytes() + idx_.bytes() + val_.bytes(); }

    void rmatvec_blocks(const double* r, const i64* starts, i64 blocks, int threads, double* out) const {
        std::vector<Group> groups = cut_blocks(starts, blocks);
        bool direct = static_cast<i64>(groups.size()) == blocks;
        Buffer<double> partial(direct ? 0 : static_cast<i64>(groups.size()) * d_);
        double* sums = direct ? out : partial.get();
        std::vector<Range> chains = cut_chains(groups);
        i64 parts = static_cast<i64>(columns_.size());
        std::vector<double*> targets(groups.size());
        for (std::size_t g = 0; g < groups.size(); ++g) targets[g] = sums + static_cast<i64>(g) * d_;
        for_each_task(static_cast<i64>(chains.size()) * parts, threads, [&](i64 t) {
            one_chain(groups, chains[t / parts], columns_[t % parts], r, targets.data());
        });
        if (!direct) add_groups(groups, sums, d_, blocks, threads, out);
    }

    /// out (d, ld) = X^T R, R (m, ld), ld being the width of `kernel`.
    void rmatmat(const double* R, i64 ld, int kernel, int threads, double* out) const {
        const auto rows_many = kernels_.rows_many[kernel];
        for_each_task(static_cast<i64>(columns_.size()), threads, [&](i64 t) {
            for (i64 p = 0; p < panels_; ++p)
                rows_many(ptr_.get() + p * d_, idx_.get(), val_.get(), columns_[t].begin, columns_[t].end,
                          R + p * panel_ * ld, p > 0, out);
        });
    }

  private:
    int index_bytes() const { return wide_ ? 4 : 2; }

    /// Computes the sums of some consecutive groups over some features, panel by panel.
    void one_chain(const std::vector<Group>& groups, Range chain, Range columns, const double* r,
                   double* const* out) const {
        constexpr i64 kBatch = 64;
        for (i64 g = chain.begin; g < chain.end; ++g)
            std::fill(out[g] + columns.begin, out[g] + columns.end, 0.0);
        i64 g = chain.begin, end = groups[chain.end - 1].rows.end;
        for (i64 p = groups[g].rows.begin / panel_; p * panel_ < end; ++p) {
            const i64* ptr = ptr_.get() + p * d_;
            i64 base = p * panel_, last = std::min(base + panel_, m_);
            while (groups[g].rows.end <= base) ++g;
            if (groups[g].rows.begin <= base && groups[g].rows.end >= last) {
                kernels_.rows(ptr, idx_.get(), val_.get(), nnz_, columns.begin, columns.end, r + base, true,
                              true, out[g]);
                continue;
            }
            for (i64 first = g; first < chain.end && groups[first].rows.begin < last; first += kBatch) {
                i64 bounds[kBatch + 1], parts = 0;
                bounds[0] = std::max(groups[first].rows.begin, base) - base;
                for (; parts < kBatch && first + parts < chain.end && groups[first + parts].rows.begin < last;
                     ++parts)
                    bounds[parts + 1] = std::min(groups[first + parts].rows.end, last) - base;
                kernels_.rows_split(ptr, idx_.get(), val_.get(), nnz_, columns.begin, columns.end, bounds,
                                    parts, r + base, out + first);
            }
        }
    }

    /// Counting sort by (panel, feature), stable in the rows. A unit is a run of rows that one thread counts
    /// and then distributes; the order of the result does not depend on the units.
    void build(const Entries& X, int threads) {
        const i64* const ptr = X.ptr;
        const EntryLoops& loops = entry_loops(X.index_bytes, X.value_bytes);
        i64 per_panel = std::max<i64>(1, threads_for(nnz_, threads) / panels_);
        std::vector<Range> units;
        for (i64 p = 0; p < panels_; ++p) {
            auto parts = split_evenly(p * panel_, std::min(m_, (p + 1) * panel_), per_panel,
                                      [&](i64 k) { return ptr[k]; });
            units.insert(units.end(), parts.begin(), parts.end());
        }
        i64 n = static_cast<i64>(units.size());
        threads = threads_for(nnz_, threads);
        Buffer<i64> cursor(n * d_);
        for_each_task(n, threads, [&](i64 u) {
            i64* count = cursor.get() + u * d_;
            std::fill_n(count, d_, i64{0});
            loops.count(X.idx, ptr[units[u].begin], ptr[units[u].end], count);
        });
        // The entries of a panel occupy the same range as its rows in X, so panels need no common prefix sum.
        for_each_task(panels_, threads, [&](i64 p) {
            i64 total = ptr[p * panel_];
            for (i64 j = 0; j < d_; ++j) {
                ptr_[p * d_ + j] = total;
                for (i64 u = p * per_panel; u < (p + 1) * per_panel; ++u) {
                    i64 count = cursor[u * d_ + j];
                    cursor[u * d_ + j] = total;
                    total += count;
                }
            }
        });
        ptr_[panels_ * d_] = nnz_;
        for_each_task(n, threads, [&](i64 u) {
            loops.place(ptr, X.idx, X.val, units[u].begin, units[u].end, u / per_panel * panel_, wide_,
                        cursor.get() + u * d_, idx_.get(), val_.get());
        });
    }

    /// Decides the tasks of a product: groups of rows, as many as have cheap partial sums, so that a group's
    /// part of r stays in cache; and ranges of features of about equal work if there are too few groups.
    void cut_tasks() {
        constexpr i64 kTasks = 64;
        row_groups_ = std::clamp<i64>(std::min(nnz_ / (kEntriesPerSum * d_ + 1), panels_ / 2), 1, kTasks);
        std::vector<i64> weight(d_ + 1, 0);
        for (i64 p = 0; p < panels_; ++p)
            for (i64 j = 0; j < d_; ++j) weight[j + 1] += ptr_[p * d_ + j + 1] - ptr_[p * d_ + j] + kRowCost;
        for (i64 j = 0; j < d_; ++j) weight[j + 1] += weight[j];
        i64 useful = std::max<i64>(1, std::min(weight[d_] / kTileEntries, d_ / 8));
        columns_ =
            split_evenly(0, d_, std::min(useful, kTasks / row_groups_), [&](i64 j) { return weight[j]; });
    }

    /// Splits the blocks, at panel boundaries, into their share of the groups.
    std::vector<Group> cut_blocks(const i64* starts, i64 blocks) const {
        std::vector<Group> groups;
        for (i64 b = 0; b < blocks; ++b) {
            i64 begin = starts[b], end = starts[b + 1], first = begin / panel_,
                n = (end + panel_ - 1) / panel_ - first;
            i64 count = std::clamp<i64>((row_groups_ + blocks - 1) / blocks, 1, std::max<i64>(1, n / 2));
            for (i64 g = 0; g < count; ++g) {
                i64 lo = std::max(begin, (first + n * g / count) * panel_);
                i64 hi = std::min(end, (first + n * (g + 1) / count) * panel_);
                groups.push_back({b, {lo, std::max(lo, hi)}});
            }
        }
        return groups;
    }

    /// Runs of groups that share panels. A task takes a whole run, so that each panel is read once.
    std::vector<Range> cut_chains(const std::vector<Group>& groups) const {
        std::vector<Range> chains;
        for (i64 g = 0; g < static_cast<i64>(groups.size()); ++g) {
            if (g == 0 || groups[g].rows.begin % panel_ == 0) chains.push_back({g, g});
            ++chains.back().end;
        }
        return chains;
    }

    i64 m_, d_, nnz_, panel_, panels_, row_groups_;
    bool wide_;  // indices of four bytes instead of two
    const SparseKernels& kernels_;
    Buffer<i64> ptr_;
    Buffer<unsigned char> idx_, val_;
    std::vector<Range> columns_;
};

}  // namespace bmrm
