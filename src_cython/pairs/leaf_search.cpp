#include "pairs/leaf_search.h"

#include "pairs/decision.h"

namespace bmrm {

namespace {

/// Axes up to which boxes leave out enough pairs to pay.
constexpr int kMaxBoxAxes = 16;
/// Leaves of a task if there are boxes: a millisecond.
constexpr i64 kGroup = 16;

Leaves leaves_of(const double* rows, i64 n, const Sides& sides, Metric metric, int threads) {
    const auto axes = static_cast<int>(sides.axes);
    const PlacedPoints points = PlacedPoints::by_rows(rows, n, axes, sides.box);
    return Leaves(points, axes <= kMaxBoxAxes && metric != Metric::jaccard, threads);
}

}  // namespace

LeafSearch::LeafSearch(const Sides& sides, Metric metric, int threads)
    : metric_(metric),
      measure_(measure_of(metric)),
      own_(sides.own),
      points_(leaves_of(sides.points, sides.point_count, sides, metric, threads)),
      other_rows_(sides.same() ? nullptr
                               : std::make_unique<const Leaves>(
                                     leaves_of(sides.rows, sides.row_count, sides, metric, threads))),
      periods_(sides.box, sides.box + sides.axes),
      slack_(periods_),
      group_(points_.has_boxes() ? kGroup : 1) {
    const auto look = [&](const double* rows, i64 n) {
        for (i64 i = 0; i < n; ++i)
            for (double& most : slack_) most = std::max(most, std::abs(*rows++));
    };
    look(sides.points, sides.point_count);
    if (other_rows_) look(sides.rows, sides.row_count);
    for (double& most : slack_) most *= 0x1p-48;
}

void LeafSearch::search(i64 first, i64 last, int threads, const Sought& sought,
                        const FoundTarget& target) const {
    for_each_allocating_task(last - first, threads, [&](i64 task, int) {
        FoundRows found(sought, target, kLeaf, own_);
        const i64 begin = (first + task) * group_, end = std::min(begin + group_, rows().count());
        for (i64 leaf = begin; leaf < end; ++leaf) search_leaf(leaf, found);
    });
}

void LeafSearch::search_leaf(i64 leaf, FoundRows& rows) const {
    rows.begin(this->rows().indices(leaf), this->rows().size(leaf));
    const bool known = own_ < 0 || !other_rows_;  // where a row is among the points
    Group group{leaf, rows, {}, 0, rows.counts_only() && known};
    std::fill_n(group.limits, kLeaf, -1.0);
    const auto limit = group.counts ? last_measured : most_measured;
    for (i64 i = 0; i < rows.count(); ++i) group.limits[i] = limit(metric_, rows[i].limit);
    group.limit = group.limits[0];
    if (points_.has_boxes()) {
        descend(group, 0, 0, points_.count());
    } else {
        for (i64 l = 0; l < points_.count(); ++l) scan(group, l);
    }
    rows.finish();
}

void LeafSearch::descend(Group& group, i64 node, i64 first, i64 leaves) const {
    if (leaves == 1) {
        if (!count_whole(group, first)) scan(group, first);
        return;
    }
    const i64 half = leaves / 2;
    const Interval* const own = rows().leaf_box(group.leaf);
    i64 nodes[2] = {node + 1, node + 2 * half}, firsts[2] = {first, first + half};
    i64 counts[2] = {half, leaves - half};
    double bounds[2];
    for (int side = 0; side < 2; ++side) bounds[side] = bound(own, points_.box(nodes[side]), false);
    const int nearer = bounds[1] < bounds[0];
    for (const int side : {nearer, 1 - nearer})
        if (bounds[side] <= group.limit) descend(group, nodes[side], firsts[side], counts[side]);
}

void LeafSearch::scan(Group& group, i64 leaf) const {
    const auto& loops = leaf_kernels();
    const int measure = static_cast<int>(measure_);
    const double *const points = points_.leaf(leaf), *const own = rows().leaf(group.leaf);
    const i64* const indices = points_.indices(leaf);
    std::uint32_t open = ~0u >> (kLeaf - group.rows.count());
    if (points_.has_boxes())
        open = loops.box[measure](own, points_.leaf_box(leaf), slack_.data(), periods_.data(), points_.axes(),
                                  group.limits);
    bool moved = false;
    for (; open; open &= open - 1) {
        const int i = __builtin_ctz(open);
        Found& row = group.rows[i];
        alignas(64) double measured[kLeaf];
        std::uint32_t near = loops.points[measure](points, own + i, kLeaf, periods_.data(), points_.axes(),
                                                   group.limits[i], measured);
        if (row.limit == std::numeric_limits<double>::infinity())
            near = ~0u >> (kLeaf - points_.size(leaf));  // also if differences of infinite numbers are NaN
        if (group.counts) {
            if (own_ >= 0 && leaf == group.leaf) near &= ~(1u << i);
            row.count += __builtin_popcount(near);
            continue;
        }
        const double before = row.limit;
        for (; near; near &= near - 1) {
            const int j = __builtin_ctz(near);
            row.add(distance_of(metric_, measured[j]), indices[j]);
        }
        if (row.nearest && points_.has_boxes() && row.count > row.nearest) row.settle();
        if (row.limit == before) continue;
        group.limits[i] = most_measured(metric_, row.limit);
        moved = true;
    }
    if (moved) group.limit = *std::max_element(group.limits, group.limits + group.rows.count());
}

bool LeafSearch::count_whole(Group& group, i64 leaf) const {
    if (!group.counts) return false;
    const double most = bound(rows().leaf_box(group.leaf), points_.leaf_box(leaf), true);
    if (!(distance_of(metric_, most) <= group.rows[0].limit)) return false;
    const i64 others = points_.size(leaf) - (own_ >= 0 && leaf == group.leaf);
    for (i64 i = 0; i < group.rows.count(); ++i) group.rows[i].count += others;
    return true;
}

double LeafSearch::bound(const Interval* a, const Interval* b, bool most) const {
    double sum = 0.0;
    for (int k = 0; k < points_.axes(); ++k) {
        const double between = std::abs(nearest_difference(a[k].centre, b[k].centre, periods_[k]));
        const double reach = a[k].half + b[k].half + slack_[k];
        const double size = most ? between + reach : std::max(0.0, between - reach);
        sum = measure_ == Measure::squares ? sum + size * size
              : measure_ == Measure::sizes ? sum + size
                                           : std::max(sum, size);
    }
    return sum * (most ? 1.0 + kBoundSlack : 1.0 - kBoundSlack);
}

}  // namespace bmrm
