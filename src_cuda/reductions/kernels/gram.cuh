// The sum of w (x - m) (x - m)' over rows x, and of w (x - m), in float64.
//
// A warp multiplies eight rows at a time, blocks of columns by blocks of columns (double_mma.cuh), and keeps
// all sums in registers; rows are read once, from where they are, and converted in registers.  Of two blocks
// only one product is computed.  Which column is which of a block is free: thread g has a few neighbouring
// columns of some blocks, which it reads at once (`column_of`).  Threads keep several rows on their way from
// memory, each in its own part of shared memory, since the sums leave too few registers for that.
//
// Rows are split into parts by their number alone, and the sums of the warps of a part, and of the parts, are
// added in order: the same bits for any grid.
#pragma once
#include <stdint.h>

#include "reductions/kernels/copy_ahead.cuh"
#include "reductions/kernels/double_mma.cuh"
#include "runtime/dynamic_shared.cuh"

namespace bmrm {

constexpr int kGramWarps = 8;  // of a block of threads
constexpr int kGramRows = 8;   // that a warp multiplies at a time

// Rows, and a strip of their columns.
template <class T>
struct GramRows {
    const T* values;
    const double* weights;  // or null
    const double* shift;    // one per column
    int64_t n, d;           // rows; columns of the rows
    int64_t parts;
};

// Blocks of sums that are computed together: those of the rows `upper` and `lower` in a column.
struct BlockPair {
    int column, upper, lower;  // lower: -1 if there is only one
};

__host__ __device__ constexpr int block_pairs(int blocks) {
    return blocks == 8 ? 18 : blocks == 4 ? 5 : blocks;  // 36, 10, 3 and 1 blocks
}

// Each pair of blocks of columns appears once, in one order or the other, such that (almost) all come in
// twos: a product of 16 x 8 costs as much as one of 8 x 8.
__host__ __device__ constexpr BlockPair block_pair(int blocks, int which) {
    constexpr BlockPair kOf8[] = {{0, 0, 2}, {0, 3, 4}, {1, 1, 2}, {1, 3, 4}, {1, 5, 0}, {2, 2, 4},
                                  {2, 5, 6}, {3, 3, 4}, {3, 5, 6}, {3, 7, 2}, {4, 4, 5}, {4, 6, 7},
                                  {5, 5, 6}, {5, 7, 0}, {6, 6, 7}, {6, 0, 1}, {7, 7, 0}, {7, 1, 2}};
    constexpr BlockPair kOf4[] = {{0, 0, 2}, {1, 1, 2}, {1, 3, 0}, {2, 2, 3}, {3, 3, 0}};
    constexpr BlockPair kOf2[] = {{0, 0, 1}, {1, 1, -1}};
    constexpr BlockPair kOf1[] = {{0, 0, -1}};
    return blocks == 8 ? kOf8[which] : blocks == 4 ? kOf4[which] : blocks == 2 ? kOf2[which] : kOf1[which];
}

// Numbers that a part has: two blocks of 8 x 8 sums, by rows, of each pair, then the sums of each column.
__host__ __device__ constexpr int gram_numbers(int blocks) { return block_pairs(blocks) * 128 + 8 * blocks; }
// The same for two strips.
__host__ __device__ constexpr int cross_numbers(int blocks) { return blocks * blocks * 64; }

// Neighbouring columns of a thread: those of as many blocks, up to 16 bytes.
__host__ __device__ constexpr int columns_at_once(int blocks, int value_bytes) {
    return blocks * value_bytes < 16 ? blocks : 16 / value_bytes;
}

// Column of a strip that is the first of a block; the others follow at distances of `at_once`.
__host__ __device__ constexpr int column_of(int block, int at_once) {
    return block / at_once * 8 * at_once + block % at_once;
}

// Bytes of shared memory for rows of so many strips that are on their way, and how many groups of eight rows
// of a warp that is.
constexpr int kAheadBytes = 1 << 16, kMaxAhead = 4;

__host__ __device__ constexpr int groups_ahead(int strips, int blocks, int value_bytes) {
    const int of_group = kGramWarps * 32 * 2 * blocks * value_bytes * strips;
    return kAheadBytes / of_group < kMaxAhead ? kAheadBytes / of_group : kMaxAhead;
}
__host__ __device__ constexpr int ahead_bytes(int strips, int blocks, int value_bytes) {
    return groups_ahead(strips, blocks, value_bytes) * kGramWarps * 32 * 2 * blocks * value_bytes * strips;
}

// A strip of 8 * BLOCKS columns from `origin` on, as a thread sees it: its columns of two rows of a group.
// Batches of AHEAD groups are in shared memory at `slots`, where each thread has a part of its own.
template <class T, int BLOCKS, bool WHOLE, int AHEAD>
struct Strip {
    static constexpr int kAtOnce = columns_at_once(BLOCKS, sizeof(T)), kPieces = BLOCKS / kAtOnce;

    __device__ __forceinline__ Strip(const GramRows<T>& rows, int64_t origin, void* slots)
        : values_(rows.values + origin),
          d_(rows.d),
          width_(int(rows.d - origin < 8 * BLOCKS ? rows.d - origin : 8 * BLOCKS)),
          slots_(static_cast<T*>(slots) + int(threadIdx.x) * kAtOnce) {
#pragma unroll
        for (int b = 0; b < BLOCKS; b++) {
            const int column = column_of(b, kAtOnce) + kAtOnce * fragment_row();
            shift_[b] = column < width_ ? rows.shift[origin + column] : 0.0;
        }
    }
    // Begins to copy two rows into a slot; columns from the width on are 0.
    __device__ __forceinline__ void send(const int64_t (&row)[2], int slot) {
#pragma unroll
        for (int half = 0; half < 2; half++)
#pragma unroll
            for (int piece = 0; piece < kPieces; piece++) {
                const int column = (8 * piece + fragment_row()) * kAtOnce;
                const T* const from = values_ + row[half] * d_;
                T* const to = place(slot, half, piece);
                if (WHOLE) {
                    copy_ahead<kAtOnce* int(sizeof(T))>(to, from + column, true);
                } else {
#pragma unroll
                    for (int c = 0; c < kAtOnce; c++) {
                        const bool there = column + c < width_;
                        copy_ahead<int(sizeof(T))>(to + c, there ? from + column + c : from, there);
                    }
                }
            }
    }
    // Centres the rows of a slot.
    __device__ __forceinline__ void center(int slot, double (&e)[BLOCKS][2]) {
#pragma unroll
        for (int half = 0; half < 2; half++)
#pragma unroll
            for (int piece = 0; piece < kPieces; piece++) {
                T value[kAtOnce];
                *reinterpret_cast<CopyPiece<kAtOnce* int(sizeof(T))>*>(value) =
                    *reinterpret_cast<const CopyPiece<kAtOnce* int(sizeof(T))>*>(place(slot, half, piece));
#pragma unroll
                for (int c = 0; c < kAtOnce; c++) {
                    const int b = piece * kAtOnce + c;
                    e[b][half] = double(value[c]) - shift_[b];
                }
            }
    }

  private:
    __device__ __forceinline__ T* place(int slot, int half, int piece) {
        return slots_ + ((slot * 2 + half) * kPieces + piece) * kGramWarps * 32 * kAtOnce;
    }

    const T* const values_;
    const int64_t d_;
    const int width_;
    T* const slots_;
    double shift_[BLOCKS];
};

// The groups of eight rows of a warp: every kGramWarps-th of its part.
struct GramSteps {
    template <class T>
    __device__ __forceinline__ GramSteps(const GramRows<T>& rows, int64_t part) {
        const int64_t groups = (rows.n + kGramRows - 1) / kGramRows;
        at = groups * part / rows.parts + int(threadIdx.x) / 32;
        end = groups * (part + 1) / rows.parts;
    }
    // Sets the two rows of a thread in the group that comes `later` steps after this one; the last row takes
    // the place of rows past the end.  Returns false if there is no such group.
    template <class T>
    __device__ __forceinline__ bool locate(const GramRows<T>& rows, int later, int64_t (&row)[2]) const {
        const int64_t group = at + later * kGramWarps;
#pragma unroll
        for (int half = 0; half < 2; half++) {
            const int64_t wanted = group * kGramRows + 4 * half + fragment_step();
            row[half] = wanted < rows.n ? wanted : rows.n - 1;
        }
        return group < end;
    }
    // Sets the weights of such rows: 0 past the end.
    template <class T>
    __device__ __forceinline__ void weigh(const GramRows<T>& rows, int later, double (&weight)[2]) const {
#pragma unroll
        for (int half = 0; half < 2; half++) {
            const int64_t row = (at + later * kGramWarps) * kGramRows + 4 * half + fragment_step();
            weight[half] = row < rows.n ? (rows.weights ? rows.weights[row] : 1.0) : 0.0;
        }
    }
    int64_t at, end;
};

// Adds the sums of the warps of a block of threads in order, and writes them out.
template <int NUMBERS, class Add>
__device__ __forceinline__ void join_warps(double* shared, double* out, const Add& add) {
    __syncthreads();  // rows were there
    for (int warp = 0; warp < kGramWarps; warp++) {
        if (int(threadIdx.x) / 32 == warp) add(shared, warp == 0);
        __syncthreads();
    }
    for (int i = int(threadIdx.x); i < NUMBERS; i += kGramWarps * 32) out[i] = shared[i];
    __syncthreads();
}

__device__ __forceinline__ void add_to(double* place, double value, bool first) {
    *place = first ? value : *place + value;
}

// Begins to copy a group of rows into a slot, as a batch, which is empty if there is no such group.
template <class T, class... Strips>
__device__ __forceinline__ void send_rows(const GramRows<T>& rows, const GramSteps& steps, int later,
                                          int slot, Strips&... strips) {
    int64_t row[2];
    if (steps.locate(rows, later, row)) (strips.send(row, slot), ...);
    end_batch();
}

// Adds the products of eight rows.
template <int BLOCKS, bool WEIGHTED>
__device__ __forceinline__ void add_rows(const double (&e)[BLOCKS][2], const double (&weight)[2],
                                         double (&sums)[2 * block_pairs(BLOCKS)][2],
                                         double (&totals)[BLOCKS]) {
#pragma unroll
    for (int column = 0; column < BLOCKS; column++) {
        double scaled[2];
#pragma unroll
        for (int half = 0; half < 2; half++)
            scaled[half] = WEIGHTED ? weight[half] * e[column][half] : e[column][half];
        totals[column] += scaled[0] + scaled[1];
#pragma unroll
        for (int p = 0; p < block_pairs(BLOCKS); p++) {
            const BlockPair pair = block_pair(BLOCKS, p);
            if (pair.column != column) continue;
            if (pair.lower < 0)
                multiply_8x8x8(sums[2 * p], e[pair.upper], scaled);
            else
                multiply_16x8x8(sums[2 * p], sums[2 * p + 1], e[pair.upper], e[pair.lower], scaled);
        }
    }
}

// The sums of the columns of each strip: (parts, strips, numbers).
template <class T, int BLOCKS, bool WHOLE, bool WEIGHTED>
__global__ void __launch_bounds__(kGramWarps * 32, BLOCKS > 4 ? 1 : 2)
    gram_pass(const GramRows<T> rows, int strips, double* out) {
    double* const shared = dynamic_shared<double>();
    constexpr int kNumbers = gram_numbers(BLOCKS);
    for (int64_t item = blockIdx.x; item < rows.parts * strips; item += gridDim.x) {
        const int64_t part = item / strips;
        constexpr int kAhead = groups_ahead(1, BLOCKS, sizeof(T));
        Strip<T, BLOCKS, WHOLE, kAhead> strip(rows, item % strips * 8 * BLOCKS, shared);
        double sums[2 * block_pairs(BLOCKS)][2] = {};
        double totals[BLOCKS] = {};
        double weight[2] = {1.0, 1.0};
        GramSteps steps(rows, part);
        for (int later = 0; later < kAhead - 1; later++) send_rows(rows, steps, later, later, strip);
        if (WEIGHTED) steps.weigh(rows, 0, weight);
        for (int slot = 0; steps.at < steps.end; slot = (slot + 1) % kAhead) {
            wait_for_batches<kAhead - 2>();
            double e[BLOCKS][2];
            strip.center(slot, e);
            send_rows(rows, steps, kAhead - 1, (slot + kAhead - 1) % kAhead, strip);
            const double w[2] = {weight[0], weight[1]};
            if (WEIGHTED) steps.weigh(rows, 1, weight);
            if (!WEIGHTED && (steps.at + 1) * kGramRows > rows.n) {  // rows past the end count nothing
                steps.weigh(rows, 0, weight);
#pragma unroll
                for (int b = 0; b < BLOCKS; b++)
#pragma unroll
                    for (int half = 0; half < 2; half++) e[b][half] *= weight[half];
            }
            add_rows<BLOCKS, WEIGHTED>(e, w, sums, totals);
            steps.at += kGramWarps;
        }
#pragma unroll
        for (int b = 0; b < BLOCKS; b++) totals[b] = sum_steps(totals[b]);
        join_warps<kNumbers>(shared, out + item * kNumbers, [&](double* at, bool first) {
            const int g = fragment_row(), t = fragment_step();
#pragma unroll
            for (int block = 0; block < 2 * block_pairs(BLOCKS); block++)
#pragma unroll
                for (int k = 0; k < 2; k++)
                    add_to(at + block * 64 + g * 8 + 2 * t + k, sums[block][k], first);
#pragma unroll
            for (int b = 0; b < BLOCKS; b++)
                if (t == 0) add_to(at + kNumbers - 8 * BLOCKS + 8 * b + g, totals[b], first);
        });
    }
}

// Sets the two strips of a pair: those below the diagonal, by rows.
__host__ __device__ inline void strips_of(int pair, int& left, int& right) {
    left = 1;
    while (left * (left + 1) / 2 <= pair) left++;
    right = pair - left * (left - 1) / 2;
}

// The products of each two strips: (parts, pairs, numbers).
template <class T, int BLOCKS, bool WHOLE>
__global__ void __launch_bounds__(kGramWarps * 32, 2)
    cross_pass(const GramRows<T> rows, int pairs, double* out) {
    double* const shared = dynamic_shared<double>();
    static_assert(BLOCKS % 2 == 0, "blocks are multiplied in pairs");
    constexpr int kNumbers = cross_numbers(BLOCKS);
    for (int64_t item = blockIdx.x; item < rows.parts * pairs; item += gridDim.x) {
        const int64_t part = item / pairs;
        int first, second;
        strips_of(int(item % pairs), first, second);
        constexpr int kAhead = groups_ahead(2, BLOCKS, sizeof(T));
        Strip<T, BLOCKS, WHOLE, kAhead> left(rows, int64_t(first) * 8 * BLOCKS, shared);
        Strip<T, BLOCKS, WHOLE, kAhead> right(rows, int64_t(second) * 8 * BLOCKS,
                                              shared + ahead_bytes(2, BLOCKS, sizeof(T)) / 16);
        double sums[BLOCKS * BLOCKS][2] = {};
        GramSteps steps(rows, part);
        for (int later = 0; later < kAhead - 1; later++) send_rows(rows, steps, later, later, left, right);
        for (int slot = 0; steps.at < steps.end; slot = (slot + 1) % kAhead) {
            double weight[2], e[BLOCKS][2], f[BLOCKS][2];
            steps.weigh(rows, 0, weight);
            wait_for_batches<kAhead - 2>();
            left.center(slot, e);
            right.center(slot, f);
            send_rows(rows, steps, kAhead - 1, (slot + kAhead - 1) % kAhead, left, right);
#pragma unroll
            for (int a = 0; a < BLOCKS; a += 2) {
                double some[2][2];
#pragma unroll
                for (int half = 0; half < 2; half++) {
                    some[0][half] = weight[half] * e[a][half];
                    some[1][half] = weight[half] * e[a + 1][half];
                }
#pragma unroll
                for (int b = 0; b < BLOCKS; b++)
                    multiply_16x8x8(sums[a * BLOCKS + b], sums[(a + 1) * BLOCKS + b], some[0], some[1], f[b]);
            }
            steps.at += kGramWarps;
        }
        join_warps<kNumbers>(shared, out + item * kNumbers, [&](double* at, bool begin) {
            const int g = fragment_row(), t = fragment_step();
#pragma unroll
            for (int tile = 0; tile < BLOCKS * BLOCKS; tile++)
#pragma unroll
                for (int k = 0; k < 2; k++) add_to(at + tile * 64 + g * 8 + 2 * t + k, sums[tile][k], begin);
        });
    }
}

}  // namespace bmrm
