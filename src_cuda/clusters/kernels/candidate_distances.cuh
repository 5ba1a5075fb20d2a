// The distances of all rows to the candidates of k-means++, and the sums of the shares (seeding.cuh).
#pragma once
#include "clusters/kernels/seeding.cuh"

namespace bmrm {

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

}  // namespace bmrm
