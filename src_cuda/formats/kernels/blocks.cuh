// Small kernels around products of several columns, and the numbers that timings use as input.
#pragma once
#include "formats/csr.h"

namespace bmrm {

template <class T>
__global__ void random_numbers(T* out, int64_t n) {
    BB_FOR (i, n) {
        uint64_t h = (uint64_t(i) + 1) * 0x9E3779B97F4A7C15ull;  // splitmix64
        h = (h ^ h >> 30) * 0xBF58476D1CE4E5B9ull;
        h = (h ^ h >> 27) * 0x94D049BB133111EBull;
        out[i] = T(double(h >> 40) / double(1 << 24) - 0.5);
    }
}

template <class T>
__global__ void transpose_small(const T* from, int64_t rows, int64_t cols, T* to) {
    BB_FOR (i, rows * cols) to[i % cols * rows + i / cols] = from[i];
}

struct BlockStarts {
    int64_t at[33];
};

// r as a matrix with one column per block of rows, zero outside its block.
template <class T>
__global__ void spread(const T* r, int64_t rows, BlockStarts starts, int blocks, T* out) {
    BB_FOR (i, rows * blocks) {
        const int64_t row = i / blocks, block = i % blocks;
        out[i] = row >= starts.at[block] && row < starts.at[block + 1] ? r[row] : T(0);
    }
}

inline void fill_random(Memory& memory, bb_type type, void* out, int64_t n) {
    by_type(type, [&](auto t) {
        using T = decltype(t);
        random_numbers<<<blocks_for(n), 256, 0, memory.stream>>>(static_cast<T*>(out), n);
    });
}

// (rows, cols) to (cols, rows), both row-major.
inline void swap_axes(Memory& memory, bb_type type, const void* from, int64_t rows, int64_t cols, void* to) {
    by_type(type, [&](auto t) {
        using T = decltype(t);
        transpose_small<<<blocks_for(rows * cols), 256, 0, memory.stream>>>(static_cast<const T*>(from), rows,
                                                                            cols, static_cast<T*>(to));
    });
}

inline void spread_blocks(Memory& memory, bb_type type, const void* r, int64_t rows, const int64_t* starts,
                          int blocks, void* out) {
    BlockStarts list = {};
    for (int b = 0; b <= blocks; b++) list.at[b] = starts[b];
    by_type(type, [&](auto t) {
        using T = decltype(t);
        spread<<<blocks_for(rows * blocks), 256, 0, memory.stream>>>(static_cast<const T*>(r), rows, list,
                                                                     blocks, static_cast<T*>(out));
    });
}

}  // namespace bmrm
