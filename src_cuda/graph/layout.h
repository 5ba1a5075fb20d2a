// How passes over vectors of K columns are shared out.  Host code too, so that the proof of a bound counts
// the additions that the kernels do.
#pragma once
#include <stdint.h>

#include <algorithm>

namespace bmrm {

constexpr int kPassThreads = 256;  // of a block
// Maximum number of blocks, on every device: sums are then the same on all of them.  An H100 runs 1056 blocks
// of this size at a time.
constexpr int kPassBlocks = 1024;
constexpr int kFinishThreads = 1024;  // of the one block that adds up what the others have found

// Returns the threads that share a row: a power of two, one for each column, and idle ones.
inline int pass_width(int columns) {
    int width = 1;
    while (width < columns) width *= 2;
    return width;
}

inline int pass_blocks(int64_t n, int columns) {
    const int64_t threads = n * pass_width(columns);
    return int(std::clamp<int64_t>((threads + kPassThreads - 1) / kPassThreads, 1, kPassBlocks));
}

// Returns the maximum number of additions that a term goes through: in its thread, among the threads of a
// warp, the warps of a block, the blocks of a thread of the last block, and the threads of a warp there.
inline int64_t pass_additions(int64_t n, int columns) {
    const int blocks = pass_blocks(n, columns);
    const int64_t rows_at_once = int64_t(blocks) * (kPassThreads / pass_width(columns));
    return (n + rows_at_once - 1) / rows_at_once + 5 + kPassThreads / 32 + (blocks + 31) / 32 + 5;
}

}  // namespace bmrm
