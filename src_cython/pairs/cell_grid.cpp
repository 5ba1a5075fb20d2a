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

CellGrid::CellGrid(const CountProblem& given, int threads) {
    choose(given, 2);
    if (crowding(given.exact.b, threads) < kCrowded) choose(given, 1);
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

void CellGrid::assign(const PlacedPoints& points, int threads, std::vector<i64>& cell,
                      std::vector<i64>& sizes) const {
    constexpr i64 kPiece = i64{1} << 13;
    const i64 n = points.points();
    cell.resize(n);
    for_each_task((n + kPiece - 1) / kPiece, threads, [&](i64 piece) {
        for (i64 i = piece * kPiece, end = std::min(i + kPiece, n); i < end; ++i) {
            i64 at = 0;
            for (int k = points.axes() - 1; k >= 0; --k)
                at = at * axes_[k].count + axes_[k].cell(points.axis(k)[i]);
            cell[i] = at;
        }
    });
    sizes.assign(cells() + 1, 0);
    for (const i64 at : cell) ++sizes[at + 1];
}

void CellGrid::sort(const PlacedPoints& points, int threads, std::vector<i64>& first,
                    std::vector<i64>& order) const {
    std::vector<i64> cell;
    assign(points, threads, cell, first);
    for (i64 c = 0; c < cells(); ++c) first[c + 1] += first[c];
    std::vector<i64> next = first;
    order.resize(points.points());
    for (i64 i = 0; i < points.points(); ++i) order[next[cell[i]]++] = i;
}

double CellGrid::crowding(const PlacedPoints& points, int threads) const {
    std::vector<i64> cell, sizes;
    assign(points, threads, cell, sizes);
    double sum = 0;
    for (const i64 size : sizes) sum += static_cast<double>(size) * static_cast<double>(size);
    return sum / std::max(1.0, static_cast<double>(points.points()));
}

}  // namespace bmrm
