// Blocks of points in float32 relative to a centre, with the bounds of their errors (bin_map.h).
#pragma once

#include <memory>
#include <mutex>

#include "common/team.h"
#include "pairs/blocks.h"
#include "pairs/exact_counter.h"

namespace bmrm {

/// What all blocks of a count have in common.
struct CountProblem {
    ExactPairs exact;
    BinMap map;
    bool one_set;
    double reach;                     // a little more than the last bound
    std::vector<double> exact_error;  // by axis: e of the theorem

    CountProblem(const PlacedPoints& a, const PlacedPoints* b, const double* bounds, i64 bins)
        : exact{a, b ? *b : a},
          map(bounds, bins, a.axes()),
          one_set(!b),
          reach(std::sqrt(bounds[bins]) * (1 + 1e-9)),
          exact_error(a.axes()) {
        for (int k = 0; k < a.axes(); ++k) {
            if (!(a.box()[k] > 0)) continue;
            double largest = a.box()[k];
            for (const PlacedPoints* points : {&exact.a, &exact.b}) {
                if (points->points() == 0) continue;
                const auto [least, most] = points->range(k, 0, points->points());
                largest = std::max({largest, -least, most});
            }
            exact_error[k] = largest * 0x1p-48;
        }
    }
    int axes() const { return exact.a.axes(); }
    /// Axes of scaled points.
    int scaled_axes() const { return std::max(3, axes()); }
};

/// The scaled points of one thread.
class ScaledBlock {
  public:
    ScaledBlock(const CountProblem& problem, i64 columns)
        : problem_(problem),
          axes_(problem.scaled_axes()),
          row_stride_(kBlockRows + kBlockPad),
          column_stride_(columns + kBlockPad),
          rows_(row_stride_ * axes_),
          columns_(column_stride_ * axes_),
          centre_(axes_),
          row_size_(axes_),
          column_size_(axes_),
          sides_(axes_) {
        std::fill_n(rows_.get(), rows_.size(), 0.0f);
        std::fill_n(columns_.get(), columns_.size(), 0.0f);
    }

    /// Takes rows begin to end, relative to the middle of them.
    void take_rows(i64 begin, i64 end) {
        const PlacedPoints& a = problem_.exact.a;
        rows_taken_ = end - begin;
        for (int k = 0; k < problem_.axes(); ++k) {
            const double* const x = a.axis(k) + begin;
            const PointRange all{begin, end};
            const double side = problem_.exact.a.box()[k];
            double least = 0, most = 0;
            for (i64 i = 0; i < rows_taken_; ++i) {
                const double v = nearest_difference(x[i], x[0], side);
                least = std::min(least, v);
                most = std::max(most, v);
            }
            centre_[k] = x[0] + 0.5 * (least + most);
            row_size_[k] = take(a.axis(k), &all, 1, k, rows_.get() + k * row_stride_);
        }
        fill_with(-kNowhere, rows_.get(), row_stride_, rows_taken_);
    }

    void take_columns(const PointRange* ranges, i64 count) {
        const PlacedPoints& b = problem_.exact.b;
        columns_taken_ = 0;
        for (i64 r = 0; r < count; ++r) columns_taken_ += ranges[r].size();
        for (int k = 0; k < problem_.axes(); ++k)
            column_size_[k] = take(b.axis(k), ranges, count, k, columns_.get() + k * column_stride_);
    }

    /// Completes the block; false if float32 is too coarse for it.
    bool finish(PairBlock* out) {
        fill_with(kNowhere, columns_.get(), column_stride_, columns_taken_);
        out->rows = {rows_.get(), row_stride_, rows_taken_};
        out->columns = {columns_.get(), column_stride_, columns_taken_};
        out->axes = axes_;
        out->exact = &problem_.exact;
        double spread = 0, periods = 0;
        bool wraps = false;
        BlockError error{0, 0};
        for (int k = 0; k < axes_; ++k) {
            sides_[k] = std::numeric_limits<float>::infinity();
            if (k >= problem_.axes()) continue;
            const double side = problem_.exact.a.box()[k], size = row_size_[k] + column_size_[k];
            spread += size * size;
            error.exact += problem_.exact_error[k];
            if (!(side > 0)) continue;
            sides_[k] = static_cast<float>(side * problem_.map.unit());
            periods += side * side;
            wraps |= !is_nearest(side, size + problem_.exact_error[k]);
        }
        out->sides = wraps ? sides_.data() : nullptr;
        error.spread = std::sqrt(spread) + (wraps ? 2 * std::sqrt(periods) : 0.0);
        return problem_.map.scale(error, &out->scale);
    }

  private:
    /// Whether differences up to `size` on a periodic axis are those to the nearest image, or else both they
    /// and those to the nearest image are beyond the last bound.
    bool is_nearest(double side, double size) const {
        const double half = 0.5 * side * (1 - 1e-9);
        return size < half || (problem_.reach < half && size < side * (1 - 1e-9) - problem_.reach);
    }

    /// Scales one axis of some points; returns the largest size before scaling.
    double take(const double* x, const PointRange* ranges, i64 count, int axis, float* out) const {
        return count_kernels().scale(x, ranges, count, centre_[axis], problem_.exact.a.box()[axis],
                                     problem_.map.unit(), out);
    }

    void fill_with(float value, float* points, i64 stride, i64 taken) const {
        for (int k = 0; k < axes_; ++k) std::fill_n(points + k * stride + taken, kBlockPad, k ? 0.0f : value);
    }

    const CountProblem& problem_;
    int axes_;
    i64 row_stride_, column_stride_;
    Buffer<float> rows_, columns_;
    std::vector<double> centre_, row_size_, column_size_;
    std::vector<float> sides_;
    i64 rows_taken_ = 0, columns_taken_ = 0;
};

/// What a thread fills while it counts.
struct CountingThread {
    CountingThread(const CountProblem& given, i64 columns)
        : problem(given),
          tally(given.map),
          block(given, columns),
          ids(columns),
          exact_counts(given.map.bins()) {}

    /// Counts a block in float64; of one set, rows and columns are the same or columns come later.
    void count_exactly(i64 row, i64 row_end, i64 column, i64 column_end) {
        const PlacedPoints &a = problem.exact.a, &b = problem.exact.b;
        const auto add = [&](i64 from, i64 to, i64 first, i64 last, bool triangle) {
            exact_kernels().count({a.axis(0) + from, b.axis(0) + first, a.stride(), b.stride(), to - from,
                                   last - first, a.axes(), a.box(), nullptr, triangle},
                                  problem.map.finder(), exact_counts.data());
            const auto rows = static_cast<double>(to - from), columns = static_cast<double>(last - first);
            rechecked += triangle ? rows * (rows - 1.0) / 2.0 : rows * columns;
        };
        if (problem.one_set && column == row) {
            add(row, row_end, row, row_end, true);
            column = row_end;
        }
        add(row, row_end, column, column_end, false);
    }

    const CountProblem& problem;
    Tally tally;
    ScaledBlock block;
    std::vector<i64> ids;            // the points of a block's columns
    std::vector<PointRange> ranges;  // the same as ranges
    std::vector<i64> exact_counts;   // of blocks for which float32 is too coarse
    double candidates = 0, rechecked = 0;
};

/// Runs count_task(task, thread) for tasks first to last, and adds what the threads have counted. The tables
/// of a thread are large: each makes its own and adds them up itself.
template <class CountTask>
PairsSeen count_tasks(const CountProblem& problem, i64 block_columns, i64 first, i64 last, int threads,
                      i64* counts, const CountTask& count_task) {
    const int team = static_cast<int>(std::clamp<i64>(last - first, 1, threads));
    std::vector<std::unique_ptr<CountingThread>> members(team);
    for_each_allocating_task(last - first, team, [&](i64 task, int member) {
        if (!members[member]) members[member] = std::make_unique<CountingThread>(problem, block_columns);
        count_task(first + task, *members[member]);
    });
    PairsSeen seen;
    std::mutex adding;
    for_each_task(team, team, [&](i64 member) {
        const std::unique_ptr<CountingThread> done = std::move(members[member]);
        if (!done) return;
        done->tally.take(done->exact_counts.data());
        const std::lock_guard<std::mutex> lock(adding);
        for (i64 k = 0; k < problem.map.bins(); ++k) counts[k] += done->exact_counts[k];
        seen.candidates += done->candidates;
        seen.rechecked += done->rechecked + static_cast<double>(done->tally.rechecked);
    });
    return seen;
}

}  // namespace bmrm
