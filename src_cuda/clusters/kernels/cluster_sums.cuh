// Sums of w (x - c) over the rows of each cluster, in float64 and in a fixed order.
//
// If all sums fit into shared memory, a block takes tiles of kTileSorted rows: it sorts them by label (a
// stable counting sort of row numbers), cuts each cluster's rows into items of up to kItemRows, and a team of
// lanes, one per column, adds up an item in registers; then each cluster's items are added to its sums in
// order.  Which tiles make a part depends on n only.  Otherwise all rows are sorted by label, each cluster is
// cut into chunks of kChunkRows rows, and a block adds the rows of a chunk.  Both times what is left are
// partial sums side by side, which are added in their order.
//
// A cluster's sums are d numbers and the sum of the weights; one number at the end is the inertia.
#pragma once
#include "clusters/kernels/centers.cuh"
#include "runtime/dynamic_shared.cuh"

namespace bmrm {

constexpr int kTileSorted = 1024;
constexpr int kTileThreads = 256;
constexpr int kTileWarps = kTileThreads / 32;
constexpr int kTileBatches = kTileSorted / kTileThreads;  // of 32 rows, for a warp
constexpr int kItemRows = 64;
constexpr int kRowsAtOnce = 8;  // rows whose loads are in flight together

constexpr int kChunkRows = 256;
constexpr int kChunkThreads = 128;

// Replaces labels by fresh ones; returns how many of this thread's rows changed.
__device__ __forceinline__ int take_label(int32_t* labels, int64_t row, int32_t fresh) {
    if (labels[row] == fresh) return 0;
    labels[row] = fresh;
    return 1;
}

__device__ __forceinline__ void count_changes(int changed, PassCounters* counters) {
    changed = over_warp<Sum>(changed);
    if (threadIdx.x % 32 == 0 && changed) atomicAdd(&counters->changed, (unsigned long long)changed);
}

// Shared memory of a block: sums of all clusters and of items, the sorted rows, and where labels begin.
struct SumTile {
    int k, width;  // width: d + 1

    __host__ __device__ SumTile(int k, int d) : k(k), width(d + 1) {}
    __host__ __device__ int items() const { return k + kTileSorted / kItemRows; }
    __host__ __device__ int64_t bytes() const {
        return int64_t(8) * width * (k + items()) + 4 * (int64_t(kTileWarps) * k + k + 1) +
               2 * (int64_t(kTileSorted) + 3 * items());
    }
};

// Adds a pair of counts in 16 bits each over the labels: exclusive sums of rows and of items.
// counts: kTileWarps x k, replaced by the rows of earlier warps; starts: k + 1, set.
__device__ __forceinline__ void scan_labels(int k, uint32_t* counts, uint32_t* starts) {
    __shared__ uint32_t of_warps[kTileWarps];
    const int lane = int(threadIdx.x) % 32, warp = int(threadIdx.x) / 32;
    const int each = (k + kTileThreads - 1) / kTileThreads;
    const int first = int(threadIdx.x) * each, last = min(k, first + each);
    uint32_t mine = 0;
    for (int j = first; j < last; j++) {
        uint32_t rows = 0;
        for (int w = 0; w < kTileWarps; w++) {
            const uint32_t more = counts[w * k + j];
            counts[w * k + j] = rows;
            rows += more;
        }
        starts[j] = rows | (rows + kItemRows - 1) / kItemRows << 16;
        mine += starts[j];
    }
    uint32_t before = mine;  // inclusive over the warp
    for (int apart = 1; apart < 32; apart *= 2) {
        const uint32_t other = __shfl_sync(0xFFFFFFFFu, before, lane >= apart ? lane - apart : lane);
        if (lane >= apart) before += other;
    }
    if (lane == 31) of_warps[warp] = before;
    __syncthreads();
    before -= mine;
    for (int w = 0; w < warp; w++) before += of_warps[w];
    for (int j = first; j < last; j++) {
        const uint32_t here = starts[j];
        starts[j] = before;
        before += here;
    }
    if (last == k && first < k) starts[k] = before;
    __syncthreads();
}

// The sum of the weights of an item.
__device__ __forceinline__ double sum_weights(const double* weights, const uint16_t* sorted, int begin,
                                              int end) {
    if (!weights) return double(end - begin);
    double sum = 0;
    for (int i = begin; i < end; i++) sum += weights[sorted[i]];
    return sum;
}

// The sum of w (x - c) of an item in a column; adds w (x - c)^2 to the inertia.
template <bool weighted, class V>
__device__ __forceinline__ double sum_item(const V* column, int d, const double* weights,
                                           const uint16_t* sorted, int begin, int end, double c,
                                           double& inertia) {
    constexpr int kLoads = weighted || sizeof(V) > 4 ? kRowsAtOnce : 2 * kRowsAtOnce;  // as registers allow
    double sum = 0;
    for (int i = begin; i < end; i += kLoads) {
        V x[kLoads];
        double w[kLoads];
#pragma unroll
        for (int v = 0; v < kLoads; v++) {
            const int row = sorted[min(i + v, end - 1)];
            x[v] = column[row * d];
            w[v] = weighted ? weights[row] : 1.0;
        }
#pragma unroll
        for (int v = 0; v < kLoads; v++) {
            const double e = double(x[v]) - c, piece = i + v < end ? w[v] * e : 0.0;
            sum += piece;
            inertia += piece * e;
        }
    }
    return sum;
}

// partial: parts x (k (d + 1) + 1).  L: lanes of a team.
template <class V, int L>
__global__ void __launch_bounds__(kTileThreads, 4)
    sum_tiles(const V* __restrict__ X, int64_t n, int d, const double* __restrict__ weights,
              const double* given_centers, int k, const int32_t* given_fresh, int32_t* __restrict__ labels,
              int64_t part_rows, int64_t parts, double* __restrict__ partial, PassCounters* counters) {
    constexpr int kTeams = kTileThreads / L;
    __shared__ double scratch[kTileWarps], total[1];
    const SumTile tile(k, d);
    const int width = tile.width, size = k * width;
    double* bins = dynamic_shared<double>();
    double* of_items = bins + size;
    uint32_t* counts = reinterpret_cast<uint32_t*>(of_items + tile.items() * width);
    uint32_t* starts = counts + kTileWarps * k;
    uint16_t* sorted = reinterpret_cast<uint16_t*>(starts + k + 1);
    uint16_t* item_labels = sorted + kTileSorted;
    uint16_t* item_begins = item_labels + tile.items();
    uint16_t* item_ends = item_begins + tile.items();
    const int lane = int(threadIdx.x) % 32, warp = int(threadIdx.x) / 32;
    const int team = int(threadIdx.x) / L, member = int(threadIdx.x) % L;
    int changed = 0;
    let_next_start();
    wait_for_previous();
    const double* centers = after_wait(given_centers);
    const int32_t* fresh = after_wait(given_fresh);
    for (int64_t part = blockIdx.x; part < parts; part += gridDim.x) {
        for (int i = int(threadIdx.x); i < size; i += kTileThreads) bins[i] = 0;
        double inertia = 0;
        const int64_t last = min(n, (part + 1) * part_rows);
        for (int64_t base = part * part_rows; base < last; base += kTileSorted) {
            int label[kTileBatches], rank[kTileBatches];
            for (int i = int(threadIdx.x); i < kTileWarps * k; i += kTileThreads) counts[i] = 0;
#pragma unroll
            for (int b = 0; b < kTileBatches; b++) {
                const int64_t row = base + (warp * kTileBatches + b) * 32 + lane;
                label[b] = row < last ? fresh[row] : -1;
                if (row < last) changed += take_label(labels, row, label[b]);
            }
            __syncthreads();
#pragma unroll
            for (int b = 0; b < kTileBatches; b++) {
                const unsigned same = __match_any_sync(0xFFFFFFFFu, label[b]);
                const unsigned before = same & ((1u << lane) - 1);
                uint32_t* count = counts + warp * k + max(label[b], 0);
                rank[b] = int(*count) + __popc(before);
                __syncwarp();
                if (label[b] >= 0 && !before) *count += uint32_t(__popc(same));
                __syncwarp();
            }
            __syncthreads();
            scan_labels(k, counts, starts);
#pragma unroll
            for (int b = 0; b < kTileBatches; b++)
                if (label[b] >= 0)
                    sorted[(starts[label[b]] & 0xFFFFu) + counts[warp * k + label[b]] + rank[b]] =
                        uint16_t((warp * kTileBatches + b) * 32 + lane);
            for (int j = int(threadIdx.x); j < k; j += kTileThreads) {
                const int end = int(starts[j + 1] & 0xFFFFu);
                int item = int(starts[j] >> 16);
                for (int begin = int(starts[j] & 0xFFFFu); begin < end; begin += kItemRows, item++) {
                    item_labels[item] = uint16_t(j);
                    item_begins[item] = uint16_t(begin);
                    item_ends[item] = uint16_t(min(end, begin + kItemRows));
                }
            }
            __syncthreads();
            const int items = int(starts[k] >> 16);
            for (int item = team; item < items; item += kTeams) {
                const int j = item_labels[item], end = item_ends[item];
                double* to = of_items + item * width;
                if (member == 0)
                    to[d] = sum_weights(weights ? weights + base : nullptr, sorted, item_begins[item], end);
                for (int f = member; f < d; f += L)
                    to[f] = weights
                                ? sum_item<true>(X + base * d + f, d, weights + base, sorted,
                                                 item_begins[item], end, centers[int64_t(j) * d + f], inertia)
                                : sum_item<false>(X + base * d + f, d, weights, sorted, item_begins[item],
                                                  end, centers[int64_t(j) * d + f], inertia);
            }
            __syncthreads();
            for (int i = int(threadIdx.x); i < size; i += kTileThreads) {
                const int j = i / width;
                double sum = bins[i];
                for (int item = int(starts[j] >> 16); item < int(starts[j + 1] >> 16); item++)
                    sum += of_items[item * width + i - j * width];
                bins[i] = sum;
            }
            __syncthreads();
        }
        double* to = partial + part * (size + 1);
        for (int i = int(threadIdx.x); i < size; i += kTileThreads) to[i] = bins[i];
        double mine[1] = {inertia};
        sum_block<1>(mine, scratch, total);
        if (threadIdx.x == 0) to[size] = total[0];
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

// A lane has W columns, and each of the warps a share of the rows of a chunk.
// partial: capacity x (d + 2): sums, weight, inertia, which is 0 for chunks that do not exist.
template <class V, int W>
__global__ void __launch_bounds__(kChunkThreads, 6)
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

constexpr int kColumnThreads = 1024;

// Adds `count` numbers that are `apart` from one another, in one block.
static __global__ void __launch_bounds__(kColumnThreads)
    add_column(const double* __restrict__ from, int64_t count, int64_t apart, double* __restrict__ out) {
    __shared__ double scratch[kColumnThreads / 32];
    double mine[1] = {0};
    for (int64_t i = threadIdx.x; i < count; i += kColumnThreads) mine[0] += from[i * apart];
    sum_block<1>(mine, scratch, out);
}

}  // namespace bmrm
