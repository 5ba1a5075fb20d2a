// The search for the minimum of the risk along a line, which is one launch however many passes it takes.
#pragma once
#include <cooperative_groups.h>

#include "training/kernels/risk.cuh"

namespace bmrm {

// A search in one cooperative launch.  partial: two rounds of kPoints doubles per block, and kTotals.  The
// letter: step, risk, passes, and the step of the cut.  If there is a cut, sums gets its risk and sum of
// derivatives, then its step.
template <class T, class Loss, class Sloped>
__global__ void __launch_bounds__(kRowThreads, sizeof(T) == 4 ? kRowBlocks : 1)
    search_line(const RiskRows rows, const T* z, T* end, T* moved, const bb_search_request request,
                double* partial, T* derivatives, double* sums, Letter letter) {
    __shared__ double scratch[kRowThreads];
    const cooperative_groups::grid_group grid = cooperative_groups::this_grid();
    LineBracket bracket = {0.0, 0.0, 0.0, 0.0, false};
    double t[kPoints], slope[kPoints];
    first_points(request.first, request.longest, t);
    int pass = 0;
    while (true) {
        add_slopes<T, Sloped>(rows, z, end, t, pass == 0, slope);
        double* round = partial + int64_t(pass % 2) * gridDim.x * kPoints;
        sum_block(slope, scratch, round + int64_t(blockIdx.x) * kPoints);
        grid.sync();
        sum_blocks(round, scratch, slope);
#pragma unroll
        for (int k = 0; k < kPoints; k++) slope[k] = request.p + request.q * t[k] + rows.scale * slope[k];
        if (ends(bracket, pass, request.longest, request.accuracy, t, slope)) break;
    }
    const double step = nearest(bracket), beyond = step + fmin(request.farthest, request.reach * step);
    double totals[kTotals] = {};
    add_totals<T, Loss, Sloped>(rows, z, end, step, beyond, moved, derivatives, totals);
    // Not in the round that other blocks may still be reading.
    double* last = partial + int64_t(2) * gridDim.x * kPoints;
    sum_block(totals, scratch, last + kTotals * int64_t(blockIdx.x));
    grid.sync();
    if (blockIdx.x) return;
    sum_blocks(last, scratch, totals);
    if (threadIdx.x == 0) {
        if (derivatives) {
            sums[0] = totals[1];
            sums[1] = totals[2];
            sums[2] = beyond;
        }
        letter.values[0] = step;
        letter.values[1] = totals[0];
        letter.values[2] = double(pass);
        letter.values[3] = beyond;
        send(letter);
    }
}

}  // namespace bmrm
