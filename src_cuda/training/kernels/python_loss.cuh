// Passes over the rows for a loss that the caller evaluates: the margins lent to it, and sums of the values
// and derivatives that it returns.  Sums are float64, over fixed shares of the rows.
#pragma once
#include "api/python_loss.h"
#include "training/kernels/risk.cuh"

namespace bmrm {

__device__ __forceinline__ double number_of(const bb_rows& rows, int64_t i) {
    return rows.bytes == 4 ? double(static_cast<const float*>(rows.data)[i * rows.stride])
                           : static_cast<const double*>(rows.data)[i * rows.stride];
}

template <class T>
__global__ void margins_of_line(const T* z, const T* dz, double t, double b, int64_t n, T* moved, T* out) {
    BB_FOR (i, n) {
        const double u = dz ? double(z[i]) + t * double(dz[i]) : double(z[i]);
        if (moved) moved[i] = T(u);
        out[i] = T(u + b);
    }
}

// The letter: slopes in t and b.
template <class T>
__global__ void __launch_bounds__(kRowThreads)
    slope_of_rows(const RiskRows rows, const bb_rows slopes, const T* dz, double* partial, uint32_t* ticket,
                  Letter letter) {
    __shared__ double scratch[kRowThreads];
    double mine[2] = {};
    BB_FOR (i, rows.end) {
        const double g = with_weight(number_at(rows.weights, i), number_of(slopes, i));
        mine[0] += g * double(dz[i]);
        mine[1] += g;
    }
    if (sum_grid(mine, scratch, partial, ticket)) {
        letter.values[0] = rows.scale * mine[0];
        letter.values[1] = rows.scale * mine[1];
        send(letter);
    }
}

// out: the weighted derivatives.  sums: the risk and the sum of the derivatives.  The letter has these at
// `at`, and the number of values below `least` of rows with weight.
template <class T>
__global__ void __launch_bounds__(kRowThreads)
    risk_of_rows(const RiskRows rows, const bb_rows values, const bb_rows slopes, double least, T* out,
                 double* partial, uint32_t* ticket, double* sums, Letter letter, int at) {
    __shared__ double scratch[kRowThreads];
    double mine[4] = {};  // three sums, and one so that the sum over blocks has a power of two
    for (int64_t i = rows.begin + int64_t(blockIdx.x) * blockDim.x + threadIdx.x; i < rows.end;
         i += int64_t(gridDim.x) * blockDim.x) {
        const double s = rows.scale * number_at(rows.weights, i), value = number_of(values, i);
        mine[2] += s > 0.0 && value < least ? 1.0 : 0.0;
        mine[0] += with_weight(s, value);
        if (slopes.data) {
            const double r = with_weight(s, number_of(slopes, i));
            mine[1] += r;
            out[i] = T(r);
        }
    }
    if (sum_grid(mine, scratch, partial, ticket)) {
        sums[0] = mine[0];
        sums[1] = mine[1];
        for (int k = 0; k < 3; k++) letter.values[at + k] = mine[k];
        send(letter);
    }
}

__global__ void numbers_of_rows(const bb_rows rows, int64_t n, double* out) {
    BB_FOR (i, n) out[i] = number_of(rows, i);
}

}  // namespace bmrm
