// A dense row-major X in one read: margins, loss and gradient.  A row is kept in registers between its margin
// and its part of the gradient: short rows by a warp each, longer ones by a block each.
//
// Bytes an entry: the value's, once for both products.
#pragma once
#include <cuda_pipeline.h>

#include "formats/kernels/dense.cuh"
#include "fused/kernels/finish.cuh"
#include "fused/kernels/loss.cuh"
#include "runtime/block_sum.cuh"
#include "runtime/chain.cuh"

namespace bmrm {

// The block's share of the risk, behind its sums of columns.
__device__ __forceinline__ void leave_risk(double loss_sum, double* scratch, double* sums, int cols) {
    double mine[1] = {loss_sum};
    __syncthreads();
    sum_block(mine, scratch, sums + cols);
}

// Rows of up to 32 EACH entries, a warp's each, several of them at a time; the gradient stays in registers.
// Where there are few sums, the last block adds them up; else a launch of its own is to.
constexpr int kFewEach = 4, kMostEach = 16;

// Small blocks where a thread needs many registers: more of them fit.
template <int EACH>
constexpr int kShortThreads = EACH == kFewEach ? 256 : 128;

template <class T, int VEC, int EACH>
__global__ void __launch_bounds__(kShortThreads<EACH>)
    dense_fused_short(const T* __restrict__ a, int64_t rows, int cols, const FusedInput fused,
                      const T* __restrict__ w, T* __restrict__ margins, T* __restrict__ gradient,
                      double* __restrict__ risk, double* __restrict__ block_sums, uint32_t* ticket) {
    extern __shared__ __align__(16) unsigned char raw[];
    let_next_start();
    double* scratch = reinterpret_cast<double*>(raw);  // a double a thread
    constexpr int PACKS = EACH / VEC, AT_ONCE = 32 / EACH;
    const int lane = int(threadIdx.x) % 32, warps = int(blockDim.x) / 32;
    T weight[EACH], sum[EACH];
#pragma unroll
    for (int p = 0; p < PACKS; p++)
#pragma unroll
        for (int j = 0; j < VEC; j++) {
            const int c = (p * 32 + lane) * VEC + j;
            weight[p * VEC + j] = c < cols ? w[c] : T(0);
            sum[p * VEC + j] = T(0);
        }
    double loss_sum = 0;
    const int64_t step = int64_t(gridDim.x) * warps * AT_ONCE;
    int64_t first = (int64_t(blockIdx.x) * warps + threadIdx.x / 32) * AT_ONCE;
    // The next rows, and their labels, are on their way while these are worked on.
    Pack<T, VEC> next[AT_ONCE][PACKS] = {};
    HeldNumber next_label, next_weight;
    const auto fetch = [&] {
        if (lane < AT_ONCE && first + lane < rows) {
            next_label.fetch(fused.labels, first + lane);
            next_weight.fetch(fused.weights, first + lane);
        }
#pragma unroll
        for (int k = 0; k < AT_ONCE; k++)
#pragma unroll
            for (int p = 0; p < PACKS; p++) {
                const int c = (p * 32 + lane) * VEC;
                next[k][p] = Pack<T, VEC>();
                if (c < cols && first + k < rows)
                    next[k][p] = stream_pack<T, VEC>(a + (first + k) * cols + c);
            }
    };
    if (first < rows) fetch();
    while (first < rows) {
        T v[AT_ONCE][EACH], mine = T(0);
#pragma unroll
        for (int k = 0; k < AT_ONCE; k++)
#pragma unroll
            for (int j = 0; j < EACH; j++) v[k][j] = next[k][j / VEC].x[j % VEC];
        const HeldNumber label = next_label, importance = next_weight;
        const int64_t here = first;
        const bool has_row = lane < AT_ONCE && here + lane < rows;
        first += step;
        if (first < rows) fetch();
#pragma unroll
        for (int k = 0; k < AT_ONCE; k++) {
            T margin = T(0);
#pragma unroll
            for (int j = 0; j < EACH; j++) margin += v[k][j] * weight[j];
            margin = sum_warp(margin);
            if (lane == k) mine = margin;
        }
        // One thread a row works out its loss; the others get the derivative from it.
        double value, slope;
        loss_at(fused, double(mine), label.value(fused.labels), value, slope);
        const double weighted = has_row ? importance.value(fused.weights) * fused.scale : 0;
        if (has_row) {
            loss_sum += with_weight(weighted, value);
            margins[here + lane] = mine;
        }
        const T of_row = T(with_weight(weighted, slope));
#pragma unroll
        for (int k = 0; k < AT_ONCE; k++) {
            const T r = __shfl_sync(0xFFFFFFFFu, of_row, k);
#pragma unroll
            for (int j = 0; j < EACH; j++) sum[j] += v[k][j] * r;
        }
    }
    double* sums = block_sums + int64_t(blockIdx.x) * (cols + 1);
#pragma unroll
    for (int j = 0; j < EACH; j++) {
        const int c = (j / VEC * 32 + lane) * VEC + j % VEC;
        __syncthreads();
        scratch[threadIdx.x] = double(sum[j]);
        __syncthreads();
        if (threadIdx.x < 32 && c < cols) {
            double total = 0;
            for (int k = 0; k < warps; k++) total += scratch[k * 32 + lane];
            sums[c] = total;
        }
    }
    leave_risk(loss_sum, scratch, sums, cols);
    if constexpr (EACH == kFewEach) finish_columns(block_sums, cols, ticket, scratch, gradient, risk);
}

// Entries a thread has of a long row; with its sums they fill half of its registers.
template <class T>
constexpr int kLongEach = int(64 / sizeof(T));

// Longer rows, a block's each.  `stages` rows are on their way into shared memory while one is worked on; a
// thread copies what it will read itself, so that only the margin needs the whole block.
template <class T, int VEC>
__global__ void __launch_bounds__(1024)
    dense_fused_long(const T* __restrict__ a, int64_t rows, int cols, const FusedInput fused,
                     const T* __restrict__ w, T* __restrict__ margins, double* __restrict__ block_sums,
                     int stages) {
    extern __shared__ __align__(16) unsigned char raw[];
    let_next_start();
    constexpr int EACH = kLongEach<T>, PACKS = EACH / VEC;
    double* scratch = reinterpret_cast<double*>(raw);  // two rounds of a double a warp
    T* slope_of = reinterpret_cast<T*>(scratch + 64);
    const int threads = int(blockDim.x), warps = threads / 32, row_size = threads * EACH;
    T* buffer = reinterpret_cast<T*>(raw + 1024);
    const auto place = [&](int p) { return (p * threads + int(threadIdx.x)) * VEC; };
    const auto request = [&](int64_t row, int stage) {
        if (row < rows)
#pragma unroll
            for (int p = 0; p < PACKS; p++)
                if (place(p) < cols)
                    __pipeline_memcpy_async(buffer + stage * row_size + place(p), a + row * cols + place(p),
                                            sizeof(T) * VEC);
        __pipeline_commit();
    };
    T sum[EACH];
#pragma unroll
    for (int j = 0; j < EACH; j++) sum[j] = T(0);
    for (int s = 0; s < stages; s++) request(blockIdx.x + int64_t(s) * gridDim.x, s);
    double loss_sum = 0;
    int stage = 0, round = 0;
    for (int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
        const double label = threadIdx.x == 0 ? number_at(fused.labels, row) : 0;
        const double weighted = threadIdx.x == 0 ? number_at(fused.weights, row) : 1;
        if (stages == 3)
            __pipeline_wait_prior(2);
        else if (stages == 2)
            __pipeline_wait_prior(1);
        else
            __pipeline_wait_prior(0);
        T v[EACH], margin = T(0);
#pragma unroll
        for (int p = 0; p < PACKS; p++) {
            Pack<T, VEC> pack = {}, weight = {};
            if (place(p) < cols) {
                pack = *reinterpret_cast<const Pack<T, VEC>*>(buffer + stage * row_size + place(p));
                weight = *reinterpret_cast<const Pack<T, VEC>*>(w + place(p));
            }
#pragma unroll
            for (int j = 0; j < VEC; j++) {
                v[p * VEC + j] = pack.x[j];
                margin += pack.x[j] * weight.x[j];
            }
        }
        request(row + int64_t(stages) * gridDim.x, stage);
        margin = sum_warp(margin);
        if (threadIdx.x % 32 == 0) scratch[round * 32 + threadIdx.x / 32] = double(margin);
        __syncthreads();
        if (threadIdx.x < 32) {
            const double total = sum_warp(int(threadIdx.x) < warps ? scratch[round * 32 + threadIdx.x] : 0.0);
            if (threadIdx.x == 0) {
                double value, slope;
                loss_at(fused, total, label, value, slope);
                const double factor = weighted * fused.scale;
                loss_sum += with_weight(factor, value);
                slope_of[round] = T(with_weight(factor, slope));
                margins[row] = T(total);
            }
        }
        __syncthreads();
        const T r = slope_of[round];
#pragma unroll
        for (int j = 0; j < EACH; j++) sum[j] += v[j] * r;
        stage = stage + 1 == stages ? 0 : stage + 1;
        round ^= 1;
    }
    double* sums = block_sums + int64_t(blockIdx.x) * (cols + 1);
#pragma unroll
    for (int p = 0; p < PACKS; p++)
        if (place(p) < cols)
#pragma unroll
            for (int j = 0; j < VEC; j++) sums[place(p) + j] = double(sum[p * VEC + j]);
    leave_risk(loss_sum, scratch, sums, cols);
}

}  // namespace bmrm
