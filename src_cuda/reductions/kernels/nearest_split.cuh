// Nearest centres of rows with few columns, by the tensor cores: as precise as float32, nearly.
//
// Rows y and centres z are split into two numbers of float16 each, y = a + b + r and z = p + q + s, where r
// and s are at most 2^-22 of them, or 2^-25.  The value of a centre is |z|^2/2 - a.p - a.q - b.p; b.q, which
// is left out, is at most 2^-22 |y_f| |z_f| in each column f.  |z|^2/2 is the sum of three numbers of
// float16.  An instruction takes four columns of 16 rows and 8 centres: of its 16 terms, each column has
// three, and the fourth is a part of |z|^2/2 times 1.  What the sums of an instruction lose is in
// nearest_tensor.cuh.
//
// A lane has the same columns of all products.  Of each four values of a row, which are those of a group of
// kGroupCenters centres, only the least is compared with the best so far; at the end the group of the best is
// looked at again in float32, as in nearest_lanes.cuh.
#pragma once
#include "reductions/kernels/mma.cuh"
#include "reductions/kernels/nearest_lanes.cuh"

namespace bmrm {

constexpr int kSplitThreads = 128;
constexpr int kSplitVectors = 1024;      // of 16 bytes: 16 KB of centres at a time
constexpr float kMaxRowNorm = 0x1p8f;    // of rows that this decides
constexpr double kMaxSplitNorm = 0x1p8;  // of centres: half its square is within float16
constexpr int kSplitExponent = 4;        // rows reach up to 2^4, far above the least numbers of float16

// The parts of a bound for values: of |z|^2/2 and of |y| B, and what is at most 2^-25 in each column.  An
// instruction loses 2^-23 for each of its terms that is not 0, the sum so far and three more.
inline FastError split_error(int64_t d) {
    const double lost = double(3 * d + 3 + 4 * split_steps(int(d))) * 0x1p-23;
    return {float(1.05 * (lost + 4 * 0x1p-24)), float(1.05 * (lost + 4 * 0x1p-22)),
            float(1.05 * 0x1p-25 * (std::sqrt(double(d)) * (kMaxRowNorm + 1.0) + 2))};
}

// As `refine` in nearest_lanes.cuh, centre by centre.
template <int D>
__device__ __forceinline__ int refine_by_centers(const float (&y)[D], const float4* lanes, int group,
                                                 float& best, float& second) {
    const float4* from = lanes + int64_t(group) * (D + 1);
    const float4 halves = from[D];
    const float half[kGroupCenters] = {halves.x, halves.y, halves.z, halves.w};
    int at = 0;
#pragma unroll
    for (int c = 0; c < kGroupCenters; c++) {
        float z[D], value = half[c];
        load_center<D>(from, c, z);
#pragma unroll
        for (int f = 0; f < D; f++) value = fmaf(y[f], z[f], value);
        if (value < best) at = c;
        second = fminf(second, fmaxf(best, value));
        best = fminf(best, value);
    }
    return group * kGroupCenters + at;
}

// D: maximum number of columns; R: tiles of 16 rows of a warp.  lanes: groups of kGroupCenters centres, as
// for nearest_lanes; split: 16 centres at a time.
template <class V, int D, int R>
__global__ void __launch_bounds__(kSplitThreads)
    nearest_split(const V* __restrict__ X, int64_t n, int d, const Origin origin, bool aligned,
                  const float4* given_lanes, const uint4* given_split, int sixteens, FastError error,
                  PassCounters* counters, int32_t* __restrict__ labels, uint32_t* __restrict__ listed) {
    constexpr int S = split_steps(D), kVectors = 32 * S;  // of 16 bytes, for 16 centres
    constexpr int kAtOnce = kSplitVectors / kVectors;
    __shared__ uint4 tile[kSplitVectors];
    const float infinity = __int_as_float(0x7F800000);
    const int lane = int(threadIdx.x) % 32, warp = int(threadIdx.x) / 32, g = lane / 4, t = lane % 4;
    const int64_t first = (int64_t(blockIdx.x) * (kSplitThreads / 32) + warp) * (16 * R);
    let_next_start();
    uint32_t rows[R][S][4];
    float best[R][2], second[R][2];
    int at[R][2];
#pragma unroll
    for (int r = 0; r < R; r++)
#pragma unroll
        for (int upper = 0; upper < 2; upper++) {
            const int64_t row = min(first + 16 * r + 8 * upper + g, n - 1);
#pragma unroll
            for (int s = 0; s < S; s++) {
                const int f = 4 * s + t;
                const float y = f < d ? origin.apply(X[row * d + f], f) : 0.0f;
                const __half a = __float2half(y), b = __float2half(y - __half2float(a));
                rows[r][s][upper] = pack_halves(a, a);
                rows[r][s][2 + upper] = pack_halves(b, __float2half(1.0f));
            }
            best[r][upper] = second[r][upper] = infinity;
            at[r][upper] = 0;
        }
    wait_for_previous();
    const uint4* split = after_wait(given_split);
    const float4* lanes = after_wait(given_lanes);
    for (int begin = 0; begin < sixteens; begin += kAtOnce) {
        const int count = min(kAtOnce, sixteens - begin);
        __syncthreads();
        for (int i = int(threadIdx.x); i < count * kVectors; i += kSplitThreads)
            tile[i] = split[int64_t(begin) * kVectors + i];
        __syncthreads();
        for (int c = 0; c < count; c++) {
            const uint2* centers = reinterpret_cast<const uint2*>(tile + c * kVectors) + lane;
            float values[R][2][4];
#pragma unroll
            for (int u = 0; u < 2; u++)
#pragma unroll
                for (int s = 0; s < S; s++) {
                    const uint2 factor = centers[(u * S + s) * 32];
#pragma unroll
                    for (int r = 0; r < R; r++) {
                        if (s == 0)
                            multiply(values[r][u], rows[r][s], factor.x, factor.y);
                        else
                            multiply_add(values[r][u], rows[r][s], factor.x, factor.y);
                    }
                }
            const int group = (begin + c) * 4 + t;
#pragma unroll
            for (int r = 0; r < R; r++)
#pragma unroll
                for (int upper = 0; upper < 2; upper++) {
                    const float least = fminf(fminf(values[r][0][2 * upper], values[r][0][2 * upper + 1]),
                                              fminf(values[r][1][2 * upper], values[r][1][2 * upper + 1]));
                    if (least < best[r][upper]) at[r][upper] = group;
                    second[r][upper] = fminf(second[r][upper], fmaxf(best[r][upper], least));
                    best[r][upper] = fminf(best[r][upper], least);
                }
        }
    }
#pragma unroll
    for (int r = 0; r < R; r++)
#pragma unroll
        for (int upper = 0; upper < 2; upper++)
#pragma unroll
            for (int apart = 1; apart < 4; apart *= 2) {
                const float least = __shfl_xor_sync(0xFFFFFFFFu, best[r][upper], apart);
                const float next = __shfl_xor_sync(0xFFFFFFFFu, second[r][upper], apart);
                const int group = __shfl_xor_sync(0xFFFFFFFFu, at[r][upper], apart);
                if (least < best[r][upper]) at[r][upper] = group;
                second[r][upper] = fminf(fminf(second[r][upper], next), fmaxf(best[r][upper], least));
                best[r][upper] = fminf(best[r][upper], least);
            }
    // Each lane takes every fourth of the rows that its four lanes have.
#pragma unroll
    for (int i = 0; i < 2 * R; i += 4) {
        float nearest = infinity, next = infinity;
        int group = 0, mine = 0;
#pragma unroll
        for (int j = 0; j < 4 && i + j < 2 * R; j++)
            if (t == j) {
                mine = i + j;
                next = second[(i + j) / 2][(i + j) % 2];
                group = at[(i + j) / 2][(i + j) % 2];
            }
        const int64_t row = first + 8 * mine + g;
        if (i + t >= 2 * R || row >= n) continue;
        float y[D], square = 0;
        load_row(X + row * d, d, origin, aligned, y);
        const int label = refine_by_centers(y, lanes, group, nearest, next);
#pragma unroll
        for (int f = 0; f < D; f++) square = fmaf(y[f], y[f], square);
        labels[row] = label;
        // Comparisons with NaN or infinity are false: overflow leads to float64.
        const float norm = norm_above(double(square));
        if (!(norm <= kMaxRowNorm && next - nearest > twice_error(error, counters, norm)))
            listed[atomicAdd(&counters->listed, 1u)] = uint32_t(row);
    }
}

// The bits of the maximum of |x - shift|.
template <class V>
__global__ void __launch_bounds__(256)
    find_widest(const V* __restrict__ X, int64_t size, int64_t d, const double* __restrict__ shift,
                unsigned long long* widest) {
    unsigned long long mine = 0;
    BB_FOR (i, size) {
        const unsigned long long bits =
            (unsigned long long)__double_as_longlong(fabs(double(X[i]) - shift[i % d]));
        mine = bits > mine ? bits : mine;
    }
    for (int apart = 16; apart; apart /= 2) {
        const unsigned long long other = __shfl_xor_sync(0xFFFFFFFFu, mine, apart);
        mine = other > mine ? other : mine;
    }
    if (threadIdx.x % 32 == 0) atomicMax(widest, mine);
}

}  // namespace bmrm
