// X as compressed rows: the column indices are copied in the smallest type that fits, row pointers and values
// are shared with the caller. X^T r is computed in one of two ways. The choice depends on r and the matrix
// only, never on earlier calls, so that equal calls give equal bits:
//   gather   rows of X^T (transpose.h), built at the first product that needs it;
//   scatter  rows of X added to partial sums of groups of rows; needs no X^T, skips rows with r_i = 0.
#pragma once

#include <algorithm>
#include <cmath>

#include "cpu/entries.h"
#include "cpu/strips.h"

namespace bmrm {

/// Minimum number of entries of a group of rows with a partial sum of its own.
constexpr i64 kMinGroupEntries = 1 << 14;
/// Maximum number of such groups.
constexpr i64 kMaxGroups = 64;

/// Average number of entries per column below which separate vectors are multiplied one after the other:
/// copying such long vectors side by side and back costs more than reading X again.
constexpr i64 kFewEntries = 24;

/// Products with X^T X read each row once if each of several groups of rows has a sum of its own. Adding up
/// the sums of groups with this many entries per column takes a twelfth of the time.
constexpr i64 kGramEntriesPerSum = 12;
/// Minimum number of such groups, for several threads; with fewer, X and X^T are multiplied in turn.
constexpr i64 kMinGramGroups = 4;
constexpr i64 kMaxGramGroups = 16;
/// Number of entries up to which one group will do.
constexpr i64 kLoneGroupEntries = 1 << 17;

/// Runs of consecutive entries that are sampled, and the entries of a run.
constexpr i64 kRuns = 8, kRunEntries = 2048;
/// Entries per cache line of their places from which these stay in near cache until they are used again, as
/// on grids and in bands, whose neighbouring rows meet nearly the same columns.
constexpr i64 kNearEntries = 4;

/// Whether the places of consecutive entries are worth fetching, for indices of four bytes.
inline bool are_far_apart(const void* indices, int index_bytes, i64 nnz) {
    if (index_bytes != 4) return false;
    const auto* idx = static_cast<const std::uint32_t*>(indices);
    const i64 entries = std::min(nnz, kRunEntries);
    i64 lines = 0;
    for (i64 run = 0; run < kRuns; ++run) {
        const auto* first = idx + (nnz - entries) / kRuns * run;
        std::vector<std::uint32_t> found(first, first + entries);
        for (auto& place : found) place /= kColumnsPerLine;
        std::sort(found.begin(), found.end());
        lines += std::unique(found.begin(), found.end()) - found.begin();
    }
    return lines * kNearEntries > kRuns * entries;
}

class SparseMatrix final : public Matrix, public Rows {
  public:
    /// `idx` holds ptr[m] + kIndexPad indices of `index_bytes`; values have `value_bytes`, 0 for ones.
    SparseMatrix(i64 m, i64 d, const i64* ptr, Buffer<unsigned char> idx, int index_bytes, const void* val,
                 int value_bytes, bool finite, int threads, TransposePolicy policy)
        : m_(m),
          d_(d),
          nnz_(ptr[m]),
          ptr_(ptr),
          idx_(std::move(idx)),
          val_(val),
          index_bytes_(index_bytes),
          value_bytes_(value_bytes),
          kernels_(sparse_kernels(index_bytes, value_bytes)),
          loops_(entry_loops(index_bytes, value_bytes)),
          finite_(finite),
          far_(are_far_apart(idx_.get(), index_bytes, nnz_)),
          threads_(threads),
          policy_(policy),
          tiles_(ptr, m),
          whole_rows_(d, ptr) {
        i64 tiny = 0;
        for (i64 i = 0; i < m; ++i) {
            auto n = static_cast<double>(ptr[i + 1] - ptr[i]);
            gram_work_ += n * (n + 1) / 2;
            tiny += ptr[i + 1] - ptr[i] <= kTinyRow;
        }
        const bool mostly_tiny = m >= kManyRows && 3 * tiny >= 2 * m && nnz_ <= kFewPerRow * m;
        const i64 window = ones() ? kWindow<One> : kWindow<double>;
        if (ones() || mostly_tiny) by_length_ = order_by_length(ptr, m, window, tiles_);
        tiny_and_unlike_ = mostly_tiny && by_length_.size() > 0;
    }

    void matvec(const double* w, double* out) const override {
        i64 tiles = static_cast<i64>(tiles_.tiles.size()), pieces = static_cast<i64>(tiles_.pieces.size());
        std::vector<double> sums(pieces);
        for_each_task(tiles + pieces, threads_for(nnz_ + m_, threads_), [&](i64 t) {
            if (t < tiles) {
                Range rows = tiles_.tiles[t];
                if (by_length_.size())
                    kernels_.rows_by_length(ptr_, idx_.get(), val_, nnz_, rows.begin,
                                            by_length_.get() + rows.begin, rows.end - rows.begin, w, far_,
                                            out);
                else
                    kernels_.rows(ptr_, idx_.get(), val_, nnz_, rows.begin, rows.end, w, false, far_, out);
            } else {
                const auto& piece = tiles_.pieces[t - tiles];
                sums[t - tiles] = kernels_.span(idx_.get(), val_, nnz_, piece.begin, piece.end, w, far_);
            }
        });
        for (const auto& piece : tiles_.pieces) out[piece.row] = 0;
        for (i64 p = 0; p < pieces; ++p) out[tiles_.pieces[p].row] += sums[p];
    }

    void matmat(Vectors<const double> W, i64 K, Vectors<double> out) const override {
        if (in_turn(W.step, out.step)) {
            for (i64 c = 0; c < K; ++c) matvec(W.at[c], out.at[c]);
            return;
        }
        i64 tiles = static_cast<i64>(tiles_.tiles.size()), pieces = static_cast<i64>(tiles_.pieces.size());
        int threads = threads_for((nnz_ + m_) * K, threads_);
        for_columns(K, [&](i64 first, i64 columns, int kernel, i64 ld) {
            // Vectors that lie as the kernels want them are neither copied there nor back.
            const double* in = side_by_side(W, first, columns, ld);
            double* const whole = side_by_side(out, first, columns, ld);
            Buffer<double> padded = scratch_.take(in ? 0 : d_ * ld), sums(pieces * ld);
            if (!in) {
                pad_all(W, first, columns, d_, ld, threads, padded.get());
                in = padded.get();
            }
            for_each_task(tiles + pieces, threads, [&](i64 t) {
                if (t >= tiles) {
                    const auto& piece = tiles_.pieces[t - tiles];
                    const i64 span[2] = {piece.begin, piece.end};
                    kernels_.rows_many[kernel](span, idx_.get(), val_, 0, 1, in, false,
                                               sums.get() + (t - tiles) * ld);
                    return;
                }
                if (whole) {
                    const Range rows = tiles_.tiles[t];
                    kernels_.rows_many[kernel](ptr_ + rows.begin, idx_.get(), val_, 0, rows.end - rows.begin,
                                               in, false, whole + rows.begin * ld);
                    return;
                }
                double some[kPaddedRows * kWidth[kWidths - 1]];
                for (i64 i = tiles_.tiles[t].begin; i < tiles_.tiles[t].end; i += kPaddedRows) {
                    i64 end = std::min(i + kPaddedRows, tiles_.tiles[t].end);
                    kernels_.rows_many[kernel](ptr_ + i, idx_.get(), val_, 0, end - i, in, false, some);
                    unpad_rows(some, ld, {i, end}, first, columns, out);
                }
            });
            for (i64 c = 0; c < columns; ++c) {
                double* vector = out.at[first + c];
                for (const auto& piece : tiles_.pieces) vector[piece.row * out.step] = 0;
                for (i64 p = 0; p < pieces; ++p) vector[tiles_.pieces[p].row * out.step] += sums[p * ld + c];
            }
            scratch_.keep(std::move(padded));
        });
    }

    void rmatvec_blocks(const double* r, const i64* starts, i64 blocks, double* out) override {
        if (!gathers(r)) return scatter(r, starts, blocks, out);
        build_transpose();
        int threads = threads_for(nnz_ + blocks * d_, threads_);
        transpose_->rmatvec_blocks(r, starts, blocks, threads, out);
    }

    void rmatmat(Vectors<const double> R, i64 K, Vectors<double> out) override {
        if (in_turn(R.step, out.step)) {
            const i64 all[2] = {0, m_};
            for (i64 c = 0; c < K; ++c) rmatvec_blocks(R.at[c], all, 1, out.at[c]);
            return;
        }
        if (!keeps_transpose(policy_, m_, d_, nnz_)) {
            const i64 all[2] = {0, m_};
            return scatter_columns(R, K, all, 1, out);
        }
        build_transpose();
        int threads = threads_for(nnz_ * K, threads_);
        for_columns(K, [&](i64 first, i64 columns, int kernel, i64 ld) {
            Buffer<double> in(m_ * ld), sums(d_ * ld);
            pad_all(R, first, columns, m_, ld, threads, in.get());
            transpose_->rmatmat(in.get(), ld, kernel, threads, sums.get());
            unpad_rows(sums.get(), ld, {0, d_}, first, columns, out);
        });
    }

    void rmatmat_blocks(Vectors<const double> R, i64 K, const i64* starts, i64 blocks,
                        Vectors<double> out) override {
        if (blocks == 1 && starts[0] == 0 && starts[1] == m_) return rmatmat(R, K, out);
        scatter_columns(R, K, starts, blocks, out);
    }

    void gram_product(const double* W, i64 K, i64 m, i64 d, const Centring& A, double* out) override {
        i64 count = std::min(nnz_ / (kGramEntriesPerSum * d_ + 1), kMaxGramGroups);
        if (nnz_ <= kLoneGroupEntries)
            count = 1;
        else if (count < kMinGramGroups)
            return Matrix::gram_product(W, K, m, d, A, out);
        std::vector<Group> groups;
        for (Range rows : split_evenly(0, m_, count, [&](i64 k) { return ptr_[k] + kRowCost * k; }))
            groups.push_back({0, rows});
        const int threads = threads_for(2 * nnz_ * K, threads_);
        for_columns(K, [&](i64 first, i64 columns, int kernel, i64 ld) {
            const i64 size = d_ * ld;
            const bool as_is = ld == K;
            Buffer<double> padded(as_is ? 0 : 2 * size), partial = scratch_.take(count * size);
            const double* in = W;
            double* total = as_is ? out : padded.get() + size;
            if (!as_is) {
                for (i64 j = 0; j < d_; ++j) {
                    double* to = padded.get() + j * ld;
                    std::fill(std::copy_n(W + j * K + first, columns, to), to + ld, 0.0);
                }
                in = padded.get();
            }
            const std::vector<double> shift = mean_product(A, in, ld, d_);
            std::vector<double> sums(count * ld);
            for_each_task(count, threads, [&](i64 g) {
                double* acc = partial.get() + g * size;
                std::fill_n(acc, size, 0.0);
                add_gram_product(groups[g].rows, in, kernel, A, shift.data(), sums.data() + g * ld, acc);
            });
            add_groups(groups, partial.get(), size, 1, threads, total);
            for (i64 g = 1; g < count; ++g)
                for (i64 c = 0; c < ld; ++c) sums[c] += sums[g * ld + c];
            subtract_mean(A, sums.data(), ld, d_, total);
            for (i64 j = 0; j < d_ && !as_is; ++j) std::copy_n(total + j * ld, columns, out + j * K + first);
            scratch_.keep(std::move(partial));
        });
    }

    void weighted_gram(const double* s, double* out) const override {
        i64 size = d_ * (d_ + 1);
        i64 groups = std::clamp<i64>(static_cast<i64>(weighted_gram_work()) / (kEntriesPerSum * size + 1), 1,
                                     kMaxGroups);
        std::vector<Range> rows = split_evenly(0, m_, groups, [&](i64 k) { return ptr_[k]; });
        Buffer<double> sums(groups * size);
        int threads = threads_for(nnz_ + groups * size, threads_);
        for_each_task(groups, threads, [&](i64 g) {
            double* pairs = sums.get() + g * size;
            std::fill_n(pairs, size, 0.0);
            kernels_.add_pairs(ptr_, idx_.get(), val_, rows[g].begin, rows[g].end, s, d_, pairs,
                               pairs + d_ * d_);
        });
        // Each pair lies in one triangle. A column that a row stores twice makes a pair with itself.
        for_each_task(d_, threads, [&](i64 a) {
            for (i64 b = 0; b < d_; ++b) {
                double total = 0;
                for (i64 g = 0; g < groups; ++g) {
                    const double* pairs = sums.get() + g * size;
                    total += pairs[a * d_ + b] + pairs[b * d_ + a] + (a == b ? pairs[d_ * d_ + a] : 0.0);
                }
                out[a * d_ + b] = total;
            }
        });
    }

    double weighted_gram_work() const override { return gram_work_; }

    void column_squares(double* out) const override {
        const i64 everything[] = {0, m_};
        const std::vector<Group> groups = cut_groups(everything, 1, kEntriesPerSum, false);
        const i64 count = static_cast<i64>(groups.size());
        Buffer<double> sums(count * d_);
        const int threads = threads_for(nnz_ + count * d_, threads_);
        for_each_task(count, threads, [&](i64 g) {
            const Range rows = groups[g].rows;
            double* sum = sums.get() + g * d_;
            std::fill_n(sum, d_, 0.0);
            loops_.add_squares(idx_.get(), val_, ptr_[rows.begin], ptr_[rows.end], sum);
        });
        add_groups(groups, sums.get(), d_, 1, threads, out);
    }

    std::vector<double> find_row_squares() const override {
        constexpr i64 kRows = 4096;
        std::vector<double> out(m_);
        for_each_task((m_ + kRows - 1) / kRows, threads_for(nnz_ + m_, threads_), [&](i64 t) {
            loops_.row_squares(ptr_, val_, t * kRows, std::min(m_, (t + 1) * kRows), out.data());
        });
        return out;
    }

    std::uint64_t sum_of_entries(std::uint64_t first, const std::uint64_t* keys) const override {
        return sum_of_rows(m_, nnz_, threads_, [=](i64 begin, i64 end) {
            return loops_.checksum(ptr_, idx_.get(), val_, begin, end, first, keys);
        });
    }

    void copy_entries(i64 nnz, i64* columns, void* values) const override {
        constexpr i64 kEntries = 1 << 16;
        for_each_task((nnz + kEntries - 1) / kEntries, threads_for(nnz, threads_), [&](i64 t) {
            loops_.copy(idx_.get(), val_, t * kEntries, std::min(nnz, (t + 1) * kEntries), columns, values);
        });
    }

    const Rows& by_rows() const override { return *this; }

    double row_dot(i64 i, const double* w) const override {
        return kernels_.lone(idx_.get(), val_, nnz_, ptr_[i], ptr_[i + 1], w);
    }

    void add_row(i64 i, double factor, double* w) const override {
        kernels_.add_lone(idx_.get(), val_, ptr_[i], ptr_[i + 1], factor, w);
    }

    void row_dots(i64 i, const double* W, i64 ld, double* out) const override {
        kernels_.lone_many(idx_.get(), val_, ptr_[i], ptr_[i + 1], W, ld, out);
    }

    void add_row_to(i64 i, const Change* changes, i64 count, i64 ld, double* W) const override {
        kernels_.add_lone_to(idx_.get(), val_, ptr_[i], ptr_[i + 1], changes, count, ld, W);
    }

    void fetch_rows(i64 soon, const double* w, i64 ld, i64 later, i64 far) const override {
        __builtin_prefetch(ptr_ + far);
        kernels_.fetch(idx_.get(), val_, ptr_ + soon, w, ld, ptr_ + later);
    }

    void build_transpose() override {
        std::lock_guard<std::mutex> hold(building_);
        if (!transpose_)
            transpose_ = std::make_unique<Transpose>(m_, d_, entries(), panel_rows(m_, d_, nnz_), threads_);
    }

    std::unique_ptr<Matrix> reordered(const i64* order, i64* ptr, void* val) const override {
        constexpr i64 kRows = 1024;
        auto* values = static_cast<unsigned char*>(val);
        Buffer<unsigned char> idx((nnz_ + kIndexPad) * index_bytes_);
        ptr[0] = 0;
        for (i64 i = 0; i < m_; ++i) ptr[i + 1] = ptr[i] + ptr_[order[i] + 1] - ptr_[order[i]];
        for_each_task((m_ + kRows - 1) / kRows, threads_for(nnz_, threads_), [&](i64 t) {
            for (i64 i = t * kRows; i < std::min(m_, (t + 1) * kRows); ++i) {
                i64 from = ptr_[order[i]], n = ptr_[order[i] + 1] - from;
                std::copy_n(idx_.get() + from * index_bytes_, n * index_bytes_,
                            idx.get() + ptr[i] * index_bytes_);
                if (!ones())
                    std::copy_n(static_cast<const unsigned char*>(val_) + from * value_bytes_,
                                n * value_bytes_, values + ptr[i] * value_bytes_);
            }
        });
        std::fill_n(idx.get() + nnz_ * index_bytes_, kIndexPad * index_bytes_, 0);
        return std::make_unique<SparseMatrix>(m_, d_, ptr, std::move(idx), index_bytes_, values, value_bytes_,
                                              finite_, threads_, policy_);
    }

    i64 bytes() const override {
        return (m_ + 1) * 8 + idx_.bytes() + by_length_.bytes() + nnz_ * value_bytes_ +
               (strips_ ? strips_->bytes() : 0) + (transpose_ ? transpose_->bytes() : 0);
    }
    bool has_transpose() const override { return transpose_ != nullptr; }
    int index_bytes() const override { return index_bytes_; }
    bool ones() const override { return value_bytes_ == 0; }

  private:
    Entries entries() const { return {ptr_, idx_.get(), val_, index_bytes_, value_bytes_}; }

    /// acc (d, ld) += the product of A^T A, of some rows, and W (d, ld); adds the rows of diag(weights) (X -
    /// 1 mean') W to `sums`. `shift` is mean' W.
    void add_gram_product(Range rows, const double* W, int kernel, const Centring& A, const double* shift,
                          double* sums, double* acc) const {
        const i64 ld = kWidth[kernel];
        double some[kPaddedRows * kWidth[kWidths - 1]];
        for (i64 i = rows.begin; i < rows.end; i += kPaddedRows) {
            const i64 end = std::min(i + kPaddedRows, rows.end);
            kernels_.rows_many[kernel](ptr_ + i, idx_.get(), val_, 0, end - i, W, false, some);
            if (A.mean || A.weights)
                weigh_rows(A.weights ? A.weights + i : nullptr, end - i, ld, shift, some, sums);
            kernels_.scatter_many[kernel](ptr_, idx_.get(), val_, i, end, some, finite_, acc);
        }
    }

    /// Whether products with several vectors are computed one after the other.
    bool in_turn(i64 step, i64 out_step) const {
        return step == 1 && out_step == 1 && nnz_ < kFewEntries * d_;
    }

    /// Whether X^T r reads X^T.
    bool gathers(const double* r) const {
        return keeps_transpose(policy_, m_, d_, nnz_) && !(finite_ && mostly_zero(r));
    }

    /// Whether fewer than 40 % of a fixed sample of 4096 entries of r are nonzero.
    bool mostly_zero(const double* r) const {
        i64 step = std::max<i64>(1, m_ / 4096), sample = 0, nonzero = 0;
        for (i64 i = 0; i < m_; i += step, ++sample) nonzero += r[i] != 0;
        return nonzero * 10 < sample * 4;
    }

    /// The parts of the blocks that get partial sums of their own. With `few`, their number is a power of
    /// two, so that 2, 4 or 8 threads get equally many.
    std::vector<Group> cut_groups(const i64* starts, i64 blocks, i64 entries_per_sum, bool few) const {
        i64 wanted = std::clamp<i64>(std::min(nnz_ / (entries_per_sum * d_ + 1), nnz_ / kMinGroupEntries), 1,
                                     kMaxGroups);
        while (few && (wanted & (wanted - 1))) --wanted;
        std::vector<Group> groups;
        for (i64 b = 0; b < blocks; ++b)
            for (Range rows : split_evenly(starts[b], starts[b + 1], (wanted + blocks - 1) / blocks,
                                           [&](i64 k) { return ptr_[k] + kRowCost * k; }))
                groups.push_back({b, rows});
        return groups;
    }

    void scatter(const double* r, const i64* starts, i64 blocks, double* out) {
        std::vector<Group> groups = cut_groups(starts, blocks, kEntriesPerSum, false);
        int threads = threads_for(nnz_ + blocks * d_, threads_);
        // Strips do not change the result, so this choice may depend on the number of threads: one sum on one
        // thread is fastest with whole rows.
        const Strips& strips = threads == 1 && groups.size() == 1 ? whole_rows_ : get_strips();
        i64 parts = strips.count();
        bool direct = static_cast<i64>(groups.size()) == blocks;
        Buffer<double> partial(direct ? 0 : static_cast<i64>(groups.size()) * d_);
        double* sums = direct ? out : partial.get();
        i64 ahead = 1 + kAhead * m_ * parts / (nnz_ + 1);
        for_each_task(static_cast<i64>(groups.size()) * parts, threads, [&](i64 t) {
            // The last strip first: if frequent columns come first, it has the most columns.
            const i64 group = t / parts, strip = parts - 1 - t % parts;
            Range rows = groups[group].rows, columns = strips.columns(strip);
            double* acc = sums + group * d_;
            std::fill(acc + columns.begin, acc + columns.end, 0.0);
            kernels_.scatter(strips.rows(strip), parts, idx_.get(), val_, rows.begin, rows.end, r, finite_,
                             tiny_and_unlike_, far_, ahead, acc);
        });
        if (!direct) add_groups(groups, sums, d_, blocks, threads, out);
    }

    const Strips& get_strips() {
        std::lock_guard<std::mutex> hold(building_);
        if (!strips_) strips_ = std::make_unique<Strips>(m_, d_, entries(), threads_);
        return *strips_;
    }

    void scatter_columns(Vectors<const double> R, i64 K, const i64* starts, i64 blocks, Vectors<double> out) {
        // Sums of several columns are long: fewer of them stay in a nearer cache.
        std::vector<Group> groups = cut_groups(starts, blocks, 2 * kEntriesPerSum, true);
        i64 count = static_cast<i64>(groups.size());
        int threads = threads_for(nnz_ * K + count * d_ * K, threads_);
        for_columns(K, [&](i64 first, i64 columns, int kernel, i64 ld) {
            i64 size = d_ * ld;
            bool direct = count == blocks;
            Buffer<double> partial = scratch_.take((count + (direct ? 0 : blocks)) * size);
            double* total = partial.get() + (direct ? 0 : count * size);
            for_each_task(count, threads, [&](i64 g) {
                double in[kPaddedRows * kWidth[kWidths - 1]], *acc = partial.get() + g * size;
                std::fill_n(acc, size, 0.0);
                Range rows = groups[g].rows;
                for (i64 i = rows.begin; i < rows.end; i += kPaddedRows) {
                    i64 end = std::min(i + kPaddedRows, rows.end);
                    pad_rows(R, first, columns, {i, end}, ld, in);
                    kernels_.scatter_many[kernel](ptr_, idx_.get(), val_, i, end, in, finite_, acc);
                }
            });
            if (!direct) add_groups(groups, partial.get(), size, blocks, threads, total);
            unpad_rows(total, ld, {0, blocks * d_}, first, columns, out);
            scratch_.keep(std::move(partial));
        });
    }

    i64 m_, d_, nnz_;
    const i64* ptr_;
    Buffer<unsigned char> idx_;
    const void* val_;
    int index_bytes_, value_bytes_;
    const SparseKernels& kernels_;
    const EntryLoops& loops_;
    bool finite_, far_;
    int threads_;
    TransposePolicy policy_;
    double gram_work_ = 0;
    RowTiles tiles_;
    Buffer<std::uint16_t> by_length_;  // the rows of each tile, empty if they are visited in order
    bool tiny_and_unlike_ = false;     // most rows have few entries, and lengths change from row to row
    std::mutex building_;
    mutable Scratch scratch_;
    Strips whole_rows_;
    std::unique_ptr<Strips> strips_;
    std::unique_ptr<Transpose> transpose_;
};

}  // namespace bmrm
