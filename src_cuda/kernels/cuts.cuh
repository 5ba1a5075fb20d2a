// Cutting planes on the device: a gradient a row, of the matrix's type, and products with few of them at a
// time.  Sums are float64, over fixed shares of the columns.
#pragma once
#include "risk.cuh"

namespace bmrm {

constexpr int kMixRows = 240;  // a kernel's arguments hold so many weights
constexpr int kMixAcross = 32, kMixDown = 8;
constexpr int kDotThreads = 256;
constexpr int kDotShares = 64;  // shares of the columns

struct Mix {
    int32_t count;
    int32_t number[kMixRows];
    double weight[kMixRows];
};

// w (+)= sum_k weight[k] cuts[number[k]]; `rounded`: w in the matrix's type.  In the last launch of a
// combination the letter gets |w|^2, from . (w - from) and |w - from|^2.
template <class T>
__global__ void __launch_bounds__(kMixAcross* kMixDown)
    combine_cuts(const T* __restrict__ cuts, int64_t width, int64_t stride, const Mix mix, bool first,
                 const double* __restrict__ from, double* __restrict__ w, T* __restrict__ rounded,
                 double* partial, uint32_t* ticket, Letter letter) {
    __shared__ double part[kMixDown][kMixAcross];
    __shared__ double scratch[kMixAcross * kMixDown];
    const int tx = int(threadIdx.x) % kMixAcross, ty = int(threadIdx.x) / kMixAcross;
    double sums[4] = {};  // three, and one that makes the sum over blocks a power of two apart
    for (int64_t tile = blockIdx.x; tile * kMixAcross < width; tile += gridDim.x) {
        const int64_t col = tile * kMixAcross + tx;
        double sum = 0;
        if (col < width) {
#pragma unroll 8
            for (int k = ty; k < mix.count; k += kMixDown)
                sum += mix.weight[k] * double(cuts[int64_t(mix.number[k]) * stride + col]);
        }
        part[ty][tx] = sum;
        __syncthreads();
        if (ty == 0 && col < width) {
#pragma unroll
            for (int k = 1; k < kMixDown; k++) sum += part[k][tx];
            if (!first) sum += w[col];
            w[col] = sum;
            rounded[col] = T(sum);
            const double base = from[col], away = sum - base;
            sums[0] += sum * sum;
            sums[1] += base * away;
            sums[2] += away * away;
        }
        __syncthreads();
    }
    if (!letter.values) return;
    sum_block(sums, scratch, partial + 4 * int64_t(blockIdx.x));
    if (!comes_last(ticket)) return;
    sum_blocks(partial, scratch, sums);
    if (threadIdx.x == 0) {
        for (int k = 0; k < 3; k++) letter.values[k] = sums[k];
        __threadfence_system();
        close_letter(letter);
    }
}

// Products of the gradient `number` with cuts 0 to count - 1 and with the weights w + t (end - w): a warp a
// row and share of the columns.  partial: (count + 1) x shares.  The letter: the products at `at`, and where
// it ends here the sums of the derivatives.
template <class T>
__global__ void __launch_bounds__(kDotThreads)
    dot_cuts(const T* __restrict__ cuts, int64_t width, int64_t stride, int64_t number, int count,
             const double* __restrict__ w, const double* __restrict__ end, double t, int64_t share,
             double* partial, uint32_t* ticket, Letter letter, int64_t at, const double* __restrict__ sums,
             int blocks) {
    const int lane = int(threadIdx.x) % 32,
              row = int(blockIdx.y) * (kDotThreads / 32) + int(threadIdx.x) / 32;
    const int shares = int(gridDim.x);
    const T* gradient = cuts + number * stride;
    if (row <= count) {
        const int64_t begin = int64_t(blockIdx.x) * share, stop = min(width, begin + share);
        double sum = 0;
        if (row < count) {
            const T* other = cuts + int64_t(row) * stride;
#pragma unroll 8
            for (int64_t c = begin + lane; c < stop; c += 32) sum += double(gradient[c]) * double(other[c]);
        } else {
#pragma unroll 4
            for (int64_t c = begin + lane; c < stop; c += 32)
                sum += double(gradient[c]) * (w[c] + t * (end[c] - w[c]));
        }
        for (int apart = 16; apart; apart /= 2) sum += __shfl_xor_sync(0xFFFFFFFFu, sum, apart);
        if (lane == 0) partial[int64_t(row) * shares + blockIdx.x] = sum;
    }
    if (!comes_last(ticket)) return;
    for (int k = int(threadIdx.x); k <= count; k += kDotThreads) {
        double sum = 0;
        for (int j = 0; j < shares; j++) sum += __ldcg(partial + int64_t(k) * shares + j);
        letter.values[at + k] = sum;
    }
    if (letter.arrived) {
        // Behind the products of all new gradients: the sums of each block.
        double* tail = letter.values + at + count + 1;
        for (int k = int(threadIdx.x); k < 2 * blocks; k += kDotThreads) tail[k] = sums[k];
    }
    __threadfence_system();
    __syncthreads();
    if (threadIdx.x == 0) close_letter(letter);
}

template <class T>
__global__ void round_weights(const double* w, int64_t n, T* out) {
    BB_FOR (i, n) out[i] = T(w[i]);
}

template <class T>
__global__ void widen(const T* from, int64_t n, double* out) {
    BB_FOR (i, n) out[i] = double(from[i]);
}

}  // namespace bmrm
