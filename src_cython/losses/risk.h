// The empirical risk of scalar losses and its derivatives, on the CPU.
//
// Margins lie on a line, u_i = z_i + t dz_i + b: the solver needs no others. There are three passes:
//   slope: sum s_i l'(u_i) dz_i and sum s_i l'(u_i), which a line search needs;
//   cut:   r_i = s_i l'(u_i), and for each block of rows sum s_i l(u_i) and sum r_i;
//   bend:  r_i = s_i l''(u_i), and their sum.
// Rows are split into chunks that never cross a block and never depend on the number of threads. Chunk sums
// are added in order, so results are bit-identical for any number of threads.
#pragma once
#include <cstdint>

#include "conjugates.h"
#include "losses.h"
#include "rounded.h"

namespace bmrm {

struct Rows {
    const double* z;
    const double* dz;
    const double* y;
    const double* s;  // weights, or null for equal ones
    double* r;        // cut and bend only: out, the derivatives
    double t, b;
    double scale;  // 1 / sum of weights
    LossParameter parameter;
};

using ChunkKernel = void (*)(const Rows&, int64_t, int64_t, double*);

struct Kernels {
    ChunkKernel slope[2];  // without and with weights
    ChunkKernel cut[2];
    ChunkKernel bend[2];
};

// Number of rows per chunk, whose sums are added in order.
constexpr int64_t chunk_rows = 2048;
// Number of rows per tile of a chunk, which stays in the first level of cache.
constexpr int64_t tile_rows = 128;

// Sum of eight lanes.
inline double fold(const double* lane) {
    return ((lane[0] + lane[4]) + (lane[2] + lane[6])) + ((lane[1] + lane[5]) + (lane[3] + lane[7]));
}

void risk_slope(int loss, const Rows& rows, int64_t m, int threads, double* sums);

void risk_cut(int loss, const Rows& rows, const int64_t* starts, int64_t blocks, int threads, double* sums);

// Stores the sum of the second derivatives in sums[0].
void risk_bend(int loss, const Rows& rows, int64_t m, int threads, double* sums);

// For a loss that is linear except for kinks: the slope of each row and, kink by kink, the places and jumps
// (rounded.h); slopes and jumps include the weights. Returns the number of kinks per row; writes nothing if
// `slope` is null.
int risk_pieces(int loss, const Rows& rows, int64_t m, double* slope, double* places, double* jumps);

// The conjugate of each row, including its weight (conjugates.h); false for a loss without a simple
// conjugate.
bool risk_conjugates(int loss, const Rows& rows, int64_t m, Conjugate* out);

}  // namespace bmrm
