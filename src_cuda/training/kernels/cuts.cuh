// Cutting planes on the device: one gradient per row, in the matrix's type, and products with few of them at
// a time. Sums are float64, over fixed shares of the columns.
#pragma once
#include "training/kernels/risk.cuh"

namespace bmrm {

constexpr int kMixRows = 240;   // maximum weights that fit in a kernel's arguments
constexpr int kMixAcross = 32;  // columns per block of a combination
constexpr int kMixDown = 8;     // warps per block of a combination
constexpr int kDotThreads = 256;
constexpr int kDotShares = 96;      // maximum shares of the columns
constexpr int64_t kMinShare = 512;  // minimum columns per share

struct Mix {
    int32_t count;
    int32_t number[kMixRows];
    double weight[kMixRows];
};

// What cuts and weights consist of: numbers of columns, or coefficients of rows and products with rows
// (api/training.h), the products `half` numbers after the coefficients.  An inner product takes the
// coefficients of one vector and the products of the other.
struct Space {
    int64_t span;  // numbers that an inner product covers
    int64_t half;  // 0 in the space of columns, where the two are the same
};

// w (+)= sum_k weight[k] cuts[number[k]]; `narrow`: the first `products` numbers of w in the matrix's type.
// In the last launch of a combination the letter gets |w|^2, from . (w - from) and |w - from|^2.
template <class T>
__global__ void __launch_bounds__(kMixAcross* kMixDown)
    combine_cuts(const T* __restrict__ cuts, Space space, int64_t stride, const Mix mix, bool first,
                 const double* __restrict__ from, double* __restrict__ w, T* __restrict__ narrow,
                 int64_t products, double* partial, uint32_t* ticket, Letter letter) {
    __shared__ double part[kMixDown][kMixAcross];
    __shared__ double scratch[kMixAcross * kMixDown];
    const int tx = int(threadIdx.x) % kMixAcross, ty = int(threadIdx.x) / kMixAcross;
    double sums[4] = {};  // three sums, and one so that the sum over blocks has a power of two
    for (int64_t tile = blockIdx.x; tile * kMixAcross < space.span; tile += gridDim.x) {
        const int64_t col = tile * kMixAcross + tx;
        double coefficient = 0, base = 0;
        for (int64_t at = col;; at += space.half) {
            double sum = 0, origin = 0;
            if (col < space.span) {
                if (ty == 0) origin = from[at];
#pragma unroll 8
                for (int k = ty; k < mix.count; k += kMixDown)
                    sum += mix.weight[k] * double(cuts[int64_t(mix.number[k]) * stride + at]);
            }
            part[ty][tx] = sum;
            __syncthreads();
            if (ty == 0 && col < space.span) {
#pragma unroll
                for (int k = 1; k < kMixDown; k++) sum += part[k][tx];
                if (!first) sum += w[at];
                w[at] = sum;
                if (at == col) coefficient = sum, base = origin;
                if (at == col + space.half) {
                    if (col < products) narrow[col] = T(sum);
                    const double away = sum - origin;
                    sums[0] += coefficient * sum;
                    sums[1] += base * away;
                    sums[2] += (coefficient - base) * away;
                }
            }
            __syncthreads();
            if (at == col + space.half) break;
        }
    }
    if (!letter.values) return;
    if (sum_grid(sums, scratch, partial, ticket)) {
        for (int k = 0; k < 3; k++) letter.values[k] = sums[k];
        send(letter);
    }
}

// The gradient of the constant feature, from the sum of the derivatives.
template <class T>
__global__ void constant_gradient(double factor, const double* sums, int64_t stride, T* cuts, int64_t at) {
    cuts[int64_t(threadIdx.x) * stride + at] = T(factor * sums[2 * threadIdx.x + 1]);
}

// A step, known to the host or computed by an earlier kernel.
struct Step {
    double value;
    const double* at;
    __device__ double get() const { return at ? *at : value; }
};

// Products of the gradient `number` with cuts 0 to count - 1 and with the weights w + t (end - w): one warp
// per row and share of the numbers.  partial: (count + 1) x shares.  The letter: the products at `at` and, if
// it ends here, the sums of the derivatives.
template <class T>
__global__ void __launch_bounds__(kDotThreads)
    dot_cuts(const T* __restrict__ cuts, Space space, int64_t stride, int64_t number, int count,
             const double* __restrict__ w, const double* __restrict__ end, Step step, int64_t share,
             double* partial, uint32_t* ticket, Letter letter, int64_t at, const double* __restrict__ sums,
             int blocks) {
    const int lane = int(threadIdx.x) % 32,
              row = int(blockIdx.y) * (kDotThreads / 32) + int(threadIdx.x) / 32;
    const int shares = int(gridDim.x);
    const T *gradient = cuts + number * stride, *products = gradient + space.half;
    if (row <= count) {
        const int64_t begin = int64_t(blockIdx.x) * share, stop = min(space.span, begin + share);
        double sum = 0;
        if (row < count) {
            const T* other = cuts + int64_t(row) * stride;
#pragma unroll 16
            for (int64_t c = begin + lane; c < stop; c += 32) sum += double(products[c]) * double(other[c]);
        } else {
            const double t = step.get();
            w += space.half;
            end += space.half;
#pragma unroll 16
            for (int64_t c = begin + lane; c < stop; c += 32)
                sum += double(gradient[c]) * (w[c] + t * (end[c] - w[c]));
        }
        sum = over_warp<Sum>(sum);
        if (lane == 0) partial[int64_t(row) * shares + blockIdx.x] = sum;
    }
    if (!comes_last(ticket)) return;
    // Eight lanes per product: there are few numbers to add, and one after another their latencies would add
    // up.
    constexpr int kLanes = 8;
    for (int first = 0; first <= count; first += kDotThreads / kLanes) {
        const int k = first + int(threadIdx.x) / kLanes;
        double sum = 0;
        if (k <= count)
            for (int j = int(threadIdx.x) % kLanes; j < shares; j += kLanes)
                sum += __ldcg(partial + int64_t(k) * shares + j);
        sum = over_warp<Sum, kLanes / 2>(sum);
        if (k <= count && threadIdx.x % kLanes == 0) letter.values[at + k] = sum;
    }
    if (letter.arrived) {
        // After the products of all new gradients: the sums of each block.
        double* tail = letter.values + at + count + 1;
        for (int k = int(threadIdx.x); k < 2 * blocks; k += kDotThreads) tail[k] = sums[k];
    }
    __threadfence_system();
    __syncthreads();
    if (threadIdx.x == 0) close_letter(letter);
}

// A cut's product with the start of the solve, from the margins there: one block per cut.
template <class T>
__global__ void __launch_bounds__(kDotThreads)
    along_start(T* cuts, Space space, int64_t stride, int64_t rows, const T* __restrict__ margins) {
    __shared__ double scratch[kDotThreads / 32];
    __shared__ double total[1];
    T* cut = cuts + int64_t(blockIdx.x) * stride;
    double sum[1] = {};
    for (int64_t i = threadIdx.x; i < rows; i += kDotThreads) sum[0] += double(cut[i]) * double(margins[i]);
    sum_block(sum, scratch, total);
    if (threadIdx.x == 0) cut[space.half + rows] = T(*total);
}

// Completes a point in the space of rows whose weights are known: its last product, the one with the start,
// and in the letter the square of the weights.  One block.
template <class T>
__global__ void __launch_bounds__(kRowThreads)
    measure_weights(const T* __restrict__ weights, const double* __restrict__ start, int64_t width,
                    double* out, Letter letter) {
    __shared__ double scratch[2 * kRowThreads / 32];
    __shared__ double total[2];
    double sums[2] = {};
    for (int64_t c = threadIdx.x; c < width; c += kRowThreads) {
        const double w = double(weights[c]);
        sums[0] += w * w;
        if (start) sums[1] += w * start[c];
    }
    sum_block(sums, scratch, total);
    if (threadIdx.x) return;
    *out = total[1];
    letter.values[0] = total[0];
    send(letter);
}

// weights += factor * start, and the constant feature's weight from the sum of the coefficients.  The factor
// is on the device too.
template <class T>
__global__ void add_start(T* weights, const double* __restrict__ start, const double* factor, int64_t width) {
    if (*factor == 0) return;
    BB_FOR (c, width) weights[c] = T(double(weights[c]) + *factor * start[c]);
}

template <class T>
__global__ void __launch_bounds__(kRowThreads)
    constant_weight(const T* __restrict__ coefficients, int64_t rows, double constant, T* out) {
    __shared__ double scratch[kRowThreads / 32];
    __shared__ double total[1];
    double sum[1] = {};
    for (int64_t i = threadIdx.x; i < rows; i += kRowThreads) sum[0] += double(coefficients[i]);
    sum_block(sum, scratch, total);
    if (threadIdx.x == 0) *out = T(constant * *total);
}

// first = share * first + (1 - share) * second
template <class T>
__global__ void mix(T* first, const T* second, double share, int64_t n) {
    BB_FOR (i, n) first[i] = T(share * double(first[i]) + (1.0 - share) * double(second[i]));
}

template <class T>
__global__ void narrow_numbers(const double* from, int64_t n, T* out) {
    BB_FOR (i, n) out[i] = T(from[i]);
}

template <class T>
__global__ void widen(const T* from, int64_t n, double* out) {
    BB_FOR (i, n) out[i] = double(from[i]);
}

}  // namespace bmrm
