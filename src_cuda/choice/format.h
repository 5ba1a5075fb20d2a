// What the choice needs of each format: the plans that it offers for an operator, and the seconds that a plan
// takes.  Host code that needs neither a device nor CUDA headers.
//
//     seconds = launches + the greatest of stream, gathers, steps + a share of the smaller ones
//               + fill of shared tiles + partial sums,
//
// where `steps` is what threads do one after another if there is too little work to hide it.
#pragma once
#include <stdint.h>

#include <initializer_list>

#include "api/blackbox.h"
#include "formats/sliced.h"
#include "formats/tuning.h"

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

// Returns the prediction for a plan that does not suit.
Prediction impossible();

// A list with room for `capacity` plans, which counts on when it is full.
class Plans {
  public:
    Plans(bb_plan* plans, int32_t capacity) : plans_(plans), capacity_(capacity) {}
    void add(bb_kernel kernel, int lanes, int cap, int tiles, int64_t tile) {
        if (count_ < capacity_) plans_[count_] = {kernel, lanes, cap, tiles, tile};
        count_++;
    }
    int32_t count() const { return count_; }

  private:
    bb_plan* plans_;
    int32_t capacity_, count_ = 0;
};

// The input of a prediction.
struct Case {
    const bb_device& device;
    const bb_constants& constants;
    const bb_stats& stats;
    const bb_plan& plan;

    // Returns the bytes per second of a product that moves `bytes` in all: a working set that fits in L2
    // stays there from one product to the next.
    double bandwidth(double bytes) const;
    double vectors() const { return double(stats.rows + stats.cols) * stats.vector_bytes; }
    // early: the first launch begins before the product before it ends, if the device supports that.
    double start(double launches, bool early = true) const;
};

struct Format {
    void (*offer)(const bb_device& device, const bb_stats& stats, Plans& plans);
    Prediction (*predict)(const Case& c);
    bool built;  // whether it has to be built before it can be timed: not if it reads the compressed rows
};

#define BMRM_DECLARE(number, name) extern const Format name##_format;
BMRM_FORMATS(BMRM_DECLARE)
#undef BMRM_DECLARE

// Returns the format of a kernel.
const Format& format_of(int32_t kernel);

// Returns the seconds of costs that hide one another, except for a share.
double together(std::initializer_list<double> costs);

// Returns the seconds of gathers from global memory, if the `first` most popular columns are elsewhere.
// `packed`: inputs are in order of popularity.  `level`: bytes of L1 that are left for them.
double gather_seconds(const Case& c, double first, bool packed, double level);

// Returns the bytes of shared memory besides a tile's inputs: the zero that padding reads, and the
// dictionary.
inline int64_t beside_tile(const bb_stats& stats) {
    return stats.vector_bytes * (1 + (stats.value_bytes == 1 ? 256 : 0));
}
inline int64_t tile_bytes(const bb_stats& stats, int64_t tile) {
    return tile * stats.vector_bytes + beside_tile(stats);
}

// Returns the widest tile with which `blocks` blocks fit in `shared` bytes of a multiprocessor; 0 if there is
// none. Tiles begin at cache lines.
int64_t widest_tile(const bb_device& device, const bb_stats& stats, int64_t shared, int blocks);

}  // namespace bmrm
