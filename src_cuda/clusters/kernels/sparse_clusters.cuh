// The passes of k-means over sparse rows, in float64: |x|^2/2 cancels in the comparison of centres, so that a
// row needs x.c for each centre c only.
//
// The rounding of |c|^2/2 - x.c is at most g_d C^2/2 + g_l |x| C for a row of l entries, C being the maximum
// norm of a centre and g_m = m u / (1 - m u), u = 2^-53.  If the two least values differ by less than twice
// that, the centres in question are compared by differences over all columns, as on the CPU, in the same
// order.
//
// A block has a row, and its threads the centres.
#pragma once
#include "clusters/kernels/cluster_sums.cuh"
#include "clusters/kernels/exact.cuh"
#include "clusters/kernels/potentials.cuh"

namespace bmrm {

constexpr int kSparseThreads = 128;

// Compressed rows; without values all are 1.
template <class V>
struct SparseRows {
    const int64_t* starts;
    const int32_t* columns;
    const V* values;

    __device__ double entry(int64_t e) const { return values ? double(values[e]) : 1.0; }
    // The product with a column of `count` of a matrix that is stored by features.
    __device__ double product(int64_t row, const double* features, int64_t count, int64_t j) const {
        double sum = 0;
        for (int64_t e = starts[row]; e < starts[row + 1]; e++)
            sum = __dadd_rn(sum, __dmul_rn(entry(e), features[int64_t(columns[e]) * count + j]));
        return sum;
    }
    // The sum of squared differences to such a column, over all features in order.
    __device__ double difference(int64_t row, int64_t d, const double* features, int64_t count,
                                 int64_t j) const {
        double sum = 0;
        int64_t e = starts[row];
        const int64_t end = starts[row + 1];
        for (int64_t f = 0; f < d; f++) {
            const bool stored = e < end && columns[e] == f;
            const double u = (stored ? entry(e) : 0.0) - features[f * count + j];
            sum = __dadd_rn(sum, __dmul_rn(u, u));
            e += stored;
        }
        return sum;
    }
};

// |x|^2 - 2 x.c + |c|^2; what may be rounding alone counts as 0, so that equal rows have the distance 0.
__device__ __forceinline__ double positive_part(double x, double dot, double c) {
    const double square = x - 2 * dot + c;
    return square > 0x1p-46 * (x + c) ? square : 0.0;
}

template <class V>
__global__ void __launch_bounds__(256)
    square_rows(SparseRows<V> rows, int64_t n, double* __restrict__ squares) {
    BB_FOR (i, n) {
        double sum = 0;
        for (int64_t e = rows.starts[i]; e < rows.starts[i + 1]; e++)
            sum = __dadd_rn(sum, __dmul_rn(rows.entry(e), rows.entry(e)));
        squares[i] = sum;
    }
}

// Sets the features of the centres.
static __global__ void __launch_bounds__(256) sort_by_features(const double* __restrict__ centers, int64_t k,
                                                               int64_t d, double* __restrict__ features) {
    BB_FOR (i, k * d) features[i] = centers[i % k * d + i / k];
}

// Sets the squares of the centres, and the maximum of these, as bits.  A block is a warp and has a centre,
// whose squares are added in the order of the features, so that a centre that is a row has the bits of its
// square. A row has few values, and features that are all 0 are passed over.
static __global__ void __launch_bounds__(32)
    square_centers(const double* __restrict__ centers, int64_t k, int64_t d, double* __restrict__ squares,
                   unsigned long long* largest) {
    const unsigned all = 0xFFFFFFFFu;
    const int lane = int(threadIdx.x);
    for (int64_t j = blockIdx.x; j < k; j += gridDim.x) {
        const double* center = centers + j * d;
        double sum = 0, next = lane < d ? center[lane] : 0.0;
        for (int64_t f = 0; f < d; f += 32) {
            const double square = __dmul_rn(next, next);
            const int64_t after = f + 32 + lane;
            next = after < d ? center[after] : 0.0;  // on its way while these are added
            if (!__any_sync(all, square != 0.0)) continue;
#pragma unroll
            for (int l = 0; l < 32; l++) sum = __dadd_rn(sum, __shfl_sync(all, square, l));
        }
        if (lane == 0) {
            squares[j] = sum;
            atomicMax(largest, (unsigned long long)__double_as_longlong(sum));
        }
    }
}

// The least value, its centre, and the second value.
struct BestSparse {
    double least, second;
    int64_t at;
};

__device__ __forceinline__ void combine(BestSparse& best, const BestSparse& other) {
    const bool later = comes_first<Least>(other.least, other.at, best.least, best.at);
    best.second = fmin(fmin(best.second, other.second), fmax(best.least, other.least));
    if (later) best.least = other.least, best.at = other.at;
}

// Combines over the block; valid in all threads.
__device__ __forceinline__ BestSparse best_of_block(BestSparse mine, BestSparse* shared) {
    for (int apart = 16; apart; apart /= 2) {
        BestSparse other;
        other.least = __shfl_xor_sync(0xFFFFFFFFu, mine.least, apart);
        other.second = __shfl_xor_sync(0xFFFFFFFFu, mine.second, apart);
        other.at = __shfl_xor_sync(0xFFFFFFFFu, (long long)mine.at, apart);
        combine(mine, other);
    }
    __syncthreads();
    if (threadIdx.x % 32 == 0) shared[threadIdx.x / 32] = mine;
    __syncthreads();
    BestSparse all = shared[0];
    for (int w = 1; w < int(blockDim.x) / 32; w++) combine(all, shared[w]);
    return all;
}

__device__ __forceinline__ double rounding_of(double terms) {
    return terms * 0x1p-53 / (1.0 - terms * 0x1p-53);
}

template <class V>
__global__ void __launch_bounds__(kSparseThreads)
    nearest_sparse(SparseRows<V> rows, int64_t n, int64_t d, const double* __restrict__ row_squares,
                   const double* __restrict__ features, const double* __restrict__ squares, int64_t k,
                   const unsigned long long* __restrict__ largest, PassCounters* counters,
                   int32_t* __restrict__ labels, double* __restrict__ distances) {
    __shared__ BestSparse shared[kSparseThreads / 32];
    const double infinity = __longlong_as_double(0x7FF0000000000000ll);
    const double widest = sqrt(__longlong_as_double((long long)*largest)) * (1.0 + 0x1p-20);
    for (int64_t i = blockIdx.x; i < n; i += gridDim.x) {
        BestSparse mine = {infinity, infinity, k};
        for (int64_t j = threadIdx.x; j < k; j += blockDim.x)
            combine(mine, {squares[j] / 2 - rows.product(i, features, k, j), infinity, j});
        BestSparse best = best_of_block(mine, shared);
        const double length = double(rows.starts[i + 1] - rows.starts[i]);
        const double norm = sqrt(row_squares[i]) * (1.0 + 0x1p-20);
        const double error =
            rounding_of(double(d) + 6) * widest * widest / 2 + rounding_of(length + 6) * norm * widest;
        const bool certain = best.second - best.least > 2.01 * error;
        if (!certain) {
            const double limit = best.least + 2.01 * error;
            mine = {infinity, infinity, k};
            for (int64_t j = threadIdx.x; j < k; j += blockDim.x)
                if (!(squares[j] / 2 - rows.product(i, features, k, j) > limit))
                    combine(mine, {rows.difference(i, d, features, k, j), infinity, j});
            best = best_of_block(mine, shared);
        }
        if (threadIdx.x == 0) {
            const int64_t at = best.at < k ? best.at : 0;
            labels[i] = int32_t(at);
            distances[i] = certain
                               ? positive_part(row_squares[i], rows.product(i, features, k, at), squares[at])
                               : best.least;
            if (!certain) atomicAdd(&counters->listed, 1u);
        }
    }
}

// Squared distances of rows to the centres of their labels.
template <class V>
__global__ void __launch_bounds__(256)
    measure_own_sparse(SparseRows<V> rows, int64_t n, const double* __restrict__ row_squares,
                       const double* __restrict__ features, const double* __restrict__ squares, int64_t k,
                       const int32_t* __restrict__ labels, double* __restrict__ out) {
    BB_FOR (i, n) {
        const int64_t j = labels[i];
        out[i] = positive_part(row_squares[i], rows.product(i, features, k, j), squares[j]);
    }
}

// As find_moves.
template <class V>
__global__ void __launch_bounds__(kSparseThreads)
    find_moves_sparse(SparseRows<V> rows, int64_t n, const double* __restrict__ row_squares,
                      const double* __restrict__ features, const double* __restrict__ squares, int64_t k,
                      const double* __restrict__ weights, const int32_t* __restrict__ labels,
                      const double* __restrict__ cluster_weights, PassCounters* counters) {
    __shared__ BestSparse shared[kSparseThreads / 32];
    const double infinity = __longlong_as_double(0x7FF0000000000000ll);
    for (int64_t i = blockIdx.x; i < n; i += gridDim.x) {
        const double w = weights ? weights[i] : 1.0;
        const int64_t from = labels[i];
        BestSparse mine = {infinity, infinity, k};
        for (int64_t j = threadIdx.x; j < k; j += blockDim.x) {
            if (j == from) continue;
            const double square = positive_part(row_squares[i], rows.product(i, features, k, j), squares[j]);
            combine(mine, {cluster_weights[j] / (cluster_weights[j] + w) * w * square, infinity, j});
        }
        const BestSparse best = best_of_block(mine, shared);
        const double all = cluster_weights[from];
        if (threadIdx.x || best.at >= k || w <= 0.0 || all - w <= 0.0) continue;
        const double saved = all / (all - w) * w *
                             positive_part(row_squares[i], rows.product(i, features, k, from), squares[from]);
        const double gain = saved - best.least;
        if (!(gain > 1e-12 * saved)) continue;
        atomicAdd(&counters->changed, 1ull);
        atomicMax(&counters->largest, (unsigned long long)__double_as_longlong(gain));
    }
}

template <class V>
__global__ void __launch_bounds__(kSparseThreads)
    measure_all_sparse(SparseRows<V> rows, int64_t first, int64_t n, const double* __restrict__ row_squares,
                       const double* __restrict__ features, const double* __restrict__ squares, int64_t k,
                       double* __restrict__ out) {
    for (int64_t i = blockIdx.x; i < n; i += gridDim.x)
        for (int64_t j = threadIdx.x; j < k; j += blockDim.x)
            out[i * k + j] = sqrt(
                positive_part(row_squares[first + i], rows.product(first + i, features, k, j), squares[j]));
}

// Adds w x over the rows of a chunk, one row after another, into numbers that are 0; as sum_chunks.
template <class V>
__global__ void __launch_bounds__(kSparseThreads)
    sum_sparse_chunks(SparseRows<V> rows, int64_t d, const double* __restrict__ weights,
                      const double* __restrict__ distances, int64_t k, const uint32_t* __restrict__ order,
                      const int64_t* __restrict__ firsts, const int64_t* __restrict__ chunk_firsts,
                      int64_t chunk_rows, int64_t capacity, double* __restrict__ partial) {
    __shared__ double scratch[2 * kSparseThreads / 32], totals[2];
    for (int64_t q = blockIdx.x; q < capacity; q += gridDim.x) {
        if (q >= chunk_firsts[k]) break;
        double* to = partial + q * (d + 2);
        const int64_t j = cluster_of(chunk_firsts, k, q);
        const int64_t begin = firsts[j] + (q - chunk_firsts[j]) * chunk_rows;
        const int64_t end = min(firsts[j + 1], begin + chunk_rows);
        for (int64_t r = begin; r < end; r++) {
            const int64_t row = order[r];
            const double w = weights ? weights[row] : 1.0;
            for (int64_t e = rows.starts[row] + threadIdx.x; e < rows.starts[row + 1]; e += kSparseThreads)
                to[rows.columns[e]] += w * rows.entry(e);
            __syncthreads();
        }
        double mine[2] = {0, 0};
        for (int64_t r = begin + threadIdx.x; r < end; r += kSparseThreads) {
            const double w = weights ? weights[order[r]] : 1.0;
            mine[0] += w;
            mine[1] += w * distances[order[r]];
        }
        sum_block<2>(mine, scratch, totals);
        if (threadIdx.x < 2) to[d + threadIdx.x] = totals[threadIdx.x];
        __syncthreads();
    }
}

// Turns sums of w x into those of w (x - c).
static __global__ void __launch_bounds__(256)
    subtract_centers(const double* __restrict__ centers, int64_t k, int64_t d, double* __restrict__ sums) {
    BB_FOR (i, k * d) {
        double* of_cluster = sums + i / d * (d + 1);
        of_cluster[i % d] -= of_cluster[d] * centers[i];
    }
}

// Sets rows, dense, among numbers that are 0.
template <class V>
__global__ void __launch_bounds__(kSparseThreads)
    scatter_rows(SparseRows<V> rows, const int64_t* __restrict__ numbers, int64_t count, int64_t d,
                 double* __restrict__ out) {
    for (int64_t i = blockIdx.x; i < count; i += gridDim.x)
        for (int64_t e = rows.starts[numbers[i]] + threadIdx.x; e < rows.starts[numbers[i] + 1];
             e += kSparseThreads)
            out[i * d + rows.columns[e]] = rows.entry(e);
}

// As sum_potentials, for one point of `count`, which are given by features, and their squares.
template <class V>
__global__ void __launch_bounds__(kSparseThreads)
    sum_sparse_potentials(SparseRows<V> rows, int64_t n, const double* __restrict__ row_squares,
                          const double* __restrict__ weights, const double* __restrict__ points,
                          const double* __restrict__ squares, int64_t count, float* __restrict__ closest,
                          int take, int64_t panels, double* __restrict__ sums) {
    __shared__ double scratch[kSparseThreads / 32], totals[1];
    for (int64_t task = blockIdx.x; task < count * panels; task += gridDim.x) {
        const int64_t c = task / panels, first = task % panels * BB_PANEL_ROWS;
        const double square = squares[c];
        double mine[1] = {0};
        for (int64_t i = first + threadIdx.x; i < min(n, first + BB_PANEL_ROWS); i += kSparseThreads) {
            const double dot = rows.product(i, points, count, c);
            const float least = fminf(closest[i], float(positive_part(row_squares[i], dot, square)));
            if (take) closest[i] = least;
            mine[0] += (weights ? weights[i] : 1.0) * double(least);
        }
        sum_block<1>(mine, scratch, totals);
        if (threadIdx.x == 0) sums[task] = totals[0];
        __syncthreads();
    }
}

}  // namespace bmrm
