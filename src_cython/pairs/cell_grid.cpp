#include "pairs/cell_grid.h"

namespace bmrm {

namespace {

/// Points per cell, seen from a point, below which cells are as long as the last bound: each cell costs time
/// of its own.
constexpr double kCrowded = 10.0;
/// Maximum number of cells along an axis, so that rounding is far below the slack of a cell.
constexpr double kMaxAxisCells = 1 << 18;
/// Maximum number of cells per point.
constexpr double kMaxPointCells = 0.125;

}  // namespace

CellGrid::CellGrid(const CountProblem& given) {
    choose(given, 2);
    if (crowding(given.exact.b) < kCrowded) choose(given, 1);
}

void CellGrid::choose(const CountProblem& given, i64 neighbours) {
    const PlacedPoints &a = given.exact.a, &b = given.exact.b;
    if (a.points() == 0 || b.points() == 0) return;
    const double most = std::max(64.0, kMaxPointCells * static_cast<double>(a.points() + b.points()));
    double length[kAxes] = {}, least_side[kAxes] = {};
    for (int k = 0; k < given.axes(); ++k) {
        const auto [low, high] = a.range(k, 0, a.points());
        const auto [from, to] = b.range(k, 0, b.points());
        axes_[k].low = std::min(low, from);
        axes_[k].period = a.box()[k];
        length[k] = axes_[k].period > 0 ? axes_[k].period : std::max(high, to) - axes_[k].low;
        least_side[k] = (given.reach + 4 * given.exact_error[k]) / static_cast<double>(neighbours);
    }
    for (double factor = 1.0;; factor *= 1.3) {
        double cells = 1.0;
        bool small = true;
        for (int k = 0; k < given.axes(); ++k) {
            CellAxis& axis = axes_[k];
            const bool periodic = axis.period > 0;
            double count = std::floor(length[k] / (factor * least_side[k])) + (periodic ? 0.0 : 1.0);
            if (!(count >= 1.0) || (periodic && count < static_cast<double>(2 * neighbours + 1))) count = 1.0;
            small &= count <= kMaxAxisCells;
            cells *= count;
            axis.count = static_cast<i64>(std::min(count, kMaxAxisCells));
            axis.neighbours = axis.count == 1 ? 0 : neighbours;
            axis.side = periodic ? length[k] / count : factor * least_side[k];
        }
        if (small && cells <= most) return;
    }
}

void CellGrid::sort(const PlacedPoints& points, std::vector<i64>& first, std::vector<i64>& order) const {
    const i64 n = points.points();
    std::vector<i64> cell(n);
    first.assign(cells() + 1, 0);
    order.resize(n);
    for (i64 i = 0; i < n; ++i) {
        i64 at = 0;
        for (int k = points.axes() - 1; k >= 0; --k)
            at = at * axes_[k].count + axes_[k].cell(points.axis(k)[i]);
        cell[i] = at;
        ++first[at + 1];
    }
    for (i64 c = 0; c < cells(); ++c) first[c + 1] += first[c];
    for (i64 i = 0; i < n; ++i) order[first[cell[i]]++] = i;
    for (i64 c = cells(); c > 0; --c) first[c] = first[c - 1];
    first[0] = 0;
}

double CellGrid::crowding(const PlacedPoints& points) const {
    std::vector<i64> first, order;
    sort(points, first, order);
    double sum = 0;
    for (i64 c = 0; c < cells(); ++c) {
        const auto n = static_cast<double>(first[c + 1] - first[c]);
        sum += n * n;
    }
    return sum / std::max(1.0, static_cast<double>(points.points()));
}

}  // namespace bmrm
