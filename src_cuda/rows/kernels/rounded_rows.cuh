// Rows and points rounded to float16 for the tensor cores, and the bound on the error of their products.
//
// Rows y and points z, shifted and scaled, are rounded to float16, y = a + b and z = p + q.  The value of a
// point is |z|^2/2 - a.p, which leaves out b.z + a.q: at most |b| B + (|y| + |b|) Q, where B and Q are the
// maxima of |z| and |q|, and the norms of b and q are those of the very numbers.  Products of two numbers of
// float16 are exact in float32.  NVIDIA says of the sums that they have "at least single precision" and no
// given rounding; M. Fasi, N. J. Higham, M. Mikaitis and S. Pranesh (Numerical behavior of NVIDIA tensor
// cores, PeerJ Computer Science 7, 2021) find that the 17 terms of an instruction are aligned to the largest
// of them and cut off.  Each then loses at most 2^-23 of the largest, which with the last rounding is below
// 20 2^-23 |a| |p| for each of the instructions that add up a value.
#pragma once
#include <cuda_fp16.h>

#include "device/warp.cuh"
#include "runtime/device_memory.h"

namespace bmrm {

constexpr int kChunkColumns = 64;  // columns of a chunk for the tensor cores: 128 bytes of float16

// What is subtracted from rows and centres, and the power of two that they are then multiplied by.  Rows of
// float32 need no float64: the shift is one of float32 too, and the power is the product of two.
struct Origin {
    const double* shift;
    const float* shift32;
    double scale;
    float scales[2];

    __device__ __forceinline__ float apply(float x, int64_t f) const {
        return (x - shift32[f]) * scales[0] * scales[1];
    }
    __device__ __forceinline__ float apply(double x, int64_t f) const {
        return float((x - shift[f]) * scale);
    }
};

// A value of the fast pass differs from the exact one by at most `square` B^2/2 + `product` |y| B +
// `least` (1 + B), B being the maximum norm of a centre, besides what float16 leaves.
struct FastError {
    float square, product, least;
};

// Norms of a row and of what float16 leaves of it, rounded up.
struct RowNorms {
    float all, rest;
};

// Norms are rounded up by more than their own error.
__device__ __forceinline__ float norm_above(double square) { return float(sqrt(square) * (1.0 + 0x1p-18)); }

// Rounds to float16, and sets what that leaves.
__device__ __forceinline__ __half round_half(double value, double& rest) {
    const __half found = __float2half(float(value));
    rest = value - double(__half2float(found));
    return found;
}

// Errors besides what float16 leaves: of |z|^2/2 and the subtraction from it, and of the sums of
// instructions.
inline FastError tensor_error(int64_t d, int chunks) {
    const double steps = double(chunks) * (kChunkColumns / 16);
    return {float(4 * 0x1p-24), float(1.02 * (20 * steps * 0x1p-23 + 0x1p-23)), float(double(d) * 0x1p-120)};
}

// Twice the bound on the error of a value of a row, rounded up; `widest` and `rest` are B and Q.
__device__ __forceinline__ float twice_error(const FastError& error, float widest, float rest,
                                             const RowNorms& norms) {
    const float norm = norms.all + norms.rest;  // of what is multiplied
    return 2.02f * (norms.rest * widest + norm * rest + error.square * (0.5f * widest * widest) +
                    error.product * (norm * (widest + rest)) + error.least * (1.0f + widest));
}

struct InOrder {
    __device__ __forceinline__ int64_t operator()(int64_t i) const { return i; }
};

// The maxima B and Q of points, as bits.
struct WidestNorms {
    unsigned all, rest;
};

// Where rounded rows go.
struct RoundedRows {
    __half* values;        // chunks x kChunkColumns of each row
    RowNorms* norms;       // or null
    float* halves;         // half the squared norms of points, infinite for those that only fill up; or null
    WidestNorms* maximum;  // of points
};

// Rounds rows, of which row i is number order(i); one warp per row.  Rows from n on are zeros.
template <class V, class Order>
__global__ void __launch_bounds__(256)
    round_rows(const V* __restrict__ X, int64_t n, int64_t padded, int64_t d, const Origin origin, int chunks,
               const Order order, const RoundedRows to) {
    const int lane = int(threadIdx.x) % 32;
    const int64_t warps = int64_t(gridDim.x) * blockDim.x / 32, width = int64_t(chunks) * kChunkColumns;
    for (int64_t i = (int64_t(blockIdx.x) * blockDim.x + threadIdx.x) / 32; i < padded; i += warps) {
        const V* const x = X + (i < n ? order(i) : 0) * d;
        double square = 0, rest_square = 0;
        for (int64_t f = lane; f < width; f += 32) {
            const double y = i < n && f < d ? (double(x[f]) - origin.shift[f]) * origin.scale : 0.0;
            double rest = 0;
            to.values[i * width + f] = round_half(y, rest);
            square += y * y;
            rest_square += rest * rest;
        }
        square = over_warp<Sum>(square);
        rest_square = over_warp<Sum>(rest_square);
        if (lane) continue;
        const RowNorms norms = {norm_above(square), norm_above(rest_square)};
        if (to.norms) to.norms[i] = norms;
        if (!to.halves) continue;
        to.halves[i] = i < n ? float(0.5 * square) : __int_as_float(0x7F800000);
        if (i >= n) continue;
        atomicMax(&to.maximum->all, __float_as_uint(norms.all));
        atomicMax(&to.maximum->rest, __float_as_uint(norms.rest));
    }
}

}  // namespace bmrm
