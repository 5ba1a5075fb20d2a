#include "pairs/exact_counter.h"

#include <algorithm>
#include <cmath>

namespace bmrm {

namespace {

/// Points of a tile. Tasks are pairs of tiles, a millisecond each; those with many images have less points.
constexpr i64 kExactTile = 512, kImageTile = 128;
/// Pairs and their images of a task, about.
constexpr double kTaskImages = 4e6;

/// Points of a tile if about so many images of each pair are within reach.
i64 tile_for(const PlacedPoints& points, double square) {
    double images = 1.0;
    for (int k = 0; k < points.axes(); ++k)
        if (points.box()[k] > 0.0) images *= 2.0 * std::sqrt(square) / points.box()[k] + 3.0;
    return std::max<i64>(1, std::min<i64>(kImageTile, static_cast<i64>(std::sqrt(kTaskImages / images))));
}

i64 tiles_of(i64 points, i64 tile) { return (points + tile - 1) / tile; }

}  // namespace

ExactCounter::ExactCounter(const PlacedPoints& a, const PlacedPoints* b, const double* bounds, i64 bins,
                           PairImages images)
    : a_(a),
      b_(b ? *b : a),
      own_(!b),
      all_(images == PairImages::all),
      tile_(all_ ? tile_for(a, bounds[bins]) : kExactTile),
      finder_(bounds, bins),
      pairs_{tiles_of(a.points(), tile_), tiles_of(b_.points(), tile_), !b} {}

double ExactCounter::pairs_of(i64 row, i64 column) const {
    const auto rows = static_cast<double>(std::min(tile_, a_.points() - row * tile_));
    const auto columns = static_cast<double>(std::min(tile_, b_.points() - column * tile_));
    return own_ && row == column ? rows * (rows - 1.0) / 2.0 : rows * columns;
}

template <class Use>
void ExactCounter::for_images(i64 row, i64 column, const Use& use) const {
    if (!all_) return use(nullptr);
    const int axes = a_.axes();
    // A rounded quotient may be off by far less than 1, and the numbers are rounded away from 0.
    const double reach = std::sqrt(finder_.end());
    std::vector<double> first(axes), last(axes), at(axes), shift(axes);
    for (int k = 0; k < axes; ++k) {
        const double length = a_.box()[k];
        if (!(length > 0.0)) continue;
        const auto [low, high] = a_.range(k, row * tile_, std::min(a_.points(), (row + 1) * tile_));
        const auto [from, to] = b_.range(k, column * tile_, std::min(b_.points(), (column + 1) * tile_));
        first[k] = std::floor((low - to - reach) / length);
        last[k] = std::ceil((high - from + reach) / length);
    }
    at = first;
    for (;;) {
        for (int k = 0; k < axes; ++k) shift[k] = at[k] * a_.box()[k];
        use(shift.data());
        int k = 0;
        while (k < axes && at[k] >= last[k]) {
            at[k] = first[k];
            ++k;
        }
        if (k == axes) return;
        at[k] += 1.0;
    }
}

double ExactCounter::candidates() const {
    if (!all_) {
        const auto n = static_cast<double>(a_.points()), m = static_cast<double>(b_.points());
        return own_ ? n * (n - 1.0) / 2.0 : n * m;
    }
    double found = 0.0;
    for (i64 task = 0; task < tasks(); ++task) {
        const auto [row, column] = pairs_.at(task);
        const double pairs = pairs_of(row, column);
        for_images(row, column, [&](const double*) { found += pairs; });
    }
    return found;
}

double ExactCounter::count_tiles(i64 row, i64 column, i64* counts) const {
    const i64 i = row * tile_, j = column * tile_;
    ExactBlock block{a_.axis(0) + i,
                     b_.axis(0) + j,
                     a_.stride(),
                     b_.stride(),
                     std::min(tile_, a_.points() - i),
                     std::min(tile_, b_.points() - j),
                     a_.axes(),
                     a_.box(),
                     nullptr,
                     own_ && row == column};
    const ExactKernels& kernels = exact_kernels();
    double images = 0.0;
    for_images(row, column, [&](const double* shift) {
        block.shift = shift;
        kernels.count(block, finder_, counts);
        images += 1.0;
    });
    return images * pairs_of(row, column);
}

PairsSeen ExactCounter::count(i64 first, i64 last, int threads, i64* counts) const {
    const i64 bins = finder_.bins(), team = std::max<i64>(1, std::min<i64>(threads, last - first));
    std::vector<std::vector<i64>> tables(team);
    std::vector<double> seen(team);
    for (auto& table : tables) table.resize(bins);
    for_each_task_of_member(last - first, static_cast<int>(team), [&](i64 task, int member) {
        const auto [row, column] = pairs_.at(first + task);
        seen[member] += count_tiles(row, column, tables[member].data());
    });
    PairsSeen found;
    for (i64 member = 0; member < team; ++member) {
        for (i64 k = 0; k < bins; ++k) counts[k] += tables[member][k];
        found.candidates += seen[member];
    }
    found.rechecked = found.candidates;
    return found;
}

}  // namespace bmrm
