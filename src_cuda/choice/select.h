// The choice of a kernel: what a plan needs, what it will cost, which plans are worth a trial.  Host code
// that needs neither a device nor CUDA headers.
//
// The idea is that of Yang, Parthasarathy, Sadayappan (Fast sparse matrix-vector multiplication on GPUs:
// implications for graph mining, VLDB 2011, section 3.2): statistics -> model -> parameters.  Here the model
// has bytes, gathers, fragments and launches, and its constants are measured on the device.  The best few
// plans are timed: this separates plans within the model's error at the price of a few products.
#pragma once
#include <vector>

#include "api/blackbox.h"
#include "formats/sliced.h"

namespace bmrm {

// What a product is predicted to do.
struct Prediction {
    double seconds;
    double bytes;     // of the format, read by each product
    double chunks;    // chunks, or rows if the kernel has no chunks
    double elements;  // stored elements, including padding
    double items;     // units that warps take at a time; 0 if the kernel does not work that way
    double partials;  // sums that a second kernel adds up
    double writes;    // sectors of memory that the sums of sliced plans are written to
    double slowest;   // seconds that the slowest item takes a warp
    double launches;
};

// Returns the bytes of shared memory besides a tile's inputs: the zero that padding reads, and the
// dictionary.
inline int64_t beside_tile(const bb_stats& stats) {
    return stats.vector_bytes * (1 + (stats.value_bytes == 1 ? 256 : 0));
}
inline int64_t tile_bytes(const bb_stats& stats, int64_t tile) {
    return tile * stats.vector_bytes + beside_tile(stats);
}

// Returns the bytes of the sums that a warp of BB_NARROW keeps for the columns of X, and one that padding
// adds to.
inline int64_t narrow_sum_bytes(const bb_stats& stats, int64_t columns) {
    return (columns + 1) * 32 * stats.vector_bytes;
}

// Returns whether BB_NARROW, for an operator of these statistics, is X w of a narrow X; otherwise it is X' r
// of one.
bool is_narrow(const bb_stats& stats);

Prediction predict(const bb_device& device, const bb_constants& constants, const bb_stats& stats,
                   const bb_plan& plan);

// Returns the positions of the candidates to build and time, most promising first.  `predicted`: seconds of
// each. They are not far behind the best prediction, and some of each kernel; timing them stays within the
// budget of products, and building them within the budget of seconds.
std::vector<int32_t> worth_timing(const bb_constants& constants, const bb_stats& stats, const bb_plan* plans,
                                  const double* predicted, int32_t count);

}  // namespace bmrm
