// A dense row-major X, stored once: X w, X' r, and margins, loss and gradient in one read.
//
// X w: `lanes` threads take four rows at a time, so that each entry of w serves four; where rows are few and
// long, they are cut into segments.  Rows that start at no multiple of 16 bytes are read from the last one
// before, by whole loads all the same: the four rows are then some apart, so that they start alike, and there
// is a copy of w for each such start, with zeros for what belongs to the neighbours.  X' r: a thread owns a
// few neighbouring columns and runs down a share of the rows. The fused pass keeps a row in registers between
// its margin and its part of the gradient.
//
// Bytes an entry: the value's, once for each product and once for both in the fused pass.
#pragma once
#include <cuda_pipeline.h>

#include "finish.cuh"
#include "loss.cuh"
#include "parts.cuh"

namespace bmrm {

template <class T, int VEC>
struct alignas(sizeof(T) * VEC) Pack {
    T x[VEC];
};

constexpr int kDenseThreads = 256, kDenseRows = 4;
constexpr int kColumnThreads = 512, kColumnLoads = 8;

// Blocks a multiprocessor: as many as have the registers for their loads.
template <class T, int VEC>
constexpr int kColumnBlocks = sizeof(T) * VEC <= 4 ? 4 : 2;

template <class T, int VEC>
__device__ __forceinline__ Pack<T, VEC> stream_pack(const T* p) {
    Pack<T, VEC> out;
    if constexpr (sizeof(out) == 16) {
        const uint4 v = __ldcs(reinterpret_cast<const uint4*>(p));
        memcpy(&out, &v, 16);
    } else if constexpr (sizeof(out) == 8 && VEC == 2) {
        const uint2 v = __ldcs(reinterpret_cast<const uint2*>(p));
        memcpy(&out, &v, 8);
    } else {
        out.x[0] = __ldcs(p);
    }
    return out;
}

// out: VEC copies of x, the s-th with s zeros before it; `padded` entries each.
template <class T, int VEC>
__global__ void shift_inputs(const T* __restrict__ x, int64_t cols, int64_t padded, T* __restrict__ out) {
    BB_FOR (i, VEC * padded) {
        const int64_t c = i % padded - i / padded;
        out[i] = c >= 0 && c < cols ? x[c] : T(0);
    }
}

// padded: 0 where all rows start at a multiple of 16 bytes, else x is what `shift_inputs` made of it.  sums:
// (segments, rows) where segments > 1, else y.
template <class T, int VEC>
__global__ void __launch_bounds__(kDenseThreads)
    dense_rows(const T* __restrict__ a, int64_t rows, int64_t cols, const T* __restrict__ x, int64_t padded,
               int lanes, int segments, int64_t segment, T* __restrict__ y, T* __restrict__ sums) {
    const int64_t task = (int64_t(blockIdx.x) * kDenseThreads + threadIdx.x) / lanes;
    const int lane = int(threadIdx.x) & (lanes - 1);
    const int64_t group = task / segments, part = task % segments;
    // Rows that are VEC apart start alike.
    const int apart = padded ? VEC : 1;
    const int64_t row = group / apart * (apart * kDenseRows) + group % apart;
    const int shift = padded ? int(row * cols % VEC) : 0;
    const int64_t stop = min(cols + shift, (part + 1) * segment);
    T sum[kDenseRows] = {T(0), T(0), T(0), T(0)};
    if (row < rows) {
        x += shift * padded;
        const T* from[kDenseRows];
#pragma unroll
        for (int k = 0; k < kDenseRows; k++) {
            const int64_t mine = row + k * apart < rows ? row + k * apart : row;
            from[k] = a + mine * cols - shift;
        }
#pragma unroll 2
        for (int64_t c = part * segment + lane * VEC; c < stop; c += lanes * VEC) {
            Pack<T, VEC> v[kDenseRows];
#pragma unroll
            for (int k = 0; k < kDenseRows; k++) v[k] = stream_pack<T, VEC>(from[k] + c);
            // At either end a load has numbers of the neighbours, which may be none.
            if (padded && (c < shift || c + VEC > cols + shift))
#pragma unroll
                for (int j = 0; j < VEC; j++)
                    if (c + j < shift || c + j >= cols + shift)
#pragma unroll
                        for (int k = 0; k < kDenseRows; k++) v[k].x[j] = T(0);
            const Pack<T, VEC> w = *reinterpret_cast<const Pack<T, VEC>*>(x + c);
#pragma unroll
            for (int k = 0; k < kDenseRows; k++)
#pragma unroll
                for (int j = 0; j < VEC; j++) sum[k] += v[k].x[j] * w.x[j];
        }
    }
#pragma unroll
    for (int k = 0; k < kDenseRows; k++) {
        for (int half = lanes / 2; half; half /= 2) sum[k] += __shfl_xor_sync(0xFFFFFFFFu, sum[k], half);
        const int64_t mine = row + k * apart;
        if (lane == 0 && mine < rows) {
            if (segments == 1)
                y[mine] = sum[k];
            else
                sums[part * rows + mine] = sum[k];
        }
    }
}

// Threads of a block: `across` over columns, the rest over rows.  sums: (segments, cols).
template <class T, int VEC>
__global__ void __launch_bounds__(kColumnThreads, kColumnBlocks<T, VEC>)
    dense_columns(const T* __restrict__ a, int64_t rows, int64_t cols, const T* __restrict__ r, int across,
                  int64_t segment, T* __restrict__ sums) {
    __shared__ T shared[kColumnThreads * VEC];
    let_next_start();
    const int tx = int(threadIdx.x) % across, ty = int(threadIdx.x) / across, down = kColumnThreads / across;
    const int64_t col = (int64_t(blockIdx.y) * across + tx) * VEC;
    const int64_t end = min(rows, (blockIdx.x + int64_t(1)) * segment), step = down * cols;
    int64_t i = blockIdx.x * segment + ty;
    T sum[VEC];
#pragma unroll
    for (int j = 0; j < VEC; j++) sum[j] = T(0);
    if (col < cols) {
        const T* from = a + i * cols + col;
        // Addresses by addition alone: a product of 64 bits a load would cost more than the load.
        for (; i + (kColumnLoads - 1) * down < end; i += kColumnLoads * down, from += kColumnLoads * step) {
            Pack<T, VEC> v[kColumnLoads];
            T factor[kColumnLoads];
#pragma unroll
            for (int k = 0; k < kColumnLoads; k++) {
                v[k] = stream_pack<T, VEC>(from + k * step);
                factor[k] = __ldg(r + i + k * down);
            }
#pragma unroll
            for (int k = 0; k < kColumnLoads; k++)
#pragma unroll
                for (int j = 0; j < VEC; j++) sum[j] += v[k].x[j] * factor[k];
        }
        for (; i < end; i += down, from += step) {
            const Pack<T, VEC> v = stream_pack<T, VEC>(from);
            const T factor = __ldg(r + i);
#pragma unroll
            for (int j = 0; j < VEC; j++) sum[j] += v.x[j] * factor;
        }
    }
#pragma unroll
    for (int j = 0; j < VEC; j++) shared[j * kColumnThreads + threadIdx.x] = sum[j];
    __syncthreads();
    if (ty == 0 && col < cols)
#pragma unroll
        for (int j = 0; j < VEC; j++) {
            double total = 0;
            for (int k = 0; k < down; k++) total += double(shared[j * kColumnThreads + k * across + tx]);
            sums[int64_t(blockIdx.x) * cols + col + j] = T(total);
        }
}

// The block's share of the risk, behind its sums of columns.
__device__ __forceinline__ void leave_risk(double loss_sum, double* scratch, double* sums, int cols) {
    for (int apart = 16; apart; apart /= 2) loss_sum += __shfl_xor_sync(0xFFFFFFFFu, loss_sum, apart);
    __syncthreads();
    if (threadIdx.x % 32 == 0) scratch[threadIdx.x / 32] = loss_sum;
    __syncthreads();
    if (threadIdx.x == 0) {
        double total = 0;
        for (int k = 0; k < int(blockDim.x) / 32; k++) total += scratch[k];
        sums[cols] = total;
    }
}

constexpr int kShortEach = 4;  // entries a thread has of a short row

// Short rows, a warp's each, several of them at a time; the gradient stays in registers.
template <class T, int VEC>
__global__ void __launch_bounds__(256)
    dense_fused_short(const T* __restrict__ a, int64_t rows, int cols, const FusedInput fused,
                      const T* __restrict__ w, T* __restrict__ margins, T* __restrict__ gradient,
                      double* __restrict__ risk, double* __restrict__ block_sums, uint32_t* ticket) {
    extern __shared__ __align__(16) unsigned char raw[];
    double* scratch = reinterpret_cast<double*>(raw);  // a double a thread
    constexpr int EACH = kShortEach, PACKS = EACH / VEC, AT_ONCE = 32 / EACH;
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
    double next_label = 0, next_weight = 0;
    const auto fetch = [&] {
        const bool mine = lane < AT_ONCE && first + lane < rows;
        next_label = mine ? __ldg(fused.labels + first + lane) : 0;
        next_weight = !mine           ? 0
                      : fused.weights ? __ldg(fused.weights + first + lane) * fused.scale
                                      : fused.scale;
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
        const double label = next_label, weighted = next_weight;
        const int64_t here = first;
        first += step;
        if (first < rows) fetch();
#pragma unroll
        for (int k = 0; k < AT_ONCE; k++) {
            T margin = T(0);
#pragma unroll
            for (int j = 0; j < EACH; j++) margin += v[k][j] * weight[j];
            for (int apart = 16; apart; apart /= 2) margin += __shfl_xor_sync(0xFFFFFFFFu, margin, apart);
            if (lane == k) mine = margin;
        }
        // One thread a row works out its loss; the others get the derivative from it.
        double value, slope;
        loss_at(fused, double(mine), label, value, slope);
        if (lane < AT_ONCE && here + lane < rows) {
            loss_sum += weighted * value;
            margins[here + lane] = mine;
        }
        const T of_row = weighted > 0 ? T(slope * weighted) : T(0);
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
    finish_columns(block_sums, cols, ticket, scratch, gradient, risk);
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
        const double label = threadIdx.x == 0 ? fused.labels[row] : 0;
        const double weighted = threadIdx.x == 0 && fused.weights ? fused.weights[row] : 1.0;
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
        for (int apart = 16; apart; apart /= 2) margin += __shfl_xor_sync(0xFFFFFFFFu, margin, apart);
        if (threadIdx.x % 32 == 0) scratch[round * 32 + threadIdx.x / 32] = double(margin);
        __syncthreads();
        if (threadIdx.x < 32) {
            double total = int(threadIdx.x) < warps ? scratch[round * 32 + threadIdx.x] : 0;
            for (int apart = 16; apart; apart /= 2) total += __shfl_xor_sync(0xFFFFFFFFu, total, apart);
            if (threadIdx.x == 0) {
                double value, slope;
                loss_at(fused, total, label, value, slope);
                loss_sum += weighted * fused.scale * value;
                slope_of[round] = T(weighted * fused.scale * slope);
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
