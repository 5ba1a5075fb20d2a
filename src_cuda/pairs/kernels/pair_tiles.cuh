// Sums over all pairs i < j of n points, each pair once: it adds numbers to both of its points.
//
// A block has a tile: some rows, and columns of which each thread holds COLUMNS.  The numbers that pairs add
// to a column stay in a register while the block goes down its rows.  Those of ROWS rows at a time are added
// up over a warp by exchanges that halve the numbers (a butterfly: about one exchange per number instead of
// five), then over the warps.  So each tile has one number per row and one per column, and a second launch
// adds those of all tiles.  Tiles depend on n alone and every sum has a fixed order: the same bits on each
// run and on any device.  A pair costs 17 instructions in float64 in two dimensions, of which an H100 does as
// many in the time in which it reads four bytes.
//
// What a pair adds is a Term:
//     READS, ADDS, SUMS     numbers that it reads of a point, adds to a point, and adds to sums of all pairs
//     ROWS, COLUMNS         of a thread; ROWS times ADDS, rounded up to powers of two, at most 32
//     Real                  type of what it reads
//     Adds                  type of what it adds, over the ROWS and COLUMNS of a thread, and of rows over a
//                           warp, before it is added to numbers of float64
//     kUnknownCounts        whether an unknown dissimilarity is replaced rather than left out
//     load(i, x)            the numbers of a point
//     add<WEIGHTED>(...)    adds a pair; notes in `rare` whether add_rare may have something to add
//     add_rare(...)         what it adds to i; the opposite goes to j
#pragma once
#include <stdint.h>

#include <type_traits>

#include "api/pair_values.h"
#include "device/copies.cuh"
#include "device_limits.h"
#include "pairs/kernels/roots.cuh"
#include "runtime/block_sum.cuh"
#include "runtime/mailbox.h"

namespace bmrm {

constexpr int kPairWarps = kPairThreads / 32;

// One number per pair: a square matrix, of which the upper triangle counts, or that triangle row by row.
struct PairTable {
    const void* values;  // null: there are none
    int32_t is_double, square;
    int64_t n;

    // Where the number of (i, j) is, less j.
    __device__ int64_t row(int64_t i) const { return square ? i * n : i * (2 * n - i - 1) / 2 - i - 1; }
    __device__ double at(int64_t i, int64_t j) const {
        const int64_t place = row(i) + j;
        return is_double ? static_cast<const double*>(values)[place]
                         : double(static_cast<const float*>(values)[place]);
    }
    // Reads ROWS rows from i on and every 32nd column from j on, as T and into U; EDGE: those that exist.
    template <class T, int ROWS, int COLUMNS, bool EDGE, class U>
    __device__ void read(int64_t i, int64_t j, U (&out)[ROWS][COLUMNS]) const {
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
            const T* const from = static_cast<const T*>(values) + row(i + r) + j;
#pragma unroll
            for (int v = 0; v < COLUMNS; v++) {
                const int64_t column = j + 32 * v;
                const bool there = !EDGE || (column > i + r && column < n);
                out[r][v] = there ? U(from[32 * v]) : U(0);
            }
        }
    }
};

struct PairWeights {
    PairTable table;  // no values: all are 1
    int32_t missing;  // whether dissimilarities may be NaN
    double unknown;   // what replaces NaN

    template <int ROWS, int COLUMNS, bool EDGE>
    __device__ void read(int64_t i, int64_t j, double (&w)[ROWS][COLUMNS]) const {
        if (!table.values) {
#pragma unroll
            for (int r = 0; r < ROWS; r++)
#pragma unroll
                for (int v = 0; v < COLUMNS; v++) w[r][v] = 1.0;
        } else if (table.is_double) {
            table.read<double, ROWS, COLUMNS, EDGE>(i, j, w);
        } else {
            table.read<float, ROWS, COLUMNS, EDGE>(i, j, w);
        }
    }
};

// Tiles of n points.
struct PairTiles {
    int64_t n, rows, columns;  // points; rows and columns of a tile
    int64_t first, last;       // strips that are here

    __host__ __device__ int64_t own() const { return last - first; }
    __host__ __device__ int64_t blocks() const { return own() * stacks(); }
    __host__ __device__ int64_t stacks() const { return (n + columns - 1) / columns; }
    // The first row that has no pair with the columns of a stack.
    __host__ __device__ int64_t end(int64_t stack) const {
        const int64_t last = (stack + 1) * columns;
        return (last < n ? last : n) - 1;
    }
};

// Dissimilarities that are given.
template <class T>
struct GivenPairs {
    using Value = T;
    static constexpr int kStages = sizeof(T) == 4 ? 3 : 2;  // of a few rows that a thread copies ahead
    PairTable table;

    // Copies to shared memory what `read` would read, ROWS rows at a time from row i on, kStages - 1 times
    // ahead of its use.  What is next follows from what was last, so that a copy takes few instructions.
    template <int ROWS, int COLUMNS>
    class Ahead {
      public:
        static constexpr int kPlaces = kStages * ROWS * COLUMNS * kPairThreads;

        // left: how often rows will be read, now or, for `read`, from now on; places: room for kPlaces.
        __device__ Ahead(const GivenPairs& from, int64_t i, int64_t j, int left, T* places)
            : from_(static_cast<const T*>(from.table.values) + from.table.row(i) + j),
              step_(int32_t(from.table.square ? from.table.n : from.table.n - i - 2)),
              less_(from.table.square ? 0 : 1),
              own_(places + threadIdx.x) {
#pragma unroll
            for (slot_ = 0; slot_ + 1 < kStages; slot_++) start(left > slot_);
        }
        __device__ void read(int left, int64_t, int64_t, T (&delta)[ROWS][COLUMNS]) {
            start(left >= kStages);
            slot_ = slot_ + 1 < kStages ? slot_ + 1 : 0;
            wait_for_copies<kStages - 1>();
            const T* const here = own_ + slot_ * kEach;
#pragma unroll
            for (int r = 0; r < ROWS; r++)
#pragma unroll
                for (int v = 0; v < COLUMNS; v++) delta[r][v] = here[(r * COLUMNS + v) * kPairThreads];
        }

      private:
        static constexpr int kEach = ROWS * COLUMNS * kPairThreads;

        __device__ void start(bool any) {
            if (any) {
                T* const to = own_ + slot_ * kEach;
#pragma unroll
                for (int r = 0; r < ROWS; r++) {
#pragma unroll
                    for (int v = 0; v < COLUMNS; v++)
                        copy_ahead(to + (r * COLUMNS + v) * kPairThreads, from_ + 32 * v);
                    from_ += step_;
                    step_ -= less_;
                }
            }
            close_copies();
        }

        const T* from_;
        int32_t step_, less_;  // from a row to the next one, and by how much that step shrinks
        int slot_;             // where the next copy goes
        T* own_;
    };

    template <int ROWS, int COLUMNS, bool EDGE>
    __device__ void read(int64_t i, int64_t j, T (&delta)[ROWS][COLUMNS]) const {
        table.read<T, ROWS, COLUMNS, EDGE>(i, j, delta);
    }
    __device__ double at(int64_t i, int64_t j) const { return table.at(i, j); }
};

// Numbers that are not copied ahead.
template <class Source, int ROWS, int COLUMNS>
struct ReadInPlace {
    static constexpr int kPlaces = 1;
    using T = typename Source::Value;
    const Source& from;

    __device__ ReadInPlace(const Source& pairs, int64_t, int64_t, int, T*) : from(pairs) {}
    __device__ void read(int, int64_t i, int64_t j, T (&delta)[ROWS][COLUMNS]) const {
        from.template read<ROWS, COLUMNS, false>(i, j, delta);
    }
};

// None: passes that read weights only.
struct NoPairs {
    using Value = float;
    template <int ROWS, int COLUMNS>
    using Ahead = ReadInPlace<NoPairs, ROWS, COLUMNS>;

    template <int ROWS, int COLUMNS, bool EDGE>
    __device__ void read(int64_t, int64_t, float (&delta)[ROWS][COLUMNS]) const {
#pragma unroll
        for (int r = 0; r < ROWS; r++)
#pragma unroll
            for (int v = 0; v < COLUMNS; v++) delta[r][v] = 0.0f;
    }
};

// Dissimilarities are the distances of rows of features.
struct FeaturePairs {
    using Value = double;
    template <int ROWS, int COLUMNS>
    using Ahead = ReadInPlace<FeaturePairs, ROWS, COLUMNS>;
    const double* features;  // feature f of point i is at f * stride + i; 0 past the last point
    int64_t m, stride;       // features; points rounded up to whole tiles

    template <int ROWS, int COLUMNS, bool EDGE>
    __device__ void read(int64_t i, int64_t j, double (&delta)[ROWS][COLUMNS]) const {
#pragma unroll
        for (int r = 0; r < ROWS; r++)
#pragma unroll
            for (int v = 0; v < COLUMNS; v++) delta[r][v] = 0.0;
        for (int64_t f = 0; f < m; f++) {
            const double* const own = features + f * stride;
            double there[COLUMNS];
#pragma unroll
            for (int v = 0; v < COLUMNS; v++) there[v] = own[j + 32 * v];
#pragma unroll
            for (int r = 0; r < ROWS; r++) {
                const double here = own[i + r];
#pragma unroll
                for (int v = 0; v < COLUMNS; v++) {
                    const double apart = here - there[v];
                    delta[r][v] += apart * apart;
                }
            }
        }
#pragma unroll
        for (int r = 0; r < ROWS; r++)
#pragma unroll
            for (int v = 0; v < COLUMNS; v++) delta[r][v] = distance_of(delta[r][v]);
    }
    __device__ double at(int64_t i, int64_t j) const {
        double square = 0.0;
        for (int64_t f = 0; f < m; f++) {
            const double apart = features[f * stride + i] - features[f * stride + j];
            square += apart * apart;
        }
        return distance_of(square);
    }
};

__host__ __device__ constexpr int round_up_to_power(int count) {
    int out = 1;
    while (out < count) out *= 2;
    return out;
}

// What a thread holds of its columns, and the sums over its pairs.
template <class Term>
struct ThreadColumns {
    static constexpr int kReads = Term::READS > 0 ? Term::READS : 1;
    static constexpr int kSums = Term::SUMS > 0 ? Term::SUMS : 1;
    typename Term::Real x[Term::COLUMNS][kReads];
    double added[Term::COLUMNS][Term::ADDS];
    double sums[kSums];
};

// Adds the pairs of ROWS rows from i on with the columns of a thread, the first of which is j.  `own` has the
// numbers of the rows.  EDGE: some of the pairs may not exist, because j <= i or j >= n.
template <bool WEIGHTED, bool EDGE, class Source, class Term>
__device__ __forceinline__ void add_rows(const Source& source,
                                         const typename Source::Value (&delta)[Term::ROWS][Term::COLUMNS],
                                         const PairWeights& weights, const Term& term, int64_t n, int64_t i,
                                         int64_t j, const typename Term::Real* own,
                                         ThreadColumns<Term>& columns,
                                         typename Term::Adds (&added)[Term::ROWS][Term::ADDS]) {
    using Real = typename Term::Real;
    using Adds = typename Term::Adds;
    constexpr int kReads = ThreadColumns<Term>::kReads;
    double given[Term::ROWS][Term::COLUMNS];
    if constexpr (WEIGHTED) weights.read<Term::ROWS, Term::COLUMNS, EDGE>(i, j, given);
    // A pair that does not exist weighs 0.
    const auto weight = [&](int r, int v) -> double {
        if (EDGE && !(j + 32 * v > i + r && j + 32 * v < n)) return 0.0;
        if constexpr (WEIGHTED)
            return given[r][v];
        else
            return 1.0;
    };
    constexpr bool kWeighs = WEIGHTED || EDGE, kDirect = std::is_same_v<Adds, double>;
    int rare = Term::kNothingRare;
    Adds more_columns[kDirect ? 1 : Term::COLUMNS][Term::ADDS] = {};
    Adds more_sums[ThreadColumns<Term>::kSums] = {};
#pragma unroll
    for (int r = 0; r < Term::ROWS; r++) {
        Real x[kReads];
#pragma unroll
        for (int k = 0; k < kReads; k++) x[k] = own[r * kReads + k];
#pragma unroll
        for (int v = 0; v < Term::COLUMNS; v++) {
            Real value = Real(delta[r][v]);
            double w = weight(r, v);
            if constexpr (WEIGHTED) {
                if (weights.missing && value != value) {
                    value = Real(weights.unknown);
                    if (!Term::kUnknownCounts) w = 0.0;
                }
            }
            if constexpr (kDirect)
                term.template add<kWeighs>(x, columns.x[v], value, w, added[r], columns.added[v],
                                           columns.sums, rare);
            else
                term.template add<kWeighs>(x, columns.x[v], value, w, added[r], more_columns[v], more_sums,
                                           rare);
        }
    }
    if constexpr (!kDirect) {
#pragma unroll
        for (int v = 0; v < Term::COLUMNS; v++)
#pragma unroll
            for (int k = 0; k < Term::ADDS; k++) columns.added[v][k] += double(more_columns[v][k]);
#pragma unroll
        for (int k = 0; k < Term::SUMS; k++) columns.sums[k] += double(more_sums[k]);
    }
    if constexpr (Term::kMayHaveRare) {
        if (!term.has_rare(rare)) return;
        // One pair at a time, read again: short code, and nothing that the pass has to keep for it.
#pragma unroll 1
        for (int at = 0; at < Term::ROWS * Term::COLUMNS; at++) {
            const int r = at / Term::COLUMNS, v = at % Term::COLUMNS;
            const int64_t column = j + 32 * v;
            if (column <= i + r || column >= n) continue;
            const double value = source.at(i + r, column);
            if (value != value) continue;
            const double w = WEIGHTED && weights.table.values ? weights.table.at(i + r, column) : 1.0;
            Real there[kReads] = {};
            double more[Term::ADDS] = {};
            term.load(column, there);
            term.add_rare(own + r * kReads, there, i + r, column, value, w, more, columns.sums);
#pragma unroll
            for (int k = 0; k < Term::ADDS; k++) {
#pragma unroll
                for (int other = 0; other < Term::ROWS; other++)
                    added[other][k] += Adds(other == r ? more[k] : 0.0);
#pragma unroll
                for (int other = 0; other < Term::COLUMNS; other++)
                    columns.added[other][k] -= other == v ? more[k] : 0.0;
            }
        }
    }
}

// Blocks that a multiprocessor has at once: as many as have room for their registers without spilling them.
// The terms of a pair wait for one another, and few warps do not hide it.
template <class Term, bool WEIGHTED>
constexpr int pair_blocks() {
    if (sizeof(typename Term::Adds) == 4)
        return Term::READS * Term::COLUMNS <= 8 ? 5 : Term::READS <= 8 ? 4 : 3;
    return Term::READS <= 2 && !WEIGHTED ? 3 : 2;
}

// The pairs of one tile.  row_sums: (stacks, n, ADDS); column_sums: (strips, n, ADDS), of which those here
// exist; sums: (blocks, SUMS).  The block of strip r and stack c is r * stacks + c, r from the first strip
// here on: blocks that run together read neighbouring memory.
template <class Source, class Term, bool WEIGHTED>
__global__ void __launch_bounds__(kPairThreads, pair_blocks<Term, WEIGHTED>())
    add_pairs(Source source, PairWeights weights, Term term, PairTiles tiles, double* row_sums,
              double* column_sums, double* sums) {
    using Real = typename Term::Real;
    using Adds = typename Term::Adds;
    constexpr int kReads = ThreadColumns<Term>::kReads, kAdds = Term::ADDS, kRows = Term::ROWS;
    constexpr int kStagedRows = kAdds > 8 ? 32 : 64;  // rows whose numbers are in shared memory at once
    constexpr int kSlots = round_up_to_power(kAdds);
    constexpr int kNumbers = kSlots * round_up_to_power(kRows);
    static_assert(std::is_same_v<Adds, double> || kRows * Term::COLUMNS <= kMostFloatTerms, "");
    static_assert(kNumbers <= 32 && kStagedRows % kRows == 0 && round_up_to_power(kRows) == kRows, "");
    __shared__ Real staged[kStagedRows * kReads];
    __shared__ double found[kPairWarps][kStagedRows * kAdds];
    __shared__ double scratch[kPairWarps * ThreadColumns<Term>::kSums];
    __shared__ double totals[ThreadColumns<Term>::kSums];

    const int64_t n = tiles.n, stacks = tiles.stacks();
    const int64_t block = tiles.first * stacks + int64_t(blockIdx.x);
    const int64_t strip = block / stacks, stack = block % stacks;
    const int thread = int(threadIdx.x), warp = thread / 32, lane = thread % 32;
    const int64_t first = strip * tiles.rows, end = tiles.end(stack);
    if (first >= end) {
        if (thread < Term::SUMS) sums[int64_t(blockIdx.x) * Term::SUMS + thread] = 0.0;
        return;
    }
    const int64_t last = first + tiles.rows < end ? first + tiles.rows : end;

    ThreadColumns<Term> columns;
    const int64_t warp_column = stack * tiles.columns + warp * 32 * Term::COLUMNS, j = warp_column + lane;
    const int64_t warp_end = warp_column + 32 * Term::COLUMNS;
#pragma unroll
    for (int v = 0; v < Term::COLUMNS; v++) {
#pragma unroll
        for (int k = 0; k < kReads; k++) columns.x[v][k] = Real(0);
#pragma unroll
        for (int k = 0; k < kAdds; k++) columns.added[v][k] = 0.0;
        if (j + 32 * v < n) term.load(j + 32 * v, columns.x[v]);
    }
#pragma unroll
    for (int k = 0; k < ThreadColumns<Term>::kSums; k++) columns.sums[k] = 0.0;

    // Of the first rows of the tile all pairs with the columns of the warp exist: they are read ahead.
    const int64_t whole = warp_end <= n ? (last < warp_column ? last : warp_column) : first;
    int whole_groups = whole > first ? int(whole - first) / kRows : 0;
    using Ahead = typename Source::template Ahead<kRows, Term::COLUMNS>;
    __shared__ typename Source::Value places[Ahead::kPlaces];
    Ahead ahead(source, first, j, whole_groups, places);

    for (int64_t base = first; base < last; base += kStagedRows) {
        const int count = int(last - base < kStagedRows ? last - base : kStagedRows);
        if (thread < kStagedRows) {
            Real x[kReads];
#pragma unroll
            for (int k = 0; k < kReads; k++) x[k] = Real(0);
            if (base + thread < n) term.load(base + thread, x);
#pragma unroll
            for (int k = 0; k < kReads; k++) staged[thread * kReads + k] = x[k];
        }
        __syncthreads();
        for (int g = 0; g < count; g += kRows) {
            const int64_t i = base + g;
            Adds added[kRows][kAdds];
#pragma unroll
            for (int r = 0; r < kRows; r++)
#pragma unroll
                for (int k = 0; k < kAdds; k++) added[r][k] = Adds(0);
            const Real* const own = staged + g * kReads;
            typename Source::Value delta[kRows][Term::COLUMNS];
            if (whole_groups > 0) {
                ahead.read(whole_groups--, i, j, delta);
                add_rows<WEIGHTED, false>(source, delta, weights, term, n, i, j, own, columns, added);
            } else if (i < warp_end) {
                source.template read<kRows, Term::COLUMNS, true>(i, j, delta);
                add_rows<WEIGHTED, true>(source, delta, weights, term, n, i, j, own, columns, added);
            }
            Adds numbers[kNumbers];
#pragma unroll
            for (int r = 0; r < kRows; r++)
#pragma unroll
                for (int k = 0; k < kSlots; k++)
                    numbers[r * kSlots + k] = k < kAdds ? added[r][k < kAdds ? k : 0] : Adds(0);
            over_warp_each<Sum>(numbers, lane);
            constexpr int kShare = 32 / kNumbers;  // lanes that have the same number
            const int number = lane / kShare, k = number % kSlots;
            if (lane % kShare == 0 && k < kAdds)
                found[warp][(g + number / kSlots) * kAdds + k] = double(numbers[0]);
        }
        __syncthreads();
        for (int s = thread; s < count * kAdds; s += kPairThreads) {
            double total = found[0][s];
#pragma unroll
            for (int other = 1; other < kPairWarps; other++) total += found[other][s];
            row_sums[(stack * n + base) * kAdds + s] = total;
        }
    }
#pragma unroll
    for (int v = 0; v < Term::COLUMNS; v++) {
        const int64_t column = j + 32 * v;
        if (column >= n) continue;
#pragma unroll
        for (int k = 0; k < kAdds; k++) column_sums[(strip * n + column) * kAdds + k] = columns.added[v][k];
    }
    if constexpr (Term::SUMS > 0) {
        __syncthreads();
        sum_block(columns.sums, scratch, totals);
        if (thread < Term::SUMS) sums[int64_t(blockIdx.x) * Term::SUMS + thread] = totals[thread];
    }
}

// out[i, k] = the sum of what all tiles added to point i, for k < kept of `adds` numbers: to its row, in a
// strip that is here, and then to its column, strip by strip.  Without sums of rows those of columns are
// added to what is there.
static __global__ void add_tiles(PairTiles tiles, int adds, const double* row_sums, const double* column_sums,
                                 int kept, double* out) {
    const int64_t n = tiles.n, all = n * kept;
    for (int64_t at = int64_t(blockIdx.x) * blockDim.x + threadIdx.x; at < all;
         at += int64_t(gridDim.x) * blockDim.x) {
        const int64_t i = at / kept, k = at % kept, own = i / tiles.columns, step = n * adds;
        const int64_t strip = i / tiles.rows;
        double total = row_sums ? 0.0 : out[at];
        const bool here = row_sums && tiles.first <= strip && strip < tiles.last;
        for (int64_t stack = i < tiles.end(own) ? own : own + 1; here && stack < tiles.stacks(); stack++)
            total += row_sums[stack * step + i * adds + k];
        for (int64_t s = tiles.first; column_sums && s < tiles.last && s * tiles.rows < tiles.end(own); s++)
            total += column_sums[s * step + i * adds + k];
        out[at] = total;
    }
}

// Sums the sums of all blocks, count of them each, into `totals`, and sends them.
constexpr int kTotalThreads = 256, kMaxTotals = 3;
template <int COUNT>
__global__ void __launch_bounds__(kTotalThreads)
    add_totals(const double* sums, int64_t blocks, Letter letter) {
    __shared__ double scratch[kTotalThreads / 32 * COUNT];
    __shared__ double totals[COUNT];
    double mine[COUNT];
#pragma unroll
    for (int k = 0; k < COUNT; k++) mine[k] = 0.0;
    for (int64_t b = threadIdx.x; b < blocks; b += kTotalThreads)
#pragma unroll
        for (int k = 0; k < COUNT; k++) mine[k] += sums[b * COUNT + k];
    sum_block(mine, scratch, totals);
    if (threadIdx.x == 0) {
        for (int k = 0; k < COUNT; k++) letter.values[k] = totals[k];
        send(letter);
    }
}

}  // namespace bmrm
