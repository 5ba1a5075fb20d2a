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
inline i64 segment_additions(i64 length) {
    return length <= kRunLength ? std::min(length, length / 2 + 2)
                                : length / kSegmentLanes + kSegmentAdditions;
}

class EdgeBlocks {
  public:
    /// ptr, idx and val (or null) are the compressed rows of n targets; the sources of each ascend.
    EdgeBlocks(const i64* ptr, const std::int32_t* idx, const double* val, i64 n, int threads)
        : n_(n), edges_(ptr[n]), additions_(n), threads_(threads) {
        const i64 size = std::clamp(edges_ / 16, kMinTileEdges, kMaxTileEdges);
        std::vector<i64> cuts{0};
        for (i64 begin = 0; begin < n; cuts.push_back(begin)) {
            i64 low = begin + 1, high = n;  // the most rows of at most `size` edges, or one row
            while (low < high) {
                const i64 middle = low + (high - low + 1) / 2;
                if (ptr[middle] - ptr[begin] <= size)
                    low = middle;
                else
                    high = middle - 1;
            }
            begin = std::min(low, begin + kMinTileEdges);
        }
        tiles_.resize(cuts.size() - 1);
        for_each_task(static_cast<i64>(tiles_.size()), threads_for(edges_, threads),
                      [&](i64 t) { fill(tiles_[t], ptr, idx, val, cuts[t], cuts[t + 1]); });
    }

    /// out = the sums over the edges of each target of z at the source, times the weight.
    template <class T>
    void multiply(const T* z, T* out) const {
        for_each_task(static_cast<i64>(tiles_.size()), threads_for(edges_ + n_, threads_),
                      [&](i64 t) { multiply_tile(t, z, out); });
    }

    /// The same for the targets of one tile.
    template <class T>
    void multiply_tile(i64 t, const T* z, T* out) const {
        if (tiles_[t].weights.size())
            add_tile<true>(tiles_[t], z, out);
        else
            add_tile<false>(tiles_[t], z, out);
    }

    /// The maximum number of additions that a term goes through in the sum of each target.
    const std::int32_t* additions() const { return additions_.get(); }

    const std::vector<EdgeTile>& tiles() const { return tiles_; }

    i64 bytes() const {
        i64 sum = additions_.bytes();
        for (const EdgeTile& tile : tiles_)
            sum += tile.targets.bytes() + tile.sources.bytes() + tile.weights.bytes() +
                   static_cast<i64>(tile.runs.size() * sizeof(SegmentRun));
        return sum;
    }

  private:
    struct Segment {
        i64 block, first, length;
        std::uint32_t target;
    };

    void fill(EdgeTile& tile, const i64* ptr, const std::int32_t* idx, const double* val, i64 begin,
              i64 end) {
        tile.begin = begin;
        tile.end = end;
        std::vector<Segment> segments;
        std::vector<i64> per_block;
        for (i64 row = begin; row < end; ++row) {
            i64 longest = 0, count = 0;
            for (i64 k = ptr[row], stop; k < ptr[row + 1]; k = stop) {
                const i64 block = idx[k] >> kBlockBits, next = (block + 1) << kBlockBits;
                stop = k + 1;
                while (stop < ptr[row + 1] && idx[stop] < next) ++stop;
                segments.push_back({block, k, stop - k, static_cast<std::uint32_t>(row)});
                longest = std::max(longest, segment_additions(stop - k));
                ++count;
                if (block >= static_cast<i64>(per_block.size())) per_block.resize(block + 1);
                ++per_block[block];
            }
            additions_[row] = static_cast<std::int32_t>(longest + count);
        }
        const std::vector<Segment> sorted = in_order(segments, per_block);
        i64 numbers = static_cast<i64>(sorted.size());
        for (const Segment& segment : sorted) numbers += segment.length > kRunLength;
        tile.targets = Buffer<std::uint32_t>(numbers);
        tile.sources = Buffer<std::uint16_t>(ptr[end] - ptr[begin]);
        if (val) tile.weights = Buffer<double>(ptr[end] - ptr[begin]);
        i64 at = 0, edge = 0;
        for (const Segment& segment : sorted) {
            const i64 length = segment.length > kRunLength ? 0 : segment.length;
            if (tile.runs.empty() || tile.runs.back().block != segment.block ||
                tile.runs.back().length != length)
                tile.runs.push_back({segment.block, length, 0});
            ++tile.runs.back().count;
            tile.targets[at++] = segment.target;
            if (!length) tile.targets[at++] = static_cast<std::uint32_t>(segment.length);
            for (i64 k = segment.first; k < segment.first + segment.length; ++k, ++edge) {
                tile.sources[edge] = static_cast<std::uint16_t>(idx[k] - (segment.block << kBlockBits));
                if (val) tile.weights[edge] = val[k];
            }
        }
    }

    /// Segments by block, then by length (the long ones last), then by target: two counting sorts.
    static std::vector<Segment> in_order(const std::vector<Segment>& segments,
                                         const std::vector<i64>& per_block) {
        std::vector<Segment> by_length(segments.size()), found(segments.size());
        i64 place[kRunLength + 2] = {};
        const auto class_of = [](i64 length) { return std::min(length, kRunLength + 1) - 1; };
        for (const Segment& segment : segments) ++place[class_of(segment.length) + 1];
        for (i64 l = 1; l < kRunLength + 2; ++l) place[l] += place[l - 1];
        for (const Segment& segment : segments) by_length[place[class_of(segment.length)]++] = segment;
        std::vector<i64> next(per_block.size() + 1, 0);
        for (std::size_t b = 0; b < per_block.size(); ++b) next[b + 1] = next[b] + per_block[b];
        for (const Segment& segment : by_length) found[next[segment.block]++] = segment;
        return found;
    }

    /// One term of a sum.
    template <bool weighted, class T>
    static T term(const T* z, const std::uint16_t* source, const double* weight, i64 k) {
        if constexpr (weighted)
            return z[source[k]] * static_cast<T>(weight[k]);
        else
            return z[source[k]];
    }

    /// Segments of a length that the compiler knows, as two partial sums.
    template <bool weighted, int length, class T>
    static void add_run(const std::uint32_t* target, const std::uint16_t* source, const double* weight,
                        i64 count, const T* z, T* out) {
        for (i64 i = 0; i < count; ++i, source += length, weight += weighted ? length : 0) {
            T even = term<weighted>(z, source, weight, 0), odd = 0;
            for (int k = 1; k < length; k += 2) odd += term<weighted>(z, source, weight, k);
            for (int k = 2; k < length; k += 2) even += term<weighted>(z, source, weight, k);
            out[target[i]] += even + odd;
        }
    }

    /// Calls add_run if the length is one of 1 to kKnownLengths; returns whether it is.
    template <bool weighted, int... known, class... Words>
    static bool add_known_run(std::integer_sequence<int, known...>, i64 length, const Words&... words) {
        return ((length == known + 1 && (add_run<weighted, known + 1>(words...), true)) || ...);
    }

    /// The sum of any segment.
    template <bool weighted, class T>
    static T segment_sum(const std::uint16_t* source, const double* weight, i64 length, const T* z) {
        T sum[kSegmentLanes] = {}, rest[2] = {};
        i64 k = 0;
        for (; k + kSegmentLanes <= length; k += kSegmentLanes)
            for (int u = 0; u < kSegmentLanes; ++u) sum[u] += term<weighted>(z, source, weight, k + u);
        for (; k + 2 <= length; k += 2)
            for (int u = 0; u < 2; ++u) rest[u] += term<weighted>(z, source, weight, k + u);
        if (k < length) rest[0] += term<weighted>(z, source, weight, k);
        return (((sum[0] + sum[1]) + (sum[2] + sum[3])) + ((sum[4] + sum[5]) + (sum[6] + sum[7]))) +
               (rest[0] + rest[1]);
    }

    template <bool weighted, class T>
    static void add_tile(const EdgeTile& tile, const T* z, T* out) {
        std::fill(out + tile.begin, out + tile.end, T{0});
        const std::uint32_t* target = tile.targets.get();
        const std::uint16_t* source = tile.sources.get();
        const double* weight = tile.weights.get();
        for (const SegmentRun& run : tile.runs) {
            const T* from = z + (run.block << kBlockBits);
            const i64 count = run.count, length = run.length;
            if (!length) {
                for (i64 i = 0; i < count; ++i, target += 2) {
                    const i64 size = target[1];
                    out[target[0]] += segment_sum<weighted>(source, weight, size, from);
                    source += size;
                    if (weighted) weight += size;
                }
                continue;
            }
            if (!add_known_run<weighted>(std::make_integer_sequence<int, kKnownLengths>{}, length, target,
                                         source, weight, count, from, out))
                for (i64 i = 0; i < count; ++i)
                    out[target[i]] += segment_sum<weighted>(
                        source + i * length, weighted ? weight + i * length : nullptr, length, from);
            target += count;
            source += count * length;
            if (weighted) weight += count * length;
        }
    }

    i64 n_, edges_;
    std::vector<EdgeTile> tiles_;
    Buffer<std::int32_t> additions_;
    int threads_;
};

}  // namespace bmrm
