// Counts over all pairs of tiles in float32, with a proven bound of its error; what is within it of a bound
// of a bin is decided in float64.
//
// A thread has four rows in registers, relative to the centre of the columns' tile; columns come through
// shared memory, copied ahead.  Groups of kTileThreads threads have the rows of the tile each, and chunks of
// its columns in turn; they share a table.  Blocks take pairs of tiles from a counter.
//
// d2 is |b|^2 - 2 a b + |a|^2, three products and a sum in three dimensions, added in this order: b is near
// the centre, so that sums are small until |a|^2 comes, and a bound of their error is. With u = 2^-24,
// A >= |a| and B >= |b|, each partial sum is at most B^2 + 2 A B. Roundings of a, b, |a|^2, |b|^2 and of the
// D + 1 sums change d2 by at most u (B^2 + 4 A B + D (B^2 + 2 A B) + A^2 + (A + B)^2), `expanded_error`;
// what is of the order of u^2 and of float64 is a ten thousandth of this.  Where this is too much, or some
// pairs wrap and others do not, `DIRECT` squares differences: there each axis is off by 2 u (|a| + |b| + L),
// so r by the norm of this, and then d2 by D + 3 roundings.  Where the sum could become negative, twice its
// error is added to it.
//
// Instructions per pair in the loops of sm_90 (nvcc 13.0, three axes), checks for doubt included: 13.9 for a
// histogram with a joint table, 14.4 with one key per count, 17.0 with any bounds, 6.6 for a radius; with
// DIRECT 21.9 for the first and 14.6 for the last.  No loop spills.  Histograms take 80 registers, three
// blocks of 256 threads per multiprocessor, a radius about 108.  By these alone, an H100 at 1.98 GHz could
// issue 2.4e12 pairs per second of a histogram and 5.1e12 of a radius.
#pragma once
#include <cuda_pipeline.h>

#include "pairs/kernels/bins.cuh"
#include "pairs/kernels/tables.cuh"
#include "pairs/kernels/tile_pairs.cuh"
#include "runtime/dynamic_shared.cuh"

namespace bmrm {

constexpr int kMaxGroups = 2;
constexpr int kChunks = 4;
constexpr int kColumnChunk = kTilePoints / kChunks;  // columns of a group at once
constexpr int64_t kFlushedTiles = 2048;  // pairs of tiles after which a table is flushed: 2^31 pairs
static_assert(kColumnChunk == kTileThreads, "a thread copies a column");
static_assert(kFlushedTiles * kTilePoints * kTilePoints <= int64_t(1) << 31, "counts have 32 bits");

// Points relative to the centres of their tiles, scaled: WIDTH numbers, -2 b and in the end |b|^2.
template <int WIDTH>
struct Column {
    alignas(16) float at[WIDTH];
};

template <int WIDTH>
__global__ void make_columns(ExactPoints points, Box box, TileBoxes boxes, double scale, Column<WIDTH>* to) {
    BB_FOR (i, points.n) {
        Column<WIDTH> column = {};
        double square = 0;
        for (int k = 0; k < points.axes; k++) {
            const int64_t at = i / kTilePoints * points.axes + k;
            const double centre = boxes.low[at] + (boxes.high[at] - boxes.low[at]) / 2;
            const double b =
                (in_box(points.at[k * points.n + i], box.length[k], box.inverse[k]) - centre) * scale;
            column.at[k] = float(-2 * b);
            square += b * b;
        }
        column.at[WIDTH - 1] = float(square);
        to[i] = column;
    }
}

// What all pairs of tiles have in common.
struct BruteSets {
    ExactPoints a, b;
    TileBoxes a_boxes, b_boxes;  // of the coordinates in the periodic box
    const void* columns;         // of b
    Box box;
    Bounds bounds;
    TilePairs tiles;
    double scale;       // from coordinates to distances in bins
    double slip;        // how far a coordinate in the box is off, norm over the axes, scaled
    double first_edge;  // the least positive bound of r, scaled
    double reach;       // the last bound of r, scaled
};

// A launch: which pairs of tiles, and where the results are.
struct BruteLaunch {
    int64_t first, last;
    unsigned long long* state;  // pairs of tiles that have been taken; pairs that float64 has decided
    Totals totals;
};

// What the threads of a block know of a pair of tiles.
template <int WIDTH>
struct TilePair {
    int64_t row, column;  // tiles; a row below 0 ends the loop
    int rows, columns;    // points
    bool skipped, direct, diagonal;
    float threshold, added;    // of doubt; to d2
    double origin[WIDTH - 1];  // of the rows: centre of the columns, and lengths of the box
    float length[WIDTH - 1];   // scaled; infinity where all differences are the nearest
};

// Bounds of scaled distances between two tiles.
struct Spread {
    double rows = 0, columns = 0, wraps = 0, nearest = 0;  // squared norms: |a|, |b|, L of axes that wrap, r
};

template <int WIDTH>
__device__ Spread spread_of(const BruteSets& sets, TilePair<WIDTH>& pair) {
    Spread out;
    for (int k = 0; k < WIDTH - 1; k++) {
        pair.origin[k] = 0;
        pair.length[k] = __builtin_huge_valf();
        if (k >= sets.a.axes) continue;
        const double L = sets.box.length[k], s = sets.scale;
        Range range = range_of(sets.a_boxes, pair.row, sets.b_boxes, pair.column, sets.a.axes, k);
        const double low = sets.b_boxes.low[pair.column * sets.a.axes + k];
        const double half = (sets.b_boxes.high[pair.column * sets.a.axes + k] - low) / 2, centre = low + half;
        const double turns = L > 0 ? rint((range.low + range.high) / 2 / L) * L : 0;
        range.low -= turns, range.high -= turns;
        pair.origin[k] = centre + turns;
        double nearest = range.least();
        if (L > 0 && range.most() > 0.4999999 * L) {
            pair.length[k] = float(L * s);
            pair.direct = true;
            out.wraps += L * s * (L * s);
            nearest = fmin(nearest, fmax(0.0, L - range.most()));
        }
        const double row = fmax(range.most() - half, 0.0) * s * (1 + 1e-9);  // |a| on this axis
        out.rows += row * row;
        out.columns += half * s * (half * s);
        out.nearest += nearest * s * (nearest * s);
    }
    return out;
}

// How far roundings move |b|^2 - 2 a b + |a|^2, for |a| <= a and |b| <= b.
__device__ inline double expanded_error(int axes, double a, double b) {
    const double partial = b * (b + 2 * a);
    return 1.0001 * kUnit * (b * (b + 4 * a) + axes * partial + a * a + (a + b) * (a + b));
}

// Sets what depends on the distance of the tiles.
template <int WIDTH, class Bins>
__device__ void judge(const BruteSets& sets, const Bins& bins, TilePair<WIDTH>& pair) {
    pair.direct = pair.diagonal;
    const Spread spread = spread_of(sets, pair);
    const double a = sqrt(spread.rows), b = sqrt(spread.columns), least = sqrt(spread.nearest);
    const double extent = a + b, slip = 2 * sets.slip;
    pair.skipped = least * (1 - 1e-9) - slip > sets.reach;
    const double expanded = expanded_error(WIDTH - 1, a, b) + 2 * extent * slip + slip * slip + 1e-30;
    const bool biased = spread.nearest * (1 - 1e-9) < 4 * expanded + 2 * least * slip;
    const double error = biased ? 3 * expanded : expanded;
    const double edge = fmax(sets.first_edge, least * (1 - 1e-9) - slip);
    const double doubled = 2 * edge - error / edge;  // at most r + r' of the two sides of a bound
    const double root = doubled > 1.5 * edge ? error / doubled : 1.0;
    pair.added = Bins::kAdded + (biased ? float(2 * expanded) : 0.0f);
    pair.threshold = bins.threshold(error, root, extent);
    if (!pair.direct && root < Bins::kDirectFrom) return;
    const double shift = 2 * kUnit * (extent + sqrt(spread.wraps)) + slip;
    const double steps = (WIDTH + 3) * kUnit;
    pair.direct = true;
    pair.added = Bins::kAdded + kLeastSquare;
    pair.threshold = bins.threshold(2 * extent * shift + shift * shift + steps * extent * extent + 1e-30,
                                    shift + 1e-15 + steps * fmin(extent, sets.reach + 1), extent);
}

// A squared distance far beyond the last bound, for what is no pair; in the middle of a bin of equal width,
// so that it is seldom in doubt.
__device__ __forceinline__ float far_beyond(const BruteSets& sets) {
    const double r = sets.reach + floor(3 * sets.reach) + 4.5;
    return float(r * r);
}

// The rows of a thread.
template <int WIDTH>
struct Rows {
    float at[kThreadRows][WIDTH];

    __device__ __forceinline__ void load(const BruteSets& sets, const TilePair<WIDTH>& pair, int lane) {
#pragma unroll
        for (int k = 0; k < kThreadRows; k++) {
            const int row = lane + k * kTileThreads;
            double square = pair.added;
#pragma unroll
            for (int x = 0; x < WIDTH - 1; x++) {
                at[k][x] = 0;
                if (x >= sets.a.axes || row >= pair.rows) continue;
                const double given = sets.a.at[x * sets.a.n + pair.row * kTilePoints + row];
                const double there =
                    (in_box(given, sets.box.length[x], sets.box.inverse[x]) - pair.origin[x]) * sets.scale;
                at[k][x] = float(there);
                if (!pair.direct) square += there * there;
            }
            // A row that is not there is far beyond the last bound.
            at[k][WIDTH - 1] = row < pair.rows ? float(square) : far_beyond(sets);
        }
    }

    template <bool DIRECT>
    __device__ __forceinline__ float to(int k, const Column<WIDTH>& column,
                                        const float (&length)[WIDTH - 1]) const {
        if (DIRECT) {
            float sum = at[k][WIDTH - 1];
#pragma unroll
            for (int x = 0; x < WIDTH - 1; x++) {
                const float d = fabsf(fmaf(column.at[x], 0.5f, at[k][x])), e = fminf(d, fabsf(length[x] - d));
                sum = fmaf(e, e, sum);
            }
            return sum;
        }
        float sum = column.at[WIDTH - 1];
#pragma unroll
        for (int x = 0; x < WIDTH - 1; x++) sum = fmaf(column.at[x], at[k][x], sum);
        return sum + at[k][WIDTH - 1];
    }
};

// Pairs in doubt until float64 decides them: an entry has a column of a sweep, a thread of a group, and a bit
// for each of its rows.  `count` is more than kQueued if there was no room for some; a chunk begins with room
// for half of it.
constexpr uint32_t kQueued = 2048;
struct DoubtQueue {
    uint32_t count;
    uint32_t at[kQueued];

    // Returns whether there was room.
    __device__ __forceinline__ bool put(int which, int lane, uint32_t rows) {
        const uint32_t place = atomicAdd(&count, 1u);
        if (place < kQueued) at[place] = uint32_t(which) << 12 | uint32_t(lane) << 4 | rows;
        return place < kQueued;
    }
};

// A tile of n points with itself: row i is paired with the columns (i + j) mod n for j up to n / 2, so that
// all rows have as many; of an even n the last j is that of half of the rows.
__device__ __forceinline__ bool is_on_diagonal(int row, int j, int n) {
    return row < n && (2 * j < n || 2 * row < n);
}
__device__ __forceinline__ int diagonal_column(int row, int j, int n) {
    if (row >= n) return 0;
    return row + j < n ? row + j : row + j - n;
}

// Decides all pairs of a queue in float64, by all threads of the block, and empties it; calls use(d2).
// Returns how many pairs this thread has decided.
template <int WIDTH, class Use>
__device__ __forceinline__ uint32_t decide(const BruteSets& sets, const TilePair<WIDTH>& pair,
                                           DoubtQueue& queue, const Use& use) {
    const uint32_t queued = min(queue.count, kQueued);
    uint32_t decided = 0;
#pragma unroll 1
    for (uint32_t at = threadIdx.x; at < queued * kThreadRows; at += blockDim.x) {
        const uint32_t some = queue.at[at / kThreadRows], k = at % kThreadRows;
        const int row = int(some >> 4 & (kTileThreads - 1)) + int(k) * kTileThreads, which = int(some >> 12);
        if (!(some >> k & 1) || row >= pair.rows) continue;
        if (pair.diagonal && !is_on_diagonal(row, which, pair.rows)) continue;
        const int column = pair.diagonal ? diagonal_column(row, which, pair.rows) : which;
        use(exact_square(sets.a, pair.row * kTilePoints + row, sets.b, pair.column * kTilePoints + column,
                         sets.box));
        decided++;
    }
    __syncthreads();
    if (threadIdx.x == 0) queue.count = 0;
    __syncthreads();
    return decided;
}

// Counts by bins: what a sweep does with the distances of four rows to a column.
template <int WIDTH, class Bins, bool JOINT>
class BinCounts {
  public:
    static constexpr int kResident =
        3 * kTileThreads;  // threads for which registers of a multiprocessor shall last
    using BinsOf = Bins;

    __device__ BinCounts(const Bins& bins, const Totals& totals, unsigned char* shared)
        : bins_(bins), table_(reinterpret_cast<uint32_t*>(shared), totals) {
        bins_.load(shared + (Table<JOINT>::size(totals) * 4 + 15) / 16 * 16);
        __syncthreads();
    }
    __device__ const Bins& bins() const { return bins_; }

    // Counts pairs; calls doubt(rows) for rows that are in doubt and do not count yet.
    template <class Doubt>
    __device__ __forceinline__ void take(const float (&d2)[kThreadRows], float threshold,
                                         const Doubt& doubt_of) {
        uint32_t key[kThreadRows];
        float doubt[kThreadRows];
#pragma unroll
        for (int k = 0; k < kThreadRows; k++) doubt[k] = bins_.place(d2[k], key[k]);
        // No measure is NaN unless the threshold is.
        if (!(fmaxf(fmaxf(doubt[0], doubt[1]), fmaxf(doubt[2], doubt[3])) <= threshold)) {
            uint32_t rows = 0;
#pragma unroll
            for (int k = 0; k < kThreadRows; k++) {
                const bool is_sure = doubt[k] <= threshold;
                rows |= is_sure ? 0u : 1u << k;
                key[k] = is_sure ? key[k] : 0;
            }
            doubt_of(rows);
        }
        table_.add(key);
    }
    // Returns the rows in doubt of pairs that have been taken.
    __device__ __forceinline__ uint32_t doubtful(const float (&d2)[kThreadRows], float threshold) const {
        uint32_t rows = 0, key;
#pragma unroll
        for (int k = 0; k < kThreadRows; k++) rows |= bins_.place(d2[k], key) <= threshold ? 0u : 1u << k;
        return rows;
    }
    // Undoes what `take` has counted of such rows.
    __device__ __forceinline__ void withdraw(const float (&)[kThreadRows], uint32_t) {}
    // Whether pairs that have been taken must be gone over again, since `take` has not said which are in
    // doubt.
    __device__ __forceinline__ bool end_chunk(float) { return false; }
    // Counts a pair by its exact squared distance.
    __device__ __forceinline__ void add(const BruteSets& sets, double square) {
        uint32_t key;
        bins_.place(float(square * sets.scale * sets.scale), key);
        table_.add_one(key_near(sets.bounds, square, key));
    }
    __device__ void flush() { table_.flush(); }

  private:
    Bins bins_;
    Table<JOINT> table_;
};

// The bins of a count of pairs within a radius, which is 1; what is counted is d2 - 1.
struct OneRadius {
    static constexpr double kDirectFrom = 1e-5;
    static constexpr float kAdded = -1.0f;

    __device__ float threshold(double squared, double, double) const {
        return squared < 1 ? float(squared + 4 * kUnit) * 1.000001f : kAllInDoubt;
    }
};

// Counts within a radius: the signs of d2 - 1 are added up, and the least absolute value of a chunk says
// whether some are in doubt.
template <int WIDTH>
class RadiusCounts {
  public:
    static constexpr int kResident = kMaxGroups * kTileThreads;
    using BinsOf = OneRadius;

    __device__ RadiusCounts(const OneRadius& bins, const Totals& totals, unsigned char*)
        : bins_(bins), totals_(totals) {}
    __device__ const OneRadius& bins() const { return bins_; }

    template <class Doubt>
    __device__ __forceinline__ void take(const float (&d2)[kThreadRows], float, const Doubt&) {
#pragma unroll
        for (int k = 0; k < kThreadRows; k++) {
            within_ += __float_as_uint(d2[k]) >> 31;
            nearest_ = fminf(nearest_, fabsf(d2[k]));
        }
    }
    __device__ __forceinline__ uint32_t doubtful(const float (&d2)[kThreadRows], float threshold) const {
        uint32_t rows = 0;
#pragma unroll
        for (int k = 0; k < kThreadRows; k++) rows |= fabsf(d2[k]) > threshold ? 0u : 1u << k;
        return rows;
    }
    // They no longer count by their sign.
    __device__ __forceinline__ void withdraw(const float (&d2)[kThreadRows], uint32_t rows) {
#pragma unroll
        for (int k = 0; k < kThreadRows; k++) within_ -= rows >> k & __float_as_uint(d2[k]) >> 31;
    }
    __device__ __forceinline__ bool end_chunk(float threshold) {
        const bool again = !(nearest_ > threshold);
        nearest_ = __builtin_huge_valf();
        return again;
    }
    __device__ __forceinline__ void add(const BruteSets& sets, double square) {
        within_ += key_of(sets.bounds, square);
    }
    __device__ void flush() {
        if (within_) atomicAdd(totals_.at, (unsigned long long)within_);
        within_ = 0;
    }

  private:
    OneRadius bins_;
    Totals totals_;
    uint32_t within_ = 0;
    float nearest_ = __builtin_huge_valf();
};

// --- sweeps over a pair of tiles

// What a thread does in a sweep: `distances(which, d2)` sets those of its rows to a column.
template <int WIDTH, class Counts>
struct Sweep {
    const BruteSets& sets;
    const TilePair<WIDTH>& pair;
    DoubtQueue& queue;
    Counts& counts;
    uint32_t& decided;
    const int lane = int(threadIdx.x) % kTileThreads, group = int(threadIdx.x) / kTileThreads;
    const int groups = int(blockDim.x) / kTileThreads;

    // Takes the columns first, first + step, ... below last.  What is in doubt is decided when the queue is
    // full, or at the end.
    template <class Distances>
    __device__ __forceinline__ void run(int first, int last, int step, bool is_end,
                                        const Distances& distances) {
        const float threshold = pair.threshold;
        int lost = last;  // the first column that has not been in the queue although it is in doubt
#pragma unroll 4
        for (int which = first; which < last; which += step) {
            float d2[kThreadRows];
            distances(which, d2);
            counts.take(d2, threshold, [&](uint32_t rows) {
                if (!queue.put(which, lane, rows)) lost = min(lost, which);
            });
        }
        if (counts.end_chunk(threshold)) lost = first;
        while (true) {
#pragma unroll 1
            while (lost < last) {
                float d2[kThreadRows];
                distances(lost, d2);
                const uint32_t rows = counts.doubtful(d2, threshold);
                if (rows && !queue.put(lost, lane, rows)) break;
                counts.withdraw(d2, rows);
                lost += step;
            }
            __syncthreads();
            const uint32_t queued = queue.count;
            const bool full = queued > kQueued;
            if (queued <= kQueued / 2 && !is_end) return;
            decided += decide(sets, pair, queue, [&](double square) { counts.add(sets, square); });
            if (!full) return;
        }
    }
};

// Copies a chunk of columns into shared memory, a column per thread of a group.
template <int WIDTH>
__device__ __forceinline__ void copy_chunk(const BruteSets& sets, const TilePair<WIDTH>& pair, int chunk,
                                           int lane, Column<WIDTH>* to) {
    const int column = chunk * kColumnChunk + lane;
    const Column<WIDTH>* const from = static_cast<const Column<WIDTH>*>(sets.columns);
    if (column < pair.columns) {
#pragma unroll
        for (int x = 0; x < WIDTH; x += 4)
            __pipeline_memcpy_async(to[lane].at + x, from[pair.column * kTilePoints + column].at + x, 16);
    }
    __pipeline_commit();
}

// All rows with all columns.
template <bool DIRECT, int WIDTH, class Counts>
__device__ __forceinline__ void sweep_all(Sweep<WIDTH, Counts>& sweep, Column<WIDTH>* buffers) {
    const BruteSets& sets = sweep.sets;
    const TilePair<WIDTH>& pair = sweep.pair;
    Column<WIDTH>* const mine = buffers + sweep.group * 2 * kColumnChunk;
    copy_chunk(sets, pair, sweep.group, sweep.lane, mine);
    Rows<WIDTH> rows;
    rows.load(sets, pair, sweep.lane);
    float length[WIDTH - 1];
#pragma unroll
    for (int x = 0; x < WIDTH - 1; x++) length[x] = pair.length[x];
    for (int chunk = sweep.group, turn = 0; chunk < kChunks; chunk += sweep.groups, turn ^= 1) {
        copy_chunk(sets, pair, chunk + sweep.groups, sweep.lane, mine + (turn ^ 1) * kColumnChunk);
        __pipeline_wait_prior(1);
        __syncthreads();
        const Column<WIDTH>* const columns = mine + turn * kColumnChunk - chunk * kColumnChunk;
        const int first = chunk * kColumnChunk, last = max(first, min(first + kColumnChunk, pair.columns));
        sweep.run(first, last, 1, chunk + sweep.groups >= kChunks, [&](int which, float (&d2)[kThreadRows]) {
            const Column<WIDTH> column = columns[which];
#pragma unroll
            for (int k = 0; k < kThreadRows; k++) d2[k] = rows.template to<DIRECT>(k, column, length);
        });
    }
}

// A tile with itself.  Such tiles are few: columns come from global memory.
template <int WIDTH, class Counts>
__device__ __forceinline__ void sweep_diagonal(Sweep<WIDTH, Counts>& sweep) {
    const BruteSets& sets = sweep.sets;
    const TilePair<WIDTH>& pair = sweep.pair;
    const Column<WIDTH>* const columns =
        static_cast<const Column<WIDTH>*>(sets.columns) + pair.column * kTilePoints;
    Rows<WIDTH> rows;
    rows.load(sets, pair, sweep.lane);
    float length[WIDTH - 1];
#pragma unroll
    for (int x = 0; x < WIDTH - 1; x++) length[x] = pair.length[x];
    const int n = pair.rows;
    const float far = far_beyond(sets);
    sweep.run(1 + sweep.group, n / 2 + 1, sweep.groups, true, [&](int j, float (&d2)[kThreadRows]) {
#pragma unroll
        for (int k = 0; k < kThreadRows; k++) {
            const int row = sweep.lane + k * kTileThreads;
            const float found = rows.template to<true>(k, columns[diagonal_column(row, j, n)], length);
            d2[k] = is_on_diagonal(row, j, n) ? found : far;
        }
    });
}

// Takes the next pair of tiles, in one thread.
template <int WIDTH, class Bins>
__device__ void take_pair(const BruteSets& sets, const BruteLaunch& launch, const Bins& bins,
                          TilePair<WIDTH>& pair) {
    const int64_t number = launch.first + int64_t(atomicAdd(launch.state, 1ull));
    pair.row = -1;
    if (number >= launch.last) return;
    sets.tiles.at(number, pair.row, pair.column);
    pair.rows = tile_size(pair.row, sets.a.n);
    pair.columns = tile_size(pair.column, sets.b.n);
    pair.diagonal = sets.tiles.one_set && pair.row == pair.column;
    judge(sets, bins, pair);
}

// Shared memory: a table and the cells of bins (`table_bytes`), then two chunks of columns per group.
template <int WIDTH, class Counts>
__global__ void __launch_bounds__(Counts::kResident)
    count_tiles(const BruteSets sets, const BruteLaunch launch, const typename Counts::BinsOf bins,
                const int table_bytes) {
    __shared__ TilePair<WIDTH> pair;
    __shared__ DoubtQueue queue;
    unsigned char* const shared = dynamic_shared<unsigned char>();
    Column<WIDTH>* const buffers = reinterpret_cast<Column<WIDTH>*>(shared + table_bytes);
    if (threadIdx.x == 0) queue.count = 0;
    Counts counts(bins, launch.totals, shared);
    uint32_t decided = 0;
    Sweep<WIDTH, Counts> sweep{sets, pair, queue, counts, decided};
    for (int64_t swept = 0;;) {
        if (threadIdx.x == 0) take_pair(sets, launch, counts.bins(), pair);
        __syncthreads();
        if (pair.row < 0) break;
        if (!pair.skipped) {
            if (pair.diagonal)
                sweep_diagonal(sweep);
            else if (pair.direct)
                sweep_all<true>(sweep, buffers);
            else
                sweep_all<false>(sweep, buffers);
            if (++swept % kFlushedTiles == 0) counts.flush();
        }
        __syncthreads();
    }
    counts.flush();
    if (decided) atomicAdd(launch.state + 1, (unsigned long long)decided);
}

}  // namespace bmrm
