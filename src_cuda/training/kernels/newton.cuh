// The kernels of a Newton point by conjugate gradients (training/newton.cu): second derivatives of the rows,
// products weighted by them, and the steps of the method on vectors of columns.  Sums are float64, over fixed
// shares, added in the order of blocks.
#pragma once
#include "training/kernels/risk.cuh"

namespace bmrm {

constexpr int kDescentThreads = 256;

// State that the steps pass on, on the device: a step that is replayed as a graph (runtime/graph.h) takes
// everything that changes from here.
struct Descent {
    double size[2];             // scaled squares of the residual, by the parity of the step
    double first;               // of the residual at step 0
    double bend;                // the direction's product with its image
    double lam, curvature;      // of the point: the penalty's, and the sum of the rows'
    unsigned long long letter;  // number of the last letter
};

// The rows' second derivatives, each times its weight.  Their sum goes to `total` and to the letter.
template <class T, class Loss>
__global__ void __launch_bounds__(kRowThreads, kRowBlocks)
    curvature_of_rows(const RiskRows rows, const T* z, double b, T* out, double* partial, uint32_t* ticket,
                      double* total, Letter letter) {
    __shared__ double scratch[kRowThreads];
    double mine[1] = {};
    T* const outs[1] = {out};
    for_rows<double>(rows, z, static_cast<const T*>(nullptr), outs,
                     [&](double z0, double, double y, double weight, T* found) {
                         const double s = rows.scale * weight;
                         const double c = with_weight(s, Loss::curvature(z0 + b, y, rows.parameter));
                         mine[0] += c;
                         found[0] = T(c);
                     });
    if (sum_grid(mine, scratch, partial, ticket)) {
        *total = letter.values[0] = mine[0];
        send(letter);
    }
}

// The letter: the sum of second derivatives times margins.
template <class T>
__global__ void __launch_bounds__(kRowThreads)
    sum_along(const T* __restrict__ curvature, const T* __restrict__ margins, int64_t rows, double* partial,
              uint32_t* ticket, Letter letter) {
    __shared__ double scratch[kRowThreads];
    double mine[1] = {};
    BB_FOR (i, rows) mine[0] += double(curvature[i]) * double(margins[i]);
    if (sum_grid(mine, scratch, partial, ticket)) {
        letter.values[0] = mine[0];
        send(letter);
    }
}

// margins = curvature (margins - mean); their sum goes to `total`.
template <class T>
__global__ void __launch_bounds__(kRowThreads)
    weigh(const T* __restrict__ curvature, T* __restrict__ margins, int64_t rows, double mean,
          double* partial, uint32_t* ticket, double* total) {
    __shared__ double scratch[kRowThreads];
    double mine[1] = {};
    BB_FOR (i, rows) {
        const double weighed = double(curvature[i]) * (double(margins[i]) - mean);
        mine[0] += weighed;
        margins[i] = T(weighed);
    }
    if (sum_grid(mine, scratch, partial, ticket)) *total = mine[0];
}

// The approximate diagonal of the Hessian that preconditions the method: as if all rows had the same
// curvature.
__device__ __forceinline__ double diagonal_at(const Descent& descent, const double* mean_squares, int64_t i) {
    return descent.lam + descent.curvature * mean_squares[i];
}

// The residual at step 0, minus the gradient of J, and the first direction.  `gradients`: of the risk, one
// per cut. `total`: where the sum of second derivatives is; if null, it is in `first`.
template <class T>
__global__ void __launch_bounds__(kDescentThreads)
    begin_descent(const double* __restrict__ w, Descent first, const double* total,
                  const double* __restrict__ mean_squares, const T* __restrict__ gradients, int64_t stride,
                  int count, int64_t n, double* residual, double* direction, double* step, T* narrow,
                  double* partial, uint32_t* ticket, Descent* descent) {
    __shared__ double scratch[kDescentThreads];
    if (total) first.curvature = *total;
    double mine[1] = {};
    BB_FOR (i, n) {
        double slope = first.lam * w[i];
        for (int k = 0; k < count; k++) slope += double(gradients[k * stride + i]);
        const double scaled = -slope / diagonal_at(first, mean_squares, i);
        residual[i] = -slope;
        direction[i] = scaled;
        step[i] = 0.0;
        narrow[i] = T(scaled);
        mine[0] -= slope * scaled;
    }
    if (sum_grid(mine, scratch, partial, ticket)) {
        first.size[0] = first.first = mine[0];
        *descent = first;
    }
}

// The direction's product with its image, which is lam times the direction plus `image`.
template <class T>
__global__ void __launch_bounds__(kDescentThreads)
    measure_bend(const double* __restrict__ direction, const T* __restrict__ image, int64_t n,
                 double* partial, uint32_t* ticket, Descent* descent) {
    __shared__ double scratch[kDescentThreads];
    const double lam = descent->lam;
    double mine[1] = {};
    BB_FOR (i, n) mine[0] += direction[i] * (lam * direction[i] + double(image[i]));
    if (sum_grid(mine, scratch, partial, ticket)) descent->bend = mine[0];
}

// Moves along the direction to its lowest point, or not at all without curvature.  The letter, the next one
// after the last: the scaled square of the remaining residual, the curvature, and the first square.
template <class T>
__global__ void __launch_bounds__(kDescentThreads)
    descend(const double* __restrict__ direction, const T* __restrict__ image,
            const double* __restrict__ mean_squares, int64_t n, int parity, double* residual, double* step,
            double* partial, uint32_t* ticket, Descent* descent, Letter letter) {
    __shared__ double scratch[kDescentThreads];
    const Descent now = *descent;
    const double bend = now.bend;
    const double length = bend > 0 && isfinite(bend) ? now.size[parity] / bend : 0.0;
    double mine[1] = {};
    BB_FOR (i, n) {
        step[i] += length * direction[i];
        const double left = residual[i] - length * (now.lam * direction[i] + double(image[i]));
        residual[i] = left;
        mine[0] += left * left / diagonal_at(now, mean_squares, i);
    }
    if (sum_grid(mine, scratch, partial, ticket)) {
        descent->size[1 - parity] = letter.values[0] = mine[0];
        letter.values[1] = bend;
        letter.values[2] = now.first;
        letter.number = ++descent->letter;
        send(letter);
    }
}

// The next direction, conjugate to the earlier ones.
template <class T>
__global__ void turn(const double* __restrict__ residual, const double* __restrict__ mean_squares, int64_t n,
                     int parity, const Descent* descent, double* direction, T* narrow) {
    const Descent now = *descent;
    const double share = now.size[1 - parity] / now.size[parity];
    BB_FOR (i, n) {
        const double next = residual[i] / diagonal_at(now, mean_squares, i) + share * direction[i];
        direction[i] = next;
        narrow[i] = T(next);
    }
}

// to = w + step, and in the matrix's type.  The letter: |to|^2, w . step and |step|^2.
template <class T>
__global__ void __launch_bounds__(kDescentThreads)
    end_descent(const double* __restrict__ w, const double* __restrict__ step, int64_t n, double* to,
                T* narrow, double* partial, uint32_t* ticket, Letter letter) {
    __shared__ double scratch[kDescentThreads];
    double mine[4] = {};  // three sums, and one so that the sum over blocks has a power of two
    BB_FOR (i, n) {
        const double sum = w[i] + step[i];
        to[i] = sum;
        narrow[i] = T(sum);
        mine[0] += sum * sum;
        mine[1] += w[i] * step[i];
        mine[2] += step[i] * step[i];
    }
    if (sum_grid(mine, scratch, partial, ticket)) {
        for (int k = 0; k < 3; k++) letter.values[k] = mine[k];
        send(letter);
    }
}

}  // namespace bmrm
