// Hinges of pairs of rows of unlike level, the formulas of src_cython/joint/pairs.h.
//
// In the order of margins the rows that form an active pair with a row are a stretch at the upper end of its
// group, and one at the lower end, found by bisection.  What is asked of a stretch is a sum over the levels
// below the row's own, or above.  The CPU keeps a tree of sums and sweeps; here all rows ask at once, by the
// wavelet tree of the levels (Grossi, Gupta, Vitter, SODA 2003; in the arrangement of Claude, Navarro, SPIRE
// 2012): rows are split by the highest bit of their level, zeros first, in order; then by the next one.  Of
// each stretch sums before its two ends give that over the rows whose bit is unlike one's own, and the ends
// move along with the split.  Two classes take one bit and no split; where all rows weigh the same, as
// those of graded pairs do, counts stand for weights.
#pragma once
#include "order.cuh"

namespace bmrm {

enum class PairKind { kCounted, kWeighted, kGraded };

// The rows in the order of the splits so far; without weights where they are counted, and with values where
// pairs are graded.
struct LevelRows {
    uint32_t* level;
    double *weight, *value;
};

// Of a row: the stretches of rows above and below it in margin that are still to be asked.
struct Stretches {
    uint32_t up_from, up_to, down_from, down_to;
};

// Number or weight of the active rows of lower level and of higher, and their values.
template <PairKind KIND>
struct PairSums {
    static constexpr int kEach = KIND == PairKind::kGraded ? 2 : 1;
    double below[kEach], above[kEach];
};

// Rows whose bit is 0 are counted; weights of these, or values, and then of those whose bit is 1.
template <PairKind KIND>
constexpr int kBitSums = KIND == PairKind::kCounted ? 0 : 2;

template <PairKind KIND>
struct BitTerm {
    LevelRows rows;
    int bit;
    __device__ __forceinline__ Sums<kBitSums<KIND>> operator()(int64_t q) const {
        Sums<kBitSums<KIND>> out = {};
        const int one = int(rows.level[q] >> bit & 1);
        out.count = uint32_t(1 - one);
        if constexpr (KIND == PairKind::kWeighted) out.of[one] = rows.weight[q];
        if constexpr (KIND == PairKind::kGraded) out.of[one] = rows.value[q];
        return out;
    }
};

template <class T>
__global__ void gather_levels(const Ordered<T> order, const uint32_t* level, const double* weight,
                              const double* value, uint32_t* own, LevelRows rows) {
    BB_FOR (q, order.size) {
        const uint32_t p = order.place[q];
        own[q] = rows.level[q] = level[p];
        if (rows.weight) rows.weight[q] = weight[p];
        if (rows.value) rows.value[q] = value[p];
    }
}

template <class T>
__global__ void find_stretches(const Ordered<T> order, Stretches* stretches) {
    BB_FOR (q, order.size) {
        const uint32_t group = order.segment_at(q);
        const uint32_t from = order.starts[group], to = order.starts[group + 1];
        const double u = double(order.margin[q]), least = u - 1.0;
        Stretches found = {from, to, from, to};
        found.up_from =
            partition_point(from, to, [&](uint32_t j) { return !(double(order.margin[j]) > least); });
        found.down_to =
            partition_point(from, to, [&](uint32_t i) { return u > double(order.margin[i]) - 1.0; });
        stretches[q] = found;
    }
}

// Adds what one bit tells to the sums of each row, and moves its stretches on to the next bit's order.
template <PairKind KIND>
__global__ void ask_bit(const uint32_t* own, int bit, bool first, int64_t size,
                        const Sums<kBitSums<KIND>>* sums, Stretches* stretches, PairSums<KIND>* found) {
    const uint32_t zeros = sums[size].count;
    BB_FOR (q, size) {
        Stretches at = stretches[q];
        PairSums<KIND> mine = {};
        if (!first) mine = found[q];
        const bool one = own[q] >> bit & 1;
        const Sums<kBitSums<KIND>> up_from = sums[at.up_from], up_to = sums[at.up_to];
        const Sums<kBitSums<KIND>> down_from = sums[at.down_from], down_to = sums[at.down_to];
        if constexpr (KIND == PairKind::kWeighted) {
            if (one)
                mine.below[0] += up_to.of[0] - up_from.of[0];
            else
                mine.above[0] += down_to.of[1] - down_from.of[1];
        } else if (one) {
            mine.below[0] += double(up_to.count - up_from.count);
        } else {
            mine.above[0] += double(at.down_to - at.down_from - (down_to.count - down_from.count));
        }
        if constexpr (KIND == PairKind::kGraded) {
            if (one)
                mine.below[1] += up_to.of[0] - up_from.of[0];
            else
                mine.above[1] += down_to.of[1] - down_from.of[1];
        }
        found[q] = mine;
        if (bit == 0) continue;
        const auto moved = [&](uint32_t x, uint32_t zeros_before) {
            return one ? zeros + x - zeros_before : zeros_before;
        };
        stretches[q] = {moved(at.up_from, up_from.count), moved(at.up_to, up_to.count),
                        moved(at.down_from, down_from.count), moved(at.down_to, down_to.count)};
    }
}

template <int N>
__global__ void split_by_bit(LevelRows from, int bit, int64_t size, const Sums<N>* sums, LevelRows to) {
    const uint32_t zeros = sums[size].count;
    BB_FOR (x, size) {
        const uint32_t level = from.level[x], before = sums[x].count;
        const uint32_t at = level >> bit & 1 ? zeros + uint32_t(x) - before : before;
        to.level[at] = level;
        if (from.weight) to.weight[at] = from.weight[x];
        if (from.value) to.value[at] = from.value[x];
    }
}

// Values of graded pairs are times their group's share already, so that sums along all groups hold numbers
// that count alike.
template <class T, PairKind KIND>
struct PairRule {
    Ordered<T> order;
    const double *weight, *value, *share;
    const PairSums<KIND>* found;

    __device__ __forceinline__ Share operator()(int64_t q) const {
        const uint32_t group = order.segment_at(q), p = order.place[q];
        const uint32_t from = order.starts[group], to = order.starts[group + 1];
        const PairSums<KIND> sums = found[q];
        double below = sums.below[0], above = sums.above[0], factor = weight[p];
        if constexpr (KIND != PairKind::kWeighted) factor *= weight[p];
        if constexpr (KIND == PairKind::kGraded) {
            below = value[p] * below - sums.below[1];
            above = sums.above[1] - value[p] * above;
        } else {
            factor *= share[group];
        }
        const double slope = factor * (above - below);
        // The derivatives add up to zero, so that margins may be taken from any origin: one among them.
        const double origin = double(order.margin[from + (to - from) / 2]);
        return {factor * below + slope * (double(order.margin[q]) - origin), slope};
    }
};

}  // namespace bmrm
