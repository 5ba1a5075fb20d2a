// Margins in order, and sums along that order.
//
// Floating-point numbers become integers of the same order, which CUB sorts together with the places of their
// rows.  The sort is stable: ties are in order of place, as on the CPU.  A second stable sort by segment puts
// each segment in order of margins; segments are groups of rows, or classes, or both.
//
// CUB's scans may add floating-point numbers in a different order each time, so sums are computed here: first
// those of tiles, then the sums before each tile, then each tile again from there.
#pragma once
#include <cub/block/block_scan.cuh>
#include <type_traits>

#include "runtime/device_sort.cuh"
#include "training/kernels/risk.cuh"

namespace bmrm {

template <class T>
using Key = std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>;

template <class T>
__device__ __forceinline__ Key<T> key_of(T margin) {
    constexpr int top = int(8 * sizeof(T)) - 1;
    margin += T(0);  // -0 and 0 are the same margin
    Key<T> key;
    memcpy(&key, &margin, sizeof key);
    return key ^ (key >> top ? ~Key<T>(0) : Key<T>(1) << top);
}

// The rows that take part, sorted; arrays on the device.
template <class T>
struct Ordered {
    int64_t size;
    const uint32_t* place;    // of the row at each position
    const T* margin;          // at each position
    const uint32_t* segment;  // at each position; null if there is only one
    const uint32_t* starts;   // of the segments, and the end
    const uint32_t* row;      // of X, by place

    __device__ __forceinline__ uint32_t segment_at(int64_t q) const { return segment ? segment[q] : 0; }
};

// margins[place] = z + t dz + b in the type of the matrix; the sort key of that or of value - margin; and the
// places in order.
template <class T>
__global__ void make_keys(const uint32_t* rows, const double* value, int64_t size, const T* z, const T* dz,
                          double t, double b, T* margins, Key<T>* keys, uint32_t* places) {
    BB_FOR (p, size) {
        const uint32_t row = rows[p];
        const T u = T(double(z[row]) + (dz ? t * double(dz[row]) : 0.0) + b);
        margins[p] = u;
        keys[p] = key_of(value ? T(value[p] - double(u)) : u);
        places[p] = uint32_t(p);
    }
}

template <class T>
__global__ void move_margins(const T* z, const T* dz, double t, int64_t n, T* moved) {
    BB_FOR (i, n) moved[i] = T(double(z[i]) + (dz ? t * double(dz[i]) : 0.0));
}

// Returns the first position in [low, high) for which `before` is false; it is true for all positions up to
// there.
template <class Before>
__device__ __forceinline__ uint32_t partition_point(uint32_t low, uint32_t high, Before&& before) {
    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        if (before(middle))
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

// Sums before a position: the number of rows, and N numbers of each.
template <int N>
struct Sums {
    uint32_t count;
    double of[N];
};

template <int N>
struct AddSums {
    __device__ __forceinline__ Sums<N> operator()(Sums<N> a, const Sums<N>& b) const {
        a.count += b.count;
        for (int k = 0; k < N; k++) a.of[k] += b.of[k];
        return a;
    }
};

// A sum and the part that rounding has removed from it (Knuth, The Art of Computer Programming 2, 4.2.2,
// theorem C): the difference of two such sums is as accurate as a sum of its own.
struct AddExactly {
    __device__ __forceinline__ Sums<2> operator()(const Sums<2>& a, const Sums<2>& b) const {
        const double sum = __dadd_rn(a.of[0], b.of[0]), added = __dsub_rn(sum, a.of[0]);
        const double lost = __dadd_rn(__dsub_rn(a.of[0], __dsub_rn(sum, added)), __dsub_rn(b.of[0], added));
        const double rest = __dadd_rn(__dadd_rn(a.of[1], b.of[1]), lost);
        const double whole = __dadd_rn(sum, rest);
        return {a.count + b.count, {whole, __dsub_rn(rest, __dsub_rn(whole, sum))}};
    }
};

constexpr int kTileThreads = 256;            // threads per block of a sum along the order
constexpr int kTileRows = 4 * kTileThreads;  // rows per tile, which a block adds up

inline int64_t tiles_of(int64_t size) { return (size + kTileRows - 1) / kTileRows; }

// tiles[b]: the sum of tile b; or, if `out` is given, the sum at every position, from the sums before the
// tiles.
template <int N, class Add, class Term>
__global__ void __launch_bounds__(kTileThreads)
    sum_tiles(const Term term, int64_t size, Sums<N>* tiles, Sums<N>* out) {
    using Scan = cub::BlockScan<Sums<N>, kTileThreads>;
    __shared__ typename Scan::TempStorage scratch;
    const int64_t first = int64_t(blockIdx.x) * kTileRows + 4 * int64_t(threadIdx.x);
    Sums<N> mine[4], total;
    for (int j = 0; j < 4; j++) mine[j] = first + j < size ? term(first + j) : Sums<N>{};
    Scan(scratch).ExclusiveScan(mine, mine, Sums<N>{}, Add(), total);
    if (!out) {
        if (threadIdx.x == 0) tiles[blockIdx.x] = total;
        return;
    }
    const Sums<N> before = tiles[blockIdx.x];
    for (int j = 0; j < 4; j++)
        if (first + j <= size) out[first + j] = Add()(before, mine[j]);
}

// Replaces each tile's sum by the sum of all tiles before it; one block, which passes the total to `end`.
template <class Add, class S, class End>
__global__ void __launch_bounds__(kTileThreads) sum_before(S* tiles, int64_t count, const End end) {
    using Scan = cub::BlockScan<S, kTileThreads>;
    __shared__ typename Scan::TempStorage scratch;
    S before = {};
    for (int64_t first = 0; first < count; first += kTileThreads) {
        const int64_t tile = first + threadIdx.x;
        S mine = tile < count ? tiles[tile] : S{}, total;
        Scan(scratch).ExclusiveScan(mine, mine, S{}, Add(), total);
        if (tile < count) tiles[tile] = Add()(before, mine);
        before = Add()(before, total);
        __syncthreads();
    }
    if (threadIdx.x == 0) end(before);
}

// For sums whose total is not needed.
struct NoEnd {
    template <class S>
    __device__ void operator()(const S&) const {}
};

// out[q] = sum of term(0) to term(q - 1), for q up to `size`; `tiles` has room for tiles_of(size + 1).
template <int N, class Add, class Term>
void sums_of(cudaStream_t stream, const Term& term, int64_t size, Sums<N>* tiles, Sums<N>* out) {
    const int64_t count = tiles_of(size + 1);
    sum_tiles<N, Add>
        <<<unsigned(count), kTileThreads, 0, stream>>>(term, size, tiles, static_cast<Sums<N>*>(nullptr));
    sum_before<Add><<<1, kTileThreads, 0, stream>>>(tiles, count, NoEnd());
    sum_tiles<N, Add><<<unsigned(count), kTileThreads, 0, stream>>>(term, size, tiles, out);
    BB_CHECK(cudaGetLastError());
}

// A row's contribution to the risk, and its derivative.
struct Share {
    double risk, slope;
};

// Adds up the risk, the slope along dz and the sum of the derivatives: `rule(q)` is the Share of the row at
// position q. If `out` is given, it gets the derivatives, and `sums` gets the risk and their sum.
template <class T, class Rule>
__global__ void __launch_bounds__(kRowThreads)
    finish_rows(const Ordered<T> order, const Rule rule, const T* dz, T* out, double* sums, double* partial,
                uint32_t* ticket, Letter letter) {
    __shared__ double scratch[kRowThreads];
    double mine[4] = {};
    BB_FOR (q, order.size) {
        const Share share = rule(q);
        const uint32_t row = order.row[order.place[q]];
        if (out) out[row] = T(share.slope);
        mine[0] += share.risk;
        mine[1] += dz ? share.slope * double(dz[row]) : 0.0;
        mine[2] += share.slope;
    }
    if (sum_grid(mine, scratch, partial, ticket)) {
        if (out) {
            sums[0] = mine[0];
            sums[1] = mine[2];
        }
        for (int k = 0; k < 3; k++) letter.values[k] = mine[k];
        send(letter);
    }
}

}  // namespace bmrm
