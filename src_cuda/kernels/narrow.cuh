// X of few columns: X' r, and margins, loss and gradient in one read, from the row slices of X itself.
//
// Every thread owns one accumulator a column, `columns x 32` of them a warp in shared memory: thread t's lie
// in bank t, so that adding to any column costs neither a conflict nor an atomic.  A row is one thread's, and
// its columns differ, so four of its nonzeros can be in flight at once.  Blocks leave their sums in global
// memory; the block that comes last adds them up in fixed order, within the same launch.
//
// Bytes a nonzero: the value's + 1 (2 above 255 columns), once for both products.
#pragma once
#include "../sliced.h"
#include "finish.cuh"
#include "loss.cuh"
#include "sliced.cuh"

namespace bmrm {

struct NarrowView {
    SlicedView slices;
    uint32_t slice_count;
    int32_t columns;
    double* block_sums;  // blocks x (columns + 1): gradient, then risk
    uint32_t* ticket;    // zero between launches; null where another kernel adds the blocks up
};

template <class T, class E, int MOST>
__device__ __forceinline__ T margin_of(const E& e, const Batch<E, MOST>& held, uint32_t width, const T* w) {
    const uint32_t lane = threadIdx.x % 32, quads = width / 4;
    T sum[4] = {T(0), T(0), T(0), T(0)};
#pragma unroll
    for (int k = 0; k < MOST; k++)
        if (k < held.quads)
#pragma unroll
            for (int j = 0; j < 4; j++) sum[j] += e.value(held.v[k], j) * w[held.at[k][j] * 32];
    for (uint32_t k = MOST; k < quads; k++) {
        const auto at = e.four_indices(k * 128 + lane * 4);
        const auto v = e.four_values(k * 128 + lane * 4);
#pragma unroll
        for (int j = 0; j < 4; j++) sum[j] += e.value(v, j) * w[at[j] * 32];
    }
#pragma unroll
    for (uint32_t j = 0; j < 3; j++)
        if (j < held.rest) sum[j] += e.value(held.odd_v[j]) * w[uint32_t(held.odd_at[j]) * 32];
    for (uint32_t j = held.rest; j < width % 4; j++) {
        const uint32_t i = quads * 128 + j * 32 + lane;
        sum[0] += e.value(e.one_value(i)) * w[uint32_t(e.one_index(i)) * 32];
    }
    return (sum[0] + sum[1]) + (sum[2] + sum[3]);
}

// acc[column] += value * r.  The columns of a row differ, so a batch is loaded whole before it is stored.
template <class T, class E, int MOST>
__device__ __forceinline__ void add_row(const E& e, const Batch<E, MOST>& held, uint32_t width, T r, T* acc) {
    const uint32_t lane = threadIdx.x % 32, quads = width / 4;
    T old[MOST * 4], old_odd[3];
#pragma unroll
    for (uint32_t k = 0; k < MOST; k++)
        if (k < quads)
#pragma unroll
            for (int j = 0; j < 4; j++) old[k * 4 + j] = acc[held.at[k][j] * 32];
#pragma unroll
    for (uint32_t j = 0; j < 3; j++)
        if (j < held.rest) old_odd[j] = acc[uint32_t(held.odd_at[j]) * 32];
#pragma unroll
    for (uint32_t k = 0; k < MOST; k++)
        if (k < quads)
#pragma unroll
            for (int j = 0; j < 4; j++) acc[held.at[k][j] * 32] = old[k * 4 + j] + e.value(held.v[k], j) * r;
#pragma unroll
    for (uint32_t j = 0; j < 3; j++)
        if (j < held.rest) acc[uint32_t(held.odd_at[j]) * 32] = old_odd[j] + e.value(held.odd_v[j]) * r;
    for (uint32_t k = MOST; k < quads; k++) {
        const auto at = e.four_indices(k * 128 + lane * 4);
        const auto v = e.four_values(k * 128 + lane * 4);
#pragma unroll
        for (int j = 0; j < 4; j++) old[j] = acc[at[j] * 32];
#pragma unroll
        for (int j = 0; j < 4; j++) acc[at[j] * 32] = old[j] + e.value(v, j) * r;
    }
    for (uint32_t j = held.rest; j < width % 4; j++) {
        const uint32_t i = quads * 128 + j * 32 + lane;
        acc[uint32_t(e.one_index(i)) * 32] += e.value(e.one_value(i)) * r;
    }
}

constexpr int narrow_threads(int value_bytes) { return value_bytes == 4 ? 384 : 256; }

// An item is a slice here.  Shared memory leaves room for few warps, so each looks ahead: of one slice it has
// the description under way, of the next the rows, of the next the nonzeros and what belongs to their rows.
template <class T, int CODING, class Local, bool FUSED>
__global__ void __launch_bounds__(narrow_threads(sizeof(T)))
    narrow_product(const NarrowView view, const FusedInput fused, const T* __restrict__ in,
                   T* __restrict__ margins, T* __restrict__ gradient, double* __restrict__ risk) {
    constexpr int MOST = sizeof(T) == 4 ? 6 : 4;
    using E = Elements<T, CODING, Local, ONCE>;
    extern __shared__ __align__(16) unsigned char raw[];
    const int columns = view.columns, warps = int(blockDim.x) / 32, warp = int(threadIdx.x) / 32;
    const uint32_t lane = threadIdx.x % 32;
    double* scratch = reinterpret_cast<double*>(raw);  // a double a thread
    T* table = reinterpret_cast<T*>(scratch + blockDim.x);
    T* w = table + (CODING == BB_DICTIONARY ? 256 : 0);
    T* all = w + (FUSED ? (columns + 1) * 32 : 0);
    T* acc = all + int64_t(warp) * (columns + 1) * 32 + lane;
    if (CODING == BB_DICTIONARY)
        for (int i = int(threadIdx.x); i < 256; i += int(blockDim.x))
            table[i] = static_cast<const T*>(view.slices.dictionary)[i];
    // The weights once for each bank too: a thread finds all of its own, without a conflict.
    if (FUSED)
        for (int i = int(threadIdx.x); i < (columns + 1) * 32; i += int(blockDim.x))
            w[i] = i / 32 < columns ? in[i / 32] : T(0);
    w += lane;
    for (int c = 0; c <= columns; c++) acc[c * 32] = T(0);
    __syncthreads();

    const Local* __restrict__ index = static_cast<const Local*>(view.slices.local);
    const uint32_t* __restrict__ dest = view.slices.dest;
    double loss_sum = 0;
    const uint4* items = reinterpret_cast<const uint4*>(view.slices.items);
    const uint32_t stop = view.slice_count, step = gridDim.x * uint32_t(warps);
    const auto item_at = [&](uint32_t i) { return i < stop ? __ldg(items + i) : uint4{}; };
    const auto row_at = [&](uint32_t i, const uint4& item) {
        return i < stop ? __ldg(dest + item.w + lane) : kNowhere;
    };
    const auto elements = [&](const uint4& item) {
        return E(index, view.slices.values, uint64_t(item.x) * 32, uint64_t(item.x) * 32, table);
    };
    uint32_t at = blockIdx.x * uint32_t(warps) + uint32_t(warp);
    uint4 item = item_at(at), item1 = item_at(at + step), item2 = item_at(at + 2 * step);
    uint32_t row = row_at(at, item), row1 = row_at(at + step, item1);
    Batch<E, MOST> next;
    T next_r = T(0);
    double next_label = 0, next_weight = 1;
    // What depends on loads of earlier rounds goes first: a warp waits for loads in the order it asked for
    // them.
    const auto fetch_row = [&] {
        const uint32_t safe = row == kNowhere ? 0 : row;
        if (!FUSED) {
            next_r = __ldg(in + safe);
        } else {
            next_label = __ldg(fused.labels + safe);
            if (fused.weights) next_weight = __ldg(fused.weights + safe);
        }
    };
    if (at < stop) {
        fetch_row();
        next.fetch(elements(item), item.y & 0xFFFF, 0);
    }
    while (at < stop) {
        const Batch<E, MOST> held = next;
        const E e = elements(item);
        const uint32_t width = item.y & 0xFFFF, to = row;
        const double label = next_label, weight = next_weight;
        T r = next_r;
        item = item1;
        item1 = item2;
        row = row1;
        at += step;
        if (at < stop) fetch_row();
        row1 = row_at(at + step, item1);
        item2 = item_at(at + 2 * step);
        if (at < stop) next.fetch(elements(item), item.y & 0xFFFF, 0);
        if (FUSED) {
            const T margin = margin_of(e, held, width, w);
            double value, slope;
            loss_at(fused, double(margin), label, value, slope);
            r = T(weight * fused.scale * slope);
            if (to != kNowhere) {
                loss_sum += weight * fused.scale * value;
                margins[to] = margin;
            }
        }
        add_row(e, held, width, to == kNowhere ? T(0) : r, acc);
    }
    __syncthreads();
    // A column's sums lie in all 32 banks for each warp: threads of neighbouring columns start at
    // neighbouring ones.
    double* sums = view.block_sums + int64_t(blockIdx.x) * (columns + 1);
    const int threads = int(blockDim.x), groups = min(warps, max(1, threads / columns));
    for (int first = 0; first < columns; first += threads) {
        const int c = first + int(threadIdx.x) % min(columns, threads), group = int(threadIdx.x) / columns;
        double sum = 0;
        if (c < columns && group < groups)
            for (int k = group; k < warps; k += groups) {
                const T* of_warp = all + (k * (columns + 1) + c) * 32;
                T part[4] = {T(0), T(0), T(0), T(0)};
#pragma unroll 8
                for (int l = 0; l < 32; l += 4)
#pragma unroll
                    for (int j = 0; j < 4; j++) part[j] += of_warp[(l + j + c) & 31];
                sum += double((part[0] + part[1]) + (part[2] + part[3]));
            }
        scratch[threadIdx.x] = sum;
        __syncthreads();
        if (group == 0 && c < columns) {
            for (int g = 1; g < groups; g++) sum += scratch[int(threadIdx.x) + g * columns];
            sums[c] = sum;
        }
        __syncthreads();
    }
    for (int apart = 16; apart; apart /= 2) loss_sum += __shfl_xor_sync(0xFFFFFFFFu, loss_sum, apart);
    if (lane == 0) scratch[warp] = loss_sum;
    __syncthreads();
    if (threadIdx.x == 0) {
        for (int k = 1; k < warps; k++) loss_sum += scratch[k];
        sums[columns] = loss_sum;
    }
    if (view.ticket) finish_columns(view.block_sums, columns, view.ticket, scratch, gradient, risk);
}

}  // namespace bmrm
