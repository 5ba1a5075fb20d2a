// The sum of w (x - m) (x - m)' over rows x, and of w (x - m), in float64.
//
// A warp multiplies eight rows at a time, blocks of columns by blocks of columns (mma64.cuh), and keeps
// all sums in registers; rows are read once, from where they are, and converted in registers.  Columns are
// dealt to blocks in turn, so that a thread's columns are neighbours: thread g of a block has columns BLOCKS
// g + I, I being the number of the block.  Of two blocks only one product is computed.
//
// Rows are split into parts by their number alone, and the sums of the warps of a part, and of the parts, are
// added in order: the same bits for any grid.
#pragma once
#include <stdint.h>

#include "device/products.cuh"
#include "device/rows.cuh"
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

// Reads COUNT columns from `first` on; those from `width` on are 0.
template <bool WHOLE, class T, int COUNT>
__device__ __forceinline__ void read_strip(const T* row, int first, int width, T (&out)[COUNT]) {
    if (WHOLE) {
        read_neighbours(row + first, out);
    } else {
#pragma unroll
        for (int c = 0; c < COUNT; c++) out[c] = first + c < width ? row[first + c] : T(0);
    }
}

// A strip of 8 * BLOCKS columns from `origin` on, as a thread sees it: its columns of two rows.
template <class T, int BLOCKS, bool WHOLE>
struct Strip {
    __device__ __forceinline__ Strip(const GramRows<T>& rows, int64_t origin)
        : values_(rows.values + origin),
          d_(rows.d),
          width_(int(rows.d - origin < 8 * BLOCKS ? rows.d - origin : 8 * BLOCKS)) {
#pragma unroll
        for (int b = 0; b < BLOCKS; b++) {
            const int column = BLOCKS * fragment_row() + b;
            shift_[b] = column < width_ ? rows.shift[origin + column] : 0.0;
        }
    }
    __device__ __forceinline__ void read(const int64_t (&row)[2]) {
#pragma unroll
        for (int half = 0; half < 2; half++)
            read_strip<WHOLE>(values_ + row[half] * d_, BLOCKS * fragment_row(), width_, next_[half]);
    }
    // Centres what was read last.
    __device__ __forceinline__ void center(double (&e)[BLOCKS][2]) const {
#pragma unroll
        for (int b = 0; b < BLOCKS; b++)
#pragma unroll
            for (int half = 0; half < 2; half++) e[b][half] = double(next_[half][b]) - shift_[b];
    }

  private:
    const T* values_;
    const int64_t d_;
    const int width_;
    double shift_[BLOCKS];
    T next_[2][BLOCKS];
};

// The groups of eight rows of a warp: every kGramWarps-th of its part.
struct GramSteps {
    template <class T>
    __device__ __forceinline__ GramSteps(const GramRows<T>& rows, int64_t part) {
        const int64_t groups = (rows.n + kGramRows - 1) / kGramRows;
        at = groups * part / rows.parts + int(threadIdx.x) / 32;
        end = groups * (part + 1) / rows.parts;
    }
    // Sets the two rows of a thread, and their weights: 0 for rows past the end, whose place the last one
    // takes.
    template <class T>
    __device__ __forceinline__ void locate(const GramRows<T>& rows, int64_t (&row)[2],
                                           double (&weight)[2]) const {
#pragma unroll
        for (int half = 0; half < 2; half++) {
            const int64_t wanted = at * kGramRows + 4 * half + fragment_step();
            row[half] = wanted < rows.n ? wanted : rows.n - 1;
            weight[half] = wanted < rows.n ? (rows.weights ? rows.weights[row[half]] : 1.0) : 0.0;
        }
    }
    int64_t at, end;
};

// Adds the sums of the warps of a block of threads in order, and writes them out.
template <int NUMBERS, class Add>
__device__ __forceinline__ void join_warps(double* shared, double* out, const Add& add) {
    add_warps<kGramWarps>([&](bool first) { add(shared, first); });
    for (int i = int(threadIdx.x); i < NUMBERS; i += kGramWarps * 32) out[i] = shared[i];
    __syncthreads();
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
        Strip<T, BLOCKS, WHOLE> strip(rows, item % strips * 8 * BLOCKS);
        double sums[2 * block_pairs(BLOCKS)][2] = {};
        double totals[BLOCKS] = {};
        GramSteps steps(rows, part);
        int64_t row[2];
        double weight[2];
        if (steps.at < steps.end) {
            steps.locate(rows, row, weight);
            strip.read(row);
        }
        while (steps.at < steps.end) {
            double e[BLOCKS][2];
            strip.center(e);
            const double w[2] = {weight[0], weight[1]};
            if (!WEIGHTED && (steps.at + 1) * kGramRows > rows.n) {  // rows past the end count nothing
#pragma unroll
                for (int b = 0; b < BLOCKS; b++)
#pragma unroll
                    for (int half = 0; half < 2; half++) e[b][half] *= w[half];
            }
            steps.at += kGramWarps;
            if (steps.at < steps.end) {  // the next rows are on their way during the products
                steps.locate(rows, row, weight);
                strip.read(row);
            }
            add_rows<BLOCKS, WEIGHTED>(e, w, sums, totals);
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
        Strip<T, BLOCKS, WHOLE> left(rows, int64_t(first) * 8 * BLOCKS);
        Strip<T, BLOCKS, WHOLE> right(rows, int64_t(second) * 8 * BLOCKS);
        double sums[BLOCKS * BLOCKS][2] = {};
        GramSteps steps(rows, part);
        for (; steps.at < steps.end; steps.at += kGramWarps) {
            int64_t row[2];
            double weight[2], e[BLOCKS][2], f[BLOCKS][2];
            steps.locate(rows, row, weight);
            left.read(row);
            right.read(row);
            left.center(e);
            right.center(f);
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
