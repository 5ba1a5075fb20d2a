// Values of rows and points by the tensor cores (rounded_rows.cuh), a tile of both at a time.
//
// A block has kTensorRows rows and goes through the points kTensorPoints at a time; its warps have 64 x 32
// values each.  Chunks of 64 columns come by copies that run kStages - 1 chunks ahead; rows of up to
// kKeptChunks chunks stay.  A chunk takes 128 bytes per row, and its eight pieces are permuted so that the
// eight rows that load_matrices reads at a time lie in different banks.
#pragma once
#include "device/copies.cuh"
#include "rows/kernels/mma.cuh"
#include "rows/kernels/rounded_rows.cuh"

namespace bmrm {

constexpr int kTensorThreads = 256;
constexpr int kTensorRows = 128;
constexpr int kTensorPoints = 128;
constexpr int kStages = 3;
constexpr int kKeptChunks = 3;
constexpr int kPieces = kChunkColumns / 8;  // of 16 bytes in a row's chunk

// Bytes of shared memory: stages, and rows that stay.
constexpr int tensor_bytes(bool kept, int chunks) {
    return 16 * kPieces *
           (kStages * (kTensorPoints + (kept ? 0 : kTensorRows)) + (kept ? chunks * kTensorRows : 0));
}

__device__ __forceinline__ int piece_of(int row, int piece) { return row * kPieces + (piece ^ (row & 7)); }

// Where the chunks of a block come from and go to: those of a tile of points, then of the next.
struct Chunks {
    const uint4 *rows, *points;
    const uint32_t* listed;  // numbers of the rows; null: those from first_row on
    int64_t first_row;
    int count, tiles;  // of a row; of points
    uint4 *kept, *stages;

    __device__ static constexpr int pieces(bool keeps) {  // of a stage
        return (kTensorPoints + (keeps ? 0 : kTensorRows)) * kPieces;
    }

    // Starts the copies of a chunk into a stage; always closes a group.
    template <bool keeps>
    __device__ __forceinline__ void copy(int tile, int chunk, uint4* stage) const {
        const int piece = int(threadIdx.x) % kPieces, first = int(threadIdx.x) / kPieces;
        constexpr int kStep = kTensorThreads / kPieces;
        if (tile < tiles && (!keeps || tile == 0)) {
            uint4* to = keeps ? kept + chunk * (kTensorRows * kPieces) : stage + kTensorPoints * kPieces;
#pragma unroll
            for (int r = first; r < kTensorRows; r += kStep) {
                const int64_t row = listed ? int64_t(listed[r]) : first_row + r;
                copy_ahead(to + piece_of(r, piece), rows + (row * count + chunk) * kPieces + piece);
            }
        }
        if (tile < tiles) {
            const uint4* from = points + (int64_t(tile) * kTensorPoints * count + chunk) * kPieces + piece;
#pragma unroll
            for (int r = first; r < kTensorPoints; r += kStep)
                copy_ahead(stage + piece_of(r, piece), from + r * count * kPieces);
        }
        close_copies();
    }
};

// Adds the products of a chunk to a warp's sums.
__device__ __forceinline__ void multiply_chunk(const uint4* rows, const uint4* points, int lane,
                                               float (&sums)[4][4][4]) {
#pragma unroll
    for (int step = 0; step < kChunkColumns / 16; step++) {
        uint32_t p[2][4];  // of four times eight points
        const int b_row = lane / 16 * 8 + lane % 8, b_piece = step * 2 + lane / 8 % 2;
#pragma unroll
        for (int pair = 0; pair < 2; pair++)
            load_matrices(points + piece_of(pair * 16 + b_row, b_piece), p[pair]);
#pragma unroll
        for (int m = 0; m < 4; m++) {
            uint32_t a[4];
            load_matrices(rows + piece_of(m * 16 + lane % 16, step * 2 + lane / 16), a);
#pragma unroll
            for (int c = 0; c < 4; c++)
                multiply_add(sums[m][c], a, p[c / 2][c % 2 * 2], p[c / 2][c % 2 * 2 + 1]);
        }
    }
}

// Calls use(r, value, point) for all values of a block; r numbers the eight rows of a thread.
template <bool keeps, class Use>
__device__ __forceinline__ void for_values(const Chunks& chunks, const float* __restrict__ halves,
                                           const Use& use) {
    const int lane = int(threadIdx.x) % 32, warp = int(threadIdx.x) / 32, down = warp / 4, across = warp % 4;
    constexpr int kStage = Chunks::pieces(keeps);
    float sums[4][4][4] = {};
    int next_tile = 0, next_chunk = 0, next_stage = 0;
    const auto copy_next = [&] {
        chunks.copy<keeps>(next_tile, next_chunk, chunks.stages + next_stage * kStage);
        if (++next_chunk == chunks.count) next_chunk = 0, next_tile++;
        if (++next_stage == kStages) next_stage = 0;
    };
    for (int step = 0; step < kStages - 1; step++) copy_next();
    int chunk = 0, first_point = across * 32 + lane % 4 * 2, at_stage = 0;
    for (int step = 0; step < chunks.tiles * chunks.count; step++) {
        wait_for_copies<kStages - 2>();
        __syncthreads();
        copy_next();
        const uint4* stage = chunks.stages + at_stage * kStage;
        if (++at_stage == kStages) at_stage = 0;
        const uint4* rows =
            keeps ? chunks.kept + chunk * (kTensorRows * kPieces) : stage + kTensorPoints * kPieces;
        multiply_chunk(rows + down * 64 * kPieces, stage + across * 32 * kPieces, lane, sums);
        if (++chunk < chunks.count) continue;
#pragma unroll
        for (int c = 0; c < 4; c++)
#pragma unroll
            for (int e = 0; e < 2; e++) {
                const int j = first_point + c * 8 + e;
                const float half = halves[j];
#pragma unroll
                for (int m = 0; m < 4; m++)
#pragma unroll
                    for (int low = 0; low < 2; low++) {
                        use(2 * m + low, half - sums[m][c][2 * low + e], j);
                        sums[m][c][2 * low + e] = 0;
                    }
            }
        chunk = 0;
        first_point += kTensorPoints;
    }
    wait_for_copies<0>();
    __syncthreads();
}

// Number in the block of row r of a thread.
__device__ __forceinline__ int row_in_tile(int r) {
    return int(threadIdx.x) / 128 * 64 + r / 2 * 16 + r % 2 * 8 + int(threadIdx.x) % 32 / 4;
}

}  // namespace bmrm
