// An EM step of a mixture of normal distributions in one pass over the rows, all in float64.
//
// A block of threads takes 64 rows at a time into shared memory. Its warps compute the log densities of the
// components, (1) with L (x - m) as products of small blocks (mma64.cuh), L being the lower triangular
// root of the precision; threads turn them into shares, by exponentials less the largest (2); and the warps
// add w r, w r (x - m) and w r (x - m)(x - m)' of their components (3), r being the share.  Moments about the
// mean m that the step started from keep their digits if the data are far from 0.  Only the shares of 64 rows
// exist at any time.  Diagonals need no products of blocks; their loops have the same shape.
//
// Rows are split into parts by their number and that of the components alone; the sums of a part are added in
// the order of its rows, and those of the parts in order: the same bits for any grid.
//
// A. P. Dempster, N. M. Laird and D. B. Rubin, Maximum likelihood from incomplete data via the EM algorithm,
// J. Royal Statistical Society B 39 (1977).
#pragma once
#include <math.h>
#include <stdint.h>

#include "device/mma64.cuh"
#include "runtime/block_sum.cuh"
#include "runtime/dynamic_shared.cuh"

namespace bmrm {

constexpr int kTileRows = 64;                   // rows in shared memory
constexpr int kShareStride = kTileRows + 4;     // from one component's shares to the next: no bank conflicts
constexpr int kMaxMixtureWarps = 8;             // of a block of threads
constexpr double kLeastMixtureExponent = -600;  // below, a share is 0, as on the CPU

enum MixtureTask {
    kMixtureStep,    // shares by densities, then the moments
    kLabelMoments,   // the moments of rows whose labels are given
    kMixtureShares,  // only the shares and log densities, which are written out
};

template <class T>
struct MixtureRows {
    const T* values;
    const double* weights;  // or null
    const int32_t* labels;  // for kLabelMoments: negative for rows of no component
    int64_t n;
    int32_t d;
};

// Columns are padded with zeros to `blocks` blocks of 8.
struct MixtureModel {
    const double* means;  // (k, 8 blocks)
    // Roots of precisions: a number per column, or the blocks of L up to the diagonal, each as threads read
    // it: (k, blocks (blocks + 1) / 2, 2, 32).
    const double* roots;
    const double* constants;  // (k): logarithms of weights and normalisations
    int32_t k, blocks;
};

struct MixturePlaces {
    int64_t parts;
    double* sums;         // (parts, numbers): what the parts have found
    int64_t numbers;      // an even number: moments of all components, the log likelihood, and one of padding
    double* shares;       // (grid, k, kShareStride) if they do not fit into shared memory; else null
    int32_t shared_sums;  // whether sums are collected in shared memory
    double* densities;    // (n): for kMixtureShares
    double* row_shares;   // (n, k)
};

// Numbers of second moments of a component; first moments and the weight follow.
__host__ __device__ inline int64_t second_moments(bool full, int64_t blocks) {
    return full ? blocks * (blocks + 1) / 2 * 64 : 8 * blocks;
}
__host__ __device__ inline int64_t mixture_moments(bool full, int64_t blocks) {
    return second_moments(full, blocks) + 8 * blocks + 2;  // even, so that pairs stay aligned
}
__host__ __device__ inline int64_t mixture_numbers(bool full, int64_t blocks, int64_t k) {
    return k * mixture_moments(full, blocks) + 2;
}
// Numbers from one row in shared memory to the next: without bank conflicts, whichever way they are read.
__host__ __device__ inline int64_t row_stride(int64_t blocks) { return 8 * blocks + 4; }

// A tile of rows in shared memory; beyond the last row they repeat it with weight 0.
template <class T>
__device__ __forceinline__ void load_rows(const MixtureRows<T>& rows, int64_t tile, int stride, double* x,
                                          double* weights) {
    const int64_t base = tile * kTileRows;
    const int count = int(rows.n - base < kTileRows ? rows.n - base : kTileRows);
    const unsigned d = unsigned(rows.d), size = kTileRows * d;
    const T* from = rows.values + base * rows.d;
    for (unsigned i = threadIdx.x; i < size; i += blockDim.x) {
        const unsigned row = i / d, column = i - row * d;
        const unsigned there = row < unsigned(count) ? i : unsigned(count - 1) * d + column;
        x[row * stride + column] = double(from[there]);
    }
    for (int row = int(threadIdx.x); row < kTileRows; row += int(blockDim.x))
        weights[row] = row >= count ? 0.0 : rows.weights ? rows.weights[base + row] : 1.0;
}

// Adds up eight numbers of threads with equal g; thread t gets the totals of the pair t.
__device__ __forceinline__ void sum_pairs_of_steps(const double (&mine)[4][2], double (&out)[2]) {
    const int t = fragment_step();
    const bool odd = t & 1, high = t & 2;
#pragma unroll
    for (int s = 0; s < 2; s++) {
        double kept[2];
#pragma unroll
        for (int p = 0; p < 2; p++) {
            const double sent = odd ? mine[2 * p][s] : mine[2 * p + 1][s];
            kept[p] = (odd ? mine[2 * p + 1][s] : mine[2 * p][s]) + __shfl_xor_sync(0xFFFFFFFFu, sent, 1);
        }
        const double sent = high ? kept[0] : kept[1];
        out[s] = (high ? kept[1] : kept[0]) + __shfl_xor_sync(0xFFFFFFFFu, sent, 2);
    }
}

// (1): the log densities of a component at the rows of a tile.
template <bool FULL>
__device__ __forceinline__ void log_densities(const MixtureModel& model, int j, const double* x, double* to) {
    const int g = fragment_row(), t = fragment_step(), lane = int(threadIdx.x) % 32;
    const int blocks = model.blocks, stride = int(row_stride(blocks));
    const double* mean = model.means + int64_t(j) * 8 * blocks;
    const double* root = model.roots + int64_t(j) * (FULL ? blocks * (blocks + 1) / 2 * 64 : 8 * blocks);
    double squares[4][2] = {};
    for (int block = 0; block < blocks; block++) {
        double y[4][2][2] = {};
        for (int c = FULL ? 0 : block; c <= block; c++) {
            double m[2], l[2];
#pragma unroll
            for (int half = 0; half < 2; half++) {
                m[half] = mean[8 * c + 4 * half + t];
                l[half] = FULL ? root[half * 32 + lane] : root[8 * c + 4 * half + t];
            }
            if (FULL) root += 64;
#pragma unroll
            for (int r = 0; r < 4; r++) {
                const double* at = x + (16 * r + g) * stride + 8 * c + t;
                double e[2][2];
#pragma unroll
                for (int s = 0; s < 2; s++)
#pragma unroll
                    for (int half = 0; half < 2; half++) e[s][half] = at[8 * s * stride + 4 * half] - m[half];
                if (FULL) {
                    multiply_16x8x8(y[r][0], y[r][1], e[0], e[1], l);
                } else {
#pragma unroll
                    for (int s = 0; s < 2; s++)
#pragma unroll
                        for (int half = 0; half < 2; half++) y[r][s][half] = l[half] * e[s][half];
                }
            }
        }
#pragma unroll
        for (int r = 0; r < 4; r++)
#pragma unroll
            for (int s = 0; s < 2; s++) squares[r][s] += y[r][s][0] * y[r][s][0] + y[r][s][1] * y[r][s][1];
    }
    double found[2];
    sum_pairs_of_steps(squares, found);
#pragma unroll
    for (int s = 0; s < 2; s++) to[16 * t + 8 * s + g] = model.constants[j] - 0.5 * found[s];
}

// (2): turns the log densities of a row into shares times the weight; four threads have a row.  Returns the
// logarithm of the row's density.
__device__ __forceinline__ double shares_of(double* q, int k, int row, double weight) {
    const int t = fragment_step();
    double top = -INFINITY, total = 0;
    for (int j = t; j < k; j += 4) top = fmax(top, q[j * kShareStride + row]);
    top = fmax(top, __shfl_xor_sync(0xFFFFFFFFu, top, 1));
    top = fmax(top, __shfl_xor_sync(0xFFFFFFFFu, top, 2));
    for (int j = t; j < k; j += 4) {
        double& at = q[j * kShareStride + row];
        const double less = at - top;
        const double share = less < kLeastMixtureExponent ? 0.0 : exp(less);
        total += share;
        at = share;
    }
    total = sum_steps(total);
    const double factor = weight / total;
    for (int j = t; j < k; j += 4) q[j * kShareStride + row] *= factor;
    return top + log(total);
}

// (3) for blocks of columns `left`, left + 1 and `right`, right + 1: adds products of eight rows at a time to
// blocks of second moments.
template <bool DIAGONAL, bool TWO>
__device__ __forceinline__ void add_products(const double* x, int stride, const double* mean,
                                             const double* share, int left, int right, double* sums,
                                             double (&first)[2], double& weight) {
    const int g = fragment_row(), t = fragment_step();
    // Blocks (left, right), (left + 1, right), (left, right + 1), (left + 1, right + 1); of a pair on the
    // diagonal the third is not needed.
    const int tiles[4] = {left * (left + 1) / 2 + right, (left + 1) * (left + 2) / 2 + right,
                          left * (left + 1) / 2 + right + 1, (left + 1) * (left + 2) / 2 + right + 1};
    const bool used[4] = {true, TWO, !DIAGONAL, TWO};
    double found[4][2];
#pragma unroll
    for (int i = 0; i < 4; i++)
        if (used[i]) {
            const double2 both = *reinterpret_cast<const double2*>(sums + tiles[i] * 64 + g * 8 + 2 * t);
            found[i][0] = both.x;
            found[i][1] = both.y;
        }
    double m[2], of_right[2];
#pragma unroll
    for (int b = 0; b < 2; b++) {
        m[b] = b == 0 || TWO ? mean[8 * (left + b) + g] : 0.0;
        of_right[b] = DIAGONAL ? m[b] : mean[8 * (right + b) + g];
    }
#pragma unroll 2
    for (int step = 0; step < kTileRows; step += 8) {
        double r[2], e[2][2], f[2][2], scaled[2][2];
#pragma unroll
        for (int half = 0; half < 2; half++) {
            const double* at = x + (step + 4 * half + t) * stride + g;
            r[half] = share[step + 4 * half + t];
#pragma unroll
            for (int b = 0; b < 2; b++) {
                e[b][half] = b == 0 || TWO ? at[8 * (left + b)] - m[b] : 0.0;
                f[b][half] = DIAGONAL ? e[b][half] : at[8 * (right + b)] - of_right[b];
                scaled[b][half] = r[half] * e[b][half];
            }
        }
        if (TWO) {
            multiply_16x8x8(found[0], found[1], scaled[0], scaled[1], f[0]);
            if (DIAGONAL)
                multiply_8x8x8(found[3], scaled[1], f[1]);
            else
                multiply_16x8x8(found[2], found[3], scaled[0], scaled[1], f[1]);
        } else {
            multiply_8x8x8(found[0], scaled[0], f[0]);
            if (!DIAGONAL) multiply_8x8x8(found[2], scaled[0], f[1]);
        }
        if (DIAGONAL) {
            weight += r[0] + r[1];
#pragma unroll
            for (int b = 0; b < 2; b++) first[b] += scaled[b][0] + scaled[b][1];
        }
    }
#pragma unroll
    for (int i = 0; i < 4; i++)
        if (used[i])
            *reinterpret_cast<double2*>(sums + tiles[i] * 64 + g * 8 + 2 * t) =
                make_double2(found[i][0], found[i][1]);
}

// (3): adds the moments of a component over a tile; a warp does it alone.
template <bool FULL>
__device__ __forceinline__ void add_moments(const MixtureModel& model, int j, const double* x,
                                            const double* share, double* sums) {
    const int g = fragment_row(), t = fragment_step(), lane = int(threadIdx.x) % 32;
    const int blocks = model.blocks, stride = int(row_stride(blocks));
    const double* mean = model.means + int64_t(j) * 8 * blocks;
    double* firsts = sums + second_moments(FULL, blocks);
    double weight = 0;
    for (int left = 0; left < blocks; left += FULL ? 2 : 1) {
        double first[2] = {};
        weight = 0;
        if (FULL) {
            const bool two = left + 1 < blocks;
            for (int right = 0; right < left; right += 2) {
                if (two)
                    add_products<false, true>(x, stride, mean, share, left, right, sums, first, weight);
                else
                    add_products<false, false>(x, stride, mean, share, left, right, sums, first, weight);
            }
            if (two)
                add_products<true, true>(x, stride, mean, share, left, left, sums, first, weight);
            else
                add_products<true, false>(x, stride, mean, share, left, left, sums, first, weight);
        } else {
            double second = 0;
            const double m = mean[8 * left + g];
#pragma unroll 4
            for (int step = 0; step < kTileRows; step += 4) {
                const double r = share[step + t], e = x[(step + t) * stride + 8 * left + g] - m;
                const double scaled = r * e;
                weight += r;
                first[0] += scaled;
                second += scaled * e;
            }
            second = sum_steps(second);
            if (t == 0) sums[8 * left + g] += second;
        }
#pragma unroll
        for (int b = 0; b < (FULL ? 2 : 1); b++) {
            const double total = sum_steps(first[b]);
            if (t == 0 && left + b < blocks) firsts[8 * (left + b) + g] += total;
        }
    }
    weight = sum_steps(weight);
    if (lane == 0) firsts[8 * blocks] += weight;
}

template <class T, bool FULL, MixtureTask TASK>
__global__ void __launch_bounds__(kMaxMixtureWarps * 32, 2)
    mixture_pass(const MixtureRows<T> rows, const MixtureModel model, const MixturePlaces places) {
    double* const shared = dynamic_shared<double>();
    const int warp = int(threadIdx.x) / 32, warps = int(blockDim.x) / 32, k = model.k;
    const int stride = int(row_stride(model.blocks));
    const int64_t moments = mixture_moments(FULL, model.blocks);
    double* const scratch = shared;  // a number per warp
    double* const x = scratch + kMaxMixtureWarps;
    double* const weights = x + kTileRows * stride;
    double* const inside = weights + kTileRows;
    double* const q = places.shares ? places.shares + int64_t(blockIdx.x) * k * kShareStride : inside;
    const int64_t tiles = (rows.n + kTileRows - 1) / kTileRows;
    for (int i = int(threadIdx.x); i < kTileRows * stride; i += int(blockDim.x)) x[i] = 0;  // the padding
    for (int64_t part = blockIdx.x; part < places.parts; part += gridDim.x) {
        double* const found = places.sums + part * places.numbers;
        double* const sums = places.shared_sums ? inside + (places.shares ? 0 : k * kShareStride) : found;
        double likelihood[1] = {};
        if (TASK != kMixtureShares)
            for (int64_t i = threadIdx.x; i < k * moments; i += blockDim.x) sums[i] = 0;
        __syncthreads();
        for (int64_t tile = tiles * part / places.parts; tile < tiles * (part + 1) / places.parts; tile++) {
            load_rows(rows, tile, stride, x, weights);
            __syncthreads();
            if (TASK == kLabelMoments) {
                for (int row = int(threadIdx.x); row < kTileRows; row += int(blockDim.x)) {
                    const int64_t at = tile * kTileRows + row;
                    const int label = at < rows.n ? rows.labels[at] : -1;
                    for (int j = 0; j < k; j++) q[j * kShareStride + row] = j == label ? weights[row] : 0.0;
                }
            } else {
                for (int j = warp; j < k; j += warps)
                    log_densities<FULL>(model, j, x, q + int64_t(j) * kShareStride);
                __syncthreads();
                for (int group = warp; group < kTileRows / 8; group += warps) {
                    const int row = 8 * group + fragment_row();
                    const double weight = TASK == kMixtureStep ? weights[row] : 1.0;
                    const double density = shares_of(q, k, row, weight);
                    const int64_t at = tile * kTileRows + row;
                    if (TASK == kMixtureStep) {
                        if (fragment_step() == 0) likelihood[0] += weight * density;
                    } else if (at < rows.n) {
                        if (fragment_step() == 0) places.densities[at] = density;
                        for (int j = fragment_step(); j < k; j += 4)
                            places.row_shares[at * k + j] = q[j * kShareStride + row];
                    }
                }
            }
            __syncthreads();
            if (TASK != kMixtureShares) {
                for (int j = warp; j < k; j += warps)
                    add_moments<FULL>(model, j, x, q + int64_t(j) * kShareStride, sums + j * moments);
                __syncthreads();
            }
        }
        if (TASK != kMixtureShares) {
            if (places.shared_sums)
                for (int64_t i = threadIdx.x; i < k * moments; i += blockDim.x) found[i] = sums[i];
            sum_block(likelihood, scratch, found + k * moments);
        }
    }
}

}  // namespace bmrm
