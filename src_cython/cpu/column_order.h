// X with its columns ordered by frequency, for products and ascent that gather from vectors longer than the
// second level of cache. Many entries of a text lie in a few thousand columns, whose weights then share cache
// lines with each other and not with those of rare columns. The order is coarse: by the binary logarithm of a
// column's number of entries, and within such a class as before. So a vector is permuted in a few streams
// that each move forward, and a row in one pass. The entries of rows are permuted too, so the values are a
// copy. Callers see the original order: each product permutes its vectors there and back.
//
// (Renumbering for locality as in Pichel, Heras, Cabaleiro, Rivera, "Increasing data reuse of sparse algebra
// codes on simultaneous multithreading architectures", 2009; here by counts only, which takes one pass.)
#pragma once

#include <algorithm>
#include <memory>
#include <numeric>

#include "cpu/strips.h"

namespace bmrm {

/// Number of columns for which the second level of cache has room, besides what streams through it.
constexpr i64 kNearColumns = 1 << 15;

/// Minimum number of entries that pays for the copy of the values.
constexpr i64 kMinOrderedEntries = i64{1} << 20;
/// Minimum average number of entries per column that pays for permuting vectors at each product.
constexpr i64 kMinEntriesPerColumn = 4;

/// Minimum share of the entries that the order must move to near cache.
constexpr double kMinGain = 0.1;

/// Maximum number of sampled entries.
constexpr i64 kSampledEntries = i64{1} << 22;
/// Number of consecutive entries in each run of the sample.
constexpr i64 kSampledRun = 4096;

inline bool may_be_ordered(i64 d, i64 nnz) {
    return d > kCachedColumns && nnz >= kMinOrderedEntries && nnz >= kMinEntriesPerColumn * d;
}

/// The number of entries of each column in a sample of the entries.
inline std::vector<std::uint32_t> count_columns(const Entries& X, i64 nnz, i64 d) {
    const EntryLoops& loops = entry_loops(X.index_bytes, X.value_bytes);
    std::vector<std::uint32_t> counts(d);
    const i64 step = std::max<i64>(1, (nnz + kSampledEntries - 1) / kSampledEntries) * kSampledRun;
    for (i64 first = 0; first < nnz; first += step)
        loops.count_sample(X.idx, first, std::min(nnz, first + kSampledRun), counts.data());
    return counts;
}

/// The sum of the `how_many` largest counts.
inline i64 sum_of_largest(std::vector<std::uint32_t> counts, i64 how_many) {
    if (static_cast<i64>(counts.size()) > how_many) {
        std::nth_element(counts.begin(), counts.begin() + how_many, counts.end(), std::greater<>());
        counts.resize(how_many);
    }
    return std::accumulate(counts.begin(), counts.end(), i64{0});
}

/// Whether many more entries would lie in near cache if frequent columns shared cache lines with each other.
inline bool order_pays(const std::vector<std::uint32_t>& counts) {
    std::vector<std::uint32_t> lines((counts.size() + kColumnsPerLine - 1) / kColumnsPerLine);
    i64 all = 0;
    for (std::size_t j = 0; j < counts.size(); ++j) lines[j / kColumnsPerLine] += counts[j], all += counts[j];
    const i64 now = sum_of_largest(std::move(lines), kNearColumns / kColumnsPerLine),
              then = sum_of_largest(counts, kNearColumns);
    return static_cast<double>(then - now) > kMinGain * static_cast<double>(all);
}

/// The place of each column in the new order, and the class of the column at each place.
struct Places {
    static constexpr int kClasses = kColumnClasses;
    Buffer<std::uint32_t> of;
    Buffer<std::uint8_t> classes;

    explicit Places(const std::vector<std::uint32_t>& counts)
        : of(static_cast<i64>(counts.size())), classes(static_cast<i64>(counts.size())) {
        const auto class_of = [](std::uint32_t count) { return __builtin_clz(2 * count + 1); };
        std::uint32_t next[kClasses + 1] = {};
        for (const std::uint32_t count : counts) ++next[class_of(count) + 1];
        std::partial_sum(next, next + kClasses + 1, next);
        for (int c = 0; c < kClasses; ++c)
            std::fill(classes.get() + next[c], classes.get() + next[c + 1], static_cast<std::uint8_t>(c));
        for (std::size_t j = 0; j < counts.size(); ++j) of[j] = next[class_of(counts[j])]++;
    }
};

/// Replaces the column numbers of all rows by their places, in place, and sorts each row that was sorted; the
/// values go to `to`.
inline void permute_rows(const Entries& X, void* idx, i64 m, const Places& places, int threads, void* to) {
    const EntryLoops& loops = entry_loops(X.index_bytes, X.value_bytes);
    const std::vector<Range> tiles =
        split_evenly(0, m, X.ptr[m] / kTileEntries + 1, [&](i64 k) { return X.ptr[k] + kRowCost * k; });
    for_each_task(static_cast<i64>(tiles.size()), threads_for(X.ptr[m], threads), [&](i64 t) {
        loops.permute(X.ptr, idx, X.val, tiles[t].begin, tiles[t].end, places.of.get(), places.classes.get(),
                      to);
    });
}

class OrderedMatrix final : public Matrix {
  public:
    /// `values` is the array that X refers to.
    OrderedMatrix(std::unique_ptr<Matrix> X, std::shared_ptr<const Places> places,
                  Buffer<unsigned char> values, int threads)
        : values_(std::move(values)),
          X_(std::move(X)),
          places_(std::move(places)),
          d_(places_->of.size()),
          threads_(threads) {}

    void matvec(const double* w, double* out) const override {
        Buffer<double> in = scratch_.take(d_);
        put(w, 1, in.get(), 1);
        X_->matvec(in.get(), out);
        scratch_.keep(std::move(in));
    }

    void rmatvec_blocks(const double* r, const i64* starts, i64 blocks, double* out) override {
        Buffer<double> sums = scratch_.take(blocks * d_);
        X_->rmatvec_blocks(r, starts, blocks, sums.get());
        for (i64 p = 0; p < blocks; ++p) take(sums.get() + p * d_, 1, out + p * d_, 1);
        scratch_.keep(std::move(sums));
    }

    void matmat(Vectors<const double> W, i64 K, Vectors<double> out) const override {
        Buffer<double> in = scratch_.take(d_ * K);
        const Layout own(W.step, d_, K);
        std::vector<const double*> at(K);
        for (i64 c = 0; c < K; ++c) {
            put(W.at[c], W.step, in.get() + own.first(c), own.step);
            at[c] = in.get() + own.first(c);
        }
        X_->matmat({at.data(), own.step}, K, out);
        scratch_.keep(std::move(in));
    }

    void rmatmat(Vectors<const double> R, i64 K, Vectors<double> out) override {
        take_blocks(K, 1, out, [&](Vectors<double> sums) { X_->rmatmat(R, K, sums); });
    }

    void rmatmat_blocks(Vectors<const double> R, i64 K, const i64* starts, i64 blocks,
                        Vectors<double> out) override {
        take_blocks(K, blocks, out,
                    [&](Vectors<double> sums) { X_->rmatmat_blocks(R, K, starts, blocks, sums); });
    }

    void gram_product(const double* V, i64 K, i64 m, i64 d, const Centring& A, double* out) override {
        Buffer<double> in = scratch_.take(d_ * K), sums(d_ * K), mean(A.mean ? d_ : 0);
        for (i64 c = 0; c < K; ++c) put(V + c, K, in.get() + c, K);
        if (A.mean) put(A.mean, 1, mean.get(), 1);
        X_->gram_product(in.get(), K, m, d, {A.weights, A.mean ? mean.get() : nullptr}, sums.get());
        for (i64 c = 0; c < K; ++c) take(sums.get() + c, K, out + c, K);
        scratch_.keep(std::move(in));
    }

    void weighted_gram(const double* s, double* out) const override {
        Buffer<double> sums(d_ * d_);
        X_->weighted_gram(s, sums.get());
        for (i64 a = 0; a < d_; ++a) take(sums.get() + places_->of[a] * d_, 1, out + a * d_, 1);
    }

    double weighted_gram_work() const override { return X_->weighted_gram_work(); }

    void column_squares(double* out) const override {
        Buffer<double> sums = scratch_.take(d_);
        X_->column_squares(sums.get());
        take(sums.get(), 1, out, 1);
        scratch_.keep(std::move(sums));
    }

    std::uint64_t sum_of_entries(std::uint64_t first, const std::uint64_t* keys) const override {
        Buffer<std::uint64_t> own(d_);
        each([&](i64 j, i64 place) { own[place] = keys[j]; });
        return X_->sum_of_entries(first, own.get());
    }

    void copy_entries(i64 nnz, i64* columns, void* values) const override {
        X_->copy_entries(nnz, columns, values);
        Buffer<std::uint32_t> at(d_);
        each([&](i64 j, i64 place) { at[place] = static_cast<std::uint32_t>(j); });
        for (i64 k = 0; k < nnz; ++k) columns[k] = at[columns[k]];
    }

    const Rows& by_rows() const override { return X_->by_rows(); }
    const std::uint32_t* places() const override { return places_->of.get(); }
    void build_transpose() override { X_->build_transpose(); }

    std::unique_ptr<Matrix> reordered(const i64* order, i64* ptr, void* val) const override {
        return std::make_unique<OrderedMatrix>(X_->reordered(order, ptr, val), places_,
                                               Buffer<unsigned char>(), threads_);
    }

    i64 bytes() const override { return X_->bytes() + places_->of.bytes() + places_->classes.bytes(); }
    bool has_transpose() const override { return X_->has_transpose(); }
    int index_bytes() const override { return X_->index_bytes(); }
    bool ones() const override { return X_->ones(); }
    bool owns_values() const override { return values_.size() > 0; }

  private:
    /// Several vectors laid out as the caller's are: as separate arrays, or side by side.
    struct Layout {
        Layout(i64 caller, i64 length, i64 K) : step(caller == 1 ? 1 : K), apart(caller == 1 ? length : 1) {}
        i64 first(i64 c) const { return c * apart; }
        i64 step, apart;
    };

    std::vector<double> find_row_squares() const override { return X_->row_squares(); }

    void put(const double* from, i64 step, double* to, i64 own) const {
        each([&](i64 j, i64 place) { to[place * own] = from[j * step]; });
    }

    void take(const double* from, i64 own, double* to, i64 step) const {
        each([&](i64 j, i64 place) { to[j * step] = from[place * own]; });
    }

    template <class Body>
    void each(const Body& body) const {
        constexpr i64 kColumns = 1 << 14;
        for_each_task((d_ + kColumns - 1) / kColumns, threads_for(d_, threads_), [&](i64 t) {
            for (i64 j = t * kColumns; j < std::min(d_, (t + 1) * kColumns); ++j) body(j, places_->of[j]);
        });
    }

    template <class Product>
    void take_blocks(i64 K, i64 blocks, Vectors<double> out, const Product& product) {
        Buffer<double> sums = scratch_.take(blocks * d_ * K);
        const Layout own(out.step, blocks * d_, K);
        std::vector<double*> at(K);
        for (i64 c = 0; c < K; ++c) at[c] = sums.get() + own.first(c);
        product({at.data(), own.step});
        for (i64 c = 0; c < K; ++c)
            for (i64 p = 0; p < blocks; ++p)
                take(at[c] + p * d_ * own.step, own.step, out.at[c] + p * d_ * out.step, out.step);
        scratch_.keep(std::move(sums));
    }

    Buffer<unsigned char> values_;
    std::unique_ptr<Matrix> X_;
    std::shared_ptr<const Places> places_;
    i64 d_;
    int threads_;
    mutable Scratch scratch_;
};

}  // namespace bmrm
