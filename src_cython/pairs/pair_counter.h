// What counts the pairs of one or two sets of points by their squared distances: the interface that Python
// sees, and the tasks that a count is made of.
//
// Tasks have numbers, which depend on the points alone: whoever does a task, and in which order, the sums of
// whole numbers are the same. A task takes some milliseconds, so that a caller can look at the clock, at
// signals and at other ranks between two ranges of tasks.
#pragma once

#include <memory>
#include <vector>

#include "pairs/bin_finder.h"
#include "pairs/placed_points.h"

namespace bmrm {

enum class PairKernel { float64, brute, cells };

/// The nearest image of each pair, or every one whose squared distance is below the last bound. Images of a
/// point itself are not counted: the caller does that.
enum class PairImages { nearest, all };

/// What a range of tasks has found besides the counts.
struct PairsSeen {
    double candidates = 0.0;  // pairs whose distance was computed
    double rechecked = 0.0;   // of these, those that were decided in float64
};

class PairCounter {
  public:
    virtual ~PairCounter() = default;

    virtual i64 tasks() const = 0;
    /// Pairs whose distance all tasks compute, counted and not estimated.
    virtual double candidates() const = 0;
    /// Memory besides that of the points, without the tables of threads.
    virtual i64 bytes() const = 0;

    /// Adds the pairs of tasks first to last to counts, one per bin.
    virtual PairsSeen count(i64 first, i64 last, int threads, i64* counts) const = 0;
};

/// Prepares to count: the pairs of `a` with itself, each once, if `b` is null, else all pairs of the two,
/// which have the same box. Both outlive the counter. `bounds` has bins + 1 numbers of at least 0 that do not
/// fall.
std::unique_ptr<PairCounter> make_pair_counter(const PlacedPoints& a, const PlacedPoints* b,
                                               const double* bounds, i64 bins, PairKernel kernel,
                                               PairImages images, int threads);

/// A pair of tiles by its number. Of one set: tiles up to the diagonal, row by row; of two: all.
struct TilePairs {
    i64 rows, columns;  // tiles
    bool triangle;

    i64 count() const { return triangle ? rows * (rows + 1) / 2 : rows * columns; }
    /// The row and column of a pair of tiles; of one set the column is at least the row.
    std::pair<i64, i64> at(i64 number) const;
};

}  // namespace bmrm
