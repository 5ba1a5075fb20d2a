// Edges by target in blocks of sources, for products with one vector, in which each edge costs one read of
// the vector at a place that nothing predicts. What bounds such a product on a graph in compressed rows is
// not the reading: it is the caches that the places miss, and the end of each row, which a processor guesses
// wrong since rows are of unlike length. So here
//
//   tiles    of consecutive targets are independent tasks;
//   blocks   of 2^14 sources, whose messages stay in the second level of cache, even of float64; a source
//            takes 16 bits in its block (an edge takes 2 bytes instead of 4);
//   runs     of targets with the same number of edges from a block: their loops have a known length.
//
// A target and its edges from one block are a segment. Sums of segments are added to the result in the order
// of the blocks. Measured on one core of a Zen 4 (1 MB second level): an R-MAT graph of 8.2 M edges takes 9.7
// ms in float64 as compressed rows, 6.6 ms in blocks, and 4.9 ms in blocks with float32; slashdot's graph
// 0.47, 0.40 and 0.32 ms. Reading the vector alone at the places of the edges takes 0.31 ms of these 0.32.
// Blocks of 2^13 to 2^15 sources are as fast within 5 %, 2^16 take 10 % longer.
// (Blocks: Im, Yelick, Vuduc, "Sparsity: optimization framework for sparse matrix kernels", 2004. Runs of
// rows of equal length: D'Azevedo, Fahey, Mills, "Vectorized sparse matrix multiply for compressed row
// storage format", 2005.)
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "common/integers.h"
#include "common/memory.h"

namespace bmrm {

/// Binary logarithm of the number of sources of a block.
constexpr int kBlockBits = 14;
/// Segments of up to this length form runs of equal length; longer ones follow each other with their lengths.
constexpr i64 kRunLength = 32;
/// Lengths up to this have loops of their own.
constexpr int kKnownLengths = 8;
/// Bounds of the number of edges of a tile. There are at least 16 tiles, if they get this large.
constexpr i64 kMinTileEdges = i64{1} << 16;
constexpr i64 kMaxTileEdges = i64{1} << 20;
/// Partial sums of a long segment, and the maximum number of additions that a term goes through besides those
/// within its partial sum: the rest of the segment and the sums themselves.
constexpr int kSegmentLanes = 8;
constexpr i64 kSegmentAdditions = 8;

/// Segments of one length, or of more than kRunLength edges if `length` is 0.
struct SegmentRun {
    i64 block, length, count;
};

struct EdgeTile {
    i64 begin, end;                 // targets
    std::vector<SegmentRun> runs;   // in the order of blocks
    Buffer<std::uint32_t> targets;  // of each segment; a long one is followed by its length
    Buffer<std::uint16_t> sources;  // within the block
    Buffer<double> weights;         // empty if all are 1
};

/// The maximum number of additions that a term goes through in the sum of a segment.
i64 segment_additions(i64 length);

class EdgeBlocks {
  public:
    /// ptr, idx and val (or null) are the compressed rows of n targets; the sources of each ascend.
    EdgeBlocks(const i64* ptr, const std::int32_t* idx, const double* val, i64 n, int threads);

    /// out = the sums over the edges of each target of z at the source, times the weight.
    template <class T>
    void multiply(const T* z, T* out) const;

    /// The same for the targets of one tile.
    template <class T>
    void multiply_tile(i64 t, const T* z, T* out) const;

    /// The maximum number of additions that a term goes through in the sum of each target.
    const std::int32_t* additions() const { return additions_.get(); }

    const std::vector<EdgeTile>& tiles() const { return tiles_; }

    i64 bytes() const;

  private:
    struct Segment {
        i64 block, first, length;
        std::uint32_t target;
    };

    void fill(EdgeTile& tile, const i64* ptr, const std::int32_t* idx, const double* val, i64 begin, i64 end);

    /// Segments by block, then by length (the long ones last), then by target: two counting sorts.
    static std::vector<Segment> in_order(const std::vector<Segment>& segments,
                                         const std::vector<i64>& per_block);

    /// One term of a sum.
    template <bool weighted, class T>
    static T term(const T* z, const std::uint16_t* source, const double* weight, i64 k);

    /// Segments of a length that the compiler knows, as two partial sums.
    template <bool weighted, int length, class T>
    static void add_run(const std::uint32_t* target, const std::uint16_t* source, const double* weight,
                        i64 count, const T* z, T* out);

    /// Calls add_run if the length is one of 1 to kKnownLengths; returns whether it is.
    template <bool weighted, int... known, class... Words>
    static bool add_known_run(std::integer_sequence<int, known...>, i64 length, const Words&... words);

    /// The sum of any segment.
    template <bool weighted, class T>
    static T segment_sum(const std::uint16_t* source, const double* weight, i64 length, const T* z);

    template <bool weighted, class T>
    static void add_tile(const EdgeTile& tile, const T* z, T* out);

    i64 n_, edges_;
    std::vector<EdgeTile> tiles_;
    Buffer<std::int32_t> additions_;
    int threads_;
};

}  // namespace bmrm
