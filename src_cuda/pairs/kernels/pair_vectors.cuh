// Vectors of numbers of points: sums of multiples, inner products, means.
#pragma once
#include <stdint.h>

#include "api/pair_values.h"
#include "runtime/block_sum.cuh"
#include "runtime/device_memory.h"
#include "runtime/mailbox.h"

namespace bmrm {

constexpr int kVectorThreads = 256;
constexpr int64_t kProductChunk = 4096;  // numbers of a vector that a block multiplies

struct Multiples {
    const double* vectors[BB_PAIR_VECTORS];
    double factors[BB_PAIR_VECTORS];
    int count;
};

struct Products {
    const double *vectors[BB_PAIR_PRODUCTS], *others[BB_PAIR_PRODUCTS];
    int count;
};

static __global__ void add_multiples(Multiples from, int64_t size, double* to) {
    BB_FOR (i, size) {
        double total = 0.0;
        for (int k = 0; k < from.count; k++) total = fma(from.factors[k], from.vectors[k][i], total);
        to[i] = total;
    }
}

// partial: (count, chunks); the block of product k and chunk c is k * chunks + c.
static __global__ void __launch_bounds__(kVectorThreads)
    multiply_chunks(Products of, int64_t size, int64_t chunks, double* partial) {
    __shared__ double scratch[kVectorThreads / 32];
    const int64_t product = int64_t(blockIdx.x) / chunks, chunk = int64_t(blockIdx.x) % chunks;
    const double *const a = of.vectors[product], *const b = of.others[product];
    const int64_t first = chunk * kProductChunk;
    double mine[1] = {0.0};
    for (int64_t i = first + threadIdx.x; i < first + kProductChunk && i < size; i += kVectorThreads)
        mine[0] = fma(a[i], b[i], mine[0]);
    sum_block(mine, scratch, partial + blockIdx.x);
}

// Adds up the chunks of all products, a warp for each, and sends them.
static __global__ void __launch_bounds__(kVectorThreads)
    add_chunks(const double* partial, int64_t chunks, int count, Letter letter) {
    const int warp = int(threadIdx.x) / 32, lane = int(threadIdx.x) % 32;
    for (int product = warp; product < count; product += kVectorThreads / 32) {
        double mine = 0.0;
        for (int64_t c = lane; c < chunks; c += 32) mine += partial[product * chunks + c];
        const double total = over_warp<Sum>(mine);
        if (lane == 0) {
            letter.values[product] = total;
            __threadfence_system();
        }
    }
    __syncthreads();
    if (threadIdx.x == 0) close_letter(letter);
}

static __global__ void divide_points(const double* from, const double* degrees, int64_t n, int p,
                                     double* to) {
    BB_FOR (i, n * p) to[i] = from[i] / degrees[i / p];
}

// means: (p); a block per axis.
static __global__ void __launch_bounds__(kVectorThreads)
    average_points(const double* from, int64_t n, int p, double* means) {
    __shared__ double scratch[kVectorThreads / 32];
    __shared__ double total[1];
    double mine[1] = {0.0};
    for (int64_t i = threadIdx.x; i < n; i += kVectorThreads) mine[0] += from[i * p + blockIdx.x];
    sum_block(mine, scratch, total);
    if (threadIdx.x == 0) means[blockIdx.x] = total[0] / double(n);
}

static __global__ void centre_points(const double* from, const double* means, int64_t n, int p, double* to) {
    BB_FOR (i, n * p) to[i] = from[i] - means[i % p];
}

}  // namespace bmrm
