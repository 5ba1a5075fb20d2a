// Points in cells, so that the pairs within reach are those of a cell with few others.
#pragma once

#include "pairs/scaled_blocks.h"

namespace bmrm {

/// Cells along one axis.
struct CellAxis {
    i64 count = 1;
    i64 neighbours = 0;  // cells on each side that may have points within reach
    double low = 0, side = 1, period = 0;

    i64 cell(double x) const {
        if (count == 1) return 0;
        if (period > 0) {
            const double turns = x / period;
            x = (turns - std::floor(turns)) * period;
        } else {
            x -= low;
        }
        return std::clamp<i64>(static_cast<i64>(x / side), 0, count - 1);
    }
};

/// A grid of cells at most half as long as the last bound if there are many points per cell, else as long. A
/// periodic axis that is too short for different neighbours on both sides has one cell.
class CellGrid {
  public:
    static constexpr int kAxes = 3;

    CellGrid(const CountProblem& given, int threads);

    i64 cells() const { return axes_[0].count * axes_[1].count * axes_[2].count; }
    /// The first point of each cell, of cells() + 1, and the order of the points by cell.
    void sort(const PlacedPoints& points, int threads, std::vector<i64>& first,
              std::vector<i64>& order) const;

    /// Calls use(first, last) for ranges of cells next to each other, `least` and later, that may have points
    /// within reach of a cell's; cell `least` is not before it in a set of its own.
    template <class Use>
    void for_neighbours(i64 cell, i64 least, const Use& use) const {
        const i64 nx = axes_[0].count, ny = axes_[1].count;
        const i64 x = cell % nx, y = cell / nx % ny, z = cell / nx / ny;
        for_axis(axes_[2], z, [&](i64 z_first, i64 z_last) {
            for (i64 k = z_first; k < z_last; ++k)
                for_axis(axes_[1], y, [&](i64 y_first, i64 y_last) {
                    for (i64 j = y_first; j < y_last; ++j)
                        for_axis(axes_[0], x, [&](i64 first, i64 last) {
                            const i64 line = (k * ny + j) * nx;
                            if (line + last > least) use(std::max(line + first, least), line + last);
                        });
                });
        });
    }

  private:
    void choose(const CountProblem& given, i64 neighbours);
    /// The cell of each point, and how many points each cell has, of cells() + 1, from the second number on.
    void assign(const PlacedPoints& points, int threads, std::vector<i64>& cell,
                std::vector<i64>& sizes) const;
    /// How many points are in the cell of a point, on average.
    double crowding(const PlacedPoints& points, int threads) const;

    template <class Use>
    static void for_axis(const CellAxis& axis, i64 at, const Use& use) {
        const i64 first = at - axis.neighbours, last = at + axis.neighbours + 1, n = axis.count;
        if (axis.period > 0 && first < 0) use(first + n, n);
        use(std::max<i64>(first, 0), std::min(last, n));
        if (axis.period > 0 && last > n) use(0, last - n);
    }

    CellAxis axes_[kAxes];
};

}  // namespace bmrm
