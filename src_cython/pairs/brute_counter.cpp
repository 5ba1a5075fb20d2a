#include "pairs/brute_counter.h"

#include "pairs/near_order.h"

namespace bmrm {

namespace {

/// Scaled coordinates of a block: they stay in the second level of cache.
constexpr i64 kBlockNumbers = 1 << 14;
/// Differences of coordinates that a task computes, some milliseconds.
constexpr i64 kTaskDifferences = i64{3} << 23;

/// Tiles of points that are close have small errors, and are not spoilt by a point far away.
PlacedPoints in_near_order(const PlacedPoints& points, int threads) {
    return points.in_order(near_order(points, kBlockRows, threads).data(), threads);
}

}  // namespace

BruteCounter::BruteCounter(const PlacedPoints& a, const PlacedPoints* b, const double* bounds, i64 bins,
                           int threads)
    : a_(in_near_order(a, threads)),
      b_(b ? std::make_unique<const PlacedPoints>(in_near_order(*b, threads)) : nullptr),
      problem_(a_, b_.get(), bounds, bins) {
    const i64 axes = problem_.scaled_axes();
    block_columns_ = kBlockColumns;
    while (block_columns_ > kBlockRows && block_columns_ * axes > kBlockNumbers) block_columns_ /= 2;
    task_columns_ =
        std::max(block_columns_, kTaskDifferences / (axes * kBlockRows) / block_columns_ * block_columns_);
    first_task_.push_back(0);
    for (i64 row = 0; row < a.points(); row += kBlockRows) {
        const i64 columns = problem_.exact.b.points() - first_column(row);
        first_task_.push_back(first_task_.back() + (columns + task_columns_ - 1) / task_columns_);
    }
}

i64 BruteCounter::first_column(i64 row) const {
    return problem_.one_set ? row / block_columns_ * block_columns_ : 0;
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
    const i64 begin = first_column(row) + (task - first_task_[tile]) * task_columns_;
    const i64 end = std::min(begin + task_columns_, problem_.exact.b.points());
    thread.block.take_rows(row, row_end);
    double columns = 0;
    for (i64 from = begin; from < end; from += block_columns_) {
        // Of one set, the first columns of a tile of rows are these rows.
        const PointRange range{problem_.one_set ? std::max(from, row) : from,
                               std::min(from + block_columns_, end)};
        thread.block.take_columns(&range, 1);
        columns += static_cast<double>(range.size());
        BruteBlock block;
        block.first_row = row;
        block.first_column = range.begin;
        block.one_set = problem_.one_set;
        if (thread.block.finish(&block))
            count_kernels().brute[static_cast<int>(thread.tally.kind())](block, thread.tally);
        else
            thread.count_exactly(row, row_end, range.begin, range.end);
    }
    const auto rows = static_cast<double>(row_end - row);
    thread.candidates += rows * columns;
    if (problem_.one_set && begin <= row) thread.candidates -= rows * (rows + 1.0) / 2.0;
}

}  // namespace bmrm
