// Hinges of pairs of rows of different levels: the formulas of src_cython/joint/pairs.h.
//
// In the order of margins, the rows that form an active pair with a row are a stretch at the upper end of its
// group and one at the lower end, found by bisection.  Of a stretch we need a sum over the levels below the
// row's own, or above it.  The CPU keeps a tree of sums and sweeps.  Here all rows query at once, with a
// wavelet tree of the levels (Grossi, Gupta, Vitter, SODA 2003; in the arrangement of Claude, Navarro, SPIRE
// 2012) with four branches: rows are split by the two highest bits of their level, in order, then by the next
// two.  The number of rows of each digit before an end of a stretch follows from the counts before a word of
// 64 rows and the bits of its rows; it is also where the stretch's rows of that digit go in the split.  So
// the rows whose digit differs from a row's own form one stretch each in the next order, whose count is known
// at once and whose sum is the difference of two prefix sums.  If all rows have the same weight, as those of
// graded pairs do, counts replace weights.
#pragma once
#include "joint/kernels/order.cuh"

namespace bmrm {

enum class PairKind { kCounted, kWeighted, kGraded };

// The rows in the order of the splits so far; without weights if they are counted, and with values if pairs
// are graded.
struct LevelRows {
    uint32_t* level;
    double *weight, *value;
};

// Of a row: the stretches of rows above and below it in margin that remain to be queried.
struct Stretches {
    uint32_t up_from, up_to, down_from, down_to;
};

// The number or weight of the active rows of lower and of higher level, and their values.  Weights may differ
// in size, so their sums take two numbers each.
template <PairKind KIND>
struct PairSums {
    static constexpr int kEach = KIND == PairKind::kGraded ? 2 : 1;
    static constexpr int kSums = KIND == PairKind::kWeighted ? 2 : 1;
    double below[kEach], above[kEach];
};

// Values of a digit: two bits of a level.
constexpr int kDigits = 4;

struct DigitCounts {
    uint32_t of[kDigits];

    // By a digit known at run time, without keeping the counts in memory.
    __device__ __forceinline__ uint32_t at(uint32_t digit) const {
        const uint32_t even = digit & 2 ? of[2] : of[0], odd = digit & 2 ? of[3] : of[1];
        return digit & 1 ? odd : even;
    }
};

struct AddCounts {
    __device__ __forceinline__ DigitCounts operator()(DigitCounts a, const DigitCounts& b) const {
        for (int d = 0; d < kDigits; d++) a.of[d] += b.of[d];
        return a;
    }
};

// 64 rows: the number of rows of each digit before them, and the bits of theirs.
constexpr int kWordRows = 64;
constexpr int kTileWords = kTileRows / kWordRows;

struct alignas(32) DigitWord {
    DigitCounts before;
    uint64_t high, low;

    __device__ __forceinline__ uint64_t rows_of(uint32_t digit) const {
        return (digit & 2 ? high : ~high) & (digit & 1 ? low : ~low);
    }
    // Returns the rows of a digit before a position among these 64.
    __device__ __forceinline__ uint32_t rank(uint32_t digit, uint32_t position) const {
        const uint64_t earlier = (uint64_t(1) << (position % kWordRows)) - 1;
        return before.at(digit) + uint32_t(__popcll(rows_of(digit) & earlier));
    }
};

// Returns where a position is in the rows of each digit after the split; these begin at `start`.
__device__ __forceinline__ DigitCounts after_split(const DigitWord* words, const DigitCounts& start,
                                                   uint32_t position) {
    const DigitWord word = words[position / kWordRows];
    DigitCounts out;
    for (uint32_t d = 0; d < kDigits; d++) out.of[d] = start.of[d] + word.rank(d, position);
    return out;
}

// The words of a tile of rows, with counts from the tile's first row, and the tile's number of rows of each
// digit.
__global__ void __launch_bounds__(kTileThreads)
    mark_digits(const uint32_t* level, int shift, int64_t size, DigitWord* words, DigitCounts* tiles) {
    __shared__ DigitCounts counts[kTileWords];
    constexpr int kWarpWords = kTileWords / (kTileThreads / 32);
    static_assert(kWarpWords == 2);
    const int lane = threadIdx.x % 32, first_word = int(threadIdx.x / 32) * kWarpWords;
    uint64_t high[kWarpWords], low[kWarpWords];
    for (int k = 0; k < kWarpWords; k++) {
        const int64_t from = int64_t(blockIdx.x) * kTileRows + (first_word + k) * kWordRows + lane;
        uint64_t inside = 0;
        high[k] = low[k] = 0;
        for (int half = 0; half < 2; half++) {
            const int64_t row = from + 32 * half;
            const uint32_t digit = row < size ? level[row] >> shift : 0;
            high[k] |= uint64_t(__ballot_sync(~0u, digit >> 1 & 1)) << 32 * half;
            low[k] |= uint64_t(__ballot_sync(~0u, digit & 1)) << 32 * half;
            inside |= uint64_t(__ballot_sync(~0u, row < size)) << 32 * half;
        }
        if (lane == 0)
            for (uint32_t d = 0; d < kDigits; d++)
                counts[first_word + k].of[d] =
                    uint32_t(__popcll(DigitWord{{}, high[k], low[k]}.rows_of(d) & inside));
    }
    __syncthreads();
    if (lane < kWarpWords) {
        const int word = first_word + lane;
        DigitCounts before = {};
        for (int w = 0; w < word; w++) before = AddCounts()(before, counts[w]);
        words[int64_t(blockIdx.x) * kTileWords + word] = {before, lane ? high[1] : high[0],
                                                          lane ? low[1] : low[0]};
        if (word == kTileWords - 1) tiles[blockIdx.x] = AddCounts()(before, counts[word]);
    }
}

// Writes where each digit's rows start, after the counts of the tiles.
struct DigitStarts {
    DigitCounts* starts;

    __device__ void operator()(const DigitCounts& all) const {
        uint32_t start = 0;
        for (int d = 0; d < kDigits; d++) {
            starts->of[d] = start;
            start += all.of[d];
        }
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

// Splits rows by their digit.  `words` count from the start of their tile; `whole` gets words that count from
// the first row of all.  Levels are dropped if `to` has no room for them: that was their last digit.
__global__ void split_by_digit(LevelRows from, int shift, int64_t size, const DigitWord* words,
                               const DigitCounts* tiles, int64_t count, DigitWord* whole, LevelRows to) {
    const DigitCounts start = tiles[count];
    BB_FOR (x, size + 1) {
        DigitWord word = words[x / kWordRows];
        word.before = AddCounts()(word.before, tiles[x / kTileRows]);
        if (x % kWordRows == 0) whole[x / kWordRows] = word;
        if (x == size) continue;
        const uint32_t level = from.level[x], digit = level >> shift & (kDigits - 1);
        const uint32_t at = start.at(digit) + word.rank(digit, uint32_t(x));
        if (to.level) to.level[at] = level;
        if (to.weight) to.weight[at] = from.weight[x];
        if (to.value) to.value[at] = from.value[x];
    }
}

// What is summed over the rows of a stretch besides their number.
template <PairKind KIND>
struct StretchTerm {
    LevelRows rows;
    __device__ __forceinline__ Sums<PairSums<KIND>::kSums> operator()(int64_t x) const {
        return {0, {KIND == PairKind::kGraded ? rows.value[x] : rows.weight[x]}};
    }
};

// Adds the contribution of a digit to the sums of each row, and maps its stretches to the next digit's order.
// `sums`: of the rows in that order, if more than their number is needed.
template <PairKind KIND>
__global__ void ask_digit(const uint32_t* own, int shift, bool first, int64_t size, const DigitWord* words,
                          const DigitCounts* starts, const Sums<PairSums<KIND>::kSums>* sums,
                          Stretches* stretches, PairSums<KIND>* found) {
    const DigitCounts start = *starts;
    BB_FOR (q, size) {
        const Stretches at = stretches[q];
        PairSums<KIND> mine = {};
        if (!first) mine = found[q];
        const uint32_t digit = own[q] >> shift & (kDigits - 1);
        const DigitCounts up_from = after_split(words, start, at.up_from);
        const DigitCounts up_to = after_split(words, start, at.up_to);
        const DigitCounts down_from = after_split(words, start, at.down_from);
        const DigitCounts down_to = after_split(words, start, at.down_to);
        const auto add = [&](uint32_t from, uint32_t to, double* side) {
            if constexpr (KIND != PairKind::kWeighted) side[0] += double(to - from);
            if constexpr (KIND == PairKind::kGraded) side[1] += sums[to].of[0] - sums[from].of[0];
            if constexpr (KIND == PairKind::kWeighted)
                side[0] += (sums[to].of[0] - sums[from].of[0]) + (sums[to].of[1] - sums[from].of[1]);
        };
        for (uint32_t d = 0; d < kDigits; d++) {
            if (d < digit) add(up_from.of[d], up_to.of[d], mine.below);
            if (d > digit) add(down_from.of[d], down_to.of[d], mine.above);
        }
        found[q] = mine;
        if (shift)
            stretches[q] = {up_from.at(digit), up_to.at(digit), down_from.at(digit), down_to.at(digit)};
    }
}

// Values of graded pairs are already multiplied by their group's share, so that sums across groups hold
// numbers of equal standing.
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
        // The derivatives add up to zero, so margins may be taken from any origin: one of the margins
        // themselves.
        const double origin = double(order.margin[from + (to - from) / 2]);
        return {factor * below + slope * (double(order.margin[q]) - origin), slope};
    }
};

}  // namespace bmrm
