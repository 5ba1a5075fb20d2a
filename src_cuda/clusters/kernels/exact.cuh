// Distances in float64: of rows that the fast pass could not decide, of single moves, of the user.
//
// A squared distance is the sum of (x_f - c_f)^2 over f in order, each operation rounded, as on the CPU: the
// labels are the same even where rounding decides.
#pragma once
#include "clusters/kernels/centers.cuh"

namespace bmrm {

constexpr int kExactRows = 4;       // rows of a block at a time, which share the loads of centres
constexpr int kExactThreads = 256;  // maximum number of threads of such a block

template <class V>
__device__ __forceinline__ void exact_squares(const V* const (&x)[kExactRows], int64_t d,
                                              const double* __restrict__ column, int64_t k,
                                              double (&square)[kExactRows]) {
#pragma unroll
    for (int r = 0; r < kExactRows; r++) square[r] = 0;
#pragma unroll 8
    for (int64_t f = 0; f < d; f++) {
        const double c = column[f * k];
#pragma unroll
        for (int r = 0; r < kExactRows; r++) {
            const double e = double(x[r][f]) - c;
            square[r] = __dadd_rn(square[r], __dmul_rn(e, e));
        }
    }
}

struct LeastOfWarps {
    double value[kExactRows][kExactThreads / 32];
    int64_t at[kExactRows][kExactThreads / 32];
};

// Finds the least value of each row over the block, of equal ones that with the least number, and calls
// done(r, value, number) in one thread for each of the rows.
template <class Done>
__device__ __forceinline__ void least_of_block(double (&value)[kExactRows], int64_t (&at)[kExactRows],
                                               LeastOfWarps& shared, const Done& done) {
    const int lane = int(threadIdx.x) % 32, warp = int(threadIdx.x) / 32, warps = int(blockDim.x) / 32;
#pragma unroll
    for (int r = 0; r < kExactRows; r++) {
        best_of_warp<Least>(value[r], at[r]);
        if (lane == 0) shared.value[r][warp] = value[r], shared.at[r][warp] = at[r];
    }
    __syncthreads();
    if (threadIdx.x < kExactRows) {
        const int r = int(threadIdx.x);
        double least = shared.value[r][0];
        int64_t least_at = shared.at[r][0];
        for (int w = 1; w < warps; w++)
            if (comes_first<Least>(shared.value[r][w], shared.at[r][w], least, least_at))
                least = shared.value[r][w], least_at = shared.at[r][w];
        done(r, least, least_at);
    }
    __syncthreads();
}

// Labels the listed rows, `*listed_count` of them; or all n rows if there is no list.
template <class V>
__global__ void __launch_bounds__(kExactThreads)
    decide_exactly(const V* __restrict__ X, int64_t n, int64_t d, const double* given_columns, int64_t k,
                   const uint32_t* given_list, const unsigned* given_count, PassCounters* counters,
                   int32_t* __restrict__ labels) {
    __shared__ LeastOfWarps shared;
    let_next_start();
    wait_for_previous();
    const double* columns = after_wait(given_columns);
    const uint32_t* listed = after_wait(given_list);
    const unsigned* listed_count = after_wait(given_count);
    const int64_t count = listed ? int64_t(*listed_count) : n;
    if (!listed && blockIdx.x == 0 && threadIdx.x == 0) counters->listed = unsigned(n);
    for (int64_t first = int64_t(blockIdx.x) * kExactRows; first < count;
         first += int64_t(gridDim.x) * kExactRows) {
        const V* x[kExactRows];
        double least[kExactRows];
        int64_t at[kExactRows];
#pragma unroll
        for (int r = 0; r < kExactRows; r++) {
            const int64_t i = first + r < count ? first + r : count - 1;
            x[r] = X + (listed ? int64_t(listed[i]) : i) * d;
            least[r] = __longlong_as_double(0x7FF0000000000000ll);
            at[r] = k;
        }
        for (int64_t j = threadIdx.x; j < k; j += blockDim.x) {
            double square[kExactRows];
            exact_squares(x, d, columns + j, k, square);
#pragma unroll
            for (int r = 0; r < kExactRows; r++)
                if (comes_first<Least>(square[r], j, least[r], at[r])) least[r] = square[r], at[r] = j;
        }
        least_of_block(least, at, shared, [&](int r, double, int64_t nearest) {
            if (first + r >= count) return;
            labels[listed ? int64_t(listed[first + r]) : first + r] = int32_t(nearest < k ? nearest : 0);
        });
    }
}

// Counts rows that lower the inertia by a move to another cluster, and finds the largest gain: a row of
// weight w saves W/(W - w) w |x - c|^2 at its own cluster of weight W, and adds W/(W + w) w |x - c|^2 at
// another.
template <class V>
__global__ void __launch_bounds__(kExactThreads)
    find_moves(const V* __restrict__ X, int64_t n, int64_t d, const double* __restrict__ columns, int64_t k,
               const double* __restrict__ weights, const int32_t* __restrict__ labels,
               const double* __restrict__ cluster_weights, PassCounters* counters) {
    __shared__ LeastOfWarps shared;
    __shared__ double own[kExactRows];
    for (int64_t first = int64_t(blockIdx.x) * kExactRows; first < n;
         first += int64_t(gridDim.x) * kExactRows) {
        const V* x[kExactRows];
        double w[kExactRows], least[kExactRows];
        int64_t at[kExactRows];
        int from[kExactRows];
#pragma unroll
        for (int r = 0; r < kExactRows; r++) {
            const int64_t row = first + r < n ? first + r : n - 1;
            x[r] = X + row * d;
            w[r] = weights ? weights[row] : 1.0;
            from[r] = labels[row];
            least[r] = __longlong_as_double(0x7FF0000000000000ll);
            at[r] = k;
        }
        for (int64_t j = threadIdx.x; j < k; j += blockDim.x) {
            double square[kExactRows];
            exact_squares(x, d, columns + j, k, square);
#pragma unroll
            for (int r = 0; r < kExactRows; r++) {
                if (j == from[r]) {
                    own[r] = square[r];
                    continue;
                }
                const double cost = cluster_weights[j] / (cluster_weights[j] + w[r]) * w[r] * square[r];
                if (comes_first<Least>(cost, j, least[r], at[r])) least[r] = cost, at[r] = j;
            }
        }
        least_of_block(least, at, shared, [&](int r, double cost, int64_t to) {
            if (first + r >= n || to >= k) return;
            const int64_t row = first + r;
            const double all = cluster_weights[labels[row]], mine = weights ? weights[row] : 1.0;
            if (mine <= 0.0 || all - mine <= 0.0) return;
            const double saved = all / (all - mine) * mine * own[r], gain = saved - cost;
            // Both terms are sums of squares: differences of their rounding do not count as a gain.
            if (!(gain > 1e-12 * saved)) return;
            atomicAdd(&counters->changed, 1ull);
            atomicMax(&counters->largest, (unsigned long long)__double_as_longlong(gain));
        });
    }
}

// Distances of some rows to all centres, by rows.
template <class V>
__global__ void __launch_bounds__(kExactThreads)
    measure_all(const V* __restrict__ X, int64_t n, int64_t d, const double* __restrict__ columns, int64_t k,
                double* __restrict__ out) {
    for (int64_t first = int64_t(blockIdx.x) * kExactRows; first < n;
         first += int64_t(gridDim.x) * kExactRows) {
        const V* x[kExactRows];
#pragma unroll
        for (int r = 0; r < kExactRows; r++) x[r] = X + (first + r < n ? first + r : n - 1) * d;
        for (int64_t j = threadIdx.x; j < k; j += blockDim.x) {
            double square[kExactRows];
            exact_squares(x, d, columns + j, k, square);
#pragma unroll
            for (int r = 0; r < kExactRows; r++)
                if (first + r < n) out[(first + r) * k + j] = sqrt(square[r]);
        }
    }
}

// Squared distances of rows to the centres of their labels: L lanes of a warp per row.
template <class V, int L>
__global__ void __launch_bounds__(256)
    measure_own(const V* __restrict__ X, int64_t n, int64_t d, const double* __restrict__ centers,
                const int32_t* __restrict__ labels, double* __restrict__ out) {
    const int lane = int(threadIdx.x) % L;
    const int64_t rows = int64_t(gridDim.x) * blockDim.x / L;
    const int64_t mine = (int64_t(blockIdx.x) * blockDim.x + threadIdx.x) / L;
    for (int64_t i = mine; i - mine % (32 / L) < n; i += rows) {  // all lanes of a warp stay together
        double square = 0;
        if (i < n) {
            const double* c = centers + labels[i] * d;
            for (int64_t f = lane; f < d; f += L) {
                const double e = double(X[i * d + f]) - c[f];
                square += e * e;
            }
        }
        square = over_warp<Sum, L / 2>(square);
        if (lane == 0 && i < n) out[i] = square;
    }
}

}  // namespace bmrm
