// Y = A X for several columns: the matrix is read once for all of them.
//
// The inputs of a nonzero are a short row of X, so gathers are whole sectors and shared memory has nothing to
// gain. On slices, a thread keeps one sum per column; on compressed rows, a thread computes one column of one
// row, or, for the plan `split`, of an equal share of nonzeros whatever the rows.
#pragma once
#include "device_limits.h"
#include "formats/kernels/listing.cuh"
#include "formats/kernels/sliced.cuh"

namespace bmrm {

struct ColumnsView {
    SlicedView slices;
    const uint32_t* order;  // columns by popularity, or null
    int32_t index_bytes;    // of the shared tiles
};

// The columns of the elements of a tile.
struct TileColumns {
    const ColumnsView& view;
    const bool shared;
    const uint32_t base, pad;

    __device__ __forceinline__ TileColumns(const ColumnsView& view, uint32_t tile)
        : view(view),
          shared(int32_t(tile) < view.slices.shared),
          base(shared ? uint32_t(tile * view.slices.tile) : 0),
          pad(shared ? uint32_t(view.slices.tile) : kNowhere) {}
    // Returns the index of an element within the tile: `pad` for padding.
    __device__ __forceinline__ uint32_t index(uint64_t i) const {
        const SlicedView& v = view.slices;
        return shared ? view.index_bytes == 1 ? static_cast<const uint8_t*>(v.local)[i]
                                              : static_cast<const uint16_t*>(v.local)[i]
                      : v.far[i - v.shared_elements];
    }
    __device__ __forceinline__ uint32_t column(uint32_t index) const {
        return view.order ? view.order[base + index] : base + index;
    }
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
        const TileColumns tile_columns(view, tile);
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
                const uint32_t index = tile_columns.index(i);
                if (index == tile_columns.pad) continue;
                const uint32_t col = tile_columns.column(index);
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

// The row of each slot of partial sums.
struct SlotRows {
    const uint32_t *parted, *slot;
    int64_t count;
    // `to`: a row, or a slot.
    __device__ __forceinline__ uint32_t row(uint32_t to) const {
        return to & kSlot ? parted[last_begun(slot, 0, count - 1, to & ~kSlot)] : to;
    }
};

// Lists the elements of slices, a warp those of an item; `rows`: the number of each row, or null.
template <class T, int CODING>
__global__ void list_slices(const ColumnsView view, int64_t items, int64_t tiles, const SlotRows slots,
                            const uint32_t* rows, const Listing to) {
    const SlicedView& v = view.slices;
    const Elements<T, CODING, uint32_t, AGAIN> elements(v.far, v.values, 0, 0,
                                                        static_cast<const T*>(v.dictionary));
    const uint32_t lane = threadIdx.x % 32;
    BB_FOR (thread, items * 32) {
        const int64_t at = thread / 32;
        const TileColumns columns(view, uint32_t(last_begun(v.tile_item, 0, tiles - 1, at)));
        const Item item = v.items[at];
        const uint32_t width = item.shape & 0xFFFF, log2 = item.shape >> 16, chunks = 32 >> log2;
        for (uint32_t s = 0; s < item.slices; s++) {
            const uint32_t dest = v.dest[item.dest + s * chunks + (lane >> log2)];
            const uint32_t found = dest == kNowhere ? kNowhere : slots.row(dest);
            const uint64_t row = rows && found != kNowhere ? rows[found] : found;
            const uint64_t e = (uint64_t(item.offset) + uint64_t(s) * width) * 32;
            for (uint32_t step = 0; step < width; step++) {
                const uint64_t i = e + element_place(lane, step, width), place = e + step * 32 + lane;
                const uint32_t index = columns.index(i);
                if (index == columns.pad)
                    to.keys[place] = kPadding;
                else
                    put_element(to, place, row, columns.column(index), elements.at(i));
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

// The nonzeros of a warp, and the rows of the share among which theirs are (split_rows in rows.cuh).
struct Piece {
    int64_t begin, end, first_row, last_row;

    __device__ __forceinline__ Piece(int64_t warp, int64_t rows, int64_t nnz,
                                     const int64_t* __restrict__ share_row)
        : begin(warp * kPieceNonzeros), end(min(begin + kPieceNonzeros, nnz)) {
        const int64_t share = begin / tuning::kSplitNonzeros;
        first_row = share_row[share];
        last_row = min(share_row[share + 1], rows - 1);
    }
};

// A warp adds up the rows of its piece: WIDTH threads have the columns of a nonzero, and take turns with
// those of the next ones.  The sum of a row that is cut goes to `pieces`: two for each warp, that of a row
// which began before and that of one which goes on.  Rows without nonzeros are left as they are.
template <class T, int CODING, int WIDTH>
__global__ void __launch_bounds__(tuning::kPlainThreads)
    split_columns(const int64_t* __restrict__ ptr, const uint32_t* __restrict__ col,
                  const void* __restrict__ data, const void* __restrict__ dictionary, int64_t rows,
                  int64_t nnz, const int64_t* __restrict__ share_row, const T* __restrict__ x, int columns,
                  T* __restrict__ y, T* __restrict__ pieces) {
    constexpr int AT_ONCE = 32 / WIDTH;
    const int lane = int(threadIdx.x) % 32, column = lane % WIDTH, turn = lane / WIDTH;
    const int64_t warp = (int64_t(blockIdx.x) * blockDim.x + threadIdx.x) / 32;
    if (warp * kPieceNonzeros >= nnz) return;
    const Piece piece(warp, rows, nnz, share_row);
    const Elements<T, CODING, uint32_t, ONCE> e(col, data, uint64_t(piece.begin), uint64_t(piece.begin),
                                                static_cast<const T*>(dictionary));
    int64_t row = last_begun(ptr, piece.first_row, piece.last_row, piece.begin), row_end = ptr[row + 1];
    T sum = T(0);
    const auto put = [&] {
        T total = sum;
#pragma unroll
        for (int apart = 16; apart >= WIDTH; apart /= 2) total += __shfl_xor_sync(0xFFFFFFFFu, total, apart);
        sum = T(0);
        if (turn != 0 || column >= columns) return;
        const bool began = ptr[row] >= piece.begin;
        if (began && row_end <= piece.end)
            y[row * columns + column] = total;
        else
            pieces[(2 * warp + (began ? 1 : 0)) * columns + column] = total;
    };
    for (int64_t chunk = piece.begin; chunk < piece.end; chunk += 32) {
        const int64_t stop = min(chunk + 32, piece.end), mine = chunk + lane - piece.begin;
        uint32_t my_col = 0;
        T my_value = T(1);
        if (chunk + lane < stop) {
            my_col = e.one_index(int(mine));
            if constexpr (CODING != BB_ONES) my_value = e.value(e.one_value(int(mine)));
        }
        for (int64_t at = chunk; at < stop;) {
            const int64_t until = min(row_end, stop);
#pragma unroll 4
            for (int64_t i = at; i < until; i += AT_ONCE) {
                const int from = int(i - chunk) + turn;
                const uint32_t c = __shfl_sync(0xFFFFFFFFu, my_col, from & 31);
                T value = T(1);
                if constexpr (CODING != BB_ONES) value = __shfl_sync(0xFFFFFFFFu, my_value, from & 31);
                if (i + turn < until && column < columns)
                    sum += value * __ldg(x + int64_t(c) * columns + column);
            }
            at = until;
            if (at < row_end) break;
            put();
            if (at == piece.end) return;
            while (row_end == at) row_end = ptr[++row + 1];
        }
    }
    put();
}

// Adds up the pieces of each row that is cut, in order: the warp in which it begins does.
template <class T>
__global__ void __launch_bounds__(tuning::kPlainThreads)
    add_pieces(const int64_t* __restrict__ ptr, int64_t rows, int64_t nnz,
               const int64_t* __restrict__ share_row, const T* __restrict__ pieces, int columns,
               T* __restrict__ y) {
    const int column = int(threadIdx.x) % 32;
    const int64_t warp = (int64_t(blockIdx.x) * blockDim.x + threadIdx.x) / 32;
    if (warp * kPieceNonzeros >= nnz) return;
    const Piece piece(warp, rows, nnz, share_row);
    const int64_t row = last_begun(ptr, piece.first_row, piece.last_row, piece.end - 1);
    if (ptr[row] < piece.begin || ptr[row + 1] <= piece.end || column >= columns) return;
    const int64_t last = (ptr[row + 1] - 1) / kPieceNonzeros;
    double sum = double(pieces[(2 * warp + 1) * columns + column]);
#pragma unroll 8
    for (int64_t w = warp + 1; w <= last; w++) sum += double(pieces[2 * w * columns + column]);
    y[row * columns + column] = T(sum);
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
