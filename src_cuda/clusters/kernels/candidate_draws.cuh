// The best of the candidates of k-means++, and the draw of the next ones by the sums of shares (seeding.cuh).
#pragma once
#include "clusters/kernels/candidate_distances.cuh"

namespace bmrm {

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
