// What all passes over vectors of K columns share: which rows a thread has, and sums in a fixed order.
//
// WIDTH threads, a power of two and at least K, share a row; each has one column.  So a warp reads whole
// lines, and a thread needs one accumulator for each kind of sum.  A pass leaves the sums of each block;
// `add_blocks` adds them up.  Passes are bound by the bytes that they read: a thread loads all that it needs
// of several rows before it uses any.
#pragma once
#include <stdint.h>

#include "graph/layout.h"
#include "runtime/block_sum.cuh"
#include "runtime/chain.cuh"
#include "runtime/device_memory.h"
#include "runtime/mailbox.h"

namespace bmrm {

// Calls use(row, place, load(row, place)) for the rows of a thread, in ascending order; `place` is the place
// of the thread's column of the row.  AT_ONCE: rows that are loaded together.
template <int WIDTH, int AT_ONCE, class Load, class Use>
__device__ __forceinline__ void for_rows(int64_t n, int columns, const Load& load, const Use& use) {
    const int column = int(threadIdx.x) % WIDTH;
    if (column >= columns) return;
    const int64_t step = int64_t(gridDim.x) * (kPassThreads / WIDTH);
    int64_t row = (int64_t(blockIdx.x) * kPassThreads + threadIdx.x) / WIDTH;
    for (; row + (AT_ONCE - 1) * step < n; row += AT_ONCE * step) {
        decltype(load(row, row)) some[AT_ONCE];
#pragma unroll
        for (int j = 0; j < AT_ONCE; j++) some[j] = load(row + j * step, (row + j * step) * columns + column);
#pragma unroll
        for (int j = 0; j < AT_ONCE; j++) use(row + j * step, (row + j * step) * columns + column, some[j]);
    }
    for (; row < n; row += step) {
        const int64_t place = row * columns + column;
        use(row, place, load(row, place));
    }
}

constexpr int kSumsAtOnce = 4;  // kinds of sums that pass through shared memory together

// Adds each of SUMS numbers of the threads of a block that have the same column; the sum of kind s and column
// k goes to partial[(s * columns + k) * blocks + block].  Called by all threads.
template <int WIDTH, int SUMS>
__device__ __forceinline__ void sum_columns(double (&mine)[SUMS], int columns, double* __restrict__ partial) {
    constexpr int WARPS = kPassThreads / 32;
    __shared__ double of_warp[WARPS][kSumsAtOnce][WIDTH];
    const int warp = int(threadIdx.x) / 32, lane = int(threadIdx.x) % 32;
#pragma unroll
    for (int first = 0; first < SUMS; first += kSumsAtOnce) {
        if (first) __syncthreads();
#pragma unroll
        for (int j = 0; j < kSumsAtOnce; j++) {
            if (first + j >= SUMS) break;
            double sum = mine[first + j];
            sum = over_warp<Sum, 16, WIDTH>(sum);
            if (lane < WIDTH) of_warp[warp][j][lane] = sum;
        }
        __syncthreads();
        const int j = int(threadIdx.x) / WIDTH, column = int(threadIdx.x) % WIDTH;
        if (j < kSumsAtOnce && first + j < SUMS && column < columns) {
            double sum = of_warp[0][j][column];
#pragma unroll
            for (int w = 1; w < WARPS; w++) sum += of_warp[w][j][column];
            partial[(int64_t(first + j) * columns + column) * gridDim.x + blockIdx.x] = sum;
        }
    }
}

// Numbers on the device that are sent with others.
struct Numbers {
    const double* at;
    int count;
};

constexpr int kMaxOthers = 15;  // other ranks of a host, as far as they write to each other's memory

// The same vector in the memory of other ranks.
struct Copies {
    float* of[kMaxOthers];
    int count;

    __device__ __forceinline__ void put(int64_t place, float value) const {
#pragma unroll 1
        for (int r = 0; r < count; r++) of[r][place] = value;
    }
};

// Where other ranks want the sums of this one, and then a number that says that all is there.
struct Outgoing {
    double* sums[kMaxOthers];
    volatile unsigned long long* flag[kMaxOthers];
    unsigned long long number;
    int count;
};

// Adds up the `count` sums of all blocks.  The last `keeps` of them go to `keep`.  If the letter has room, it
// gets the sums and then `more`.  Other ranks get the sums and their flags, which also say that what earlier
// launches wrote to their memory is there.
static __global__ void __launch_bounds__(kFinishThreads)
    add_blocks(const double* __restrict__ partial, int blocks, int count, double* keep, int keeps,
               const Numbers more, Letter letter, const __grid_constant__ Outgoing others) {
    let_next_start();  // a product loads its first entries meanwhile
    const int warp = int(threadIdx.x) / 32, lane = int(threadIdx.x) % 32;
    for (int s = warp; s < count; s += kFinishThreads / 32) {
        double sum = 0;
        for (int b = lane; b < blocks; b += 32) sum += partial[int64_t(s) * blocks + b];
        sum = over_warp<Sum>(sum);
        if (lane < others.count) others.sums[lane][s] = sum;
        if (lane == 0 && letter.values) letter.values[s] = sum;
        if (lane == 0 && s >= count - keeps) keep[s - (count - keeps)] = sum;
    }
    if (!letter.values && !others.count) return;
    for (int i = int(threadIdx.x); i < more.count; i += kFinishThreads) letter.values[count + i] = more.at[i];
    __threadfence_system();
    __syncthreads();
    if (int(threadIdx.x) < others.count) *others.flag[threadIdx.x] = others.number;
    if (threadIdx.x == 0) close_letter(letter);
}

constexpr int kJoinThreads = 256;

// Flags of the ranks, which are set to `number` when what they have sent is there; no flags: it is there.
struct Arrivals {
    const volatile unsigned long long* flags;
    unsigned long long number;
    int rank;  // this one, which has no flag
};

// Adds up `count` sums over the ranks, in their order; those of a rank are `apart` from those of the rank
// before.  Otherwise as add_blocks.
static __global__ void __launch_bounds__(kJoinThreads)
    add_ranks(const volatile double* gathered, int ranks, int apart, int count, double* keep, int keeps,
              const Numbers more, Letter letter, const Arrivals arrivals) {
    let_next_start();
    if (arrivals.flags) {
        for (int r = int(threadIdx.x); r < ranks; r += kJoinThreads)
            while (r != arrivals.rank && arrivals.flags[r] != arrivals.number) continue;
        __threadfence_system();
        __syncthreads();
    }
    wait_for_previous();
    for (int s = int(threadIdx.x); s < count; s += kJoinThreads) {
        double sum = gathered[s];
        for (int r = 1; r < ranks; r++) sum += gathered[int64_t(r) * apart + s];
        if (letter.values) letter.values[s] = sum;
        if (s >= count - keeps) keep[s - (count - keeps)] = sum;
    }
    if (!letter.values) return;
    for (int i = int(threadIdx.x); i < more.count; i += kJoinThreads) letter.values[count + i] = more.at[i];
    __threadfence_system();
    __syncthreads();
    if (threadIdx.x == 0) close_letter(letter);
}

}  // namespace bmrm
