// Sums over the rows of each cluster as sums of integers, by the tensor cores: exact, in any order.
//
// A value x becomes the 64 bits of the double fma(x, factor, offset), with a factor such that this is in
// [2^52, 2^53): a whole number in units of 2^-49 of the largest value, so that all float32 values above 2^-26
// of the largest are exact.  The sums of each of the 8 bytes over the rows of a cluster are the product of
// the matrix of labels (clusters x rows, one entry per row) and the matrix of bytes, which the tensor cores
// add up in int32 without rounding (PTX ISA, "Matrix fragments for mma.m16n8k32").  A byte of the first
// matrix is 128 instead of 1, which fewer instructions make.  The byte at the top is the same for all values,
// and counts.
//
// Splitting numbers into slices whose products are exact: K. Ozaki, T. Ogita, S. Oishi and S. M. Rump,
// Error-free transformations of matrix multiplication, Numerical Algorithms 59 (2012); on integer tensor
// cores: H. Ootomo, K. Ozaki and R. Yokota, DGEMM on integer matrix multiplication unit, IJHPCA 38 (2024).
#pragma once
#include "reductions/kernels/cluster_sums.cuh"
#include "reductions/kernels/mma.cuh"

namespace bmrm {

constexpr int kIntegerWarps = 4;
constexpr int kIntegerThreads = 32 * kIntegerWarps;
constexpr int kStepRows = 32;                // rows of a product
constexpr int kMaxIntegerRows = 8192;        // of a part: sums of 128 x 255 stay below 2^31
constexpr double kIntegerOrigin = 0x1.8p52;  // what stands for 0
constexpr int kTopByte = 0x43;               // of the doubles from 2^52 to 2^53
constexpr uint32_t kNoLabel = 0xFF;          // groups of clusters have fewer than 255

// Bytes that are 128 where those of `labels` are equal to those of `wanted`, and else 0.
__device__ __forceinline__ uint32_t equal_bytes(uint32_t labels, uint32_t wanted) {
    const uint32_t other = labels ^ wanted;
    return ~(((other & 0x7F7F7F7Fu) + 0x7F7F7F7Fu) | other) & 0x80808080u;
}

// Byte b of four words, for each b < 4.
__device__ __forceinline__ void transpose_bytes(const uint32_t (&words)[4], uint32_t (&out)[4]) {
    const uint32_t low01 = __byte_perm(words[0], words[1], 0x5140),
                   low23 = __byte_perm(words[2], words[3], 0x5140),
                   high01 = __byte_perm(words[0], words[1], 0x7362),
                   high23 = __byte_perm(words[2], words[3], 0x7362);
    out[0] = __byte_perm(low01, low23, 0x5410);
    out[1] = __byte_perm(low01, low23, 0x7632);
    out[2] = __byte_perm(high01, high23, 0x5410);
    out[3] = __byte_perm(high01, high23, 0x7632);
}

// Labels of four rows, from 0 in a group of clusters.
__device__ __forceinline__ uint32_t pack_labels(const int32_t (&labels)[4], int32_t first, int clusters) {
    uint32_t out = 0;
#pragma unroll
    for (int i = 0; i < 4; i++) {
        const uint32_t label = uint32_t(labels[i] - first);
        out |= (label < uint32_t(clusters) ? label : kNoLabel) << 8 * i;
    }
    return out;
}

// Labels of the rows row ... row + 3; -1 after the last.
__device__ __forceinline__ void load_labels(const int32_t* fresh, int64_t row, int64_t last,
                                            int32_t (&out)[4]) {
    if (row + 4 <= last) {
        const Several<int32_t, 4> some = *reinterpret_cast<const Several<int32_t, 4>*>(fresh + row);
#pragma unroll
        for (int i = 0; i < 4; i++) out[i] = some.values[i];
    } else {
#pragma unroll
        for (int i = 0; i < 4; i++) out[i] = row + i < last ? fresh[row + i] : -1;
    }
}

// C columns at a time, of `column_groups` groups, and 16 T clusters at a time, of `cluster_groups`: a block
// has one of each, and a part of the rows.  The 8 columns of a product are C of the rows' columns times 8 / C
// bytes; the other bytes are in C products.
// partial: parts x k x (d + 1): sums of whole numbers, and the number of rows.
template <int C, int T>
__global__ void __launch_bounds__(kIntegerThreads, 3)
    sum_integers(const float* __restrict__ X, int64_t n, int d, double factor,
                 const double* __restrict__ offsets, int k, const int32_t* given_fresh,
                 int32_t* __restrict__ labels, int64_t part_rows, int column_groups, int cluster_groups,
                 long long* __restrict__ partial, PassCounters* counters) {
    constexpr int kCells = T * 16 * C * 8;
    __shared__ unsigned cells[kCells];  // clusters x bytes x columns
    const int lane = int(threadIdx.x) % 32, warp = int(threadIdx.x) / 32;
    const int g = lane / 4, t = lane % 4;
    const int groups = column_groups * cluster_groups, group = int(blockIdx.x) % groups;
    const int64_t part = int64_t(blockIdx.x) / groups;
    const int first_column = group % column_groups * C, first_cluster = group / column_groups * (16 * T);
    const int column = first_column + g % C;
    const bool is_column = column < d;
    const double offset = is_column ? offsets[column] : kIntegerOrigin;
    let_next_start();
    const int64_t first = part * part_rows, last = min(n, first + part_rows);
    for (int i = int(threadIdx.x); i < kCells; i += kIntegerThreads) cells[i] = 0;
    int sums[T][C][4] = {};
    int changed = 0;
    wait_for_previous();
    const int32_t* fresh = after_wait(given_fresh);
    for (int64_t base = first + warp * kStepRows; base < last; base += kIntegerThreads) {
        int32_t own[2][4];
        float x[2][4];
#pragma unroll
        for (int half = 0; half < 2; half++) {
            const int64_t row = base + 16 * half + 4 * t;
            load_labels(fresh, row, last, own[half]);
#pragma unroll
            for (int i = 0; i < 4; i++)
                x[half][i] = is_column ? X[min(row + i, last - 1) * d + column] : 0.0f;
        }
        uint32_t packed[2], bytes[2][C];
#pragma unroll
        for (int half = 0; half < 2; half++) {
            packed[half] = pack_labels(own[half], first_cluster, 16 * T);
            unsigned long long bits[4];
#pragma unroll
            for (int i = 0; i < 4; i++)
                bits[i] = (unsigned long long)__double_as_longlong(fma(double(x[half][i]), factor, offset));
#pragma unroll
            for (int b = 0; b < C; b += 4) {  // 8 bytes, or the C that this lane has
                const int shift = C == 8 ? 8 * b : 8 * C * (g / C);
                uint32_t words[4], out[4];
#pragma unroll
                for (int i = 0; i < 4; i++) words[i] = uint32_t(bits[i] >> shift);
                transpose_bytes(words, out);
#pragma unroll
                for (int i = 0; i < 4; i++)
                    if (b + i < C) bytes[half][b + i] = out[i];
            }
        }
#pragma unroll
        for (int tile = 0; tile < T; tile++) {
            const uint32_t upper = uint32_t(16 * tile + g) * 0x01010101u, lower = upper + 0x08080808u;
            const uint32_t ones[4] = {equal_bytes(packed[0], upper), equal_bytes(packed[0], lower),
                                      equal_bytes(packed[1], upper), equal_bytes(packed[1], lower)};
#pragma unroll
            for (int b = 0; b < C; b++) multiply_add_bytes(sums[tile][b], ones, bytes[0][b], bytes[1][b]);
        }
        if (group == 0 && g == 0)
#pragma unroll
            for (int half = 0; half < 2; half++)
#pragma unroll
                for (int i = 0; i < 4; i++) {
                    const int64_t row = base + 16 * half + 4 * t + i;
                    if (row < last) changed += take_label(labels, row, own[half][i]);
                }
    }
    __syncthreads();
#pragma unroll
    for (int tile = 0; tile < T; tile++)
#pragma unroll
        for (int b = 0; b < C; b++)
#pragma unroll
            for (int i = 0; i < 4; i++) {
                const int cluster = 16 * tile + g + i / 2 * 8, at = 2 * t + i % 2;
                const int byte = at / C * C + b;
                if (sums[tile][b][i])
                    atomicAdd(cells + (cluster * 8 + byte) * C + at % C, unsigned(sums[tile][b][i]));
            }
    __syncthreads();
    long long* to = partial + part * (int64_t(k) * (d + 1));
    for (int i = int(threadIdx.x); i < 16 * T * C; i += kIntegerThreads) {
        const int cluster = first_cluster + i / C, f = first_column + i % C;
        if (cluster >= k || f >= d) continue;
        const unsigned* of_bytes = cells + i / C * (8 * C) + i % C;
        unsigned long long sum = 0;
        for (int byte = 0; byte < 8; byte++)
            sum += (unsigned long long)(of_bytes[byte * C] / 128) << (8 * byte);
        const unsigned rows = of_bytes[7 * C] / (128 * kTopByte);
        sum -= rows * (unsigned long long)__double_as_longlong(kIntegerOrigin);
        to[int64_t(cluster) * (d + 1) + f] = (long long)sum;
        if (f == 0) to[int64_t(cluster) * (d + 1) + d] = rows;
    }
    count_changes(changed, counters);
}

// A sum of two doubles, the second of which is what rounding to the first has lost.
struct TwoDoubles {
    double high, low;
};

__device__ __forceinline__ TwoDoubles two_sum(double a, double b) {
    const double sum = __dadd_rn(a, b), back = __dadd_rn(sum, -a);
    return {sum, __dadd_rn(__dadd_rn(a, -__dadd_rn(sum, -back)), __dadd_rn(b, -back))};
}
__device__ __forceinline__ TwoDoubles two_product(double a, double b) {
    const double product = __dmul_rn(a, b);
    return {product, fma(a, b, -product)};
}
__device__ __forceinline__ TwoDoubles add(const TwoDoubles& a, const TwoDoubles& b) {
    const TwoDoubles sum = two_sum(a.high, b.high);
    return two_sum(sum.high, __dadd_rn(sum.low, __dadd_rn(a.low, b.low)));
}
__device__ __forceinline__ TwoDoubles multiply(const TwoDoubles& a, const TwoDoubles& b) {
    const TwoDoubles product = two_product(a.high, b.high);
    return two_sum(product.high, product.low + (a.high * b.low + a.low * b.high));
}

// What a cluster adds to the inertia of all rows about the origin.
struct ClusterShare {
    TwoDoubles value;
    double size;  // sum of absolute values
};

constexpr int kFinishWarps = 16;

// One block per cluster: adds the parts of its whole numbers, and sets its sums of x - c, its number of rows
// and its share in the inertia.
static __global__ void __launch_bounds__(32 * kFinishWarps)
    finish_integers(const long long* given_partial, int64_t parts, int k, int d, double factor,
                    const double* __restrict__ offsets, const double* given_centers,
                    const PassCounters* given_counters, double* __restrict__ sums,
                    double* __restrict__ cluster_weights, ClusterShare* __restrict__ shares,
                    PassCounters* __restrict__ noted) {
    __shared__ long long scratch[3][kFinishWarps][32];
    const int lane = int(threadIdx.x) % 32, warp = int(threadIdx.x) / 32, j = int(blockIdx.x);
    const int64_t apart = int64_t(k) * (d + 1), first = int64_t(j) * (d + 1);
    long long low = 0, high = 0, rows = 0;
    wait_for_previous();
    const long long* partial = after_wait(given_partial);
    const double* centers = after_wait(given_centers);
    const PassCounters* counters = after_wait(given_counters);
#pragma unroll 8
    for (int64_t p = warp; p < parts; p += kFinishWarps) {
        const long long value = lane < d ? partial[p * apart + first + lane] : 0;
        low += value & 0xFFFFFFFFll;
        high += value >> 32;
        rows += partial[p * apart + first + d];
    }
    scratch[0][warp][lane] = low;
    scratch[1][warp][lane] = high;
    scratch[2][warp][lane] = rows;
    __syncthreads();
    if (warp) return;
    for (int w = 1; w < kFinishWarps; w++) {
        low += scratch[0][w][lane];
        high += scratch[1][w][lane];
        rows += scratch[2][w][lane];
    }
    ClusterShare share = {{0, 0}, 0};
    if (lane < d) {
        const TwoDoubles sum = two_sum(double(high) * 0x1p32, double(low));
        const TwoDoubles center =
            two_sum(centers[int64_t(j) * d + lane] * factor, __dadd_rn(offsets[lane], -kIntegerOrigin));
        const TwoDoubles moved = multiply({double(rows), 0.0}, center);  // what the sum is at the centre
        const TwoDoubles least = add(sum, {-moved.high, -moved.low});
        sums[int64_t(j) * d + lane] = least.high / factor;
        share.value = multiply(center, add(moved, {-2 * sum.high, -2 * sum.low}));
        share.size = fabs(center.high) * (fabs(moved.high) + 2 * fabs(sum.high));
    }
    for (int apart_lanes = 16; apart_lanes; apart_lanes /= 2) {
        const TwoDoubles other = {__shfl_xor_sync(0xFFFFFFFFu, share.value.high, apart_lanes),
                                  __shfl_xor_sync(0xFFFFFFFFu, share.value.low, apart_lanes)};
        share.value = add(share.value, other);
    }
    share.size = sum_warp(share.size);
    if (lane == 0) {
        cluster_weights[j] = double(rows);
        shares[j] = share;
        if (j == 0) *noted = *counters;
    }
}

constexpr int kSquareRows = 8192;
constexpr int kSquareThreads = 256;

// The sum of squares of whole numbers, as two doubles, and how many values are not whole.  One block per
// kSquareRows rows.
static __global__ void __launch_bounds__(kSquareThreads)
    square_integers(const float* __restrict__ X, int64_t n, int d, double factor,
                    const double* __restrict__ offsets, double* __restrict__ out) {
    __shared__ double of_threads[3][kSquareThreads];
    const int64_t first = int64_t(blockIdx.x) * kSquareRows * d,
                  last = min(n * d, first + int64_t(kSquareRows) * d);
    TwoDoubles sum = {0, 0};
    double parted = 0;
    for (int64_t i = first + threadIdx.x; i < last; i += kSquareThreads) {
        const double x = double(X[i]), scaled = __dmul_rn(x, factor);
        const double whole = __dadd_rn(fma(x, factor, offsets[i % d]), -kIntegerOrigin);
        sum = add(sum, two_product(whole, whole));
        parted += scaled != rint(scaled);
    }
    of_threads[0][threadIdx.x] = sum.high;
    of_threads[1][threadIdx.x] = sum.low;
    of_threads[2][threadIdx.x] = parted;
    __syncthreads();
    if (threadIdx.x) return;
    for (int i = 1; i < kSquareThreads; i++) {
        sum = add(sum, {of_threads[0][i], of_threads[1][i]});
        parted += of_threads[2][i];
    }
    double* to = out + int64_t(blockIdx.x) * 3;
    to[0] = sum.high, to[1] = sum.low, to[2] = parted;
}

}  // namespace bmrm
