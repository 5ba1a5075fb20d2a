// Margins, loss and gradient of a small X in one launch and a sum over blocks: the paired form.
//
// A block has a *stretch* of consecutive rows, all of it in shared memory: first as rows, for their margins;
// then as what each column has of them, for the gradient.  What belongs to the second phase are the places of
// the first one's values, which have meanwhile been multiplied by the derivatives of their rows; where all
// values are one, they are the rows.  So no sum is shared between threads, nothing waits for other blocks,
// and the only inputs that a block has to fetch are the weights and what belongs to its rows.  All blocks run
// at once, two launches side by side: the copy of the next stretch goes on while this one ends.
//
// Bytes a nonzero: the value's + 1 or 2 for its column + 2 for its place, and the padding of
// fused/paired_layout.h.
#pragma once
#include <cuda_pipeline.h>

#include "formats/kernels/values.cuh"
#include "fused/kernels/loss.cuh"
#include "fused/paired_layout.h"
#include "runtime/block_sum.cuh"
#include "runtime/chain.cuh"

namespace bmrm {

constexpr int kPairedThreads = 512;

constexpr int kMostStretches = 256;

struct PairedView {
    const uint4* image;
    void* block_sums;  // blocks x columns, of gradients; 0 where a stretch has nothing of a column
    double* block_risks;
    int64_t rows;
    int32_t stretch, columns;
    uint32_t vectors_at;  // bytes of shared memory before vectors
    // Of each stretch within the image, in units of 16 bytes; and its end.  Here, so that copies begin at
    // once.
    uint32_t first[kMostStretches + 1];
};

// Elements before the first value: one that padding reads, and its like.
template <class T>
constexpr uint32_t kPairedFirst = 16 / sizeof(T);

// A copy to shared memory.
class Arrival {
  public:
    // By all threads of a block; size in units of 16 bytes.
    __device__ __forceinline__ void start(void* to, const uint4* from, uint32_t size) {
#if __CUDA_ARCH__ >= 900
        if (threadIdx.x != 0) return;
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(barrier()) : "memory");
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
        asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier()), "r"(16 * size)
                     : "memory");
        asm volatile(
            "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
                uint32_t(__cvta_generic_to_shared(to))),
            "l"(from), "r"(16 * size), "r"(barrier())
            : "memory");
#else
        for (uint32_t i = threadIdx.x; i < size; i += blockDim.x)
            __pipeline_memcpy_async(static_cast<uint4*>(to) + i, from + i, 16);
        __pipeline_commit();
#endif
    }
    // By all threads, behind a barrier since the start.
    __device__ __forceinline__ void wait() {
#if __CUDA_ARCH__ >= 900
        uint32_t done = 0;
        while (!done)
            asm volatile(
                "{.reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], 0; selp.u32 %0, 1, 0, p;}"
                : "=r"(done)
                : "r"(barrier())
                : "memory");
#else
        __pipeline_wait_prior(0);
        __syncthreads();
#endif
    }

  private:
#if __CUDA_ARCH__ >= 900
    __device__ __forceinline__ uint32_t barrier() {
        __shared__ uint64_t arrived;
        return uint32_t(__cvta_generic_to_shared(&arrived));
    }
#endif
};

// Has the block bring so many bytes to L2, where the writes of others arrive as well.
__device__ __forceinline__ void prefetch(const void* from, int64_t offset, int bytes) {
    constexpr int LINE = 128;
    const char* first = static_cast<const char*>(from) + offset;
    for (int i = int(threadIdx.x) * LINE; i < bytes; i += int(blockDim.x) * LINE)
        asm volatile("prefetch.global.L2 [%0];" ::"l"(first + i));
}

// What a thread has of the inputs, a row's and a column's, on its way to shared memory.
template <class T>
struct PairedInputs {
    HeldNumber label, weight;
    T of_column;

    __device__ __forceinline__ void fetch(const FusedInput& fused, const T* in, int i, int64_t first_row,
                                          int rows, int columns) {
        if (i < columns) of_column = load_input(in + i);
        if (i < rows) {
            label.fetch(fused.labels, first_row + i);
            weight.fetch(fused.weights, first_row + i);
        }
    }
};

// A thread's part of a slice, as the shape and the thread's destination tell.
struct PairedChunk {
    uint32_t first = 0, quads = 0, most_log2 = 0;  // of the slice
    uint32_t dest = 0, size = 1;                   // of the chunk; its threads
    bool there = false, leads = false;

    PairedChunk() = default;
    __device__ __forceinline__ PairedChunk(uint32_t shape, uint16_t to)
        : first(shape & 0xFFFF),
          quads(shape >> 16 & 0xFF),
          most_log2(shape >> 24),
          dest(to & ((1u << kPairedLog2Bit) - 1)),
          size(1u << (to >> kPairedLog2Bit)),
          there(to != kPairedNowhere),
          leads(there && (threadIdx.x & (size - 1)) == 0) {}

    // The sum of the chunk's threads, to each.
    template <class T>
    __device__ __forceinline__ T add_up(const T (&sum)[4]) const {
        T total = (sum[0] + sum[1]) + (sum[2] + sum[3]);
        for (uint32_t apart = 1; apart >> most_log2 == 0; apart *= 2) {
            const T other = __shfl_xor_sync(0xFFFFFFFFu, total, int(apart));
            if (apart < size) total += other;
        }
        return total;
    }
};

template <class T, bool ONES, class Index>
__global__ void __launch_bounds__(kPairedThreads, sizeof(T) == 4 ? 2 : 1)
    paired_pass(const PairedView view, const FusedInput fused, const T* __restrict__ in,
                T* __restrict__ margins) {
    extern __shared__ __align__(128) unsigned char raw[];
    constexpr uint32_t FIRST = kPairedFirst<T>;
    const uint32_t lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32;
    const int columns = view.columns, stretch = view.stretch;
    let_next_start();
    const uint32_t first = view.first[blockIdx.x];
    Arrival arrival;
    arrival.start(raw, view.image + first, view.first[blockIdx.x + 1] - first);

    double* labels = reinterpret_cast<double*>(raw + view.vectors_at);
    double* weights = labels + stretch;
    double* losses = weights + stretch;
    T* w = reinterpret_cast<T*>(losses + stretch);  // the first is of padding
    T* slopes = w + columns + 1;                    // of rows, the first of padding
    if (threadIdx.x == 0) {
        w[0] = T(0);
        if (ONES) slopes[0] = T(0);
    }
    const int64_t first_row = int64_t(blockIdx.x) * stretch;
    const int rows = int(min(int64_t(stretch), view.rows - first_row));
    // Earlier launches may still write these, but where they lie does not change.
    prefetch(in, 0, columns * int(sizeof(T)));
    prefetch(fused.labels.data, first_row * fused.labels.bytes, rows * fused.labels.bytes);
    prefetch(fused.weights.data, first_row * fused.weights.bytes, rows * fused.weights.bytes);
    __syncthreads();
    wait_for_previous();
    PairedInputs<T> inputs;
    int i = int(threadIdx.x);
    inputs.fetch(fused, in, i, first_row, rows, columns);

    // While they are on their way: what to do with them.
    arrival.wait();
    const PairedStretch own = *reinterpret_cast<const PairedStretch*>(raw);
    const uint32_t* shapes = reinterpret_cast<const uint32_t*>(raw + sizeof own);
    const uint16_t* dest = reinterpret_cast<const uint16_t*>(raw + own.dest_at()) + lane;
    const auto* at = reinterpret_cast<const typename Quad<Index>::Raw*>(raw + own.columns_at()) + lane;
    const auto* from =
        reinterpret_cast<const Quad<uint16_t>::Raw*>(raw + own.places_at(sizeof(Index))) + lane;
    T* values = reinterpret_cast<T*>(raw + own.values_at(sizeof(Index)));
    Some<T>* fours = reinterpret_cast<Some<T>*>(values + FIRST) + lane;
    const auto chunk_at = [&](uint32_t s, uint32_t end) {
        return s < end ? PairedChunk(shapes[s], dest[s * 32]) : PairedChunk();
    };
    PairedChunk row = chunk_at(warp, own.slices[0]),
                column = chunk_at(own.slices[0] + warp, own.all_slices());

    while (i < max(rows, columns)) {
        if (i < columns) w[i + 1] = inputs.of_column;
        if (i < rows) {
            labels[i] = inputs.label.value(fused.labels);
            weights[i] = inputs.weight.value(fused.weights) * fused.scale;
        }
        i += int(blockDim.x);
        inputs.fetch(fused, in, i, first_row, rows, columns);
    }
    __syncthreads();

    for (uint32_t s = warp; s < own.slices[0]; s += warps, row = chunk_at(s, own.slices[0])) {
        const double label = labels[row.there ? row.dest : 0], weight = weights[row.there ? row.dest : 0];
        T sum[4] = {T(0), T(0), T(0), T(0)};
#pragma unroll 4
        for (uint32_t k = row.first; k < row.first + row.quads; k++) {
            const Quad<Index> place = {at[k * 32]};
            if constexpr (ONES) {
#pragma unroll
                for (int j = 0; j < 4; j++) sum[j] += w[place[j]];
            } else {
                const Some<T> value = fours[k * 32];
#pragma unroll
                for (int j = 0; j < 4; j++) sum[j] += value.at[j] * w[place[j]];
            }
        }
        const T margin = row.add_up(sum);
        T r = T(0);
        if (row.there) {
            double value, slope;
            loss_at(fused, double(margin), label, value, slope);
            r = T(with_weight(weight, slope));
            if (row.leads) {
                margins[first_row + row.dest] = margin;
                losses[row.dest] = with_weight(weight, value);
                if (ONES) slopes[row.dest + 1] = r;
            }
        }
        if constexpr (!ONES) {
#pragma unroll 4
            for (uint32_t k = row.first; k < row.first + row.quads; k++) {
                Some<T> value = fours[k * 32];
#pragma unroll
                for (int j = 0; j < 4; j++) value.at[j] *= r;
                fours[k * 32] = value;
            }
        }
    }
    __syncthreads();
    const T* terms = ONES ? slopes : values;
    T* to = static_cast<T*>(view.block_sums) + int64_t(blockIdx.x) * columns;
    for (uint32_t s = own.slices[0] + warp; s < own.all_slices();
         s += warps, column = chunk_at(s, own.all_slices())) {
        T sum[4] = {T(0), T(0), T(0), T(0)};
#pragma unroll 4
        for (uint32_t k = column.first; k < column.first + column.quads; k++) {
            const Quad<uint16_t> place = {from[k * 32]};
#pragma unroll
            for (int j = 0; j < 4; j++) sum[j] += terms[place[j]];
        }
        const T total = column.add_up(sum);
        if (column.leads) to[column.dest] = total;
    }
    if (warp < warps - 1) return;
    // The last warp has the fewest slices, if any.
    double risk[4] = {};
    for (int r = int(lane); r < rows; r += 4 * 32)
#pragma unroll
        for (int j = 0; j < 4; j++)
            if (r + 32 * j < rows) risk[j] += losses[r + 32 * j];
    const double total = sum_warp((risk[0] + risk[1]) + (risk[2] + risk[3]));
    if (lane == 0) view.block_risks[blockIdx.x] = total;
}

}  // namespace bmrm
