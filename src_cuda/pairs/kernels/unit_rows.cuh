// Rows divided by their lengths, a warp per row, with the bits that they have on the CPU
// (bmrm/pairs/sides.py): a power of two first, so that no square overflows, then squares in the order of the
// axes.
#pragma once
#include "device/arithmetic.cuh"
#include "device/warp.cuh"
#include "pairs/decision.h"

namespace bmrm {

// The largest absolute value of a row.
template <class V>
__device__ __forceinline__ double largest_of_row(const V* x, int64_t d) {
    double largest = 0;
    for (int64_t k = threadIdx.x % 32; k < d; k += 32) largest = fmax(largest, fabs(double(x[k])));
    return over_warp<Greatest>(largest);
}

// Notes whether there is a row of zeros.
template <class V>
__global__ void __launch_bounds__(256) find_zero_rows(const V* X, int64_t n, int64_t d, int* found) {
    const int64_t warps = int64_t(gridDim.x) * blockDim.x / 32;
    for (int64_t i = (int64_t(blockIdx.x) * blockDim.x + threadIdx.x) / 32; i < n; i += warps)
        if (largest_of_row(X + i * d, d) == 0 && threadIdx.x % 32 == 0) *found = 1;
}

// Writes the rows of length 1; a column that `to` has after theirs is 1 for a row of zeros, and else 0.
template <class V>
__global__ void __launch_bounds__(256)
    divide_rows(const V* X, int64_t n, int64_t d, int64_t width, double* to) {
    const int lane = int(threadIdx.x) % 32;
    const int64_t warps = int64_t(gridDim.x) * blockDim.x / 32;
    for (int64_t i = (int64_t(blockIdx.x) * blockDim.x + threadIdx.x) / 32; i < n; i += warps) {
        const V* const x = X + i * d;
        double* const y = to + i * width;
        const double largest = largest_of_row(x, d);
        int power = 0;
        frexp(largest, &power);
        double squares = 0;
        for (int64_t first = 0; first < d; first += 32) {
            const int count = int(min(d - first, int64_t(32)));
            const double mine = lane < count ? ldexp(double(x[first + lane]), -power) : 0;
            if (lane < count) y[first + lane] = mine;
            for (int k = 0; k < count; k++) squares = add_square(squares, __shfl_sync(kAllLanes, mine, k));
        }
        const double length = largest > 0 ? sqrt(squares) : 1;
        for (int64_t k = lane; k < d; k += 32) y[k] = exact::quotient(y[k], length);
        if (width > d && lane == 0) y[d] = largest > 0 ? 0 : 1;
    }
}

}  // namespace bmrm
