// Sums over the rows of each cluster as sums of integers (kernels/integer_sums.cuh): what the host does.
//
// With q the whole numbers of the rows and p those of a centre, both about the same origin, the sum of x - c
// is (sum of q) - n p, and the inertia is (sum of q^2) + sum over centres and columns of p (n p - 2 sum of
// q). These few numbers are computed with twice the digits.  If the inertia is much smaller than its terms,
// or than what rounding to whole numbers may change, the pass must add up the rows in float64 instead.
#pragma once
#include <cmath>
#include <cstring>
#include <vector>

#include "reductions/kernels/integer_sums.cuh"
#include "reductions/staging.h"
#include "runtime/chain.cuh"

namespace bmrm {

// Sizes of a pass: columns and tiles of 16 clusters of a block; 0 if there is no kernel for them.
struct IntegerPlan {
    int columns = 0, tiles = 0, column_groups = 0, cluster_groups = 0;
    int64_t part_rows = 0, parts = 0;

    IntegerPlan() = default;
    IntegerPlan(int64_t n, int64_t d, int64_t k, int multiprocessors) {
        if (d > kMaxColumns || k > 2 * 16 * kMaxTiles) return;
        columns = d <= 1 ? 1 : d <= 2 ? 2 : d <= 4 ? 4 : 8;
        column_groups = int(d + columns - 1) / columns;
        const int needed = int((k + 15) / 16), most = columns == 8 ? 4 : columns == 4 ? 7 : kMaxTiles;
        cluster_groups = (needed + most - 1) / most;
        if (cluster_groups > 2) {
            columns = 0;
            return;
        }
        tiles = (needed + cluster_groups - 1) / cluster_groups;
        const int64_t blocks = std::max(1, 3 * multiprocessors / (column_groups * cluster_groups));
        const int64_t each = (n + blocks - 1) / blocks;
        part_rows = std::min<int64_t>(
            kMaxIntegerRows,
            std::max<int64_t>(kMinRows, (each + kIntegerThreads - 1) / kIntegerThreads * kIntegerThreads));
        parts = (n + part_rows - 1) / part_rows;
    }
    explicit operator bool() const { return columns > 0; }

    static constexpr int kMaxColumns = 32, kMaxTiles = 10;
    static constexpr int64_t kMinRows = 1024;
};

template <int C, int T>
struct IntegerTiles {
    static constexpr int columns = C, tiles = T;
};

template <int C, int... T, class Use>
void with_tiles(int tiles, Use&& use) {
    bool found = false;
    ((found || tiles > T ? void() : (found = true, use(IntegerTiles<C, T>()))), ...);
}

// Calls use with the kernel's sizes.
template <class Use>
void with_integer_tiles(const IntegerPlan& plan, Use&& use) {
    if (plan.columns == 1) return with_tiles<1, 1, 4, 10>(plan.tiles, use);
    if (plan.columns == 2) return with_tiles<2, 1, 4, 7, 10>(plan.tiles, use);
    if (plan.columns == 4) return with_tiles<4, 1, 2, 4, 7>(plan.tiles, use);
    with_tiles<8, 1, 2, 4>(plan.tiles, use);
}

class IntegerSums {
  public:
    // Prepares rows without weights; shift, scale: as for bb_clusters_pack.
    void prepare(Memory& memory, const float* X, int64_t n, int64_t d, const double* shift, double scale) {
        factor_ = std::ldexp(scale, 49);
        if (!std::isfinite(factor_)) return;
        std::vector<double> offsets(static_cast<size_t>(d));
        for (size_t f = 0; f < offsets.size(); f++)
            offsets[f] = kIntegerOrigin - std::nearbyint(shift[f] * factor_);
        offsets_ = on_device(memory, offsets);
        const int64_t parts = (n + kSquareRows - 1) / kSquareRows;
        Array<double> squares(memory, 3 * parts);
        const NextLaunch launch(unsigned(parts), kSquareThreads, 0, memory.stream, false);
        launch(square_integers, X, n, int(d), factor_, offsets_.data(), squares.data());
        const std::vector<double> found = squares.to_host();
        squares_ = parted_ = 0;
        for (size_t p = 0; p < found.size(); p += 3) {
            squares_ += (long double)found[p] + found[p + 1];
            parted_ += found[p + 2];
        }
    }
    bool ready() const { return bool(offsets_); }

    // Queues a pass over labels.  early: as in NextLaunch; centers, counters: on the device.
    void queue(Memory& memory, bool early, const IntegerPlan& plan, const float* X, int64_t n, int64_t d,
               int64_t k, const double* centers, const int32_t* fresh, int32_t* labels,
               PassCounters* counters) {
        reserve(memory, partial_, plan.parts * k * (d + 1));
        with_integer_tiles(plan, [&](auto tiles) {
            constexpr int C = decltype(tiles)::columns, T = decltype(tiles)::tiles;
            const int groups = int(k + 16 * T - 1) / (16 * T);
            const NextLaunch launch(unsigned(plan.parts * plan.column_groups * groups), kIntegerThreads, 0,
                                    memory.stream, early);
            launch(sum_integers<C, T>, X, n, int(d), factor_, offsets_.data(), int(k), fresh, labels,
                   plan.part_rows, plan.column_groups, groups, partial_.data(), counters);
        });
        // The few results are written to the memory of the host, which is faster than a copy.
        constexpr int64_t kCounters = (sizeof(PassCounters) + 7) / 8, kShare = sizeof(ClusterShare) / 8;
        sums_ = staging_.reserve(k * (d + 1 + kShare) + kCounters);
        weights_ = sums_ + k * d;
        shares_ = reinterpret_cast<ClusterShare*>(weights_ + k);
        noted_ = reinterpret_cast<PassCounters*>(shares_ + k);
        const NextLaunch launch(unsigned(k), 32 * kFinishWarps, 0, memory.stream, early);
        launch(finish_integers, partial_.data(), plan.parts, int(k), int(d), factor_, offsets_.data(),
               centers, counters, sums_, weights_, shares_, noted_);
    }

    // Sets the results of a pass that has ended, except what counters say; returns whether the inertia is
    // accurate.
    bool fetch(int64_t k, int64_t d, double* sums, double* cluster_weights, double* inertia) const {
        long double total = squares_, size = squares_;
        for (int64_t j = 0; j < k; j++) {
            total += (long double)shares_[j].value.high + shares_[j].value.low;
            size += shares_[j].size;
        }
        *inertia = double(total) / factor_ / factor_;
        if (sums) memcpy(sums, sums_, size_t(k * d) * sizeof(double));
        memcpy(cluster_weights, weights_, size_t(k) * sizeof(double));
        return total >= size * kMinShare && total >= parted_ * kMinSquare;
    }
    const PassCounters& counted() const { return *noted_; }

  private:
    // Cancellation then leaves an error below 2^-47 of the inertia; long double has 64 bits.
    static constexpr long double kMinShare = 0x1p-12L;
    // Values that are not whole change the inertia by less than 2^-47 of itself.
    static constexpr long double kMinSquare = 0x1p94L;

    double factor_ = 0;
    long double squares_ = 0, parted_ = 0;
    Array<double> offsets_;
    Array<long long> partial_;
    Staging staging_;
    double *sums_ = nullptr, *weights_ = nullptr;  // where the results come
    ClusterShare* shares_ = nullptr;
    PassCounters* noted_ = nullptr;
};

}  // namespace bmrm
