// y = A x for the sliced format (formats/sliced.h), with inputs from shared memory, gathered, or both.
//
// A block takes an equal share of the items.  For a shared tile it first copies the tile's slice of x into
// shared memory, so that gathers cost a bank access and no traffic.  For the gathered tile (columns too rare
// to be worth a slot) it reads x through L1 and L2.  Each chunk's sum goes to one place: the row itself if
// every row is one chunk, otherwise a slot of partial sums, which partial.cuh adds up in fixed order.
//
// Bytes per nonzero: the value's (8, 4, 1 or 0) + 1, 2 or 4 for the index + 4 / chunk length for the
// destination.
#pragma once
#include <cuda_pipeline.h>

#include "formats/kernels/values.cuh"
#include "formats/sliced.h"
#include "formats/tuning.h"
#include "runtime/chain.cuh"

namespace bmrm {

struct SlicedView {
    const Item* items;
    const uint32_t* dest;
    const void* local;    // indices of the shared tiles, one or two bytes
    const uint32_t* far;  // indices of the gathered tile
    const void* values;
    const void* dictionary;
    const uint32_t* tile_item;  // first item of each tile; tiles + 1
    const BlockShare* shares;   // per block
    const uint32_t* tile_size;  // inputs per tile if they differ, else null
    uint64_t shared_elements;   // elements before the gathered tile
    int64_t cols, tile;
    int32_t shared;
};

enum { SHARED_ONLY = 1, GATHERED_ONLY = 2, SHARED_AND_GATHERED = 3 };

template <class T>
struct SharedInput {
    const T* slice;
    __device__ __forceinline__ T operator[](uint32_t i) const { return slice[i]; }
};

template <class T>
struct GatheredInput {
    const T* x;
    uint32_t size;
    __device__ __forceinline__ T operator[](uint32_t i) const { return i < size ? load_input(x + i) : T(0); }
};

// Where sums of chunks go: a row that is one chunk to its place, the chunks of other rows to partial sums.
template <class T>
struct Output {
    T* y;
    T* partial;
    __device__ __forceinline__ void put(uint32_t to, T sum) const {
        if (to == kNowhere) return;
        if (to & kSlot)
            partial[to & ~kSlot] = sum;
        else
            y[to] = sum;
    }
};

template <class T>
__device__ __forceinline__ T add_chunk(T sum, uint32_t log2) {
    for (uint32_t apart = (1u << log2) >> 1; apart; apart >>= 1)
        sum += __shfl_xor_sync(0xFFFFFFFFu, sum, int(apart));
    return sum;
}

// Slices narrower than a quad, several of them in flight at a time.  Each thread has a chunk of its own:
// chunks of several threads are wider, since caps are at least 8.
template <int WIDTH, class T, class E, class Input>
__device__ __forceinline__ void thin_slices(const E& elements, uint32_t slices, const Input& x,
                                            const uint32_t* __restrict__ dest, const Output<T>& out) {
    constexpr uint32_t FLIGHT = (WIDTH <= 1 ? 8 : 4) / (sizeof(T) / 4);
    constexpr int HELD = WIDTH > 0 ? WIDTH : 1;
    const uint32_t lane = threadIdx.x & 31;
    const E mine = elements.after(lane);
    uint32_t s = 0;
    for (; s + FLIGHT <= slices; s += FLIGHT) {
        uint32_t to[FLIGHT], at[FLIGHT][HELD];
        typename E::Code::Stored v[FLIGHT][HELD];
        const E here = mine.after(s * (WIDTH * 32));
        const uint32_t* from = dest + (s * 32 + lane);
#pragma unroll
        for (int k = 0; k < FLIGHT; k++) {
            to[k] = load<ONCE>(from + k * 32);
#pragma unroll
            for (int j = 0; j < WIDTH; j++) {
                at[k][j] = here.one_index((k * WIDTH + j) * 32);
                v[k][j] = here.one_value((k * WIDTH + j) * 32);
            }
        }
#pragma unroll
        for (int k = 0; k < FLIGHT; k++) {
            T sum = T(0);
#pragma unroll
            for (int j = 0; j < WIDTH; j++) sum += elements.value(v[k][j]) * x[at[k][j]];
            out.put(to[k], sum);
        }
    }
    for (; s < slices; s++) {
        const E here = mine.after(s * (WIDTH * 32));
        T sum = T(0);
#pragma unroll
        for (int j = 0; j < WIDTH; j++) sum += here.value(here.one_value(j * 32)) * x[here.one_index(j * 32)];
        out.put(load<ONCE>(dest + (s * 32 + lane)), sum);
    }
}

// What a thread holds of a slice: a batch of up to MOST quads and, with the last batch, the remaining
// elements.
template <class E, int MOST>
struct Batch {
    Quad<typename E::IndexType> at[MOST];
    typename E::Code::Four v[MOST];
    typename E::IndexType odd_at[3];
    typename E::Code::Stored odd_v[3];
    uint32_t quads, rest;

    // `first`: quads of the slice before this batch.  Most batches are full, and those need no branch.
    __device__ __forceinline__ void fetch(const E& e, uint32_t width, uint32_t first) {
        const uint32_t lane = threadIdx.x & 31, all = width / 4;
        const E from = e.after(first * 128 + lane * 4);
        quads = min(all - first, uint32_t(MOST));
        rest = first + quads == all ? width & 3 : 0;
        if (quads == MOST) {
#pragma unroll
            for (int k = 0; k < MOST; k++) {
                at[k] = from.four_indices(k * 128);
                v[k] = from.four_values(k * 128);
            }
        } else {
#pragma unroll
            for (int k = 0; k < MOST - 1; k++)
                if (k < quads) {
                    at[k] = from.four_indices(k * 128);
                    v[k] = from.four_values(k * 128);
                }
        }
        if (rest) {
            const E odd = e.after(all * 128 + lane);
#pragma unroll
            for (int j = 0; j < 3; j++)
                if (j < rest) {
                    odd_at[j] = odd.one_index(j * 32);
                    odd_v[j] = odd.one_value(j * 32);
                }
        }
    }

    template <class T, class Input>
    __device__ __forceinline__ void add_to(T (&sum)[4], const E& e, const Input& x) const {
        if (quads == MOST) {
            T input[MOST * 4];
#pragma unroll
            for (int k = 0; k < MOST; k++)
#pragma unroll
                for (int j = 0; j < 4; j++) input[k * 4 + j] = x[at[k][j]];
#pragma unroll
            for (int k = 0; k < MOST; k++)
#pragma unroll
                for (int j = 0; j < 4; j++) sum[j] += e.value(v[k], j) * input[k * 4 + j];
        } else {
#pragma unroll
            for (int k = 0; k < MOST - 1; k++)
                if (k < quads)
#pragma unroll
                    for (int j = 0; j < 4; j++) sum[j] += e.value(v[k], j) * x[at[k][j]];
        }
        if (rest)
#pragma unroll
            for (int j = 0; j < 3; j++)
                if (j < rest) sum[j] += e.value(odd_v[j]) * x[odd_at[j]];
    }
};

// The batches of a warp's items, one after the other; items narrower than a quad are skipped.
template <int MOST>
struct BatchCursor {
    const uint4* items;
    uint32_t at, end, step;
    uint4 item, after;
    uint32_t slice, first;

    __device__ __forceinline__ BatchCursor(const uint4* items, uint32_t begin, uint32_t end, uint32_t step)
        : items(items), at(begin), end(end), step(step), item(), after(), slice(0), first(0) {
        if (at < end) item = __ldg(items + at);
        if (at + step < end) after = __ldg(items + at + step);
    }
    __device__ __forceinline__ void find_first() {
        while (valid() && width() < 4) next_item();
    }
    __device__ __forceinline__ bool valid() const { return at < end; }
    __device__ __forceinline__ uint32_t width() const { return item.y & 0xFFFF; }
    __device__ __forceinline__ uint32_t log2() const { return item.y >> 16; }
    __device__ __forceinline__ uint64_t element() const {
        return (uint64_t(item.x) + uint64_t(slice * width())) * 32;
    }
    __device__ __forceinline__ uint32_t dest() const { return item.w + slice * (32 >> log2()); }
    __device__ __forceinline__ bool last() const { return first + MOST >= width() / 4; }
    __device__ __forceinline__ void next_item() {
        at += step;
        item = after;
        if (at + step < end) after = __ldg(items + at + step);
    }
    __device__ __forceinline__ void advance() {
        first += MOST;
        if (first < width() / 4) return;
        first = 0;
        if (++slice < item.z) return;
        slice = 0;
        do next_item();
        while (valid() && width() < 4);
    }
};

// Four quads for each of 16 warps keep memory more than busy; wider values take as many bytes in two.
// Gathers from global memory hold an address each, so half as many fit in the registers.
template <class T, class Index>
constexpr int kBatch = (sizeof(T) == 4 ? 4 : 2) / (sizeof(Index) == 4 ? 2 : 1);

// A warp's share of the items of one tile.  The next batch is in flight while one is added up; the first one
// is requested even before the inputs have arrived.
template <class T, int CODING, class Index>
struct Work {
    using E = Elements<T, CODING, Index, ONCE>;
    const SlicedView& view;
    const Index* index;
    const T* table;
    uint64_t index_shift;
    BatchCursor<kBatch<T, Index>> cursor;
    Batch<E, kBatch<T, Index>> next;
    uint32_t begin, end, next_to;

    __device__ __forceinline__ Work(const SlicedView& view, const Index* index, const T* table,
                                    uint64_t index_shift, uint32_t begin, uint32_t end)
        : view(view),
          index(index),
          table(table),
          index_shift(index_shift),
          cursor(reinterpret_cast<const uint4*>(view.items), begin + threadIdx.x / 32, end, blockDim.x / 32),
          begin(begin),
          end(end),
          next_to(kNowhere) {}
    // Separate from the constructor, so that what a block has to do first continues while items are loaded.
    __device__ __forceinline__ void begin_fetching() {
        cursor.find_first();
        if (cursor.valid()) fetch();
    }
    __device__ __forceinline__ E elements(uint64_t first) const {
        return E(index, view.values, first - index_shift, first, table);
    }
    __device__ __forceinline__ void fetch() {
        const uint32_t lane = threadIdx.x & 31;
        next.fetch(elements(cursor.element()), cursor.width(), cursor.first);
        next_to = kNowhere;
        if (cursor.last() && (lane & ((1u << cursor.log2()) - 1)) == 0)
            next_to = __ldg(view.dest + cursor.dest() + (lane >> cursor.log2()));
    }

    template <class Input>
    __device__ __forceinline__ void run(const Input& x, const Output<T>& out) {
        const E e = elements(0);  // only for its coding
        T sum[4] = {T(0), T(0), T(0), T(0)};
        while (cursor.valid()) {
            const Batch<E, kBatch<T, Index>> batch = next;
            const uint32_t to = next_to, log2 = cursor.log2();
            const bool last = cursor.last();
            cursor.advance();
            if (cursor.valid()) fetch();
            batch.add_to(sum, e, x);
            if (!last) continue;
            const T total = add_chunk((sum[0] + sum[1]) + (sum[2] + sum[3]), log2);
            out.put(to, total);
#pragma unroll
            for (int j = 0; j < 4; j++) sum[j] = T(0);
        }
        const uint4* items = reinterpret_cast<const uint4*>(view.items);
        uint32_t at = begin + threadIdx.x / 32;
        uint4 after = at < end ? __ldg(items + at) : uint4{};
        while (at < end) {
            const uint4 item = after;
            at += blockDim.x / 32;
            if (at < end) after = __ldg(items + at);
            const uint32_t width = item.y & 0xFFFF;
            const E thin = elements(uint64_t(item.x) * 32);
            const uint32_t* dest = view.dest + item.w;
            if (width == 3)
                thin_slices<3>(thin, item.z, x, dest, out);
            else if (width == 2)
                thin_slices<2>(thin, item.z, x, dest, out);
            else if (width == 1)
                thin_slices<1>(thin, item.z, x, dest, out);
            else if (width == 0)
                thin_slices<0>(thin, item.z, x, dest, out);
        }
    }
};

// Starts to copy x[0 .. count) to `slice`, and appends the zero that padding points at.
template <class T>
__device__ __forceinline__ void start_fill(T* slice, const T* __restrict__ x, int64_t count, int64_t tile) {
    constexpr int PACK = 16 / sizeof(T);
    int done = 0;
    if ((reinterpret_cast<uintptr_t>(x) & 15) == 0) {
        done = int(count / PACK) * PACK;
#pragma unroll 4
        for (int i = int(threadIdx.x) * PACK; i < done; i += int(blockDim.x) * PACK)
            __pipeline_memcpy_async(slice + i, x + i, 16);
    }
    for (int i = done + int(threadIdx.x); i < count; i += int(blockDim.x))
        __pipeline_memcpy_async(slice + i, x + i, sizeof(T));
    __pipeline_commit();
    if (threadIdx.x == 0) slice[tile] = T(0);
}

__device__ __forceinline__ void end_fill() {
    __pipeline_wait_prior(0);
    __syncthreads();
}

template <class T, int CODING, class Local, int PLACES>
__global__ void __launch_bounds__(tuning::sliced_threads(CODING == BB_ONES))
    sliced_product(const SlicedView view, const T* __restrict__ x, const Output<T> out) {
    extern __shared__ __align__(16) unsigned char raw[];
    T* table = reinterpret_cast<T*>(raw);
    T* slice = table + (CODING == BB_DICTIONARY ? 256 : 0);
    let_next_start();
    if (CODING == BB_DICTIONARY) {
        for (int i = int(threadIdx.x); i < 256; i += int(blockDim.x))
            table[i] = static_cast<const T*>(view.dictionary)[i];
        __syncthreads();
    }
    const uint4 share = __ldg(reinterpret_cast<const uint4*>(view.shares) + blockIdx.x);
    uint32_t begin = share.x;
    const uint32_t end = share.y, first_stop = share.z, first_tile = share.w;
    if (begin >= end) wait_for_previous();
    for (uint32_t t = first_tile; begin < end; t++) {
        const int tile = int(t);
        const uint32_t stop = t == first_tile ? first_stop : min(end, view.tile_item[t + 1]);
        if (stop == begin) continue;
        if ((PLACES & SHARED_ONLY) && tile < view.shared) {
            const int64_t first = tile * view.tile;
            Work<T, CODING, Local> work(view, static_cast<const Local*>(view.local), table, 0, begin, stop);
            __syncthreads();
            wait_for_previous();
            start_fill(slice, x + first,
                       view.tile_size ? int64_t(view.tile_size[tile]) : min(view.tile, view.cols - first),
                       view.tile);
            work.begin_fetching();
            end_fill();
            work.run(SharedInput<T>{slice}, out);
        } else if (PLACES & GATHERED_ONLY) {
            Work<T, CODING, uint32_t> work(view, view.far, table, view.shared_elements, begin, stop);
            work.begin_fetching();
            wait_for_previous();
            work.run(GatheredInput<T>{x, uint32_t(view.cols)}, out);
        }
        begin = stop;
    }
}

// x in order of popularity.
template <class T>
__global__ void permute(const T* __restrict__ x, const uint32_t* __restrict__ order, int64_t count,
                        T* __restrict__ out) {
    let_next_start();
    const int64_t i = int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
    const uint32_t from = i < count ? order[i] : 0;
    wait_for_previous();
    if (i < count) out[i] = load_input(x + from);
}

}  // namespace bmrm
