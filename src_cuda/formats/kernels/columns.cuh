// Y = A X for several columns: the matrix is read once for all of them.
//
// The inputs of a nonzero are a short row of X, so gathers are whole sectors and shared memory has nothing to
// gain. On slices, a thread keeps one sum per column; on compressed rows, a thread computes one column of one
// row.
#pragma once
#include "formats/kernels/sliced.cuh"

namespace bmrm {

struct ColumnsView {
    SlicedView slices;
    const uint32_t* order;  // columns by popularity, or null
    int32_t index_bytes;    // of the shared tiles
};

template <class T, int CODING, int MOST>
__global__ void __launch_bounds__(256)
    sliced_columns(const ColumnsView view, const T* __restrict__ x, int columns, const Output<T> out) {
    const SlicedView& v = view.slices;
    const Elements<T, CODING, uint32_t, AGAIN> elements(v.far, v.values, 0, 0,
                                                        static_cast<const T*>(v.dictionary));
    const uint32_t lane = threadIdx.x & 31, warps = blockDim.x / 32;
    const BlockShare share = v.shares[blockIdx.x];
    uint32_t tile = share.tile;
    for (uint32_t at = share.begin + threadIdx.x / 32; at < share.end; at += warps) {
        while (at >= v.tile_item[tile + 1]) tile++;
        const bool shared = int32_t(tile) < v.shared;
        const uint32_t base = shared ? uint32_t(tile * v.tile) : 0,
                       pad = shared ? uint32_t(v.tile) : 0xFFFFFFFFu;
        const Item item = v.items[at];
        const uint32_t width = item.shape & 0xFFFF, log2 = item.shape >> 16, chunks = 32 >> log2;
        const bool writes = (lane & ((1u << log2) - 1)) == 0;
        for (uint32_t s = 0; s < item.slices; s++) {
            T sum[MOST];
#pragma unroll
            for (int c = 0; c < MOST; c++) sum[c] = T(0);
            const uint64_t e = (uint64_t(item.offset) + uint64_t(s) * width) * 32;
            for (uint32_t step = 0; step < width; step++) {
                const uint64_t i = e + element_place(lane, step, width);
                uint32_t col = shared ? view.index_bytes == 1 ? static_cast<const uint8_t*>(v.local)[i]
                                                              : static_cast<const uint16_t*>(v.local)[i]
                                      : v.far[i - v.shared_elements];
                if (col == pad) continue;
                col += base;
                if (view.order) col = view.order[col];
                const T value = elements.at(i);
                const T* __restrict__ row = x + int64_t(col) * columns;
#pragma unroll
                for (int c = 0; c < MOST; c++)
                    if (c < columns) sum[c] += value * __ldg(row + c);
            }
            const uint32_t to = writes ? v.dest[item.dest + s * chunks + (lane >> log2)] : kNowhere;
#pragma unroll
            for (int c = 0; c < MOST; c++)
                if (c < columns) {
                    const T total = add_chunk(sum[c], log2);
                    if (to == kNowhere) continue;
                    if (to & kSlot)
                        out.partial[int64_t(to & ~kSlot) * columns + c] = total;
                    else
                        out.y[int64_t(to) * columns + c] = total;
                }
        }
    }
}

// Adds the partial sums of a row, one thread per column.
template <class T>
__global__ void __launch_bounds__(256)
    add_partial_columns(const T* __restrict__ partial, const uint32_t* __restrict__ row,
                        const uint32_t* __restrict__ slot, int64_t rows, int columns, T* __restrict__ y) {
    const int64_t i = int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i >= rows * columns) return;
    const int64_t nth = i / columns;
    double sum = 0;
    for (uint32_t k = slot[nth]; k < slot[nth + 1]; k++)
        sum += double(partial[int64_t(k) * columns + i % columns]);
    y[int64_t(row[nth]) * columns + i % columns] = T(sum);
}

template <class T, int CODING>
__global__ void __launch_bounds__(256)
    rows_columns(const int64_t* __restrict__ ptr, const uint32_t* __restrict__ col,
                 const void* __restrict__ data, const void* __restrict__ dictionary, int64_t rows,
                 const T* __restrict__ x, int columns, T* __restrict__ y) {
    const Elements<T, CODING, uint32_t, AGAIN> elements(col, data, 0, 0, static_cast<const T*>(dictionary));
    const int64_t row = int64_t(blockIdx.x) * (blockDim.x / 32) + threadIdx.x / 32;
    const int column = int(threadIdx.x) % 32;
    if (row >= rows || column >= columns) return;
    T sum = T(0);
    for (int64_t i = ptr[row]; i < ptr[row + 1]; i++)
        sum += elements.at(uint64_t(i)) * __ldg(x + int64_t(col[i]) * columns + column);
    y[row * columns + column] = sum;
}

}  // namespace bmrm
