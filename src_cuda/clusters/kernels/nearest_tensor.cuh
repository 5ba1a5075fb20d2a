// Nearest centres of rows with many columns, by the tensor cores.
//
// Rows y and centres z, shifted and scaled, are rounded to float16, y = a + b and z = p + q.  The value of a
// centre is |z|^2/2 - a.p, which leaves out b.z + a.q: at most |b| B + (|y| + |b|) Q, where B and Q are the
// maxima of |z| and |q|, and the norms of b and q are those of the very numbers.  Products of two numbers of
// float16 are exact in float32.  NVIDIA says of the sums that they have "at least single precision" and no
// given rounding; M. Fasi, N. J. Higham, M. Mikaitis and S. Pranesh (Numerical behavior of NVIDIA tensor
// cores, PeerJ Computer Science 7, 2021) find that the 17 terms of an instruction are aligned to the largest
// of them and cut off.  Each then loses at most 2^-23 of the largest, which with the last rounding is below
// 20 2^-23 |a| |p| for each of the instructions that add up a value.
//
// Rows that this does not decide are listed with a limit, the least value plus twice the bound.  A second
// pass over them alone collects the centres whose values are not above the limit; the nearest centre is one
// of them. Those are compared in float64; rows with more than kMaxCandidates of them are compared with all
// centres.
//
// A block has kTileRows rows and goes through the centres kTileCenters at a time; its warps have 64 x 32
// values each.  Chunks of 64 columns come by copies that run kStages - 1 chunks ahead; rows of up to
// kKeptChunks chunks stay.  A chunk takes 128 bytes per row, and its eight pieces are permuted so that the
// eight rows that load_matrices reads at a time lie in different banks.
#pragma once
#include "clusters/kernels/exact.cuh"
#include "clusters/kernels/mma.cuh"
#include "device/copies.cuh"
#include "runtime/dynamic_shared.cuh"

namespace bmrm {

constexpr int kTensorThreads = 256;
constexpr int kTileRows = 128;
constexpr int kTileCenters = 128;
constexpr int kStages = 3;
constexpr int kKeptChunks = 3;
constexpr int kPieces = kChunkColumns / 8;  // of 16 bytes in a row's chunk
constexpr int kMaxCandidates = 8;

// Bytes of shared memory: stages, and rows that stay.
constexpr int tensor_bytes(bool kept, int chunks) {
    return 16 * kPieces *
           (kStages * (kTileCenters + (kept ? 0 : kTileRows)) + (kept ? chunks * kTileRows : 0));
}

// Errors besides what float16 leaves: of |z|^2/2 and the subtraction from it, and of the sums of
// instructions.
inline FastError tensor_error(int64_t d, int chunks) {
    const double steps = double(chunks) * (kChunkColumns / 16);
    return {float(4 * 0x1p-24), float(1.02 * (20 * steps * 0x1p-23 + 0x1p-23)), float(double(d) * 0x1p-120)};
}

// Norms of a row and of what float16 leaves of it, rounded up.
struct RowNorms {
    float all, rest;
};

// Twice the bound on the error of a value of the row, rounded up.
__device__ __forceinline__ float twice_error(const FastError& error, const PassCounters* counters,
                                             const RowNorms& norms) {
    const float widest = __uint_as_float(counters->widest), rest = __uint_as_float(counters->widest_rest);
    const float norm = norms.all + norms.rest;  // of what is multiplied
    return 2.02f * (norms.rest * widest + norm * rest + error.square * (0.5f * widest * widest) +
                    error.product * (norm * (widest + rest)) + error.least * (1.0f + widest));
}

// Rounds rows; one warp per row.  Rows from n on are zeros.
template <class V>
__global__ void __launch_bounds__(256)
    round_rows(const V* __restrict__ X, int64_t n, int64_t padded, int64_t d, const Origin origin, int chunks,
               __half* __restrict__ out, RowNorms* __restrict__ norms) {
    const int lane = int(threadIdx.x) % 32;
    const int64_t warps = int64_t(gridDim.x) * blockDim.x / 32, width = int64_t(chunks) * kChunkColumns;
    for (int64_t i = (int64_t(blockIdx.x) * blockDim.x + threadIdx.x) / 32; i < padded; i += warps) {
        double square = 0, rest_square = 0;
        for (int64_t f = lane; f < width; f += 32) {
            const double y = i < n && f < d ? (double(X[i * d + f]) - origin.shift[f]) * origin.scale : 0.0;
            double rest = 0;
            out[i * width + f] = round_half(y, rest);
            square += y * y;
            rest_square += rest * rest;
        }
        square = over_warp<Sum>(square);
        rest_square = over_warp<Sum>(rest_square);
        if (lane == 0) norms[i] = {norm_above(square), norm_above(rest_square)};
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

// The rows that the first pass could not decide.
struct Uncertain {
    uint32_t* rows;
    float* limits;
    unsigned* counts;     // of the candidates of each
    int32_t* candidates;  // kMaxCandidates each
    uint32_t* crowded;    // rows with more
};

__device__ __forceinline__ int piece_of(int row, int piece) { return row * kPieces + (piece ^ (row & 7)); }

// Where the chunks of a block come from and go to: those of a tile of centres, then of the next.
struct Chunks {
    const uint4 *rows, *centers;
    const uint32_t* listed;  // numbers of the rows; null: those from first_row on
    int64_t first_row;
    int count, tiles;  // of a row; of centres
    uint4 *kept, *stages;

    __device__ static constexpr int pieces(bool keeps) {  // of a stage
        return (kTileCenters + (keeps ? 0 : kTileRows)) * kPieces;
    }

    // Starts the copies of a chunk into a stage; always closes a group.
    template <bool keeps>
    __device__ __forceinline__ void copy(int tile, int chunk, uint4* stage) const {
        const int piece = int(threadIdx.x) % kPieces, first = int(threadIdx.x) / kPieces;
        constexpr int kStep = kTensorThreads / kPieces;
        if (tile < tiles && (!keeps || tile == 0)) {
            uint4* to = keeps ? kept + chunk * (kTileRows * kPieces) : stage + kTileCenters * kPieces;
#pragma unroll
            for (int r = first; r < kTileRows; r += kStep) {
                const int64_t row = listed ? int64_t(listed[r]) : first_row + r;
                copy_ahead(to + piece_of(r, piece), rows + (row * count + chunk) * kPieces + piece);
            }
        }
        if (tile < tiles) {
            const uint4* from = centers + (int64_t(tile) * kTileCenters * count + chunk) * kPieces + piece;
#pragma unroll
            for (int r = first; r < kTileCenters; r += kStep)
                copy_ahead(stage + piece_of(r, piece), from + r * count * kPieces);
        }
        close_copies();
    }
};

// Adds the products of a chunk to a warp's sums.
__device__ __forceinline__ void multiply_chunk(const uint4* rows, const uint4* centers, int lane,
                                               float (&sums)[4][4][4]) {
#pragma unroll
    for (int step = 0; step < kChunkColumns / 16; step++) {
        uint32_t p[2][4];  // of four times eight centres
        const int b_row = lane / 16 * 8 + lane % 8, b_piece = step * 2 + lane / 8 % 2;
#pragma unroll
        for (int pair = 0; pair < 2; pair++)
            load_matrices(centers + piece_of(pair * 16 + b_row, b_piece), p[pair]);
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

// Calls use(r, value, centre) for all values of a block; r numbers the eight rows of a thread.
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
    int chunk = 0, first_center = across * 32 + lane % 4 * 2, at_stage = 0;
    for (int step = 0; step < chunks.tiles * chunks.count; step++) {
        wait_for_copies<kStages - 2>();
        __syncthreads();
        copy_next();
        const uint4* stage = chunks.stages + at_stage * kStage;
        if (++at_stage == kStages) at_stage = 0;
        const uint4* rows =
            keeps ? chunks.kept + chunk * (kTileRows * kPieces) : stage + kTileCenters * kPieces;
        multiply_chunk(rows + down * 64 * kPieces, stage + across * 32 * kPieces, lane, sums);
        if (++chunk < chunks.count) continue;
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
                        use(2 * m + low, half - sums[m][c][2 * low + e], j);
                        sums[m][c][2 * low + e] = 0;
                    }
            }
        chunk = 0;
        first_center += kTileCenters;
    }
    wait_for_copies<0>();
    __syncthreads();
}

// Number in the block of row r of a thread.
__device__ __forceinline__ int row_in_tile(int r) {
    return int(threadIdx.x) / 128 * 64 + r / 2 * 16 + r % 2 * 8 + int(threadIdx.x) % 32 / 4;
}

// rows: (n rounded up to kTileRows) x chunks x kPieces; centers: (tiles kTileCenters) x chunks x kPieces.
template <bool keeps>
__global__ void __launch_bounds__(kTensorThreads, 2)
    nearest_tensor(const uint4* __restrict__ rows, const RowNorms* __restrict__ norms, int64_t n, int chunks,
                   const uint4* __restrict__ centers, const float* __restrict__ halves, int tiles,
                   FastError error, PassCounters* counters, int32_t* __restrict__ labels,
                   const Uncertain uncertain) {
    uint4* shared = dynamic_shared<uint4>();
    const int64_t first_row = int64_t(blockIdx.x) * kTileRows;
    uint4* stages = shared + (keeps ? chunks * kTileRows * kPieces : 0);
    const Chunks from = {rows, centers, nullptr, first_row, chunks, tiles, shared, stages};
    Best best[8];
#pragma unroll
    for (int r = 0; r < 8; r++) {
        best[r].least = best[r].second = __int_as_float(0x7F800000);
        best[r].at = 0;
    }
    for_values<keeps>(from, halves, [&](int r, float value, int j) { consider(best[r], value, j); });
    const int lane = int(threadIdx.x) % 32, across = int(threadIdx.x) / 32 % 4;
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
        if (lane % 4 == 0) of_warps[across * kTileRows + row_in_tile(r)] = best[r];
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
    const float margin = twice_error(error, counters, norms[row]);
    if (found.second - found.least > margin) return;
    const unsigned at = atomicAdd(&counters->listed, 1u);
    uncertain.rows[at] = uint32_t(row);
    uncertain.limits[at] = found.least + margin + fabsf(found.least) * 0x1p-22f;
    uncertain.counts[at] = 0;
}

// Collects the candidates of the rows in question.
template <bool keeps>
__global__ void __launch_bounds__(kTensorThreads)
    collect_candidates(const uint4* __restrict__ rows, int chunks, const uint4* __restrict__ centers,
                       const float* __restrict__ halves, int tiles, int64_t k, const PassCounters* counters,
                       const Uncertain uncertain) {
    __shared__ uint32_t numbers[kTileRows];
    uint4* shared = dynamic_shared<uint4>();
    uint4* stages = shared + (keeps ? chunks * kTileRows * kPieces : 0);
    const int64_t listed = counters->listed;
    for (int64_t first = int64_t(blockIdx.x) * kTileRows; first < listed;
         first += int64_t(gridDim.x) * kTileRows) {
        if (threadIdx.x < kTileRows)
            numbers[threadIdx.x] = uncertain.rows[min(first + threadIdx.x, listed - 1)];
        __syncthreads();
        const Chunks from = {rows, centers, numbers, 0, chunks, tiles, shared, stages};
        float limit[8];
#pragma unroll
        for (int r = 0; r < 8; r++) {
            const int64_t at = first + row_in_tile(r);
            limit[r] = at < listed ? uncertain.limits[at] : -__int_as_float(0x7F800000);
        }
        for_values<keeps>(from, halves, [&](int r, float value, int j) {
            const int64_t at = first + row_in_tile(r);
            if (value > limit[r] || j >= k || at >= listed) return;  // NaN is not above
            const unsigned place = atomicAdd(uncertain.counts + at, 1u);
            if (place < kMaxCandidates) uncertain.candidates[at * kMaxCandidates + place] = j;
        });
    }
}

// Labels the rows in question by the nearest of their candidates; kMaxCandidates lanes per row.
template <class V>
__global__ void __launch_bounds__(256, 4)
    decide_candidates(const V* __restrict__ X, int64_t d, const double* __restrict__ centers,
                      PassCounters* counters, const Uncertain uncertain, int32_t* __restrict__ labels) {
    const int64_t listed = counters->listed, step = int64_t(gridDim.x) * blockDim.x / kMaxCandidates;
    const int64_t mine = (int64_t(blockIdx.x) * blockDim.x + threadIdx.x) / kMaxCandidates;
    const int lane = int(threadIdx.x) % kMaxCandidates;
    for (int64_t begin = 0; begin < listed; begin += step) {  // all lanes of a warp go on together
        const int64_t at = begin + mine;
        const unsigned count = at < listed ? uncertain.counts[at] : 0;
        const int64_t row = at < listed ? int64_t(uncertain.rows[at]) : 0;
        double square = __longlong_as_double(0x7FF0000000000000ll);
        int64_t j = int64_t(1) << 40;
        if (count <= kMaxCandidates && lane < int(count)) {
            j = uncertain.candidates[at * kMaxCandidates + lane];
            square = 0;
            const V* x = X + row * d;
            const double* c = centers + j * d;
#pragma unroll 16
            for (int64_t f = 0; f < d; f++) {
                const double e = double(x[f]) - c[f];
                square = __dadd_rn(square, __dmul_rn(e, e));
            }
        }
        best_of_warp<Least, kMaxCandidates>(square, j);
        if (lane || at >= listed) continue;
        if (count <= kMaxCandidates)
            labels[row] = int32_t(j);
        else
            uncertain.crowded[atomicAdd(&counters->crowded, 1u)] = uint32_t(row);
    }
}

}  // namespace bmrm
