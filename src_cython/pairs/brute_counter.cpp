#include "pairs/brute_counter.h"

namespace bmrm {

namespace {

/// Scaled coordinates of a block: they stay in the second level of cache.
constexpr i64 kBlockNumbers = 1 << 14;
/// Differences of coordinates that a task computes, some milliseconds.
constexpr i64 kTaskDifferences = i64{3} << 23;

}  // namespace

BruteCounter::BruteCounter(const PlacedPoints& a, const PlacedPoints* b, const double* bounds, i64 bins)
    : problem_(a, b, bounds, bins) {
    const i64 axes = problem_.scaled_axes(), n = problem_.exact.b.points();
    block_columns_ = std::clamp<i64>(kBlockNumbers / axes / kMaxLanes * kMaxLanes, 4 * kMaxLanes, kBlockColumns);
    task_columns_ = std::max(block_columns_, kTaskDifferences / (axes * kBlockRows) / block_columns_ * block_columns_);
    first_task_.push_back(0);
    for (i64 row = 0; row < a.points(); row += kBlockRows) {
        const i64 columns = problem_.one_set ? n - row : n;
        first_task_.push_back(first_task_.back() + (columns + task_columns_ - 1) / task_columns_);
    }
}

double BruteCounter::candidates() const {
    const auto n = static_cast<double>(problem_.exact.a.points());
    const auto m = static_cast<double>(problem_.exact.b.points());
    return problem_.one_set ? n * (n - 1.0) / 2.0 : n * m;
}

PairsSeen BruteCounter::count(i64 first, i64 last, int threads, i64* counts) const {
    return count_tasks(problem_, block_columns_, first, last, threads, counts,
                       [&](i64 task, CountingThread& thread) { count_task(task, thread); });
}

void BruteCounter::count_task(i64 task, CountingThread& thread) const {
    const i64 tile = std::upper_bound(first_task_.begin(), first_task_.end(), task) - first_task_.begin() - 1;
    const i64 row = tile * kBlockRows, row_end = std::min(row + kBlockRows, problem_.exact.a.points());
    const i64 start = (problem_.one_set ? row : 0) + (task - first_task_[tile]) * task_columns_;
    const i64 end = std::min(start + task_columns_, problem_.exact.b.points());
    thread.block.take_rows(row, row_end);
    // The first columns of one set are the rows: all of them are in one block.
    for (i64 column = start; column < end;) {
        i64 columns = std::min(block_columns_, end - column);
        if (problem_.one_set && column == row) columns = std::min(std::max(columns, kBlockRows), end - column);
        const PointRange range{column, column + columns};
        thread.block.take_columns(&range, 1);
        BruteBlock block;
        block.first_row = row;
        block.first_column = column;
        block.one_set = problem_.one_set;
        if (thread.block.finish(&block))
            count_kernels().brute[static_cast<int>(thread.tally.kind())](block, thread.tally);
        else
            thread.count_exactly(row, row_end, column, column + columns);
        column += columns;
    }
    const auto rows = static_cast<double>(row_end - row), columns = static_cast<double>(end - start);
    thread.candidates += rows * columns;
    if (problem_.one_set && start == row) thread.candidates -= rows * (rows + 1.0) / 2.0;
}

}  // namespace bmrm
