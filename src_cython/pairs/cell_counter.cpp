#include "pairs/cell_counter.h"

namespace bmrm {

namespace {

/// Candidates of a task, a millisecond.
constexpr i64 kTaskCandidates = i64{1} << 21;

}  // namespace

CellCounter::CellCounter(const PlacedPoints& a, const PlacedPoints* b, const double* bounds, i64 bins,
                         int threads)
    : grid_(CountProblem(a, b, bounds, bins), threads),
      a_(a, grid_, threads),
      b_(b ? std::make_unique<const Sorted>(*b, grid_, threads) : nullptr),
      problem_(a_.points, b_ ? &b_->points : nullptr, bounds, bins),
      first_column_(b_ ? b_->first : a_.first) {
    make_tasks(threads);
}

i64 CellCounter::bytes() const {
    i64 numbers = static_cast<i64>(a_.first.size() + 6 * tasks_.size()), points = a_.points.bytes();
    if (b_) {
        numbers += static_cast<i64>(b_->first.size());
        points += b_->points.bytes();
    }
    return problem_.map.bytes() + 8 * numbers + points;
}

void CellCounter::find_columns(i64 cell, i64 row, Ranges& columns) const {
    columns.clear();
    if (problem_.one_set) columns.push_back({row, first_column_[cell + 1]});
    grid_.for_neighbours(cell, problem_.one_set ? cell + 1 : 0, [&](i64 from, i64 to) {
        const i64 begin = first_column_[from], end = first_column_[to];
        if (begin == end) return;
        if (!columns.empty() && columns.back().end == begin)
            columns.back().end = end;
        else
            columns.push_back({begin, end});
    });
}

std::vector<i64> CellCounter::columns_of_cells(int threads) const {
    constexpr i64 kPiece = i64{1} << 10;
    const i64 cells = grid_.cells();
    std::vector<i64> columns(cells);
    for_each_task((cells + kPiece - 1) / kPiece, threads, [&](i64 piece) {
        for (i64 cell = piece * kPiece, end = std::min(cell + kPiece, cells); cell < end; ++cell) {
            if (a_.first[cell] == a_.first[cell + 1]) continue;
            grid_.for_neighbours(cell, problem_.one_set ? cell + 1 : 0, [&](i64 from, i64 to) {
                columns[cell] += first_column_[to] - first_column_[from];
            });
        }
    });
    return columns;
}

void CellCounter::make_tasks(int threads) {
    const std::vector<i64> columns_of = columns_of_cells(threads);
    Task open{0, 0, -1, -1, 0, 0};
    i64 in_task = 0;
    const auto close = [&](i64 cell) {
        open.cell_end = cell;
        if (in_task > 0) tasks_.push_back(open);
        open.cell = cell;
        in_task = 0;
    };
    for (i64 cell = 0; cell < grid_.cells(); ++cell) {
        const i64 rows = a_.first[cell + 1] - a_.first[cell];
        if (rows == 0) continue;
        const i64 columns = columns_of[cell];
        const i64 pairs = rows * columns + (problem_.one_set ? rows * (rows - 1) / 2 : 0);
        candidates_ += static_cast<double>(pairs);
        if (in_task + pairs > kTaskCandidates) close(cell);
        if (pairs > kTaskCandidates) {
            split_cell(cell, columns + (problem_.one_set ? rows : 0));
            open.cell = cell + 1;
        } else {
            in_task += pairs;
        }
    }
    close(grid_.cells());
}

void CellCounter::split_cell(i64 cell, i64 columns) {
    const i64 end = a_.first[cell + 1], most = kTaskCandidates / kBlockRows;
    for (i64 row = a_.first[cell]; row < end; row += kBlockRows) {
        const i64 row_end = std::min(row + kBlockRows, end);
        for (i64 column = 0; column < columns; column += most)
            tasks_.push_back({cell, cell + 1, row, row_end, column, std::min(column + most, columns)});
        if (problem_.one_set) columns -= row_end - row;
    }
}

PairsSeen CellCounter::count(i64 first, i64 last, int threads, i64* counts) const {
    return count_tasks(problem_, kBlockColumns, first, last, threads, counts,
                       [&](i64 task, CountingThread& thread) { count_task(tasks_[task], thread); });
}

void CellCounter::count_task(const Task& task, CountingThread& thread) const {
    Ranges columns;
    if (task.row >= 0) {
        find_columns(task.cell, task.row, columns);
        return count_rows(task.row, task.row_end, columns, task.column, task.column_end, thread);
    }
    for (i64 cell = task.cell; cell < task.cell_end; ++cell)
        for (i64 row = a_.first[cell], end = a_.first[cell + 1]; row < end; row += kBlockRows) {
            find_columns(cell, row, columns);
            i64 all = 0;
            for (const PointRange& range : columns) all += range.size();
            count_rows(row, std::min(row + kBlockRows, end), columns, 0, all, thread);
        }
}

void CellCounter::count_rows(i64 row, i64 row_end, const Ranges& columns, i64 from, i64 to,
                             CountingThread& thread) const {
    thread.block.take_rows(row, row_end);
    for (i64 at = from; at < to; at += kBlockColumns)
        count_block(row, row_end, columns, at, std::min(at + kBlockColumns, to), thread);
    const auto rows = static_cast<double>(row_end - row);
    thread.candidates += rows * static_cast<double>(to - from);
    // The first columns are the rows themselves: all of them are in one piece.
    if (problem_.one_set && from == 0) thread.candidates -= rows * (rows + 1.0) / 2.0;
}

void CellCounter::count_block(i64 row, i64 row_end, const Ranges& columns, i64 from, i64 to,
                              CountingThread& thread) const {
    Ranges& some = thread.ranges;
    some.clear();
    i64 before = 0;
    for (const PointRange& range : columns) {
        const i64 begin = std::max<i64>(from - before, 0), end = std::min(to - before, range.size());
        if (begin < end) some.push_back({range.begin + begin, range.begin + end});
        before += range.size();
    }
    thread.block.take_columns(some.data(), static_cast<i64>(some.size()));
    i64 filled = 0;
    for (const auto& [begin, end] : some) {
        for (i64 i = begin; i < end; ++i) thread.ids[filled++] = i;
    }
    CellBlock block;
    block.first_row = row;
    block.ids = thread.ids.data();
    block.skipped = from;
    block.one_set = problem_.one_set;
    if (thread.block.finish(&block))
        count_kernels().cells[static_cast<int>(thread.tally.kind())](block, thread.tally);
    else
        for (const auto& [begin, end] : some) thread.count_exactly(row, row_end, begin, end);
}

}  // namespace bmrm
