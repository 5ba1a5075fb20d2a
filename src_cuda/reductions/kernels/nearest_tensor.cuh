// Nearest centres of rows with many columns, by the tensor cores.
//
// Rows y and centres z, shifted and scaled, are sums of two numbers of bfloat16, y = a + b and z = p + q with
// relative errors of 2^-18.  The value of a centre is |z|^2/2 - (a.p + a.q + b.p): what is left out and the
// splits' errors are below 3.03 2^-18 |y| |z|.  Products of two numbers of bfloat16 are exact in float32.
// NVIDIA says of the sums that they have "at least single precision" and no given rounding; M. Fasi,
// N. J. Higham, M. Mikaitis and S. Pranesh (Numerical behavior of NVIDIA tensor cores, PeerJ Computer Science
// 7, 2021) find that the 17 terms of an instruction are aligned to the largest of them and cut off.  Each
// then loses at most 2^-23 of the largest, which with the last rounding is below 20 2^-23 |y'| |z'| in the
// columns of a chunk, from where the sums start at 0.  A chunk has 6 instructions per sum, and by
// Cauchy-Schwarz the chunks' |y'| |z'| add up to at most |y| |z|.  The sums of chunks are added in float32,
// rounded to nearest.
//
// A block has kTileRows rows and goes through the centres kTileCenters at a time; its warps have 64 x 32
// values each.  Chunks of 32 columns come by copies that run kStages - 1 chunks ahead.  A row's chunk takes
// 128 bytes, 64 of the high parts and 64 of the low parts, and its eight pieces are permuted so that the
// eight rows that load_matrices reads at a time lie in different banks.
#pragma once
#include "reductions/kernels/centers.cuh"
#include "reductions/kernels/mma.cuh"
#include "runtime/dynamic_shared.cuh"

namespace bmrm {

constexpr int kTensorThreads = 256;
constexpr int kTileRows = 128;
constexpr int kTileCenters = 128;
constexpr int kStages = 3;
constexpr int kPieces = kChunkNumbers / 8;  // of 16 bytes in a row's chunk
constexpr int kStagePieces = (kTileRows + kTileCenters) * kPieces;
constexpr int kTensorBytes = kStages * kStagePieces * 16;

// Errors of splits, of the tensor cores' sums, and of the sum over chunks; see above.
inline FastError tensor_error(int64_t d, int chunks) {
    return {float(4 * 0x1p-24), float(3.03 * 0x1p-18 + 1.02 * 120 * 0x1p-23 + 1.02 * (chunks + 4) * 0x1p-24),
            float(double(d) * 0x1p-120)};
}

// Splits rows into chunks; one warp per row.  Rows from n on are zeros.
template <class V>
__global__ void __launch_bounds__(256)
    split_rows(const V* __restrict__ X, int64_t n, int64_t padded, int64_t d,
               const double* __restrict__ shift, double scale, int chunks, __nv_bfloat16* __restrict__ out,
               float* __restrict__ norms) {
    const int lane = int(threadIdx.x) % 32;
    const int64_t warps = int64_t(gridDim.x) * blockDim.x / 32;
    for (int64_t i = (int64_t(blockIdx.x) * blockDim.x + threadIdx.x) / 32; i < padded; i += warps) {
        double square = 0;
        for (int c = 0; c < chunks; c++) {
            const int64_t f = int64_t(c) * kChunkColumns + lane;
            const double y = i < n && f < d ? (double(X[i * d + f]) - shift[f]) * scale : 0.0;
            square += y * y;
            __nv_bfloat16* chunk = out + (i * chunks + c) * kChunkNumbers + lane;
            write_split(y, chunk, chunk + kChunkColumns);
        }
        square = sum_warp(square);
        if (lane == 0) norms[i] = norm_above(square);
    }
}

// The best value, its centre, and the second value.
struct Best {
    float least, second;
    int at;
};

__device__ __forceinline__ void consider(Best& best, float value, int at) {
    if (value < best.least) best.at = at;
    best.second = fminf(best.second, fmaxf(best.least, value));
    best.least = fminf(best.least, value);
}

__device__ __forceinline__ void combine(Best& best, float least, float second, int at) {
    if (least < best.least) best.at = at;
    best.second = fminf(fminf(best.second, second), fmaxf(best.least, least));
    best.least = fminf(best.least, least);
}

__device__ __forceinline__ int piece_of(int row, int piece) { return row * kPieces + (piece ^ (row & 7)); }

// Starts the copies of chunk number `step` of a block: chunks of a tile of centres, then of the next.
__device__ __forceinline__ void copy_chunk(const uint4* rows, const uint4* centers, int64_t first_row,
                                           int chunks, int step, int steps, uint4* stages) {
    if (step < steps) {
        uint4* to = stages + step % kStages * kStagePieces;
        const int tile = step / chunks, chunk = step % chunks, piece = int(threadIdx.x) % kPieces;
#pragma unroll
        for (int r = int(threadIdx.x) / kPieces; r < kTileRows; r += kTensorThreads / kPieces)
            copy_16(to + piece_of(r, piece), rows + ((first_row + r) * chunks + chunk) * kPieces + piece);
        to += kTileRows * kPieces;
#pragma unroll
        for (int r = int(threadIdx.x) / kPieces; r < kTileCenters; r += kTensorThreads / kPieces)
            copy_16(to + piece_of(r, piece),
                    centers + ((int64_t(tile) * kTileCenters + r) * chunks + chunk) * kPieces + piece);
    }
    close_copies();
}

// Adds the products of a chunk to a warp's sums, which start at 0.
__device__ __forceinline__ void multiply_chunk(const uint4* rows, const uint4* centers, int lane,
                                               float (&sums)[4][4][4]) {
#pragma unroll
    for (int half = 0; half < 2; half++) {
        uint32_t p[2][4], q[2][4];  // of four times eight centres
        const int b_row = lane / 16 * 8 + lane % 8, b_piece = half * 2 + lane / 8 % 2;
#pragma unroll
        for (int pair = 0; pair < 2; pair++) {
            load_matrices(centers + piece_of(pair * 16 + b_row, b_piece), p[pair]);
            load_matrices(centers + piece_of(pair * 16 + b_row, b_piece + 4), q[pair]);
        }
#pragma unroll
        for (int m = 0; m < 4; m++) {
            uint32_t a[4], b[4];
            const int row = m * 16 + lane % 16, piece = half * 2 + lane / 16;
            load_matrices(rows + piece_of(row, piece), a);
            load_matrices(rows + piece_of(row, piece + 4), b);
#pragma unroll
            for (int c = 0; c < 4; c++)
                multiply_add(sums[m][c], b, p[c / 2][c % 2 * 2], p[c / 2][c % 2 * 2 + 1]);
#pragma unroll
            for (int c = 0; c < 4; c++)
                multiply_add(sums[m][c], a, q[c / 2][c % 2 * 2], q[c / 2][c % 2 * 2 + 1]);
#pragma unroll
            for (int c = 0; c < 4; c++)
                multiply_add(sums[m][c], a, p[c / 2][c % 2 * 2], p[c / 2][c % 2 * 2 + 1]);
        }
    }
}

// rows: (n rounded up to kTileRows) x chunks x kPieces; centers: (tiles kTileCenters) x chunks x kPieces.
static __global__ void __launch_bounds__(kTensorThreads, 1)
    nearest_tensor(const uint4* __restrict__ rows, const float* __restrict__ norms, int64_t n, int chunks,
                   const uint4* __restrict__ centers, const float* __restrict__ halves, int tiles,
                   FastError error, PassCounters* counters, int32_t* __restrict__ labels,
                   uint32_t* __restrict__ listed) {
    uint4* stages = dynamic_shared<uint4>();
    const int lane = int(threadIdx.x) % 32, warp = int(threadIdx.x) / 32, down = warp / 4, across = warp % 4;
    const int64_t first_row = int64_t(blockIdx.x) * kTileRows;
    const int steps = tiles * chunks;
    Best best[8];
#pragma unroll
    for (int r = 0; r < 8; r++) {
        best[r].least = best[r].second = __int_as_float(0x7F800000);
        best[r].at = 0;
    }
    float all[4][4][4] = {};
    for (int step = 0; step < kStages - 1; step++)
        copy_chunk(rows, centers, first_row, chunks, step, steps, stages);
    for (int step = 0; step < steps; step++) {
        wait_for_copies<kStages - 2>();
        __syncthreads();
        copy_chunk(rows, centers, first_row, chunks, step + kStages - 1, steps, stages);
        const uint4* stage = stages + step % kStages * kStagePieces;
        float sums[4][4][4] = {};
        multiply_chunk(stage + down * 64 * kPieces, stage + (kTileRows + across * 32) * kPieces, lane, sums);
#pragma unroll
        for (int m = 0; m < 4; m++)
#pragma unroll
            for (int c = 0; c < 4; c++)
#pragma unroll
                for (int e = 0; e < 4; e++) all[m][c][e] += sums[m][c][e];
        if ((step + 1) % chunks) continue;
        const int first_center = step / chunks * kTileCenters + across * 32 + lane % 4 * 2;
#pragma unroll
        for (int c = 0; c < 4; c++)
#pragma unroll
            for (int e = 0; e < 2; e++) {
                const int j = first_center + c * 8 + e;
                const float half = halves[j];
#pragma unroll
                for (int m = 0; m < 4; m++)
#pragma unroll
                    for (int low = 0; low < 2; low++) {
                        consider(best[2 * m + low], half - all[m][c][2 * low + e], j);
                        all[m][c][2 * low + e] = 0;
                    }
            }
    }
    wait_for_copies<0>();
    __syncthreads();
    Best* of_warps = reinterpret_cast<Best*>(stages);  // 4 x kTileRows
#pragma unroll
    for (int r = 0; r < 8; r++) {
#pragma unroll
        for (int apart = 1; apart < 4; apart *= 2) {
            const float least = __shfl_xor_sync(0xFFFFFFFFu, best[r].least, apart);
            const float second = __shfl_xor_sync(0xFFFFFFFFu, best[r].second, apart);
            const int at = __shfl_xor_sync(0xFFFFFFFFu, best[r].at, apart);
            combine(best[r], least, second, at);
        }
        if (lane % 4 == 0)
            of_warps[across * kTileRows + down * 64 + r / 2 * 16 + r % 2 * 8 + lane / 4] = best[r];
    }
    __syncthreads();
    const int64_t row = first_row + threadIdx.x;
    if (threadIdx.x >= kTileRows || row >= n) return;
    Best found = of_warps[threadIdx.x];
    for (int a = 1; a < 4; a++) {
        const Best& other = of_warps[a * kTileRows + threadIdx.x];
        combine(found, other.least, other.second, other.at);
    }
    labels[row] = found.at;
    // Comparisons with NaN or infinity are false: overflow leads to float64.
    if (!(found.second - found.least > twice_error(error, counters, norms[row])))
        listed[atomicAdd(&counters->listed, 1u)] = uint32_t(row);
}

}  // namespace bmrm
