// Pairs of points on a device, with the vectors and the sums of the passes.
#pragma once
#include <map>
#include <type_traits>
#include <vector>

#include "api/scaling.h"
#include "manifold/kernels/pair_tiles.cuh"
#include "runtime/chain.cuh"
#include "runtime/device_memory.h"
#include "runtime/handle.h"
#include "runtime/mailbox.h"
#include "runtime/upload.h"

struct bb_scaling : bmrm::Handle {
    bb_scaling(int32_t device, const bb_pairs& pairs);

    cudaStream_t stream() const { return memory.stream; }

    // --- vectors
    double* lend(int64_t size);
    void give(int64_t size, double* vector) { idle_[size].push_back(vector); }
    void combine(int64_t size, const double* const* vectors, const double* factors, int count, double* to);
    const double* products(int64_t size, const double* const* vectors, const double* const* others,
                           int count);
    void over_degrees(int p, const double* vector, double* to);
    void centre(int p, const double* vector, double* to);

    // --- passes
    const double* descent(int p, const double* X, double* direction);
    template <bool WEIGHTED>  // each in a file of its own
    const double* descend(int p, const double* X, double* direction);
    void laplacian(int p, const double* Y, double* to);
    void squared(int p, const double* Y, double unknown, double* to);
    void pulls(int p, const double* X, double* to);
    void curvature(int p, const double* X, const double* direction, double* to);
    const double* summary(double* degrees);
    void row(int64_t i, double* values);

    const int64_t n;

    // Calls use(source) with what has the dissimilarities.
    template <class Use>
    void with_source(const Use& use) const {
        if (features_.size() && !stored_.size())
            use(bmrm::FeaturePairs{features_.data(), m_, stride_});
        else if (delta_.is_double)
            use(bmrm::GivenPairs<double>{delta_});
        else
            use(bmrm::GivenPairs<float>{delta_});
    }

    // Runs a pass; `kept` of the numbers that the term adds to a point go to `to`, by points.  WEIGHTED: 0 if
    // all pairs count the same, 1 if not.  Returns the sums over all pairs, if the term has some.
    template <class Term, bool WEIGHTED, class Source>
    const double* run(const Source& source, const bmrm::PairWeights& weights, const Term& term, int kept,
                      double* to) {
        using namespace bmrm;
        const PairTiles tiles = tiles_for(n, Term::COLUMNS);
        const int64_t strips = tiles.strips(), stacks = tiles.stacks(), blocks = strips * stacks;
        reserve(memory, row_sums_, stacks * n * Term::ADDS);
        reserve(memory, column_sums_, strips * n * Term::ADDS);
        reserve(memory, totals_, blocks * kMaxTotals);
        const NextLaunch tile_launch(unsigned(blocks), kPairThreads, 0, stream(), false);
        tile_launch(add_pairs<Source, Term, WEIGHTED>, source, weights, term, tiles, row_sums_.data(),
                    column_sums_.data(), totals_.data());
        const NextLaunch point_launch(blocks_for(n * kept), 256, 0, stream(), false);
        point_launch(add_tiles<Term::ADDS>, tiles, row_sums_.data(), column_sums_.data(), kept, to);
        if constexpr (Term::SUMS > 0) {
            const NextLaunch one(1u, kTotalThreads, 0, stream(), false);
            one(add_totals<Term::SUMS>, totals_.data(), blocks, mail_.next());
            return mail_.wait(stream());
        }
        return nullptr;
    }
    bmrm::PairWeights weights() const { return {weight_, missing_, 0.0}; }
    bool weighted() const { return weight_.values || missing_; }
    bool missing() const { return missing_; }

    // Tiles for terms of which a thread has some columns; they depend on the number of points alone.
    static bmrm::PairTiles tiles_for(int64_t n, int columns) {
        constexpr int64_t kLeastRows = 32, kMostRows = 1024;
        int64_t rows = kLeastRows;
        while (rows < kMostRows && rows * bmrm::kMostStrips < n) rows *= 2;
        return {n, rows, int64_t(bmrm::kPairThreads) * columns};
    }

  private:
    bmrm::PairTable upload(const bb_pair_values& from, bmrm::Uploader& uploader, bmrm::AnyArray& owner);
    template <class T>
    bmrm::PairTable pack(const bb_pair_values& from, bmrm::Uploader& uploader, bmrm::AnyArray& owner);
    void take_features(const bb_pairs& pairs, bmrm::Uploader& uploader);

    bmrm::PairTable delta_ = {}, weight_ = {};
    bmrm::AnyArray owned_delta_, owned_weight_;
    bmrm::Array<double> features_, stored_, degrees_, row_sums_, column_sums_, totals_, partial_, means_;
    int64_t m_ = 0, stride_ = 0;
    bool missing_;
    bmrm::Mailbox mail_;
    std::map<int64_t, std::vector<double*>> idle_;
    std::vector<bmrm::Array<double>> vectors_;
};

namespace bmrm {

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
