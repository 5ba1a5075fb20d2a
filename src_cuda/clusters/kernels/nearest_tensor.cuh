// Nearest centres of rows with many columns, by the tensor cores.
//
// rounded_rows.cuh says how they are rounded, and bounds the errors of the values.
//
// Rows that this does not decide are listed with a limit, the least value plus twice the bound.  A second
// pass over them alone collects the centres whose values are not above the limit; the nearest centre is one
// of them. Those are compared in float64; rows with more than kMaxCandidates of them are compared with all
// centres.
#pragma once
#include "clusters/kernels/exact.cuh"
#include "rows/kernels/tensor_tiles.cuh"
#include "runtime/dynamic_shared.cuh"

namespace bmrm {

constexpr int kMaxCandidates = 8;

// The best value, its centre, and the second value.
struct Best {
    float least, second;
    int at;
};

__device__ __forceinline__ void consider(Best& best, float value, int at) {
    if (value < best.least) best.at = at;
    best.second = fminf(best.second, fmaxf(best.least, value));
    best.least = fminf(best.least, value);
}

__device__ __forceinline__ void combine(Best& best, float least, float second, int at) {
    if (least < best.least) best.at = at;
    best.second = fminf(fminf(best.second, second), fmaxf(best.least, least));
    best.least = fminf(best.least, least);
}

// The rows that the first pass could not decide.
struct Uncertain {
    uint32_t* rows;
    float* limits;
    unsigned* counts;     // of the candidates of each
    int32_t* candidates;  // kMaxCandidates each
    uint32_t* crowded;    // rows with more
};

// rows: (n rounded up to kTensorRows) x chunks x kPieces; centers: (tiles kTensorPoints) x chunks x kPieces.
template <bool keeps>
__global__ void __launch_bounds__(kTensorThreads, 2)
    nearest_tensor(const uint4* __restrict__ rows, const RowNorms* __restrict__ norms, int64_t n, int chunks,
                   const uint4* __restrict__ centers, const float* __restrict__ halves, int tiles,
                   FastError error, PassCounters* counters, int32_t* __restrict__ labels,
                   const Uncertain uncertain) {
    uint4* shared = dynamic_shared<uint4>();
    const int64_t first_row = int64_t(blockIdx.x) * kTensorRows;
    uint4* stages = shared + (keeps ? chunks * kTensorRows * kPieces : 0);
    const Chunks from = {rows, centers, nullptr, first_row, chunks, tiles, shared, stages};
    Best best[8];
#pragma unroll
    for (int r = 0; r < 8; r++) {
        best[r].least = best[r].second = __int_as_float(0x7F800000);
        best[r].at = 0;
    }
    for_values<keeps>(from, halves, [&](int r, float value, int j) { consider(best[r], value, j); });
    const int lane = int(threadIdx.x) % 32, across = int(threadIdx.x) / 32 % 4;
    Best* of_warps = reinterpret_cast<Best*>(stages);  // 4 x kTensorRows
#pragma unroll
    for (int r = 0; r < 8; r++) {
#pragma unroll
        for (int apart = 1; apart < 4; apart *= 2) {
            const float least = __shfl_xor_sync(0xFFFFFFFFu, best[r].least, apart);
            const float second = __shfl_xor_sync(0xFFFFFFFFu, best[r].second, apart);
            const int at = __shfl_xor_sync(0xFFFFFFFFu, best[r].at, apart);
            combine(best[r], least, second, at);
        }
        if (lane % 4 == 0) of_warps[across * kTensorRows + row_in_tile(r)] = best[r];
    }
    __syncthreads();
    const int64_t row = first_row + threadIdx.x;
    if (threadIdx.x >= kTensorRows || row >= n) return;
    Best found = of_warps[threadIdx.x];
    for (int a = 1; a < 4; a++) {
        const Best& other = of_warps[a * kTensorRows + threadIdx.x];
        combine(found, other.least, other.second, other.at);
    }
    labels[row] = found.at;
    // Comparisons with NaN or infinity are false: overflow leads to float64.
    const float margin = twice_error(error, __uint_as_float(counters->widest),
                                     __uint_as_float(counters->widest_rest), norms[row]);
    if (found.second - found.least > margin) return;
    const unsigned at = atomicAdd(&counters->listed, 1u);
    uncertain.rows[at] = uint32_t(row);
    uncertain.limits[at] = found.least + margin + fabsf(found.least) * 0x1p-22f;
    uncertain.counts[at] = 0;
}

// Collects the candidates of the rows in question.
template <bool keeps>
__global__ void __launch_bounds__(kTensorThreads)
    collect_candidates(const uint4* __restrict__ rows, int chunks, const uint4* __restrict__ centers,
                       const float* __restrict__ halves, int tiles, int64_t k, const PassCounters* counters,
                       const Uncertain uncertain) {
    __shared__ uint32_t numbers[kTensorRows];
    uint4* shared = dynamic_shared<uint4>();
    uint4* stages = shared + (keeps ? chunks * kTensorRows * kPieces : 0);
    const int64_t listed = counters->listed;
    for (int64_t first = int64_t(blockIdx.x) * kTensorRows; first < listed;
         first += int64_t(gridDim.x) * kTensorRows) {
        if (threadIdx.x < kTensorRows)
            numbers[threadIdx.x] = uncertain.rows[min(first + threadIdx.x, listed - 1)];
        __syncthreads();
        const Chunks from = {rows, centers, numbers, 0, chunks, tiles, shared, stages};
        float limit[8];
#pragma unroll
        for (int r = 0; r < 8; r++) {
            const int64_t at = first + row_in_tile(r);
            limit[r] = at < listed ? uncertain.limits[at] : -__int_as_float(0x7F800000);
        }
        for_values<keeps>(from, halves, [&](int r, float value, int j) {
            const int64_t at = first + row_in_tile(r);
            if (value > limit[r] || j >= k || at >= listed) return;  // NaN is not above
            const unsigned place = atomicAdd(uncertain.counts + at, 1u);
            if (place < kMaxCandidates) uncertain.candidates[at * kMaxCandidates + place] = j;
        });
    }
}

// Labels the rows in question by the nearest of their candidates; kMaxCandidates lanes per row.
template <class V>
__global__ void __launch_bounds__(256, 4)
    decide_candidates(const V* __restrict__ X, int64_t d, const double* __restrict__ centers,
                      PassCounters* counters, const Uncertain uncertain, int32_t* __restrict__ labels) {
    const int64_t listed = counters->listed, step = int64_t(gridDim.x) * blockDim.x / kMaxCandidates;
    const int64_t mine = (int64_t(blockIdx.x) * blockDim.x + threadIdx.x) / kMaxCandidates;
    const int lane = int(threadIdx.x) % kMaxCandidates;
    for (int64_t begin = 0; begin < listed; begin += step) {  // all lanes of a warp go on together
        const int64_t at = begin + mine;
        const unsigned count = at < listed ? uncertain.counts[at] : 0;
        const int64_t row = at < listed ? int64_t(uncertain.rows[at]) : 0;
        double square = __longlong_as_double(0x7FF0000000000000ll);
        int64_t j = int64_t(1) << 40;
        if (count <= kMaxCandidates && lane < int(count)) {
            j = uncertain.candidates[at * kMaxCandidates + lane];
            square = 0;
            const V* x = X + row * d;
            const double* c = centers + j * d;
#pragma unroll 16
            for (int64_t f = 0; f < d; f++) {
                const double e = double(x[f]) - c[f];
                square = __dadd_rn(square, __dmul_rn(e, e));
            }
        }
        best_of_warp<Least, kMaxCandidates>(square, j);
        if (lane || at >= listed) continue;
        if (count <= kMaxCandidates)
            labels[row] = int32_t(j);
        else
            uncertain.crowded[atomicAdd(&counters->crowded, 1u)] = uint32_t(row);
    }
}

}  // namespace bmrm
