// The passes of k-means++: sums of squared distances to candidates, and the draw of the next candidates.
//
// A row's squared distance is one of float32, added up in the order of the columns, as on the CPU.  Its share
// is the least one times the weight, rounded.  Shares are added in four levels, all but the first of them in
// order: the kStripRows rows of a strip (eight sums of every eighth row, then these by pairs), the strips of
// a panel, the panels of a part, all parts.  bmrm/unsupervised/clusters/shared_clusters.py draws by the same
// sums, so that rows chosen here are those that single passes choose, wherever the rows are.
//
// choose_centers (bmrm/unsupervised/clusters/seeding.py) as a chain of launches: for each centre
// `measure_narrow` or `measure_wide` reads all rows once, and `choose_and_draw` takes the best candidate and
// draws the next ones. The distances to a new centre are computed again with those to the next candidates,
// since that reads nothing that is not read anyway.
#pragma once
#include "api/clusters.h"
#include "clusters/kernels/centers.cuh"

namespace bmrm {

constexpr int kStripRows = 64;
constexpr int kPanelStrips = BB_PANEL_ROWS / kStripRows;
constexpr int kMaxPoints = 1 + BB_MAX_TRIALS;  // of a pass: the last centre, and candidates for the next
constexpr int kMaxNarrowColumns = 16;          // of rows that a thread each keeps in registers
constexpr int kNarrowRows = 256;               // that a block has at a time
constexpr int kPanelRounds = BB_PANEL_ROWS / kNarrowRows;  // of a block that has a whole panel
constexpr int kWideThreads = 64;       // of a block with one strip: a warp has half the points
constexpr int kRowBytes = 128;         // of a row that are read at a time
constexpr int kMaxSeedingParts = 128;  // of all rows, as many as on the CPU
constexpr int kDrawThreads = 128;
constexpr int kDrawTiles = 4;                                 // tiles of a strip that are read at once
constexpr int kMaxFewStrips = 256;                            // of rows whose sums a draw adds up by itself
constexpr int kFewParts = kMaxFewStrips * kStripRows / 2048;  // of such rows; a part has at least 2048 rows

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
    double *strip_sums, *panel_sums, *part_sums;  // NULL: not wanted; without panels there are no parts
    int64_t strips, panels, parts, part_panels;
    unsigned* tickets;   // 0 before and after: strips of each panel that are summed, and panels of each part
    int step;            // number of the pass, from 0
    const int* stopped;  // number of passes after which nothing is left to do, or 0; or NULL
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
    int* stopped;           // gets the number of passes if all rows are at centres
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

// Adds up STRIPS strips from `first` on.  least: of each point, for these rows; row_weights: of the rows;
// sums: also gets the sums of point c from `c * stride` on.
template <int STRIPS>
__device__ __forceinline__ void sum_strips(const SeedingPass& pass, int64_t first, const float* least,
                                           const double* row_weights, double* sums, int stride) {
    constexpr int kRows = STRIPS * kStripRows, kLanes = 8;
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
        if (task < tasks && lane == 0) {
            if (first + strip < pass.strips) pass.strip_sums[c * pass.strips + first + strip] = sum;
            if (sums) sums[c * stride + strip] = sum;
        }
    }
    __syncthreads();
}

// Adds up the panels of a part, after the last of them.
__device__ __forceinline__ void finish_part(const SeedingPass& pass, int64_t panel) {
    if (!pass.part_sums) return;
    const int64_t part = panel / pass.part_panels, from = part * pass.part_panels;
    const int64_t panels = min(pass.part_panels, pass.panels - from);
    if (!comes_last(pass.tickets + pass.panels + part, panels)) return;
    for (int c = pass.summed + int(threadIdx.x); c < pass.count; c += int(blockDim.x))
        pass.part_sums[c * pass.parts + part] =
            add_in_order(pass.panel_sums + c * pass.panels + from, panels);
}

// Adds up the strips of a panel, after the last block of some strips each.
__device__ __forceinline__ void finish_panel(const SeedingPass& pass, int64_t panel, int block_strips) {
    if (!pass.panel_sums) return;
    const int64_t strip = panel * kPanelStrips, strips = min(int64_t(kPanelStrips), pass.strips - strip);
    if (!comes_last(pass.tickets + panel, (strips + block_strips - 1) / block_strips)) return;
    for (int c = pass.summed + int(threadIdx.x); c < pass.count; c += int(blockDim.x))
        pass.panel_sums[c * pass.panels + panel] =
            add_in_order(pass.strip_sums + c * pass.strips + strip, strips);
    finish_part(pass, panel);
}

// Whether an earlier pass has found that nothing is left to do.  Blocks that draw after the same pass, one of
// which writes that, find it themselves: all threads of a block have to agree.
__device__ __forceinline__ bool has_stopped(const SeedingPass& pass) {
    if (!pass.stopped) return false;
    const int after = __ldcg(pass.stopped);
    return after && after <= pass.step;
}

// A row of up to D columns in registers, as it is.
template <class V, int D>
struct NarrowRow {
    V values[D];

    // whole: whether rows have D columns and begin at multiples of 16 bytes.
    __device__ __forceinline__ void read(const V* __restrict__ X, int64_t n, int64_t d, int64_t row,
                                         bool whole) {
        constexpr int W = D * int(sizeof(V)) % 16 == 0 ? 16 / int(sizeof(V)) : 1;
        if (row >= n) return;
        const V* x = X + row * d;
        if (W > 1 && whole) {
#pragma unroll
            for (int f = 0; f < D; f += W) {
                const auto some = *reinterpret_cast<const Several<V, W>*>(x + f);
#pragma unroll
                for (int i = 0; i < W; i++) values[f + i] = some.values[i];
            }
        } else {
#pragma unroll
            for (int f = 0; f < D; f++)
                if (f < d) values[f] = x[f];
        }
    }
    // Shifts and scales it; columns that there are not become 0.
    __device__ __forceinline__ void pack(const Origin& origin, int64_t d, bool here, float (&y)[D]) const {
#pragma unroll
        for (int f = 0; f < D; f++) y[f] = here && f < d ? origin.apply(values[f], f) : 0.0f;
    }
};

// For rows of up to D columns, D at most kMaxNarrowColumns: one row per thread, kNarrowRows at a time, ROUNDS
// times: once, or kPanelRounds times for a panel.
template <class V, int D, int ROUNDS>
__global__ void __launch_bounds__(kNarrowRows)
    measure_narrow(const V* __restrict__ X, const SeedingPass pass, bool whole) {
    static_assert(ROUNDS == 1 || ROUNDS == kPanelRounds, "part of a panel, or all of it");
    constexpr int kStrips = kNarrowRows / kStripRows, kStride = kPanelStrips + 1;
    __shared__ float least[kMaxPoints * kNarrowRows];
    alignas(16) __shared__ float points[kMaxPoints * D];
    __shared__ double row_weights[kNarrowRows], sums[kMaxPoints * kStride];
    int64_t row = int64_t(blockIdx.x) * ROUNDS * kNarrowRows + threadIdx.x;
    NarrowRow<V, D> next;
    next.read(X, pass.n, pass.d, row, whole);
    let_next_start();
    wait_for_previous();
    if (has_stopped(pass)) return;
    const float* given = after_wait(pass.points);
    float* closest = after_wait(pass.closest);
    for (int i = int(threadIdx.x); i < pass.count * D; i += kNarrowRows) {
        const int f = i % D;
        points[i] = f < pass.d ? given[i / D * pass.d + f] : 0;
    }
    float next_before = row < pass.n ? closest[row] : 0;  // rows beyond the last have no share
#pragma unroll 1
    for (int round = 0; round < ROUNDS; round++, row += kNarrowRows) {
        const bool here = row < pass.n;
        float y[D], before = next_before;
        next.pack(pass.origin, pass.d, here, y);
        row_weights[threadIdx.x] = here && pass.weights ? pass.weights[row] : 1.0;
        if (round + 1 < ROUNDS) {
            next.read(X, pass.n, pass.d, row + kNarrowRows, whole);
            next_before = row + kNarrowRows < pass.n ? closest[row + kNarrowRows] : 0;
        }
        if (round == 0) __syncthreads();
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
        sum_strips<kStrips>(pass, (int64_t(blockIdx.x) * ROUNDS + round) * kStrips, least, row_weights,
                            ROUNDS > 1 ? sums + round * kStrips : nullptr, kStride);
    }
    if constexpr (ROUNDS == 1) {
        finish_panel(pass, blockIdx.x / kPanelRounds, kStrips);
    } else {
        for (int c = pass.summed + int(threadIdx.x); c < pass.count; c += kNarrowRows) {
            double sum = 0;  // strips that there are not have sum 0
#pragma unroll
            for (int i = 0; i < kPanelStrips; i++) sum += sums[c * kStride + i];
            pass.panel_sums[c * pass.panels + blockIdx.x] = sum;
        }
        finish_part(pass, blockIdx.x);
    }
}

// The numbers that a block reads of a strip at a time: kColumns of each row.
template <class V, bool ALIGNED, int THREADS>
struct StripTile {
    static constexpr int kColumns = kRowBytes / int(sizeof(V));
    static constexpr int kStride = kColumns + 4;  // loads of 16 bytes find all banks
    static constexpr int kFloats = kStripRows * kStride;
    static constexpr int kWide = ALIGNED ? 16 / int(sizeof(V)) : 1;  // numbers of a load
    static constexpr int kLoads = kStripRows * kColumns / kWide / THREADS;
    static constexpr int kRowLoads = kColumns / kWide;
    static_assert(THREADS % kRowLoads == 0, "a thread has the same columns of each of its rows");

    Several<V, kWide> held[kLoads];

    // Reads columns from `first` on.
    __device__ __forceinline__ void read(const V* __restrict__ X, int64_t n, int64_t d, int64_t strip,
                                         int64_t first) {
        const int64_t f = first + int(threadIdx.x) % kRowLoads * kWide;
#pragma unroll
        for (int i = 0; i < kLoads; i++) {
            const int64_t row = strip * kStripRows + (int(threadIdx.x) + i * THREADS) / kRowLoads;
            if (row < n && f < d) held[i] = *reinterpret_cast<const Several<V, kWide>*>(X + row * d + f);
        }
    }
    // Writes them shifted and scaled to shared memory, 0 for what there is not.
    __device__ __forceinline__ void write(const Origin& origin, int64_t n, int64_t d, int64_t strip,
                                          int64_t first, float* tile) const {
        const int column = int(threadIdx.x) % kRowLoads * kWide;
#pragma unroll
        for (int i = 0; i < kLoads; i++) {
            const int row = (int(threadIdx.x) + i * THREADS) / kRowLoads;
            const bool there = strip * kStripRows + row < n && first + column < d;
            Several<float, kWide> packed;
#pragma unroll
            for (int w = 0; w < kWide; w++)
                packed.values[w] = there ? origin.apply(held[i].values[w], first + column + w) : 0.0f;
            *reinterpret_cast<Several<float, kWide>*>(tile + row * kStride + column) = packed;
        }
    }
};

// For rows of any length: one strip per block, two rows per thread, and half the points in each of two warps.
// ALIGNED: all rows begin at multiples of 16 bytes.
template <class V, bool ALIGNED>
__global__ void __launch_bounds__(kWideThreads)
    measure_wide(const V* __restrict__ X, const SeedingPass pass) {
    using Tile = StripTile<V, ALIGNED, kWideThreads>;
    constexpr int kHalf = kMaxPoints / 2, kColumns = Tile::kColumns, kRows = 2;
    static_assert(kWideThreads * kRows == 2 * kStripRows, "both warps have all rows");
    alignas(16) __shared__ float tile[Tile::kFloats];
    alignas(16) __shared__ float points[kMaxPoints * kColumns];
    __shared__ float least[kMaxPoints * kStripRows];
    __shared__ double row_weights[kStripRows];
    const int64_t strip = blockIdx.x;
    const int lane = int(threadIdx.x) % 32, half = int(threadIdx.x) / 32;
    Tile next;
    next.read(X, pass.n, pass.d, strip, 0);
    const int64_t mine = strip * kStripRows + threadIdx.x;
    row_weights[threadIdx.x] = mine < pass.n && pass.weights ? pass.weights[mine] : 1.0;
    let_next_start();
    wait_for_previous();
    if (has_stopped(pass)) return;
    const float* given = after_wait(pass.points);
    float* closest = after_wait(pass.closest);
    float before[kRows], square[kRows][kHalf] = {};  // of the points half, half + 2, ...
#pragma unroll
    for (int r = 0; r < kRows; r++) {
        const int64_t row = strip * kStripRows + lane + 32 * r;
        before[r] = row < pass.n ? closest[row] : 0;  // rows beyond the last have no share
    }
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
            Several<float, 4> y[kRows];
#pragma unroll
            for (int r = 0; r < kRows; r++)
                y[r] =
                    *reinterpret_cast<const Several<float, 4>*>(tile + (lane + 32 * r) * Tile::kStride + f);
#pragma unroll
            for (int c = 0; c < kHalf; c++) {
                if (2 * c + half >= pass.count) continue;
                const auto z =
                    *reinterpret_cast<const Several<float, 4>*>(points + (2 * c + half) * kColumns + f);
#pragma unroll
                for (int r = 0; r < kRows; r++)
#pragma unroll
                    for (int i = 0; i < 4; i++) {
                        const float e = y[r].values[i] - z.values[i];
                        square[r][c] = fmaf(e, e, square[r][c]);
                    }
            }
        }
        __syncthreads();
    }
    if (pass.takes) {
#pragma unroll
        for (int r = 0; r < kRows; r++)
            if (half == 0) least[lane + 32 * r] = fminf(before[r], square[r][0]);
        __syncthreads();
#pragma unroll
        for (int r = 0; r < kRows; r++) {
            const int64_t row = strip * kStripRows + lane + 32 * r;
            before[r] = least[lane + 32 * r];
            if (half == 0 && row < pass.n) closest[row] = before[r];
        }
    }
#pragma unroll
    for (int r = 0; r < kRows; r++)
#pragma unroll
        for (int c = 0; c < kHalf; c++) {
            const int point = 2 * c + half;
            if (point < pass.count && (point || !pass.takes))
                least[point * kStripRows + lane + 32 * r] = fminf(before[r], square[r][c]);
        }
    sum_strips<1>(pass, strip, least, row_weights, nullptr, 0);
    finish_panel(pass, strip / kPanelStrips, 1);
}

// A number in [0, 1] that a draw has left, the place in a level that it has found, and the sum of that.
struct Draw {
    double rest, sum;
    int64_t place;
};

// Goes on to the place that was found, given the cumulative sum that ends there.
__device__ __forceinline__ void go_on(Draw& draw, int64_t place, double end, double sum, double target) {
    const double rest = (target - (end - sum)) / sum;
    draw = {fmin(fmax(rest, 0.0), 1.0), sum, place};
}

// Returns the first of `count` cumulative sums in shared memory that is above the target or is the total;
// `count` if there is none.  Called by all lanes of a warp.
__device__ __forceinline__ int find_reached(const double* ends, int count, double target, double total) {
    const int lane = int(threadIdx.x) % 32;
    for (int base = 0; base < count; base += 32) {
        const int i = base + lane;
        const unsigned reached =
            __ballot_sync(0xFFFFFFFFu, i < count && (ends[i] > target || ends[i] >= total));
        if (reached) return base + __ffs(int(reached)) - 1;
    }
    return count;
}

// Sets cumulative sums of numbers in shared memory, from a beginning on; one thread.
__device__ __forceinline__ void accumulate(const double* values, int count, double begin, double* ends) {
    int i = 0;
    for (; i + 8 <= count; i += 8) {
        double some[8];
#pragma unroll
        for (int k = 0; k < 8; k++) some[k] = values[i + k];
#pragma unroll
        for (int k = 0; k < 8; k++) ends[i + k] = begin = begin + some[k];
    }
    for (; i < count; i++) ends[i] = begin = begin + values[i];
}

// Draws one of `count` places with these sums, whose sum in order is that of the draw so far.  HERE: the sums
// are in shared memory.  Called by one warp, which has room for kDrawThreads numbers in `values` and `ends`.
template <bool HERE>
__device__ __forceinline__ void descend(const double* sums, int64_t count, Draw& draw, double* values,
                                        double* ends) {
    const int lane = int(threadIdx.x) % 32;
    const double total = draw.sum, target = __dmul_rn(draw.rest, total);
    double begin = 0;
    for (int64_t base = 0;; base += kDrawThreads) {
        const int some = int(min(int64_t(kDrawThreads), count - base));
        for (int i = lane; i < some; i += 32) values[i] = HERE ? sums[base + i] : fresh_sum(sums + base + i);
        __syncwarp();
        if (lane == 0) accumulate(values, some, begin, ends);
        __syncwarp();
        const int found = find_reached(ends, some, target, total);
        if (found < some || base + some >= count) {
            const int place = min(found, some - 1);
            go_on(draw, base + place, ends[place], values[place], target);
            __syncwarp();
            return;
        }
        begin = ends[some - 1];
        __syncwarp();
    }
}

// The sums of a pass that a draw has in shared memory: those of parts, and of few rows all.
struct DrawSums {
    static constexpr int kFewStride = kMaxFewStrips + kMaxFewStrips / kPanelStrips;  // a gap after each panel
    static constexpr int kPanels = kMaxFewStrips / kPanelStrips, kPanelStride = kPanels + 1;
    static constexpr int kPartStride = kMaxSeedingParts + 1;

    union {
        double strips[kMaxPoints * kFewStride];
        double parts[2 * kMaxPoints * kPartStride];  // and cumulative sums
    };
    double panels[kMaxPoints * kPanelStride];
    double few_parts[2 * kMaxPoints * (kFewParts + 1)];
};

// Reads or adds up the sums of parts, and returns where they are; those of a point are `stride` apart.
__device__ __forceinline__ double* add_up_parts(const SeedingPass& pass, DrawSums& to, int& stride) {
    const int points = pass.count - pass.summed, parts = int(pass.parts);
    if (pass.part_sums) {
        stride = DrawSums::kPartStride;
        for (int c = pass.summed; c < pass.count; c++)
            for (int i = int(threadIdx.x); i < parts; i += kDrawThreads)
                to.parts[c * stride + i] = fresh_sum(pass.part_sums + int64_t(c) * parts + i);
        __syncthreads();
        return to.parts;
    }
    const int strips = int(pass.strips), panels = int(pass.panels), each = int(pass.part_panels);
    stride = kFewParts + 1;
    for (int c = pass.summed; c < pass.count; c++)
        for (int i = int(threadIdx.x); i < strips; i += kDrawThreads)
            to.strips[c * DrawSums::kFewStride + i + i / kPanelStrips] =
                fresh_sum(pass.strip_sums + int64_t(c) * strips + i);
    __syncthreads();
    for (int task = int(threadIdx.x); task < points * panels; task += kDrawThreads) {
        const int c = pass.summed + task / panels, panel = task % panels, first = panel * kPanelStrips;
        const double* values = to.strips + c * DrawSums::kFewStride + first + panel;
        double sum = 0;
        for (int i = 0; i < min(kPanelStrips, strips - first); i++) sum += values[i];
        to.panels[c * DrawSums::kPanelStride + panel] = sum;
    }
    __syncthreads();
    for (int task = int(threadIdx.x); task < points * parts; task += kDrawThreads) {
        const int c = pass.summed + task / parts, part = task % parts, first = part * each;
        double sum = 0;
        for (int i = first; i < min(first + each, panels); i++)
            sum += to.panels[c * DrawSums::kPanelStride + i];
        to.few_parts[c * stride + part] = sum;
    }
    __syncthreads();
    return to.few_parts;
}

// What the first warp of a block finds: the best candidate, the potential with it, and the strip drawn.
struct DrawnStrip {
    int best;
    double potential, rest;
    int64_t strip;
};

__device__ __forceinline__ DrawnStrip draw_strip(const SeedingPass& pass, double number, DrawSums& of,
                                                 double* parts, int stride, double* values, double* ends) {
    const int lane = int(threadIdx.x) % 32, count = int(pass.parts);
    double* part_ends = parts + kMaxPoints * stride;
    int best = lane;
    double potential = __longlong_as_double(0x7FF0000000000000ll);
    if (lane >= pass.summed && lane < pass.count) {
        accumulate(parts + lane * stride, count, 0.0, part_ends + lane * stride);
        potential = part_ends[lane * stride + count - 1];
    }
    best_of_warp<Least>(potential, best);
    __syncwarp();
    if (!(potential > 0.0)) return {best, potential, 0.0, 0};
    Draw draw = {number, potential, 0};
    const double target = __dmul_rn(number, potential);
    const double* my_ends = part_ends + best * stride;
    const int part = min(find_reached(my_ends, count, target, potential), count - 1);
    go_on(draw, part, my_ends[part], parts[best * stride + part], target);
    const bool few = !pass.part_sums;
    int64_t first = part * pass.part_panels, some = min(pass.part_panels, pass.panels - first);
    if (few)
        descend<true>(of.panels + best * DrawSums::kPanelStride + first, some, draw, values, ends);
    else
        descend<false>(pass.panel_sums + best * pass.panels + first, some, draw, values, ends);
    const int64_t panel = first + draw.place;
    first = panel * kPanelStrips;
    some = min(int64_t(kPanelStrips), pass.strips - first);
    if (few)
        descend<true>(of.strips + best * DrawSums::kFewStride + first + panel, some, draw, values, ends);
    else
        descend<false>(pass.strip_sums + best * pass.strips + first, some, draw, values, ends);
    return {best, potential, draw.rest, first + draw.place};
}

// Takes the best of the candidates of a pass, and draws one candidate per block for the next pass.
template <class V, bool ALIGNED>
__global__ void __launch_bounds__(kDrawThreads)
    choose_and_draw(const V* __restrict__ X, const SeedingPass pass, const SeedingChoice choice) {
    using Tile = StripTile<V, ALIGNED, kDrawThreads>;
    constexpr int kColumns = Tile::kColumns, kAtOnce = kDrawTiles * kColumns;
    union Shared {
        DrawSums sums;
        float tiles[kDrawTiles * Tile::kFloats];
    };
    alignas(16) __shared__ unsigned char shared[sizeof(Shared)];
    alignas(16) __shared__ float center[kAtOnce];
    __shared__ double values[kDrawThreads], ends[kDrawThreads];
    __shared__ DrawnStrip found;
    __shared__ int drawn_row;
    auto& of = *reinterpret_cast<Shared*>(shared);
    const double number = choice.trials ? choice.uniform[blockIdx.x] : 0.0;
    let_next_start();
    wait_for_previous();
    const bool stopped = has_stopped(pass);
    const float* points = after_wait(pass.points);
    const int64_t* rows = after_wait(choice.rows);
    int stride = 0;
    double* parts = add_up_parts(pass, of.sums, stride);
    if (stopped) return;
    if (threadIdx.x < 32) {
        const DrawnStrip mine = draw_strip(pass, number, of.sums, parts, stride, values, ends);
        if (threadIdx.x == 0) found = mine;
    }
    __syncthreads();
    const int best = found.best;
    const int64_t strip = found.strip, first_row = strip * kStripRows, row = first_row + threadIdx.x;
    const bool goes_on = found.potential > 0.0, here = int(threadIdx.x) < kStripRows && row < pass.n;
    if (blockIdx.x == 0 && threadIdx.x == kDrawThreads - 1) {  // of a warp that has nothing else to do
        *choice.chosen = rows[best];
        *choice.found += 1;
        if (!goes_on) *choice.stopped = pass.step + 1;
    }
    if (!goes_on || !choice.trials) return;

    // The strip's distances to the new centre.
    const float before = here ? after_wait(pass.closest)[row] : 0;
    const double weight = here && pass.weights ? pass.weights[row] : 1.0;
    float square = 0;
    for (int64_t begin = 0; begin < pass.d; begin += kAtOnce) {
        Tile tile[kDrawTiles];
#pragma unroll
        for (int i = 0; i < kDrawTiles; i++) tile[i].read(X, pass.n, pass.d, strip, begin + i * kColumns);
        for (int i = int(threadIdx.x); i < kAtOnce; i += kDrawThreads) {
            const float value = begin + i < pass.d ? points[best * pass.d + begin + i] : 0;
            center[i] = value;
            if (blockIdx.x == 0 && begin + i < pass.d) choice.next_points[begin + i] = value;
        }
#pragma unroll
        for (int i = 0; i < kDrawTiles; i++)
            tile[i].write(pass.origin, pass.n, pass.d, strip, begin + i * kColumns,
                          of.tiles + i * Tile::kFloats);
        __syncthreads();
        if (here)
            for (int t = 0; t < kDrawTiles && begin + t * kColumns < pass.d; t++) {
                const float* mine = of.tiles + t * Tile::kFloats + threadIdx.x * Tile::kStride;
#pragma unroll
                for (int f = 0; f < kColumns; f += 4) {  // 0 - 0 beyond the last
                    const auto y = *reinterpret_cast<const Several<float, 4>*>(mine + f);
                    const auto z = *reinterpret_cast<const Several<float, 4>*>(center + t * kColumns + f);
#pragma unroll
                    for (int i = 0; i < 4; i++) {
                        const float e = y.values[i] - z.values[i];
                        square = fmaf(e, e, square);
                    }
                }
            }
        if (begin + kAtOnce < pass.d) __syncthreads();
    }
    const int count = int(min(int64_t(kStripRows), pass.n - first_row));
    if (here) values[threadIdx.x] = __dmul_rn(double(fminf(before, square)), weight);
    __syncthreads();
    if (threadIdx.x < 32) {
        if (threadIdx.x == 0) accumulate(values, count, 0.0, ends);
        __syncwarp();
        const double total = ends[count - 1];
        const int place = min(find_reached(ends, count, __dmul_rn(found.rest, total), total), count - 1);
        if (threadIdx.x == 0) {
            drawn_row = place;
            choice.next_rows[1 + blockIdx.x] = first_row + place;
        }
    }
    __syncthreads();
    float* point = choice.next_points + (1 + blockIdx.x) * pass.d;
    for (int64_t f = threadIdx.x; f < pass.d; f += kDrawThreads)
        point[f] = pass.d <= kAtOnce
                       ? of.tiles[f / kColumns * Tile::kFloats + drawn_row * Tile::kStride + f % kColumns]
                       : pass.origin.apply(X[(first_row + drawn_row) * pass.d + f], f);
}

// Rows shifted and scaled.
template <class V>
__global__ void __launch_bounds__(256) pack_rows(const V* __restrict__ X, int64_t n, int64_t d,
                                                 const Origin origin, float* __restrict__ packed) {
    BB_FOR (i, n * d) packed[i] = origin.apply(X[i], i % d);
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
