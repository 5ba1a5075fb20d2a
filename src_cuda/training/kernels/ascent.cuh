// The kernels of accelerated dual ascent (training/ascent.cu), besides its products: the rows' next
// derivatives, and the decision whether the step was an advance.  Sums are float64, over fixed shares of the
// rows, added in the order of blocks.
#pragma once
#include "conjugates.h"
#include "training/kernels/risk.cuh"

namespace bmrm {

// The *bend* is the assumed curvature of the dual, relative to that along single rows.
constexpr double kMinBend = 1.0;  // as along one row alone
constexpr double kEased = 0.98;   // factor per advance, since the curvature differs from place to place
constexpr double kRaised = 1.3;   // minimum factor after a step that went too far

constexpr int kAscentThreads = 256;

// Units in the last place, of margins, by which a bend may be off.
constexpr double kRoundedUnits = 8.0;

// State that the steps pass on, on the device.
struct AscentState {
    double bend;      // bounds the next step
    double turn;      // of the momentum, since the last restart
    double momentum;  // share of the last advance by which the next step starts ahead
    int64_t advanced;
};

// Numbers of the rows: derivatives r after the last step, `base` before it, the margins there, and the point
// ahead of the base where the step started, with its margins.
struct AscentRows {
    double *r, *base, *base_margins, *ahead, *ahead_margins;
    const double* squares;  // of the rows
};

template <class Loss>
__device__ __forceinline__ Conjugate conjugate_at(const RiskRows& rows, int64_t row) {
    const double weight = rows.scale * number_at(rows.weights, row);
    Conjugate found = Dual<Loss>::of(number_at(rows.labels, row), rows.parameter).weighted(weight);
    if (rows.offsets.data) found.place -= number_at(rows.offsets, row);  // margins here are without them
    return found;
}

// Starts at given derivatives or at 0, as far as the conjugates allow.
template <class T, class Loss>
__global__ void __launch_bounds__(kAscentThreads)
    begin_ascent(const RiskRows rows, const T* from, AscentRows at, T* out, AscentState* state) {
    BB_FOR (row, rows.end) {
        const double r = conjugate_at<Loss>(rows, row).feasible(from ? double(from[row]) : 0.0);
        at.r[row] = at.base[row] = r;
        out[row] = T(r);
    }
    if (blockIdx.x == 0 && threadIdx.x == 0) *state = {kMinBend, 1.0, 0.0, 1};
}

// Accepts the last step, if it was an advance, and takes the next one.  `image`: X X' r; `factor`: 1 / lam.
template <class T, class Loss>
__global__ void __launch_bounds__(kAscentThreads)
    step_up(const RiskRows rows, double factor, const T* __restrict__ image, AscentRows at, T* out,
            const AscentState* state) {
    const AscentState now = *state;
    BB_FOR (row, rows.end) {
        double ahead, margins;
        if (now.advanced) {
            const double r = at.r[row], margin = -factor * double(image[row]);
            // Before the first step the margins of the base are not known.
            const double more = now.momentum > 0 ? now.momentum * (margin - at.base_margins[row]) : 0.0;
            at.ahead[row] = ahead = r + now.momentum * (r - at.base[row]);
            at.ahead_margins[row] = margins = margin + more;
            at.base[row] = r;
            at.base_margins[row] = margin;
        } else {
            ahead = at.ahead[row];
            margins = at.ahead_margins[row];
        }
        const Coordinate from = {conjugate_at<Loss>(rows, row), ahead};
        const double to = from.best(margins, now.bend * factor * at.squares[row]);
        at.r[row] = to;
        out[row] = T(to);
    }
}

// Decides whether the step was an advance: whether the dual's curvature along it is no more than assumed.
template <class T>
__global__ void __launch_bounds__(kAscentThreads)
    judge_step(int64_t count, double factor, double unit, const T* __restrict__ image, AscentRows at,
               double* partial, uint32_t* ticket, AscentState* state) {
    __shared__ double scratch[kAscentThreads];
    double mine[4] = {};
    BB_FOR (row, count) {
        const double r = at.r[row], step = r - at.ahead[row], margin = -factor * double(image[row]);
        const double own = factor * at.squares[row], before = at.ahead_margins[row];
        mine[0] += own * step * step;
        mine[1] -= step * (margin - before);
        mine[2] += fabs(step) * (fabs(margin) + fabs(before));
        mine[3] -= own * step * (r - at.base[row]);
    }
    if (!sum_grid(mine, scratch, partial, ticket)) return;
    AscentState next = *state;
    next.advanced = mine[1] <= next.bend * mine[0] + unit * mine[2];
    if (next.advanced) {
        if (mine[3] > 0) next.turn = 1.0;
        next.momentum = (next.turn - 1.0) / (next.turn + 0.5);
        next.turn += 0.5;
        next.bend = fmax(kMinBend, kEased * next.bend);
    } else {
        next.bend = fmax(kRaised * next.bend, mine[0] > 0 ? mine[1] / mine[0] : 0.0);
    }
    *state = next;
}

// Sets the derivatives to those after the last advance.  The letter: the sum of their conjugates.
template <class T, class Loss>
__global__ void __launch_bounds__(kAscentThreads)
    end_ascent(const RiskRows rows, AscentRows at, T* out, const AscentState* state, double* partial,
               uint32_t* ticket, Letter letter) {
    __shared__ double scratch[kAscentThreads];
    const bool advanced = state->advanced != 0;
    double mine[1] = {};
    BB_FOR (row, rows.end) {
        const double r = advanced ? at.r[row] : at.base[row];
        mine[0] += conjugate_at<Loss>(rows, row)(r);
        out[row] = T(r);
    }
    if (sum_grid(mine, scratch, partial, ticket)) {
        letter.values[0] = mine[0];
        send(letter);
    }
}

}  // namespace bmrm
