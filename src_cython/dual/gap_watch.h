// The gap of an ascent in the dual (coordinate_ascent.h), guessed on the way: when it is time to evaluate it.
//
// Between the objective at w = -X^T r / lam and the dual at r there is a sum over rows of
//
//     loss(u_i) - (r_i u_i - f_i(r_i)),        u_i the margin of row i,
//
// of which a row can tell its share when it is visited.  In a sweep over all rows in random order those not
// visited yet have some mean, which a few of them show.  Those visited will have theirs when the next sweep
// begins: what it was when this one began, times the factor by which it has lately fallen with each visit.
// The guess is both, by the numbers of rows.  No certificate rests on it.
#pragma once

#include <algorithm>
#include <cmath>

#include "cpu/simd.h"

namespace bmrm {

/// Guesses a sweep, at most; rows whose shares each rests on, where there are so many; and rows between two
/// of these, at most.
constexpr i64 kGuesses = 8, kShown = 256, kMostBetween = 16;

/// How far below the gap that is wanted the first guess must be, and by how much more each time that the
/// ascent goes on after one was.
constexpr double kSafe = 0.6, kSafer = 0.5;

class GapWatch {
  public:
    explicit GapWatch(i64 rows)
        : rows_(rows),
          part_(std::max((rows + kGuesses - 1) / kGuesses, std::min(rows, kShown))),
          between_(std::clamp<i64>(part_ / kShown, 1, kMostBetween)) {}

    /// A sweep over so many rows begins. Only over all of them are guesses made.
    void begin(i64 count) {
        all_ = count == rows_;
        restart();
    }

    /// Where the row that is visited as the n-th adds its share; null where it need not.
    double* share(i64 n) {
        if (!all_ || n % between_ != 0) return nullptr;
        ++shown_;
        return &sum_;
    }

    /// Whether the gap seems to be less than `wanted`, behind the visit of the n-th row.
    bool enough(i64 n, double wanted) {
        ++visits_;
        const bool asked = (n + 1) % part_ == 0 || n + 1 == rows_;
        if (!all_ || !asked || shown_ == 0) return false;
        const double mean = sum_ / static_cast<double>(shown_), rows = static_cast<double>(rows_);
        restart();
        if (n + 1 == part_) {
            const double sweeps = static_cast<double>(visits_) / rows;
            next_ = mean < first_ ? mean * std::pow(mean / first_, 1.0 / sweeps) : mean;
            first_ = mean;
            visits_ = 0;
        }
        const double done = static_cast<double>(n + 1);
        if (!(mean * (rows - done) + next_ * done < safe_ * wanted)) return false;
        safe_ *= kSafer;
        return true;
    }

  private:
    void restart() {
        sum_ = 0;
        shown_ = 0;
    }

    i64 rows_, part_, between_;
    bool all_ = false;
    /// Shares since the last guess, and of how many rows.
    double sum_ = 0;
    i64 shown_ = 0;
    /// Means when the last sweep over all rows began, and when the next one will; visits since.
    double first_ = 0, next_ = 0;
    i64 visits_ = 0;
    double safe_ = kSafe;
};

}  // namespace bmrm
