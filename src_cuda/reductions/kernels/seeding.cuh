// The passes of k-means++: sums of squared distances to candidates, and the draw of the next candidates.
//
// A row's squared distance is one of float32, added up in the order of the columns, as on the CPU.  Its share
// is the least one times the weight, rounded.  Shares are added in four levels, all but the first of them in
// order: the kStripRows rows of a strip (eight sums of every eighth row, then these by pairs), the strips of
// a panel, the panels of a part, all parts.  bmrm/reductions/shared_clusters.py draws by the same sums, so
// that rows chosen here are those that single passes choose, wherever the rows are.
//
// choose_centers (bmrm/reductions/seeding.py) as a chain of launches: for each centre `measure_narrow` or
// `measure_wide` reads all rows once, and `choose_and_draw` takes the best candidate and draws the next ones.
// The distances to a new centre are computed again with those to the next candidates, since that reads
// nothing that is not read anyway.
#pragma once
#include "api/clusters.h"
#include "reductions/kernels/centers.cuh"

namespace bmrm {

constexpr int kStripRows = 64;
constexpr int kPanelStrips = BB_PANEL_ROWS / kStripRows;
constexpr int kMaxPoints = 1 + BB_MAX_TRIALS;  // of a pass: the last centre, and candidates for the next
constexpr int kMaxNarrowColumns = 16;          // of rows that a thread each keeps in registers
constexpr int kNarrowRows = 256;               // of a block
constexpr int kWideThreads = 128;      // of a block with one strip: two per row, with half the points each
constexpr int kRowBytes = 128;         // of a row that are read at a time
constexpr int kMaxSeedingParts = 128;  // of all rows, as many as on the CPU
constexpr int kDrawThreads = 128;
constexpr int kDrawTiles = 4;  // tiles of a strip that are read at once

// A pass over all rows.  Sums of point c begin at c times the number of all strips, panels or parts.
struct SeedingPass {
    int64_t n, d;
    Origin origin;
    const double* weights;
    float* points;  // count x d, shifted and scaled
    int count;
    bool takes;  // whether the first point becomes a centre
    int summed;  // the first point of which sums are wanted
    float* closest;
    double *strip_sums, *panel_sums, *part_sums;  // part_sums: NULL if they are not wanted
    int64_t strips, panels, parts, part_panels;
    unsigned* tickets;   // 0 before and after: strips of each panel that are summed, and panels of each part
    const int* stopped;  // not 0 if nothing is left to do; or NULL
};

// What is chosen after a pass, and drawn for the next one.
struct SeedingChoice {
    const int64_t* rows;  // of the points of the pass
    int64_t* next_rows;   // of the next pass, after the row of the centre
    float* next_points;
    const double* uniform;  // in [0, 1), one for each block
    int trials;             // rows to draw
    int64_t* chosen;        // where the row goes
    int64_t* found;         // the number of rows chosen so far
    int* stopped;           // is set if all rows are at centres
};

__device__ __forceinline__ double fresh_sum(const double* at) { return __ldcg(at); }  // of another block

// Adds `count` numbers in order.
__device__ __forceinline__ double add_in_order(const double* values, int64_t count) {
    double sum = 0;
    int64_t i = 0;
    for (; i + 8 <= count; i += 8) {
        double some[8];
#pragma unroll
        for (int k = 0; k < 8; k++) some[k] = fresh_sum(values + i + k);
#pragma unroll
        for (int k = 0; k < 8; k++) sum += some[k];
    }
    for (; i < count; i++) sum += fresh_sum(values + i);
    return sum;
}

// Whether this block is the last of `count` to come here for a ticket; what the others wrote before is then
// visible.  Called by all threads.
__device__ __forceinline__ bool comes_last(unsigned* ticket, int64_t count) {
    __shared__ int last;
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) {
        last = atomicAdd(ticket, 1u) == unsigned(count - 1);
        if (last) *ticket = 0;
    }
    __syncthreads();
    const bool mine = last;
    __threadfence();
    __syncthreads();
    return mine;
}

// Adds up the strips of a block.  least: of each point, for the rows of the block; row_weights: of these.
template <int STRIPS>
__device__ __forceinline__ void sum_strips(const SeedingPass& pass, const float* least,
                                           const double* row_weights) {
    constexpr int kRows = STRIPS * kStripRows, kLanes = 8;
    static_assert(kPanelStrips % STRIPS == 0, "a panel has whole blocks");
    const int64_t first = int64_t(blockIdx.x) * STRIPS;
    const int points = pass.count - pass.summed, tasks = points * STRIPS * kLanes;
    __syncthreads();
    for (int base = 0; base < tasks; base += int(blockDim.x)) {
        const int task = base + int(threadIdx.x), lane = task % kLanes, strip = task / kLanes % STRIPS;
        const int c = pass.summed + task / (kLanes * STRIPS);
        double sum = 0;
        if (task < tasks) {
#pragma unroll
            for (int i = 0; i < kStripRows / kLanes; i++) {
                const int row = strip * kStripRows + i * kLanes + lane;
                sum = __dadd_rn(sum, __dmul_rn(double(least[c * kRows + row]), row_weights[row]));
            }
        }
        for (int apart = 1; apart < kLanes; apart *= 2) sum += __shfl_xor_sync(0xFFFFFFFFu, sum, apart);
        if (task < tasks && lane == 0 && first + strip < pass.strips)
            pass.strip_sums[c * pass.strips + first + strip] = sum;
    }
    const int64_t panel = first / kPanelStrips, strip = panel * kPanelStrips;
    const int64_t strips = min(int64_t(kPanelStrips), pass.strips - strip);
    if (!comes_last(pass.tickets + panel, (strips + STRIPS - 1) / STRIPS)) return;
    for (int c = pass.summed + int(threadIdx.x); c < pass.count; c += int(blockDim.x))
        pass.panel_sums[c * pass.panels + panel] =
            add_in_order(pass.strip_sums + c * pass.strips + strip, strips);
    if (!pass.part_sums) return;
    const int64_t part = panel / pass.part_panels, from = part * pass.part_panels;
    const int64_t panels = min(pass.part_panels, pass.panels - from);
    if (!comes_last(pass.tickets + pass.panels + part, panels)) return;
    for (int c = pass.summed + int(threadIdx.x); c < pass.count; c += int(blockDim.x))
        pass.part_sums[c * pass.parts + part] =
            add_in_order(pass.panel_sums + c * pass.panels + from, panels);
}

__device__ __forceinline__ bool has_stopped(const int* stopped) { return stopped && __ldcg(stopped); }

// For rows of up to D columns, D at most kMaxNarrowColumns: one row per thread, kNarrowRows per block.
// Reads rows by 16 bytes if these are aligned and D = d.
template <class V, int D>
__global__ void __launch_bounds__(kNarrowRows)
    measure_narrow(const V* __restrict__ X, const SeedingPass pass, bool aligned) {
    __shared__ float least[kMaxPoints * kNarrowRows];
    alignas(16) __shared__ float points[kMaxPoints * D];
    __shared__ double row_weights[kNarrowRows];
    const int64_t row = int64_t(blockIdx.x) * kNarrowRows + threadIdx.x;
    const bool here = row < pass.n;
    float y[D];
#pragma unroll
    for (int f = 0; f < D; f++) y[f] = 0;
    if (here) {
        const V* x = X + row * pass.d;
        constexpr int W = 16 / int(sizeof(V));
        if (D % W == 0 && aligned) {
#pragma unroll
            for (int f = 0; f + W <= D; f += W) {
                const auto some = *reinterpret_cast<const Several<V, W>*>(x + f);
#pragma unroll
                for (int i = 0; i < W; i++) y[f + i] = pass.origin.apply(some.values[i], f + i);
            }
        } else {
#pragma unroll
            for (int f = 0; f < D; f++)
                if (f < pass.d) y[f] = pass.origin.apply(x[f], f);
        }
    }
    row_weights[threadIdx.x] = here && pass.weights ? pass.weights[row] : 1.0;
    let_next_start();
    wait_for_previous();
    if (has_stopped(pass.stopped)) return;
    const float* given = after_wait(pass.points);
    float* closest = after_wait(pass.closest);
    for (int i = int(threadIdx.x); i < pass.count * D; i += kNarrowRows) {
        const int f = i % D;
        points[i] = f < pass.d ? given[i / D * pass.d + f] : 0;
    }
    float before = here ? closest[row] : 0;  // rows beyond the last have no share
    __syncthreads();
#pragma unroll 4
    for (int c = 0; c < pass.count; c++) {
        float square = 0;
#pragma unroll
        for (int f = 0; f < D; f++) {
            const float e = y[f] - points[c * D + f];
            square = fmaf(e, e, square);
        }
        const float found = fminf(before, square);
        if (c == 0 && pass.takes) {
            before = found;
            if (here) closest[row] = found;
        }
        least[c * kNarrowRows + threadIdx.x] = found;
    }
    sum_strips<kNarrowRows / kStripRows>(pass, least, row_weights);
}

// The numbers that a block of kWideThreads threads reads of a strip at a time: kColumns of each row.
template <class V, bool ALIGNED>
struct StripTile {
    static constexpr int kColumns = kRowBytes / int(sizeof(V));
    static constexpr int kStride = kColumns + 4;  // loads of 16 bytes find all banks
    static constexpr int kFloats = kStripRows * kStride;
    static constexpr int kWide = ALIGNED ? 16 / int(sizeof(V)) : 1;  // numbers of a load
    static constexpr int kLoads = kStripRows * kColumns / kWide / kWideThreads;
    static constexpr int kRowLoads = kColumns / kWide;

    Several<V, kWide> held[kLoads];

    // Reads columns from `first` on.
    __device__ __forceinline__ void read(const V* __restrict__ X, int64_t n, int64_t d, int64_t strip,
                                         int64_t first) {
        const int64_t f = first + int(threadIdx.x) % kRowLoads * kWide;
#pragma unroll
        for (int i = 0; i < kLoads; i++) {
            const int64_t row = strip * kStripRows + (int(threadIdx.x) + i * kWideThreads) / kRowLoads;
            if (row < n && f < d) held[i] = *reinterpret_cast<const Several<V, kWide>*>(X + row * d + f);
        }
    }
    // Writes them shifted and scaled to shared memory, 0 for what there is not.
    __device__ __forceinline__ void write(const Origin& origin, int64_t n, int64_t d, int64_t strip,
                                          int64_t first, float* tile) const {
        const int column = int(threadIdx.x) % kRowLoads * kWide;
#pragma unroll
        for (int i = 0; i < kLoads; i++) {
            const int row = (int(threadIdx.x) + i * kWideThreads) / kRowLoads;
            const bool there = strip * kStripRows + row < n && first + column < d;
#pragma unroll
            for (int w = 0; w < kWide; w++)
                tile[row * kStride + column + w] =
                    there ? origin.apply(held[i].values[w], first + column + w) : 0.0f;
        }
    }
};

// For rows of any length: one strip per block.  ALIGNED: all rows begin at multiples of 16 bytes.
template <class V, bool ALIGNED>
__global__ void __launch_bounds__(kWideThreads)
    measure_wide(const V* __restrict__ X, const SeedingPass pass) {
    using Tile = StripTile<V, ALIGNED>;
    constexpr int kHalf = kMaxPoints / 2, kColumns = Tile::kColumns;
    alignas(16) __shared__ float tile[Tile::kFloats];
    alignas(16) __shared__ float points[kMaxPoints * kColumns];
    __shared__ float least[kMaxPoints * kStripRows];
    __shared__ double row_weights[kStripRows];
    const int64_t strip = blockIdx.x;
    const int at = int(threadIdx.x) % kStripRows, half = int(threadIdx.x) / kStripRows;
    const int64_t row = strip * kStripRows + at;
    const bool here = row < pass.n;
    Tile next;
    next.read(X, pass.n, pass.d, strip, 0);
    if (half == 0) row_weights[at] = here && pass.weights ? pass.weights[row] : 1.0;
    let_next_start();
    wait_for_previous();
    if (has_stopped(pass.stopped)) return;
    const float* given = after_wait(pass.points);
    float* closest = after_wait(pass.closest);
    float before = here ? closest[row] : 0;  // rows beyond the last have no share
    float square[kHalf] = {};                // of the points half, half + 2, ...
    for (int64_t first = 0; first < pass.d; first += kColumns) {
        next.write(pass.origin, pass.n, pass.d, strip, first, tile);
        for (int i = int(threadIdx.x); i < pass.count * kColumns; i += kWideThreads) {
            const int64_t f = first + i % kColumns;
            points[i] = f < pass.d ? given[i / kColumns * pass.d + f] : 0;
        }
        __syncthreads();
        if (first + kColumns < pass.d) next.read(X, pass.n, pass.d, strip, first + kColumns);
#pragma unroll 2
        for (int f = 0; f < kColumns; f += 4) {
            const auto y = *reinterpret_cast<const Several<float, 4>*>(tile + at * Tile::kStride + f);
#pragma unroll
            for (int c = 0; c < kHalf; c++) {
                if (2 * c + half >= pass.count) continue;
                const auto z =
                    *reinterpret_cast<const Several<float, 4>*>(points + (2 * c + half) * kColumns + f);
#pragma unroll
                for (int i = 0; i < 4; i++) {
                    const float e = y.values[i] - z.values[i];
                    square[c] = fmaf(e, e, square[c]);
                }
            }
        }
        __syncthreads();
    }
    if (half == 0) least[at] = square[0];
    __syncthreads();
    if (pass.takes) {
        before = fminf(before, least[at]);
        if (here && half == 0) closest[row] = before;
    }
    __syncthreads();
#pragma unroll
    for (int c = 0; c < kHalf; c++)
        if (2 * c + half < pass.count) least[(2 * c + half) * kStripRows + at] = fminf(before, square[c]);
    sum_strips<1>(pass, least, row_weights);
}

// A number in [0, 1] that a draw has left, the place in a level that it has found, and the sum of that.
struct Draw {
    double rest, sum;
    int64_t place;
};

// Whether a place whose cumulative sum is this one, or a place before it, has been drawn.
__device__ __forceinline__ bool is_reached(double cumulative, double target, double total) {
    return cumulative > target || cumulative >= total;
}

// Goes on to the place that was found, given the cumulative sum that ends there.
__device__ __forceinline__ void go_on(Draw& draw, int64_t place, double cumulative, double sum,
                                      double target) {
    const double rest = (target - (cumulative - sum)) / sum;
    draw = {fmin(fmax(rest, 0.0), 1.0), sum, place};
}

// Returns the first of `count` cumulative sums in shared memory that is reached, `count` if none is.  Called
// by all threads of a block.
__device__ __forceinline__ int find_reached(const double* cumulative, int count, double target,
                                            double total) {
    __shared__ int first;
    if (threadIdx.x == 0) first = count;
    __syncthreads();
    for (int i = int(threadIdx.x); i < count; i += int(blockDim.x))
        if (is_reached(cumulative[i], target, total)) atomicMin(&first, i);
    __syncthreads();
    const int found = first;
    __syncthreads();
    return found;
}

// Replaces numbers in shared memory by their cumulative sums, from a beginning on; one thread.
__device__ __forceinline__ void accumulate(double* values, int count, double begin) {
#pragma unroll 8
    for (int i = 0; i < count; i++) values[i] = begin = begin + values[i];
}

// Draws one of `count` places with these sums, whose sum in order is that of the draw so far.
__device__ __forceinline__ void descend(const double* sums, int64_t count, Draw& draw, double* scratch) {
    const double total = draw.sum, target = __dmul_rn(draw.rest, total);
    double begin = 0;
    for (int64_t base = 0;; base += kDrawThreads) {
        const int some = int(min(int64_t(kDrawThreads), count - base));
        if (int(threadIdx.x) < some) scratch[threadIdx.x] = fresh_sum(sums + base + threadIdx.x);
        __syncthreads();
        if (threadIdx.x == 0) accumulate(scratch, some, begin);
        const int found = find_reached(scratch, some, target, total);
        if (found < some) {
            const double cumulative = scratch[found];
            __syncthreads();
            return go_on(draw, base + found, cumulative, fresh_sum(sums + base + found), target);
        }
        begin = scratch[some - 1];
        __syncthreads();
    }
}

// Takes the best of the candidates of a pass, and draws one candidate per block for the next pass.
template <class V, bool ALIGNED>
__global__ void __launch_bounds__(kDrawThreads)
    choose_and_draw(const V* __restrict__ X, const SeedingPass pass, const SeedingChoice choice) {
    static_assert(kDrawThreads == kWideThreads, "a block reads tiles of strips");
    using Tile = StripTile<V, ALIGNED>;
    constexpr int kStride = kMaxSeedingParts + 1, kColumns = Tile::kColumns;
    constexpr int kTileBytes = kDrawTiles * Tile::kFloats * 4;
    static_assert(kTileBytes >= kMaxPoints * kStride * 8, "cumulative sums lie where tiles lie later");
    alignas(16) __shared__ unsigned char shared[kTileBytes];
    __shared__ double scratch[kDrawThreads];
    __shared__ int chosen;
    auto* cumulative = reinterpret_cast<double*>(shared);
    auto* tiles = reinterpret_cast<float*>(shared);
    let_next_start();
    wait_for_previous();
    if (has_stopped(choice.stopped)) return;
    const float* points = after_wait(pass.points);
    const int64_t* rows = after_wait(choice.rows);
    const int parts = int(pass.parts);

    for (int c = pass.summed; c < pass.count; c++)
        for (int i = int(threadIdx.x); i < parts; i += kDrawThreads)
            cumulative[c * kStride + i] = fresh_sum(pass.part_sums + c * parts + i);
    __syncthreads();
    const int mine = pass.summed + int(threadIdx.x);
    if (mine < pass.count) accumulate(cumulative + mine * kStride, parts, 0.0);
    __syncthreads();
    if (threadIdx.x == 0) {
        chosen = pass.summed;
        for (int c = pass.summed + 1; c < pass.count; c++)
            if (cumulative[c * kStride + parts - 1] < cumulative[chosen * kStride + parts - 1]) chosen = c;
    }
    __syncthreads();
    const int best = chosen;
    const double* ends = cumulative + best * kStride;
    const double potential = ends[parts - 1];
    if (blockIdx.x == 0 && threadIdx.x == 0) {
        *choice.chosen = rows[best];
        *choice.found += 1;
        if (potential <= 0.0) *choice.stopped = 1;
    }
    if (potential <= 0.0 || !choice.trials) return;
    if (blockIdx.x == 0)
        for (int64_t f = threadIdx.x; f < pass.d; f += kDrawThreads)
            choice.next_points[f] = points[best * pass.d + f];

    Draw draw = {choice.uniform[blockIdx.x], potential, 0};
    const double target = __dmul_rn(draw.rest, potential);
    const int part = find_reached(ends, parts, target, potential);
    go_on(draw, part, ends[part], fresh_sum(pass.part_sums + int64_t(best) * parts + part), target);
    __syncthreads();
    int64_t first = part * pass.part_panels;
    descend(pass.panel_sums + best * pass.panels + first, min(pass.part_panels, pass.panels - first), draw,
            scratch);
    first = (first + draw.place) * kPanelStrips;
    descend(pass.strip_sums + best * pass.strips + first, min(int64_t(kPanelStrips), pass.strips - first),
            draw, scratch);
    const int64_t strip = first + draw.place;

    // The strip's distances to the new centre.
    const int64_t row = strip * kStripRows + threadIdx.x;
    const bool here = int(threadIdx.x) < kStripRows && row < pass.n;
    const float before = here ? after_wait(pass.closest)[row] : 0;
    float square = 0;
    for (int64_t begin = 0; begin < pass.d; begin += kDrawTiles * kColumns) {
        Tile tile[kDrawTiles];
#pragma unroll
        for (int i = 0; i < kDrawTiles; i++) tile[i].read(X, pass.n, pass.d, strip, begin + i * kColumns);
#pragma unroll
        for (int i = 0; i < kDrawTiles; i++)
            tile[i].write(pass.origin, pass.n, pass.d, strip, begin + i * kColumns,
                          tiles + i * Tile::kFloats);
        __syncthreads();
        if (here) {
            const int columns = int(min(int64_t(kDrawTiles) * kColumns, pass.d - begin));
#pragma unroll 4
            for (int f = 0; f < columns; f++) {
                const float y =
                    tiles[f / kColumns * Tile::kFloats + threadIdx.x * Tile::kStride + f % kColumns];
                const float e = y - points[best * pass.d + begin + f];
                square = fmaf(e, e, square);
            }
        }
        __syncthreads();
    }
    const int count = int(min(int64_t(kStripRows), pass.n - strip * kStripRows));
    if (here)
        scratch[threadIdx.x] =
            __dmul_rn(double(fminf(before, square)), pass.weights ? pass.weights[row] : 1.0);
    __syncthreads();
    if (threadIdx.x == 0) accumulate(scratch, count, 0.0);
    __syncthreads();
    const double total = scratch[count - 1];
    const int place = find_reached(scratch, count, __dmul_rn(draw.rest, total), total);
    const int64_t drawn = strip * kStripRows + place;
    if (threadIdx.x == 0) choice.next_rows[1 + blockIdx.x] = drawn;
    float* point = choice.next_points + (1 + blockIdx.x) * pass.d;
    for (int64_t f = threadIdx.x; f < pass.d; f += kDrawThreads)
        point[f] = pass.origin.apply(X[drawn * pass.d + f], f);
}

// The first row as the only point of the first pass.
template <class V>
__global__ void __launch_bounds__(256)
    begin_choice(const V* __restrict__ X, int64_t d, const Origin origin, int64_t row, float* points,
                 int64_t* rows, int64_t* found, int* stopped) {
    if (threadIdx.x == 0) {
        rows[0] = row;
        *found = 0;
        *stopped = 0;
    }
    for (int64_t f = threadIdx.x; f < d; f += blockDim.x) points[f] = origin.apply(X[row * d + f], f);
}

}  // namespace bmrm
