// Points on their way to a device's memory: by axis, sorted along a curve, with the boxes of their tiles.
#pragma once
#include <stdint.h>

#include "device/arithmetic.cuh"
#include "device/warp.cuh"
#include "pairs/points.h"

namespace bmrm {

// Sets where points are on Morton's curve: the bits of their axes take turns.
__global__ void place_on_curve(ExactPoints points, Box box, CurveRange range, uint32_t* place) {
    BB_FOR (i, points.n) {
        uint32_t part[kCurveAxes], found = 0;
        for (int k = 0; k < range.axes; k++) {
            double x = points.at[k * points.n + i];
            if (box.length) x = in_box(x, box.length[k], box.inverse[k]);
            const double there = (x - range.low[k]) * range.scale[k];
            part[k] = there > 0 ? uint32_t(fmin(there, double((1u << range.bits) - 1))) : 0;
        }
        for (int bit = range.bits - 1; bit >= 0; bit--)
            for (int k = 0; k < range.axes; k++) found = found << 1 | (part[k] >> bit & 1);
        place[i] = found;
    }
}

// Sets the boxes of tiles, a block per tile; `moved` into the periodic box first.
__global__ void __launch_bounds__(kTileThreads)
    bound_tiles(ExactPoints points, Box box, bool moved, double* low, double* high) {
    __shared__ double of_warp[2][kTileThreads / 32];
    const int64_t tile = blockIdx.x;
    const int count = tile_size(tile, points.n), warp = int(threadIdx.x) / 32;
    for (int k = 0; k < points.axes; k++) {
        double least = INF, most = -INF;
        for (int i = threadIdx.x; i < count; i += kTileThreads) {
            double x = points.at[k * points.n + tile * kTilePoints + i];
            if (moved) x = in_box(x, box.length[k], box.inverse[k]);
            least = fmin(least, x);
            most = fmax(most, x);
        }
        of_warp[0][warp] = over_warp<Least>(least);
        of_warp[1][warp] = over_warp<Greatest>(most);
        __syncthreads();
        if (threadIdx.x == 0) {
            for (int w = 0; w < kTileThreads / 32; w++) {
                least = fmin(least, of_warp[0][w]);
                most = fmax(most, of_warp[1][w]);
            }
            low[tile * points.axes + k] = least;
            high[tile * points.axes + k] = most;
        }
        __syncthreads();
    }
}

}  // namespace bmrm
