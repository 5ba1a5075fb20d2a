// How many chunks of which shape a plan makes of an operator: from which the prediction starts.
//
// Chunks, padding and items of a plan without tiles follow exactly from the histogram of row lengths (below
// 65 nonzeros per row; within a bin above).  With tiles, the number of fragments is known for tile widths of
// each power of two; a row's nonzeros are assumed to fall into tiles as balls into as many urns as give that
// number.
#pragma once
#include <algorithm>
#include <cmath>

#include "choice/format.h"

namespace bmrm {

constexpr int kWidths = 1024;  // distinct widths; 64 is the greatest cap except for narrow matrices

// Interpolates between a and b at the fraction t, by a power law if both are positive.
inline double between(double a, double b, double t) {
    return a > 0 && b > 0 ? a * std::pow(b / a, t) : a + (b - a) * t;
}

// Returns the nonzeros in the most popular columns.  This number is concave in `columns`: between two known
// points it is above the chord and below the continuation of the chord before; the middle is taken.
inline double top_nnz(const bb_stats& stats, double columns) {
    if (columns <= 0) return 0;
    if (columns >= double(stats.cols)) return double(stats.nnz);
    if (columns <= 1) return columns * double(stats.top_nnz[0]);
    const int k = std::min(int(std::log2(columns)), BB_TOPS - 2);
    const double from = std::exp2(k), to = std::min(2 * from, double(stats.cols));
    const double start = double(stats.top_nnz[k]), end = double(stats.top_nnz[k + 1]);
    const double before = k > 0 ? double(stats.top_nnz[k - 1]) : 0;
    const double chord = start + (columns - from) / (to - from) * (end - start);
    const double line = start + (columns - from) / (k > 0 ? from / 2 : 1) * (start - before);
    return (chord + std::max(chord, std::min(line, end))) / 2;
}

// Returns the pairs (row, group of `width` neighbouring columns) with a nonzero.
inline double fragments_of(const bb_stats& stats, double width) {
    const double filled = double(stats.rows - stats.empty_rows), nnz = double(stats.nnz);
    if (width >= double(stats.cols)) return filled;
    const double place = std::log2(std::max(1.0, width)) - BB_SPREAD_FIRST;
    if (place <= 0) return between(nnz, double(stats.fragments[0]), 1 + place / BB_SPREAD_FIRST);
    const int k = int(place);
    if (k >= BB_SPREADS - 1) return double(stats.fragments[BB_SPREADS - 1]);
    return between(double(stats.fragments[k]), double(stats.fragments[k + 1]), place - k);
}

// Returns the number of columns with a nonzero, rounded up to a power of two.
inline double used_columns(const bb_stats& stats) {
    for (int k = 0; k < BB_TOPS; k++)
        if (stats.top_nnz[k] == stats.nnz) return std::min(std::exp2(k), double(stats.cols));
    return double(stats.cols);
}

// Returns the first length of a bin after the exact ones.
inline double bin_start(int bin) {
    const int above = bin - 65;
    return std::ldexp(4 + above % 4, above / 4 + 4);
}

// Calls body(rows, length) for the rows of each length; those of a bin of several lengths are spread around
// their mean as evenly as the bin allows.
template <class Body>
void for_each_length(const bb_stats& stats, Body&& body) {
    for (int bin = 0; bin < BB_LENGTH_BINS; bin++) {
        if (stats.length_rows[bin] == 0) continue;
        const double rows = double(stats.length_rows[bin]), mean = double(stats.length_nnz[bin]) / rows;
        if (bin <= 64) {
            body(rows, mean);
            continue;
        }
        const double half = std::min(mean - bin_start(bin), bin_start(bin + 1) - 1 - mean);
        const int points = int(std::clamp(std::min(rows, 2 * half + 1), 1.0, 16.0));
        for (int i = 0; i < points; i++)
            body(rows / points, mean + half * (points > 1 ? 2.0 * i / (points - 1) - 1 : 0));
    }
}

// Chunks by shape: threads, and nonzeros per thread.
class Shapes {
  public:
    // `target`: nonzeros per thread that items aim at.
    Shapes(int cap, int target, int vector_bytes, bool gathered)
        : cap_(cap), target_(target), vector_bytes_(vector_bytes), gathered_(gathered) {}

    // Adds `count` fragments of `length` nonzeros; a length that is not an integer is the mean of a spread.
    void add(double count, double length) {
        const int64_t whole = int64_t(std::ceil(length - 1e-9)), chunks = chunks_of(whole, cap_);
        if (chunks == 1) return put(count, length);
        const double each = double(chunk_start(whole, 1, cap_));
        put(count * double(chunks - 1), each);
        put(count, length - double(chunks - 1) * each);
    }

    // Adds up what the shapes take if they are cut into `groups` of windows and tiles, each with runs of its
    // own.
    void total(double groups, double nnz, Prediction& out) const {
        const double all = chunks(), a_sector = tuning::kSectorBytes / vector_bytes_;
        const int grain = width_grain(all, nnz, groups, cap_);
        double rounded[6][kWidths] = {};
        for (int log2 = 0; log2 < 6; log2++)
            for (int width = 0; width < kWidths; width++)
                rounded[log2][std::min((width + grain - 1) / grain * grain, std::min(cap_, kWidths - 1))] +=
                    chunks_[log2][width];
        for (int log2 = 0; log2 < 6; log2++) {
            const double a_slice = 32 >> log2;
            for (int width = 0; width < kWidths; width++) {
                const double chunks = rounded[log2][width];
                if (chunks <= 0) continue;
                const double runs = groups == 1 ? 1 : groups * -std::expm1(-chunks / groups);
                const double slices = runs * filled(chunks / runs, a_slice, groups == 1);
                const double an_item = item_slices(uint32_t(width), target_);
                out.chunks += slices * a_slice;
                out.elements += slices * 32 * width;
                const double items = runs * filled(slices / runs, an_item, groups == 1);
                out.items += items;
                out.slowest = std::max(out.slowest, item_seconds(width, std::min(an_item, slices / items)));
                // Rows of a shape are among those of other shapes: the probability that a sector has one of
                // this shape.
                out.writes +=
                    all / a_sector * -std::expm1(a_sector * std::log1p(-std::min(chunks / all, 1 - 1e-9)));
            }
        }
    }

    double chunks() const {
        double sum = 0;
        for (const auto& row : chunks_)
            for (double count : row) sum += count;
        return sum;
    }

  private:
    // Returns the seconds from the first load of an item to its last sum: batches follow one another
    // (formats/kernels/sliced.cuh).
    double item_seconds(int width, double slices) const {
        const double wide = vector_bytes_ / 4;
        if (width >= 4) {
            const double quads = kBatchQuads / wide / (gathered_ ? 2 : 1);
            return slices * std::ceil(width / 4 / quads) * tuning::kBatchLatency;
        }
        const double at_once = (width <= 1 ? 8 : 4) / wide;
        return std::ceil(slices / at_once) * (width ? tuning::kThinLatency : tuning::kEmptyLatency);
    }

    // Returns the groups of `size` that `count` things need; unless `exact`, the mean over runs of different
    // counts.
    static double filled(double count, double size, bool exact) {
        return exact ? std::ceil(count / size - 1e-9) : std::max(1.0, count / size + (size - 1) / (2 * size));
    }

    void put(double count, double length) {
        const int64_t low = int64_t(std::floor(length + 1e-9));
        const double part = std::max(0.0, length - double(low));
        if (part < 1e-6) return place(count, low);
        place(count * (1 - part), low);
        place(count * part, low + 1);
    }

    void place(double count, int64_t length) {
        const int log2 = log2_threads(length, cap_);
        const int64_t width = (length + (int64_t(1) << log2) - 1) >> log2;
        chunks_[log2][std::min<int64_t>(width, kWidths - 1)] += count;
    }

    static constexpr double kBatchQuads = 4;

    int cap_, target_, vector_bytes_;
    bool gathered_;
    double chunks_[6][kWidths] = {};
};

// Adds the nonempty fragments of `count` rows of `length` nonzeros, each of which falls into a tile with
// probability `share`: the length of a fragment is binomial.
inline void add_scattered(Shapes& shapes, double count, double length, double share) {
    const double mean = length * share;
    if (share <= 0) return;
    if (share > 0.999 || mean > 40) return shapes.add(count, mean);
    double probability = std::pow(1 - share, length);
    for (int k = 1; k < length + 1; k++) {
        probability *= (length - k + 1) / k * share / (1 - share);
        if (k > mean && count * probability < 1e-3) break;
        shapes.add(count * probability, k);
    }
}

// Returns the number of equal tiles into which rows of these lengths would fall to make `fragments`
// fragments.
inline double effective_tiles(const bb_stats& stats, double tiles, double fragments) {
    double low = 1, high = std::max(1.0, tiles);
    for (int step = 0; step < 40; step++) {
        const double middle = (low + high) / 2;
        double sum = 0;
        for_each_length(
            stats, [&](double rows, double length) { sum += rows * middle * -std::expm1(-length / middle); });
        (sum < fragments ? low : high) = middle;
    }
    return low;
}

}  // namespace bmrm
