// Numbers of all pairs of n points on a device, vectors of numbers of the points, and the sums of passes over
// the pairs: kernels/pair_tiles.cuh says what a pass is made of.
#pragma once
#include <algorithm>
#include <map>
#include <type_traits>
#include <vector>

#include "api/pair_values.h"
#include "pairs/kernels/pair_tiles.cuh"
#include "runtime/chain.cuh"
#include "runtime/device_memory.h"
#include "runtime/handle.h"
#include "runtime/mailbox.h"
#include "runtime/upload.h"

namespace bmrm {

struct ResidentPairs : Handle {
    ResidentPairs(int32_t device, const bb_pairs& pairs);

    cudaStream_t stream() const { return memory.stream; }

    // --- vectors
    double* lend(int64_t size);
    void give(int64_t size, double* vector) { idle_[size].push_back(vector); }
    void combine(int64_t size, const double* const* vectors, const double* factors, int count, double* to);
    const double* products(int64_t size, const double* const* vectors, const double* const* others,
                           int count);
    void centre(int p, const double* vector, double* to);

    // Writes the numbers of pairs of a point with all.
    void row(int64_t i, double* values);

    const int64_t n;

    // Rows of a strip of tiles, of which a rank has whole ones; they depend on the number of points alone.
    static int64_t strip_rows(int64_t n) {
        constexpr int64_t kLeastRows = 32, kMostRows = 1024;
        int64_t rows = kLeastRows;
        while (rows < kMostRows && rows * kMostStrips < n) rows *= 2;
        return rows;
    }

    // Pairs of rows before i with later ones.
    int64_t pairs_before(int64_t i) const { return i * (2 * n - i - 1) / 2; }
    int64_t own_pairs() const { return pairs_before(last_) - pairs_before(first_); }

    // --- what is left of a pass if these are some of the rows
    // Sums of tiles by rows, 0 for rows of others; then those by columns, added strip by strip to `to`.
    void own_rows(int kept, double* to);
    void add_strips(int kept, double* to);
    // Totals of the tiles; of those of all ranks the sums over all pairs.
    int64_t count_totals() const { return tiles_.blocks() * kMaxTotals; }
    void own_totals(int64_t size, double* totals);
    const double* sum_totals(int64_t size, const double* totals);

    // Calls use(source) with what has the dissimilarities.
    template <class Use>
    void with_source(const Use& use) const {
        if (features_.size() && !stored_.size())
            use(FeaturePairs{features_.data(), m_, stride_});
        else if (delta_.is_double)
            use(GivenPairs<double>{delta_});
        else
            use(GivenPairs<float>{delta_});
    }

    // Runs a pass; `kept` of the numbers that the term adds to a point go to `to`, by points.  WEIGHTED: 0 if
    // all pairs count the same, 1 if not.  Returns the sums over all pairs, if the term has some.  If these
    // are some of the rows, the sums of tiles are left for `own_rows` and those after it, and 0 is returned.
    template <class Term, bool WEIGHTED, class Source>
    const double* run(const Source& source, const PairWeights& weights, const Term& term, int kept,
                      double* to) {
        static const double nothing[kMaxTotals] = {};
        const PairTiles tiles = tiles_ = tiles_for(Term::COLUMNS);
        const int64_t blocks = tiles.blocks();
        adds_ = Term::ADDS;
        reserve(memory, row_sums_, tiles.stacks() * n * Term::ADDS);
        reserve(memory, column_sums_, std::max<int64_t>(1, tiles.own()) * n * Term::ADDS);
        reserve(memory, totals_, std::max<int64_t>(1, blocks) * kMaxTotals);
        double* const columns = all_columns();
        if (blocks) {
            const NextLaunch tile_launch(unsigned(blocks), kPairThreads, 0, stream(), false);
            tile_launch(add_pairs<Source, Term, WEIGHTED>, source, weights, term, tiles, row_sums_.data(),
                        columns, totals_.data());
        }
        if (last_ - first_ < n) return nothing;
        const NextLaunch point_launch(blocks_for(n * kept), 256, 0, stream(), false);
        point_launch(add_tiles, tiles, adds_, row_sums_.data(), columns, kept, to);
        if constexpr (Term::SUMS > 0) {
            const NextLaunch one(1u, kTotalThreads, 0, stream(), false);
            one(add_totals<Term::SUMS>, totals_.data(), blocks, mail_.next());
            return mail_.wait(stream());
        }
        return nullptr;
    }
    PairWeights weights() const { return {weight_, missing_, 0.0}; }
    bool weighted() const { return weight_.values || missing_; }
    bool missing() const { return missing_; }

    // Tiles of the own rows for terms of which a thread has some columns.
    PairTiles tiles_for(int columns) const {
        const int64_t rows = strip_rows(n);
        const auto strips = [&](int64_t row) { return (row + rows - 1) / rows; };
        return {n, rows, int64_t(kPairThreads) * columns, strips(first_), strips(last_)};
    }

  private:
    // Sums of columns of the last pass, by the number of the strip among all.
    double* all_columns() { return column_sums_.data() - tiles_.first * n * adds_; }
    PairTable upload(const bb_pair_values& from, Uploader& uploader, AnyArray& owner);
    template <class T>
    PairTable pack(const bb_pair_values& from, Uploader& uploader, AnyArray& owner);
    void take_features(const bb_pairs& pairs, Uploader& uploader);

    PairTable delta_ = {}, weight_ = {};
    AnyArray owned_delta_, owned_weight_;
    Array<double> features_, stored_, row_sums_, column_sums_, totals_, partial_, means_;
    int64_t m_ = 0, stride_ = 0, first_, last_;
    PairTiles tiles_ = {};  // of the last pass, and what its pairs add to a point
    int adds_ = 0;
    bool missing_;
    Mailbox mail_;
    std::map<int64_t, std::vector<double*>> idle_;
    std::vector<Array<double>> vectors_;
};

// Calls use(integer) with the least of some numbers of coordinates that a kernel has and that is at least p.
template <int FIRST, int... MORE, class Use>
void with_axes(int p, const Use& use) {
    if constexpr (sizeof...(MORE) > 0) {
        if (p > FIRST) return with_axes<MORE...>(p, use);
    }
    if (p < 1 || p > FIRST) throw Failure(BB_INVALID, "p: found a number of coordinates that has no kernel");
    use(std::integral_constant<int, FIRST>{});
}

}  // namespace bmrm
