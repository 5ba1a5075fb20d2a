// Counts the pairs of points in cells that are within reach, in float32, those in doubt in float64: for up to
// three axes.
#pragma once

#include "pairs/cell_grid.h"
#include "pairs/pair_counter.h"

namespace bmrm {

class CellCounter : public PairCounter {
  public:
    CellCounter(const PlacedPoints& a, const PlacedPoints* b, const double* bounds, i64 bins, int threads);

    i64 tasks() const override { return static_cast<i64>(tasks_.size()); }
    double candidates() const override { return candidates_; }
    i64 bytes() const override;
    PairsSeen count(i64 first, i64 last, int threads, i64* counts) const override;

  private:
    /// Points in the order of their cells.
    struct Sorted {
        std::vector<i64> first;  // of each cell
        PlacedPoints points;

        Sorted(const PlacedPoints& given, const CellGrid& grid, int threads)
            : points(given.in_order(order_by_cell(given, grid, threads, first).data(), threads)) {}
        static std::vector<i64> order_by_cell(const PlacedPoints& given, const CellGrid& grid, int threads,
                                              std::vector<i64>& first) {
            std::vector<i64> order;
            grid.sort(given, threads, first, order);
            return order;
        }
    };

    /// Whole cells, or some rows of one cell and some of their columns.
    struct Task {
        i64 cell, cell_end, row, row_end, column, column_end;
    };

    using Ranges = std::vector<PointRange>;

    void make_tasks(int threads);
    /// How many columns each cell has, besides those of the cell itself in one set.
    std::vector<i64> columns_of_cells(int threads) const;
    void split_cell(i64 cell, i64 columns);
    /// The columns of some rows of a cell: of one set, those of the cell from the first row on come first.
    void find_columns(i64 cell, i64 row, Ranges& columns) const;
    void count_rows(i64 row, i64 row_end, const Ranges& columns, i64 from, i64 to,
                    CountingThread& thread) const;
    void count_block(i64 row, i64 row_end, const Ranges& columns, i64 from, i64 to,
                     CountingThread& thread) const;
    void count_task(const Task& task, CountingThread& thread) const;

    const CellGrid grid_;
    const Sorted a_;
    const std::unique_ptr<const Sorted> b_;
    const CountProblem problem_;
    const std::vector<i64>& first_column_;  // of each cell
    std::vector<Task> tasks_;
    double candidates_ = 0;
};

}  // namespace bmrm
