// The risk over the rows of a line of margins: its slope, its value, the rows' derivatives, and the passes of
// a search for its minimum (search.cuh).
//
// Bytes per row and pass: two margins and a label read; the value's pass writes the moved margin, that of the
// derivatives the derivative.  Sums are over fixed shares of the rows, added in the order of blocks.
#pragma once
#include "api/training.h"
#include "runtime/block_sum.cuh"
#include "runtime/device_memory.h"
#include "runtime/mailbox.h"
#include "training/kernels/row_numbers.cuh"
#include "training/line_bracket.h"

namespace bmrm {

constexpr int kRowThreads = 512;
constexpr int kRowBlocks = 2;  // per multiprocessor
constexpr int kTotals = 4;     // sums of a search's last pass, padded to a power of two
// Slopes that are added in the type of the margins before they are added in double.
constexpr int kSummedRows = 16;

struct RiskRows {
    int64_t begin, end;
    RowNumbers labels, weights;
    RowNumbers offsets;  // no data for none; those of margins are added by the products that make them
    double scale;
    LossParameter parameter;
};

// Sums what all blocks wrote to `partial` (blocks x K), with the same result in every thread of this block.
template <int K>
__device__ __forceinline__ void sum_blocks(const double* partial, double* scratch, double (&total)[K]) {
    const int groups = int(blockDim.x) / K, k = int(threadIdx.x) % K, group = int(threadIdx.x) / K;
    double sum = 0;
    if (group < groups)
#pragma unroll 8
        for (int b = group; b < int(gridDim.x); b += groups) sum += __ldcg(partial + int64_t(b) * K + k);
    scratch[threadIdx.x] = sum;
    __syncthreads();
    for (int half = groups / 2; half; half /= 2) {
        if (group < half) scratch[threadIdx.x] += scratch[threadIdx.x + half * K];
        __syncthreads();
    }
#pragma unroll
    for (int j = 0; j < K; j++) total[j] = scratch[j];
    __syncthreads();
}

// Returns true in the block that arrives last, which can read what the others wrote.
__device__ __forceinline__ bool comes_last(uint32_t* ticket) {
    __shared__ bool last;
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) {
        const unsigned blocks = gridDim.x * gridDim.y;
        last = atomicAdd(ticket, 1u) == blocks - 1;
        if (last) *ticket = 0;
    }
    __syncthreads();
    if (last) __threadfence();
    return last;
}

// Sums over all blocks of a grid, each of which writes its own sums to `partial` (blocks x K).  Returns true
// in the one thread that has the totals.
template <int K>
__device__ __forceinline__ bool sum_grid(double (&mine)[K], double* scratch, double* partial,
                                         uint32_t* ticket) {
    sum_block(mine, scratch, partial + K * int64_t(blockIdx.x));
    if (!comes_last(ticket)) return false;
    sum_blocks(partial, scratch, mine);
    return threadIdx.x == 0;
}

// Calls body(margin, direction, label, weight, out) for this thread's rows, in numbers of type R.  What the
// body puts into out[k] goes to the row's place in outs[k], unless that is null.
template <class R, int OUTS, class T, class Body>
__device__ __forceinline__ void for_rows(const RiskRows& rows, const T* z, const T* dz,
                                         T* const (&outs)[OUTS], Body&& body) {
    const int64_t step = int64_t(gridDim.x) * blockDim.x * kAtOnce;
    int64_t row = rows.begin / kAtOnce * kAtOnce + (int64_t(blockIdx.x) * blockDim.x + threadIdx.x) * kAtOnce;
    for (; row < rows.end; row += step) {
        const Some<T> margins = read(z, row, rows.end);
        const Some<T> directions = dz ? read(dz, row, rows.end) : Some<T>{};
        const Some<R> labels = numbers_at<R>(rows.labels, row, rows.end),
                      weights = numbers_at<R>(rows.weights, row, rows.end);
        const int first = int(max(rows.begin - row, int64_t(0))),
                  last = int(min(rows.end - row, int64_t(kAtOnce)));
        Some<T> found[OUTS];
#pragma unroll
        for (int j = 0; j < kAtOnce; j++) {
            T out[OUTS] = {};
            if (j >= first && j < last)
                body(R(margins.at[j]), R(directions.at[j]), labels.at[j], weights.at[j], out);
#pragma unroll
            for (int k = 0; k < OUTS; k++) found[k].at[j] = out[k];
        }
#pragma unroll
        for (int k = 0; k < OUTS; k++) {
            if (!outs[k]) continue;
            if (first == 0 && last == kAtOnce) {
                *reinterpret_cast<Some<T>*>(outs[k] + row) = found[k];
            } else {
#pragma unroll
                for (int j = 0; j < kAtOnce; j++)
                    if (j >= first && j < last) outs[k][row + j] = found[k].at[j];
            }
        }
    }
}

// sums: slopes in t and b.
template <class T, class Loss>
__global__ void __launch_bounds__(kRowThreads, kRowBlocks)
    slope_of_line(const RiskRows rows, const T* z, const T* dz, double t, double b, double* partial,
                  uint32_t* ticket, Letter letter) {
    __shared__ double scratch[kRowThreads];
    double mine[2] = {};
    T* const nothing[1] = {};
    for_rows<double>(rows, z, dz, nothing, [&](double z0, double d, double y, double s, T*) {
        const double g = with_weight(s, Loss::slope(z0 + t * d + b, y, rows.parameter));
        mine[0] += g * d;
        mine[1] += g;
    });
    if (sum_grid(mine, scratch, partial, ticket)) {
        letter.values[0] = rows.scale * mine[0];
        letter.values[1] = rows.scale * mine[1];
        send(letter);
    }
}

// DERIVATIVES: computes the derivatives, the risk and the sum of the derivatives; otherwise the moved margins
// and the risk there.  The sums go to `sums`, and to the letter if there is one.
template <class T, class Loss, bool DERIVATIVES>
__global__ void __launch_bounds__(kRowThreads, kRowBlocks)
    risk_of_line(const RiskRows rows, const T* z, const T* dz, double t, double b, T* out, double* partial,
                 uint32_t* ticket, double* sums, Letter letter) {
    __shared__ double scratch[kRowThreads];
    double mine[2] = {};
    T* const outs[1] = {out};
    for_rows<double>(rows, z, dz, outs, [&](double z0, double d, double y, double weight, T* found) {
        const double u = z0 + t * d, s = rows.scale * weight;
        mine[0] += with_weight(s, Loss::value(u + b, y, rows.parameter));
        const double r = DERIVATIVES ? with_weight(s, Loss::slope(u + b, y, rows.parameter)) : 0.0;
        mine[1] += r;
        found[0] = T(DERIVATIVES ? r : u);
    });
    if (sum_grid(mine, scratch, partial, ticket)) {
        sums[0] = mine[0];
        sums[1] = mine[1];
        if (letter.values) {
            letter.values[0] = mine[0];
            letter.values[1] = mine[1];
            send(letter);
        }
    }
}

// The points of a line whose slopes a pass computes.
struct LinePoints {
    double t[kPoints];
};

// Adds up the slopes of this thread's rows at some points, in the type of the margins: they decide where to
// stop, not what the risk is there.  In the first pass the margins `end` become the direction.
template <class T, class Loss>
__device__ __forceinline__ void add_slopes(const RiskRows& rows, const T* z, T* end, const double* t,
                                           bool first, double (&slope)[kPoints]) {
    T steps[kPoints], sums[kPoints];
#pragma unroll
    for (int k = 0; k < kPoints; k++) {
        slope[k] = 0.0;
        steps[k] = T(t[k]);
        sums[k] = T(0);
    }
    int rows_summed = 0;
    T* const outs[1] = {first ? end : nullptr};
    for_rows<T>(rows, z, static_cast<const T*>(end), outs, [&](T z0, T d, T y, T weight, T* direction) {
        if (first) direction[0] = d -= z0;
        const T ds = d * weight;
#pragma unroll
        for (int k = 0; k < kPoints; k++) {
            const T slope = Loss::slope(z0 + steps[k] * d, y, rows.parameter);
            sums[k] += ds == T(0) ? T(0) : ds * slope;  // as in with_weight, also if the row does not move
        }
        if (++rows_summed % kSummedRows == 0)
#pragma unroll
            for (int k = 0; k < kPoints; k++) {
                slope[k] += double(sums[k]);
                sums[k] = T(0);
            }
    });
#pragma unroll
    for (int k = 0; k < kPoints; k++) slope[k] += double(sums[k]);
}

// One pass of a search that the host directs, since other ranks have rows too.  The letter: the slopes of
// these rows.
template <class T, class Loss>
__global__ void __launch_bounds__(kRowThreads, sizeof(T) == 4 ? kRowBlocks : 1)
    slopes_at_points(const RiskRows rows, const T* z, T* end, const LinePoints points, bool first,
                     double* partial, uint32_t* ticket, Letter letter) {
    __shared__ double scratch[kRowThreads];
    double slope[kPoints];
    add_slopes<T, Loss>(rows, z, end, points.t, first, slope);
    if (sum_grid(slope, scratch, partial, ticket)) {
#pragma unroll
        for (int k = 0; k < kPoints; k++) letter.values[k] = rows.scale * slope[k];
        send(letter);
    }
}

// The last pass of a search: the moved margins and the risk there.  With `derivatives` also those of the cut
// at `beyond`, where the solver will most likely want it; its risk and their sum follow the risk in `totals`.
// Sloped: the loss that is searched and cut, either `Loss` itself or its smoothed version.
template <class T, class Loss, class Sloped>
__device__ __forceinline__ void add_totals(const RiskRows& rows, const T* z, const T* end, double step,
                                           double beyond, T* moved, T* derivatives,
                                           double (&totals)[kTotals]) {
    T* const outs[2] = {moved, derivatives};
    for_rows<double>(rows, z, end, outs, [&](double z0, double d, double y, double weight, T* out) {
        const double s = rows.scale * weight;
        out[0] = T(z0 + step * d);
        totals[0] += with_weight(s, Loss::value(double(out[0]), y, rows.parameter));
        if (derivatives) {
            totals[1] += with_weight(s, Sloped::value(z0 + beyond * d, y, rows.parameter));
            const double r = with_weight(s, Sloped::slope(z0 + beyond * d, y, rows.parameter));
            totals[2] += r;
            out[1] = T(r);
        }
    });
}

// The last pass of a search that the host directs.  The letter: the risk; sums: risk and sum of derivatives
// of the cut.
template <class T, class Loss, class Sloped>
__global__ void __launch_bounds__(kRowThreads, sizeof(T) == 4 ? kRowBlocks : 1)
    end_search(const RiskRows rows, const T* z, const T* end, double step, double beyond, T* moved,
               double* partial, uint32_t* ticket, T* derivatives, double* sums, Letter letter) {
    __shared__ double scratch[kRowThreads];
    double totals[kTotals] = {};
    add_totals<T, Loss, Sloped>(rows, z, end, step, beyond, moved, derivatives, totals);
    if (sum_grid(totals, scratch, partial, ticket)) {
        if (derivatives) {
            sums[0] = totals[1];
            sums[1] = totals[2];
        }
        letter.values[0] = totals[0];
        send(letter);
    }
}

}  // namespace bmrm
