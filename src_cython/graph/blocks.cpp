#include "graph/blocks.h"

#include <algorithm>

namespace bmrm {

i64 segment_additions(i64 length) {
    return length <= kRunLength ? std::min(length, length / 2 + 2)
                                : length / kSegmentLanes + kSegmentAdditions;
}

EdgeBlocks::EdgeBlocks(const i64* ptr, const std::int32_t* idx, const double* val, i64 n, int threads)
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

template <class T>
void EdgeBlocks::multiply(const T* z, T* out) const {
    for_each_task(static_cast<i64>(tiles_.size()), threads_for(edges_ + n_, threads_),
                  [&](i64 t) { multiply_tile(t, z, out); });
}

template <class T>
void EdgeBlocks::multiply_tile(i64 t, const T* z, T* out) const {
    if (tiles_[t].weights.size())
        add_tile<true>(tiles_[t], z, out);
    else
        add_tile<false>(tiles_[t], z, out);
}

i64 EdgeBlocks::bytes() const {
    i64 sum = additions_.bytes();
    for (const EdgeTile& tile : tiles_)
        sum += tile.targets.bytes() + tile.sources.bytes() + tile.weights.bytes() +
               static_cast<i64>(tile.runs.size() * sizeof(SegmentRun));
    return sum;
}

void EdgeBlocks::fill(EdgeTile& tile, const i64* ptr, const std::int32_t* idx, const double* val, i64 begin,
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
        if (tile.runs.empty() || tile.runs.back().block != segment.block || tile.runs.back().length != length)
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

std::vector<EdgeBlocks::Segment> EdgeBlocks::in_order(const std::vector<Segment>& segments,
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

template <bool weighted, class T>
T EdgeBlocks::term(const T* z, const std::uint16_t* source, const double* weight, i64 k) {
    if constexpr (weighted)
        return z[source[k]] * static_cast<T>(weight[k]);
    else
        return z[source[k]];
}

template <bool weighted, int length, class T>
void EdgeBlocks::add_run(const std::uint32_t* target, const std::uint16_t* source, const double* weight,
                         i64 count, const T* z, T* out) {
    for (i64 i = 0; i < count; ++i, source += length, weight += weighted ? length : 0) {
        T even = term<weighted>(z, source, weight, 0), odd = 0;
        for (int k = 1; k < length; k += 2) odd += term<weighted>(z, source, weight, k);
        for (int k = 2; k < length; k += 2) even += term<weighted>(z, source, weight, k);
        out[target[i]] += even + odd;
    }
}

template <bool weighted, int... known, class... Words>
bool EdgeBlocks::add_known_run(std::integer_sequence<int, known...>, i64 length, const Words&... words) {
    return ((length == known + 1 && (add_run<weighted, known + 1>(words...), true)) || ...);
}

template <bool weighted, class T>
T EdgeBlocks::segment_sum(const std::uint16_t* source, const double* weight, i64 length, const T* z) {
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
void EdgeBlocks::add_tile(const EdgeTile& tile, const T* z, T* out) {
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
        if (!add_known_run<weighted>(std::make_integer_sequence<int, kKnownLengths>{}, length, target, source,
                                     weight, count, from, out))
            for (i64 i = 0; i < count; ++i)
                out[target[i]] += segment_sum<weighted>(
                    source + i * length, weighted ? weight + i * length : nullptr, length, from);
        target += count;
        source += count * length;
        if (weighted) weight += count * length;
    }
}

template void EdgeBlocks::multiply(const float*, float*) const;
template void EdgeBlocks::multiply(const double*, double*) const;
template void EdgeBlocks::multiply_tile(i64, const float*, float*) const;
template void EdgeBlocks::multiply_tile(i64, const double*, double*) const;

}  // namespace bmrm
