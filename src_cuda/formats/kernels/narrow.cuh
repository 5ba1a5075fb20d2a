// X of few columns: X w and X' r from the row slices of X itself.
//
// Shared memory holds the weights once per bank, and thread t finds all of its own in bank t.  In the same
// way it owns one accumulator per column, `columns x 32` of them per warp, so that adding to any column needs
// no atomic and has no bank conflict.  A row belongs to one thread, and its columns differ, so several of its
// nonzeros can be in flight at once.  Blocks write their sums to global memory, where a second launch adds
// them up in fixed order (runtime/partial_sums.cuh).
//
// Bytes per nonzero: the value's + 1.  Both products read the same format.
#pragma once
#include "formats/kernels/sliced.cuh"
#include "formats/narrow.h"

namespace bmrm {

struct NarrowView {
    SlicedView slices;
    uint32_t slice_count;
    int32_t columns;
    double* block_sums;  // blocks x columns
};

// Calls f(count) with the count as a constant, at most MOST: straight code for each count, since all threads
// of a warp have the same.
template <int MOST, class F>
__device__ __forceinline__ void with_count(uint32_t count, F&& f) {
    static_assert(4 <= MOST && MOST <= 6, "a case for each count");
    switch (count) {
        case 0:
            return;
        case 1:
            return f(std::integral_constant<int, 1>());
        case 2:
            return f(std::integral_constant<int, 2>());
        case 3:
            return f(std::integral_constant<int, 3>());
        case 4:
            if constexpr (MOST > 4) return f(std::integral_constant<int, 4>());
            [[fallthrough]];
        case 5:
            if constexpr (MOST > 5) return f(std::integral_constant<int, 5>());
            [[fallthrough]];
        default:
            return f(std::integral_constant<int, MOST>());
    }
}

// Quads of a row that a thread holds.  If all rows are short, it holds all of each row, and two rows fit side
// by side.
template <class T, bool SHORT>
constexpr int kHeldQuads = sizeof(T) == 8 ? 4
                           : SHORT        ? 5
                                          : 6;

// The part of its row that a thread holds: quads and, if those are all of them, the remaining elements.
template <class E, int MOST, bool SHORT>
struct HeldRow {
    Quad<typename E::IndexType> at[MOST];
    typename E::Code::Four v[MOST];
    typename E::IndexType odd_at[3];
    typename E::Code::Stored odd_v[3];

    static __device__ __forceinline__ uint32_t rest(uint32_t width) {
        return SHORT || width / 4 <= MOST ? width & 3 : 0;
    }
    __device__ __forceinline__ void fetch(const E& e, uint32_t width) {
        const uint32_t lane = threadIdx.x % 32, quads = width / 4;
        const E from = e.after(lane * 4);
        with_count<MOST>(quads, [&](auto count) {
            constexpr int HELD = decltype(count)::value;
#pragma unroll
            for (int k = 0; k < HELD; k++) {
                at[k] = from.four_indices(k * 128);
                v[k] = from.four_values(k * 128);
            }
        });
        const E odd = e.after(quads * 128 + lane);
#pragma unroll
        for (uint32_t j = 0; j < 3; j++)
            if (j < rest(width)) {
                odd_at[j] = odd.one_index(j * 32);
                odd_v[j] = odd.one_value(j * 32);
            }
    }
};

// A number per column and per bank of shared memory, of which a thread uses its own bank.
template <class T>
struct Bank {
    const char* first;
    uint32_t lane;  // bytes from the start of a column's numbers to this thread's
    __device__ __forceinline__ T& operator[](uint32_t column) const {
        return *reinterpret_cast<T*>(const_cast<char*>(first) + (column * uint32_t(32 * sizeof(T)) | lane));
    }
};

template <class T, class E, int MOST, bool SHORT>
__device__ __forceinline__ T margin_of(const E& e, const HeldRow<E, MOST, SHORT>& row, uint32_t width,
                                       const Bank<const T>& w) {
    const uint32_t lane = threadIdx.x % 32, quads = width / 4, rest = row.rest(width);
    T sum[4] = {T(0), T(0), T(0), T(0)};
    with_count<MOST>(quads, [&](auto count) {
        constexpr int HELD = decltype(count)::value;
#pragma unroll
        for (int k = 0; k < HELD; k++)
#pragma unroll
            for (int j = 0; j < 4; j++) sum[j] += e.value(row.v[k], j) * w[row.at[k][j]];
    });
#pragma unroll
    for (uint32_t j = 0; j < 3; j++)
        if (j < rest) sum[j] += e.value(row.odd_v[j]) * w[row.odd_at[j]];
    if constexpr (!SHORT) {
        for (uint32_t k = MOST; k < quads; k++) {
            const auto at = e.four_indices(k * 128 + lane * 4);
            const auto v = e.four_values(k * 128 + lane * 4);
#pragma unroll
            for (int j = 0; j < 4; j++) sum[j] += e.value(v, j) * w[at[j]];
        }
        for (uint32_t j = rest; j < width % 4; j++) {
            const uint32_t i = quads * 128 + j * 32 + lane;
            sum[0] += e.value(e.one_value(i)) * w[e.one_index(i)];
        }
    }
    return (sum[0] + sum[1]) + (sum[2] + sum[3]);
}

constexpr int kAddedAtOnce = 2;  // quads, to hide the latency of shared memory

// acc[column] += value * r.  The columns of a row differ, so whole quads are loaded before they are stored.
template <class T, class E, int MOST, bool SHORT>
__device__ __forceinline__ void add_row(const E& e, const HeldRow<E, MOST, SHORT>& row, uint32_t width, T r,
                                        const Bank<T>& acc) {
    const uint32_t lane = threadIdx.x % 32, quads = width / 4, rest = row.rest(width);
    T old_odd[3];
#pragma unroll
    for (uint32_t j = 0; j < 3; j++)
        if (j < rest) old_odd[j] = acc[row.odd_at[j]];
    with_count<MOST>(quads, [&](auto count) {
        constexpr int HELD = decltype(count)::value;
#pragma unroll
        for (int first = 0; first < HELD; first += kAddedAtOnce) {
            T old[kAddedAtOnce][4];
#pragma unroll
            for (int k = first; k < HELD && k < first + kAddedAtOnce; k++)
#pragma unroll
                for (int j = 0; j < 4; j++) old[k - first][j] = acc[row.at[k][j]];
#pragma unroll
            for (int k = first; k < HELD && k < first + kAddedAtOnce; k++)
#pragma unroll
                for (int j = 0; j < 4; j++) acc[row.at[k][j]] = old[k - first][j] + e.value(row.v[k], j) * r;
        }
    });
#pragma unroll
    for (uint32_t j = 0; j < 3; j++)
        if (j < rest) acc[row.odd_at[j]] = old_odd[j] + e.value(row.odd_v[j]) * r;
    if constexpr (!SHORT) {
        for (uint32_t k = MOST; k < quads; k++) {
            const auto at = e.four_indices(k * 128 + lane * 4);
            const auto v = e.four_values(k * 128 + lane * 4);
            T old[4];
#pragma unroll
            for (int j = 0; j < 4; j++) old[j] = acc[at[j]];
#pragma unroll
            for (int j = 0; j < 4; j++) acc[at[j]] = old[j] + e.value(v, j) * r;
        }
        for (uint32_t j = rest; j < width % 4; j++) {
            const uint32_t i = quads * 128 + j * 32 + lane;
            acc[e.one_index(i)] += e.value(e.one_value(i)) * r;
        }
    }
}

// What a warp needs to know of a slice.  A load of the whole item would fill a fourth register that nothing
// reads. The compiler would reuse it while the load is in flight, and that waits for every load of the warp.
struct SliceAt {
    uint32_t offset = 0, width = 0, dest = 0;
    SliceAt() = default;
    __device__ __forceinline__ explicit SliceAt(const Item* item) {
        const uint2 first = __ldg(reinterpret_cast<const uint2*>(item));
        offset = first.x;
        width = first.y;  // here a chunk has one thread
        dest = __ldg(&item->dest);
    }
};

constexpr int kWeightsAtOnce = 12;

// An item is one slice here.  Shared memory leaves room for few warps, so each looks ahead: the description
// of one slice is in flight, the rows of the next, and the nonzeros and inputs of the one after it.  SHORT:
// no row has more than a thread holds.
template <class T, int CODING, NarrowPass PASS, bool SHORT>
__global__ void __launch_bounds__(tuning::kMaxNarrowWarps * 32 * 4 / sizeof(T))
    narrow_product(const NarrowView view, const T* __restrict__ in, T* __restrict__ margins) {
    constexpr bool WEIGHTS = PASS == NARROW_MARGINS, SUMS = PASS == NARROW_GRADIENT;
    constexpr int MOST = kHeldQuads<T, SHORT>;
    using E = Elements<T, CODING, uint8_t, ONCE>;
    extern __shared__ __align__(16) unsigned char raw[];
    const int columns = view.columns, warps = int(blockDim.x) / 32, warp = int(threadIdx.x) / 32;
    const uint32_t lane = threadIdx.x % 32;
    double* scratch = reinterpret_cast<double*>(raw);  // one double per thread
    T* table = reinterpret_cast<T*>(scratch + (SUMS ? blockDim.x : 0));
    T* w = table + (CODING == BB_DICTIONARY ? 256 : 0);
    T* all = w + (WEIGHTS ? (columns + 1) * 32 : 0);
    T* own = all + warp * (columns + 1) * 32;
    if (CODING == BB_DICTIONARY)
        for (int i = int(threadIdx.x); i < 256; i += int(blockDim.x))
            table[i] = static_cast<const T*>(view.slices.dictionary)[i];
    // Opaque, so that the compiler does not compute it again for each nonzero of a row.
    uint32_t place = lane * uint32_t(sizeof(T));
    asm("" : "+r"(place));
    const Bank<const T> weights = {reinterpret_cast<const char*>(w), place};
    const Bank<T> acc = {reinterpret_cast<char*>(own), place};

    const uint8_t* __restrict__ index = static_cast<const uint8_t*>(view.slices.local);
    const uint32_t* __restrict__ dest = view.slices.dest;
    const Item* items = view.slices.items;
    const uint32_t stop = view.slice_count, step = gridDim.x * uint32_t(warps);
    const auto item_at = [&](uint32_t i) { return i < stop ? SliceAt(items + i) : SliceAt(); };
    const auto row_at = [&](uint32_t i, const SliceAt& item) {
        return i < stop ? __ldg(dest + item.dest + lane) : kNowhere;
    };
    const auto elements = [&](const SliceAt& item) {
        return E(index, view.slices.values, uint64_t(item.offset) * 32, uint64_t(item.offset) * 32, table);
    };
    uint32_t at = blockIdx.x * uint32_t(warps) + uint32_t(warp);
    SliceAt item = item_at(at), item1 = item_at(at + step), item2 = item_at(at + 2 * step);
    uint32_t row = row_at(at, item), row1 = row_at(at + step, item1);
    // What is held of a slice: its rows, and the input of each.
    struct Held {
        HeldRow<E, MOST, SHORT> rows;
        uint32_t width, to;
        T r;
    };
    // Loads that depend on earlier rounds go first: a warp waits for loads in the order of their requests.
    const auto fetch_row = [&](Held& held) {
        const uint32_t safe = row == kNowhere ? 0 : row;
        held.to = row;
        if (SUMS) held.r = load_input(in + safe);
    };
    Held one;
    if (at < stop) {
        one.width = item.width;
        one.rows.fetch(elements(item), item.width);
    }
    if (SUMS)
        for (int c = 0; c <= columns; c++) own[c * 32 + lane] = T(0);
    wait_for_previous();
    if (WEIGHTS)
        for (int first = warp; first <= columns; first += warps * kWeightsAtOnce) {
            T some[kWeightsAtOnce];
#pragma unroll
            for (int k = 0; k < kWeightsAtOnce; k++) {
                const int c = first + k * warps;
                some[k] = c < columns ? load_input(in + c) : T(0);
            }
#pragma unroll
            for (int k = 0; k < kWeightsAtOnce; k++)
                if (first + k * warps <= columns) w[(first + k * warps) * 32 + lane] = some[k];
        }
    if (at < stop) fetch_row(one);
    __syncthreads();
    // Works on `held` while `next` is loaded.
    const auto work = [&](const Held& held, Held& next) {
        const E e = elements(item);
        item = item1;
        item1 = item2;
        row = row1;
        at += step;
        if (at < stop) fetch_row(next);
        row1 = row_at(at + step, item1);
        item2 = item_at(at + 2 * step);
        if (at < stop) {
            next.width = item.width;
            next.rows.fetch(elements(item), item.width);
        }
        const T margin = WEIGHTS ? margin_of(e, held.rows, held.width, weights) : T(0);
        if (WEIGHTS && held.to != kNowhere) margins[held.to] = margin;
        if (SUMS) add_row(e, held.rows, held.width, held.to == kNowhere ? T(0) : held.r, acc);
    };
    if constexpr (SHORT) {  // the two take turns, so that nothing is copied
        Held other;
        while (at < stop) {
            work(one, other);
            if (at < stop) work(other, one);
        }
    } else {  // there are not enough registers for that
        while (at < stop) {
            const Held held = one;
            work(held, one);
        }
    }
    let_next_start();
    if (!SUMS) return;
    __syncthreads();
    // A column's sums are in all 32 banks of each warp: threads of neighbouring columns start at neighbouring
    // banks.
    double* sums = view.block_sums + int64_t(blockIdx.x) * columns;
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
}

template <class T, int CODING, NarrowPass PASS, bool SHORT>
const void* narrow_kernel() {
    return reinterpret_cast<const void*>(&narrow_product<T, CODING, PASS, SHORT>);
}

// Returns the kernel for rows of at most `longest` nonzeros.
template <NarrowPass PASS>
const void* narrow_kernel(const ValueArray& coding, uint32_t longest) {
    const void* kernel = nullptr;
    with_values(coding.type, coding.coding, [&](auto kind) {
        using T = typename decltype(kind)::T;
        constexpr int CODING = decltype(kind)::CODING;
        kernel = longest < 4 * (kHeldQuads<T, true> + 1) ? narrow_kernel<T, CODING, PASS, true>()
                                                         : narrow_kernel<T, CODING, PASS, false>();
    });
    return kernel;
}

}  // namespace bmrm
