// Sums of w (x - c) over the rows of each cluster, in float64 and in a fixed order.
//
// If all sums fit into shared memory, each warp has a copy of them there and adds the rows of its strip, one
// after another; the strips depend on n only.  Otherwise rows are sorted by label, each cluster is cut into
// chunks of kChunkRows rows, and a block adds the rows of a chunk.  Both times what is left are partial sums
// side by side, which are added in their order.
//
// A cluster's sums are d numbers and the sum of the weights; one number at the end is the inertia.
#pragma once
#include "reductions/kernels/centers.cuh"
#include "runtime/dynamic_shared.cuh"

namespace bmrm {

constexpr int kStrips = 4;  // of a part, one per warp of a block
constexpr int kStripThreads = 32 * kStrips;
constexpr int kRowsAtOnce = 8;  // rows whose loads are in flight together
constexpr int kFewColumns = 4;  // up to here a lane adds whole rows

constexpr int kChunkRows = 256;
constexpr int kChunkThreads = 128;

// Replaces labels by fresh ones; returns how many of this thread's rows changed.
__device__ __forceinline__ int take_label(int32_t* labels, int64_t row, int32_t fresh) {
    if (labels[row] == fresh) return 0;
    labels[row] = fresh;
    return 1;
}

__device__ __forceinline__ void count_changes(int changed, PassCounters* counters) {
    changed = sum_warp(changed);
    if (threadIdx.x % 32 == 0 && changed) atomicAdd(&counters->changed, (unsigned long long)changed);
}

// Adds the sums of the warps of a block in order, and writes them.
__device__ __forceinline__ void write_part(const double* bins, int size, double inertia, double* partial) {
    __shared__ double scratch[kStrips], total[1];
    for (int i = int(threadIdx.x); i < size; i += kStripThreads) {
        double sum = bins[i];
        for (int s = 1; s < kStrips; s++) sum += bins[s * size + i];
        partial[i] = sum;
    }
    double mine[1] = {inertia};
    sum_block<1>(mine, scratch, total);
    if (threadIdx.x == 0) partial[size] = total[0];
}

// Adds the rows of a warp's batch to its bins; a lane has a column.
template <class V>
__device__ __forceinline__ void add_columns(const V* X, const double* centers, int d, int32_t label, double w,
                                            int count, double* bins, double& inertia) {
    const int lane = int(threadIdx.x) % 32;
    for (int u = 0; u < count; u += kRowsAtOnce) {
        int at[kRowsAtOnce];
        double weight[kRowsAtOnce];
#pragma unroll
        for (int v = 0; v < kRowsAtOnce; v++) {
            at[v] = __shfl_sync(0xFFFFFFFFu, label, u + v);
            weight[v] = __shfl_sync(0xFFFFFFFFu, w, u + v);  // 0 after the last row
        }
        for (int f = lane; f < d; f += 32) {
            double e[kRowsAtOnce];
#pragma unroll
            for (int v = 0; v < kRowsAtOnce; v++)
                e[v] =
                    u + v < count ? double(X[int64_t(u + v) * d + f]) - centers[int64_t(at[v]) * d + f] : 0;
#pragma unroll
            for (int v = 0; v < kRowsAtOnce; v++) {
                const double part = weight[v] * e[v];
                inertia += part * e[v];
                bins[at[v] * (d + 1) + f] += part;
            }
        }
        if (lane == 31)
            for (int v = 0; v < kRowsAtOnce; v++) bins[at[v] * (d + 1) + d] += weight[v];
    }
}

// The same if rows have up to kFewColumns columns; a lane has a row.  The first lane of those with the same
// label adds the others' numbers, in their order.
template <class V>
__device__ __forceinline__ void add_rows(const V* X, const double* centers, int d, int32_t label, double w,
                                         int count, double* bins, double& inertia) {
    const int lane = int(threadIdx.x) % 32;
    double part[kFewColumns + 1];
#pragma unroll
    for (int f = 0; f < kFewColumns; f++) {
        double e = 0;
        if (lane < count && f < d) e = double(X[int64_t(lane) * d + f]) - centers[int64_t(label) * d + f];
        part[f] = w * e;
        inertia += part[f] * e;
    }
    part[kFewColumns] = w;
    const unsigned same = __match_any_sync(0xFFFFFFFFu, lane < count ? label : -1);
    const bool first = lane < count && lane == __ffs(int(same)) - 1;
    unsigned rest = first ? same & (same - 1) : 0;
    while (__any_sync(0xFFFFFFFFu, rest != 0)) {
        const int from = rest ? __ffs(int(rest)) - 1 : lane;
#pragma unroll
        for (int f = 0; f <= kFewColumns; f++) {
            const double other = __shfl_sync(0xFFFFFFFFu, part[f], from);
            if (rest) part[f] += other;
        }
        rest &= rest - 1;
    }
    if (first) {
        double* to = bins + label * (d + 1);
#pragma unroll
        for (int f = 0; f < kFewColumns; f++)
            if (f < d) to[f] += part[f];
        to[d] += part[kFewColumns];
    }
    __syncwarp();
}

// partial: parts x (k (d + 1) + 1).  few: d is at most kFewColumns.
template <class V, bool few>
__global__ void __launch_bounds__(kStripThreads)
    sum_strips(const V* __restrict__ X, int64_t n, int d, const double* __restrict__ weights,
               const double* __restrict__ centers, int k, const int32_t* __restrict__ fresh,
               int32_t* __restrict__ labels, int64_t strip, int64_t parts, double* __restrict__ partial,
               PassCounters* counters) {
    double* all = dynamic_shared<double>();
    const int size = k * (d + 1), lane = int(threadIdx.x) % 32, warp = int(threadIdx.x) / 32;
    double* bins = all + warp * size;
    int changed = 0;
    for (int64_t part = blockIdx.x; part < parts; part += gridDim.x) {
        for (int i = lane; i < size; i += 32) bins[i] = 0;
        __syncwarp();
        double inertia = 0;
        const int64_t first = (part * kStrips + warp) * strip, last = min(n, first + strip);
        for (int64_t base = first; base < last; base += 32) {
            const int count = int(min(int64_t(32), last - base));
            int32_t label = 0;
            double w = 0;
            if (lane < count) {
                label = fresh[base + lane];
                w = weights ? weights[base + lane] : 1.0;
                changed += take_label(labels, base + lane, label);
            }
            if (few)
                add_rows(X + base * d, centers, d, label, w, count, bins, inertia);
            else
                add_columns(X + base * d, centers, d, label, w, count, bins, inertia);
        }
        __syncthreads();
        write_part(all, size, inertia, partial + part * (size + 1));
        __syncthreads();
    }
    count_changes(changed, counters);
}

// Replaces labels by fresh ones, and copies them as keys to sort by.
static __global__ void __launch_bounds__(256)
    note_labels(const int32_t* __restrict__ fresh, int64_t n, int32_t* __restrict__ labels,
                uint32_t* __restrict__ keys, PassCounters* counters) {
    int changed = 0;
    BB_FOR (i, n) {
        keys[i] = uint32_t(fresh[i]);
        changed += take_label(labels, i, fresh[i]);
    }
    count_changes(changed, counters);
}

static __global__ void __launch_bounds__(256) count_chunks(const int64_t* __restrict__ firsts, int64_t k,
                                                           int64_t chunk_rows, int64_t* __restrict__ chunks) {
    BB_FOR (j, k) chunks[j] = (firsts[j + 1] - firsts[j] + chunk_rows - 1) / chunk_rows;
}

// Returns the last of k + 1 ascending numbers, before the end, that is at most `q`.
__device__ __forceinline__ int64_t cluster_of(const int64_t* firsts, int64_t k, int64_t q) {
    int64_t low = 0, high = k;
    while (high - low > 1) {
        const int64_t middle = (low + high) / 2;
        if (firsts[middle] <= q)
            low = middle;
        else
            high = middle;
    }
    return low;
}

// W values side by side, in one load.
template <class V, int W>
struct alignas(sizeof(V) * W) Several {
    V values[W];
};

// A lane has W columns, and each of the warps a share of the rows of a chunk.
// partial: capacity x (d + 2): sums, weight, inertia, which is 0 for chunks that do not exist.
template <class V, int W>
__global__ void __launch_bounds__(kChunkThreads)
    sum_chunks(const V* __restrict__ X, int64_t d, const double* __restrict__ weights,
               const double* __restrict__ centers, int64_t k, const uint32_t* __restrict__ order,
               const int64_t* __restrict__ firsts, const int64_t* __restrict__ chunk_firsts, int64_t capacity,
               double* __restrict__ partial) {
    constexpr int kWarps = kChunkThreads / 32;
    __shared__ int64_t rows[kChunkRows];
    __shared__ double w[kChunkRows], parts[kWarps][32 * W], scratch[2 * kWarps], totals[2];
    const int lane = int(threadIdx.x) % 32, warp = int(threadIdx.x) / 32;
    for (int64_t q = blockIdx.x; q < capacity; q += gridDim.x) {
        double* to = partial + q * (d + 2);
        if (q >= chunk_firsts[k]) {
            if (threadIdx.x == 0) to[d + 1] = 0;
            continue;
        }
        const int64_t j = cluster_of(chunk_firsts, k, q);
        const int64_t begin = firsts[j] + (q - chunk_firsts[j]) * kChunkRows;
        const int count = int(min(int64_t(kChunkRows), firsts[j + 1] - begin));
        double mine[2] = {0, 0};
        for (int i = int(threadIdx.x); i < kChunkRows; i += kChunkThreads) {
            const int64_t row = int64_t(order[begin + min(i, count - 1)]);
            rows[i] = row * d;
            w[i] = i < count ? (weights ? weights[row] : 1.0) : 0.0;  // rows after the last add 0
            mine[0] += w[i];
        }
        __syncthreads();
        for (int64_t begin_column = 0; begin_column < d; begin_column += 32 * W) {
            const int64_t f = begin_column + lane * W;
            double sum[W] = {};
            if (f < d) {
                double c[W];
#pragma unroll
                for (int e = 0; e < W; e++) c[e] = centers[j * d + f + e];
                for (int i = warp; i < count; i += kWarps * kRowsAtOnce) {
                    Several<V, W> x[kRowsAtOnce];
#pragma unroll
                    for (int v = 0; v < kRowsAtOnce; v++)
                        x[v] = *reinterpret_cast<const Several<V, W>*>(X + rows[i + kWarps * v] + f);
#pragma unroll
                    for (int v = 0; v < kRowsAtOnce; v++)
#pragma unroll
                        for (int e = 0; e < W; e++) {
                            const double u = double(x[v].values[e]) - c[e];
                            const double part = w[i + kWarps * v] * u;
                            sum[e] += part;
                            mine[1] += part * u;
                        }
                }
            }
#pragma unroll
            for (int e = 0; e < W; e++) parts[warp][lane * W + e] = sum[e];
            __syncthreads();
            for (int i = int(threadIdx.x); i < 32 * W && begin_column + i < d; i += kChunkThreads) {
                double all = parts[0][i];
                for (int other = 1; other < kWarps; other++) all += parts[other][i];
                to[begin_column + i] = all;
            }
            __syncthreads();
        }
        sum_block<2>(mine, scratch, totals);
        if (threadIdx.x < 2) to[d + threadIdx.x] = totals[threadIdx.x];
        __syncthreads();
    }
}

// Adds the chunks of each cluster in their order: out is k x (d + 1).
static __global__ void __launch_bounds__(256)
    add_chunks(const double* __restrict__ partial, const int64_t* __restrict__ chunk_firsts, int64_t k,
               int64_t d, double* __restrict__ out) {
    BB_FOR (i, k * (d + 1)) {
        const int64_t j = i / (d + 1), f = i % (d + 1);
        double sum = 0;
        for (int64_t q = chunk_firsts[j]; q < chunk_firsts[j + 1]; q++) sum += partial[q * (d + 2) + f];
        out[i] = sum;
    }
}

}  // namespace bmrm
