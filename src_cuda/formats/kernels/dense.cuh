// A dense row-major X, stored once: X w and X' r.
//
// X w: `lanes` threads (a part of a warp, a warp, or several) take four rows at a time, so that each entry of
// w serves four rows, and two loads of each row are in flight.  If rows are few and long, they are cut into
// segments. Rows that do not start at a multiple of 16 bytes are read by whole loads from the last such
// multiple before them. The four rows are then some rows apart, so that they start alike, and there is one
// copy of w per start, with zeros for the entries of neighbouring rows.  X' r: a thread owns a few
// neighbouring columns and runs down a share of the rows.
//
// Bytes per entry: the value's, once per product.
#pragma once
#include <type_traits>

#include "formats/dense.h"
#include "runtime/partial_sums.cuh"

namespace bmrm {

template <class T, int VEC>
struct alignas(sizeof(T) * VEC) Pack {
    T x[VEC];
};

constexpr int kDenseThreads = 256;   // threads per block of dense_rows
constexpr int kDenseRows = 4;        // rows that a group of threads takes at a time
constexpr int kColumnThreads = 512;  // threads per block of dense_columns
constexpr int kColumnLoads = 8;      // loads that a thread of dense_columns has in flight

// Blocks per multiprocessor: as many as have registers for their loads.
template <bool SHIFTED>
constexpr int kRowBlocks = SHIFTED ? 3 : 4;

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

// out: VEC copies of x, copy s with s zeros before it; `padded` entries each.
template <class T, int VEC>
__global__ void shift_inputs(const T* __restrict__ x, int64_t cols, int64_t padded, T* __restrict__ out) {
    BB_FOR (i, VEC * padded) {
        const int64_t c = i % padded - i / padded;
        out[i] = c >= 0 && c < cols ? x[c] : T(0);
    }
}

// Sums kDenseRows numbers over `lanes` threads, side by side within a warp.  In each round a thread hands
// over half of its numbers and keeps the others, so that seven shuffles suffice for four sums over a warp.  A
// thread ends with sum number lane / (lanes / kDenseRows).
template <class T>
__device__ __forceinline__ T spread_sums(T (&x)[kDenseRows], int lanes, int lane) {
    static_assert(kDenseRows == 4);
    bool upper = lane & (lanes / 2);
#pragma unroll
    for (int k = 0; k < 2; k++)
        x[k] = (upper ? x[k + 2] : x[k]) + __shfl_xor_sync(0xFFFFFFFFu, upper ? x[k] : x[k + 2], lanes / 2);
    upper = lane & (lanes / 4);
    T sum = (upper ? x[1] : x[0]) + __shfl_xor_sync(0xFFFFFFFFu, upper ? x[0] : x[1], lanes / 4);
    for (int half = lanes / 8; half; half /= 2) sum += __shfl_xor_sync(0xFFFFFFFFu, sum, half);
    return sum;
}

// lanes: threads for four rows: 32 WARPS, or fewer for a single warp.  SHIFTED: not all rows start at a
// multiple of 16 bytes, and x is the output of `shift_inputs`, `padded` entries per copy.  y: (segments,
// rows).
template <class T, int VEC, int WARPS, bool SHIFTED>
__global__ void __launch_bounds__(kDenseThreads, kRowBlocks<SHIFTED>)
    dense_rows(const T* __restrict__ a, int64_t rows, int64_t cols, const T* __restrict__ x, int64_t padded,
               int lanes, int segments, int64_t segment, T* __restrict__ y) {
    __shared__ T of_warp[WARPS > 1 ? kDenseThreads / 32 * kDenseRows : 1];
    let_next_start();
    if (WARPS > 1) lanes = 32 * WARPS;
    const int64_t task = (int64_t(blockIdx.x) * kDenseThreads + threadIdx.x) / lanes;
    const int lane = int(threadIdx.x) & (lanes - 1);
    const int64_t group = task / segments, part = task % segments;
    // Rows that are VEC apart start alike.
    constexpr int apart = SHIFTED ? VEC : 1;
    const int64_t row = group / apart * (apart * kDenseRows) + group % apart;
    const int shift = SHIFTED ? int(row * cols % VEC) : 0, step = lanes * VEC;
    const int64_t stop = min(cols + shift, (part + 1) * segment);
    int64_t c = part * segment + lane * VEC;
    T sum[kDenseRows] = {T(0), T(0), T(0), T(0)};
    if (row < rows) {
        if (SHIFTED) x += shift * padded;
        const T* from[kDenseRows];
#pragma unroll
        for (int k = 0; k < kDenseRows; k++) {
            const int64_t mine = row + k * apart < rows ? row + k * apart : row;
            from[k] = a + mine * cols - shift;
        }
        const auto take = [&](auto count) {
            constexpr int LOADS = decltype(count)::value;
            Pack<T, VEC> v[LOADS][kDenseRows], w[LOADS];
#pragma unroll
            for (int u = 0; u < LOADS; u++)
#pragma unroll
                for (int k = 0; k < kDenseRows; k++) v[u][k] = stream_pack<T, VEC>(from[k] + c + u * step);
#pragma unroll
            for (int u = 0; u < LOADS; u++) w[u] = *reinterpret_cast<const Pack<T, VEC>*>(x + c + u * step);
#pragma unroll
            for (int u = 0; u < LOADS; u++) {
                const int64_t at = c + u * step;
                // At either end a load contains entries of the neighbouring rows, which may not be finite.
                if (SHIFTED && (at < shift || at + VEC > cols + shift))
#pragma unroll
                    for (int j = 0; j < VEC; j++)
                        if (at + j < shift || at + j >= cols + shift)
#pragma unroll
                            for (int k = 0; k < kDenseRows; k++) v[u][k].x[j] = T(0);
#pragma unroll
                for (int k = 0; k < kDenseRows; k++)
#pragma unroll
                    for (int j = 0; j < VEC; j++) sum[k] += v[u][k].x[j] * w[u].x[j];
            }
        };
        for (; c + step < stop; c += 2 * step) take(std::integral_constant<int, 2>());
        if (c < stop) take(std::integral_constant<int, 1>());
    }
    y += part * rows;
    if (lanes < kDenseRows) {
#pragma unroll
        for (int k = 0; k < kDenseRows; k++) {
            if (lanes == 2) sum[k] += __shfl_xor_sync(0xFFFFFFFFu, sum[k], 1);
            if (lane == 0 && row + k * apart < rows) y[row + k * apart] = sum[k];
        }
        return;
    }
    const int width = WARPS > 1 ? 32 : lanes, each = width / kDenseRows, place = lane & (width - 1);
    const T total = spread_sums(sum, width, place);
    const int64_t mine = row + place / each * apart;
    if (WARPS == 1) {
        if (place % each == 0 && mine < rows) y[mine] = total;
        return;
    }
    const int warp = int(threadIdx.x) / 32;
    if (place % each == 0) of_warp[warp * kDenseRows + place / each] = total;
    __syncthreads();
    if (lane < kDenseRows && row + lane * apart < rows) {
        T whole = T(0);
#pragma unroll
        for (int k = 0; k < WARPS; k++) whole += of_warp[(warp + k) * kDenseRows + lane];
        y[row + lane * apart] = whole;
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
        // Addresses by addition only: a 64-bit product per load would cost more than the load.
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
    for (int e = int(threadIdx.x); e < across * VEC; e += kColumnThreads) {
        const int j = e / across, x = e % across;
        const int64_t mine = (int64_t(blockIdx.y) * across + x) * VEC + j;
        double total = 0;
        for (int k = 0; k < down; k++) total += double(shared[j * kColumnThreads + k * across + x]);
        if (mine < cols) sums[int64_t(blockIdx.x) * cols + mine] = T(total);
    }
}

// Returns the entries per load for rows of this length: all rows must start aligned.
template <class T>
int pack_size(int64_t cols) {
    const int most = kLoadBytes / int(sizeof(T));
    for (int vec = most; vec > 1; vec /= 2)
        if (cols % vec == 0) return vec;
    return 1;
}

template <class T, class F>
void with_pack(int64_t cols, F&& f) {
    const int vec = pack_size<T>(cols);
    if (sizeof(T) == 4 && vec == 4)
        f(std::integral_constant<int, kLoadBytes / int(sizeof(T))>());
    else if (vec >= 2)
        f(std::integral_constant<int, 2>());
    else
        f(std::integral_constant<int, 1>());
    BB_CHECK(cudaGetLastError());
}

}  // namespace bmrm
