// Estimates the gap of an ascent in the dual (coordinate_ascent.h) during a sweep, to decide when to evaluate
// it.
//
// Between the objective at w = -X^T r / lam and the dual at r there is a sum over rows of
//
//     loss(u_i) - (r_i u_i - f_i(r_i)),        u_i the margin of row i,
//
// and a row knows its share when it is visited. In a sweep over all rows in random order, the mean share of
// the rows not visited yet is estimated from a few of them. The mean share of the visited rows is predicted
// for the start of the next sweep: that at the start of this sweep, times the factor by which it has lately
// fallen per visit. The estimate is the mean of both, weighted by the numbers of rows. No certificate depends
// on it.
#pragma once

#include <algorithm>
#include <cmath>

#include "cpu/simd.h"

namespace bmrm {

/// Maximum number of estimates per sweep.
constexpr i64 kMaxEstimates = 8;
/// Minimum number of rows that an estimate is made of, if there are as many.
constexpr i64 kMinSampledRows = 256;
/// Maximum distance between two sampled rows.
constexpr i64 kMaxSampleStep = 16;

/// Share of the wanted gap below which the first estimate must be.
constexpr double kSafety = 0.6;
/// Factor of that share each time that the ascent goes on after an estimate was low enough.
constexpr double kSafetyFactor = 0.5;

class GapWatch {
  public:
    explicit GapWatch(i64 rows)
        : rows_(rows),
          part_(std::max((rows + kMaxEstimates - 1) / kMaxEstimates, std::min(rows, kMinSampledRows))),
          between_(std::clamp<i64>(part_ / kMinSampledRows, 1, kMaxSampleStep)) {}

    /// Begins a sweep over `count` rows. Only sweeps over all rows make estimates.
    void begin(i64 count) {
        all_ = count == rows_;
        restart();
    }

    /// Where the row visited as the n-th adds its share; null if it need not.
    double* share(i64 n) {
        if (!all_ || n % between_ != 0) return nullptr;
        ++shown_;
        return &sum_;
    }

    /// Whether the gap seems to be less than `wanted`, after the visit of the n-th row.
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
        safe_ *= kSafetyFactor;
        return true;
    }

  private:
    void restart() {
        sum_ = 0;
        shown_ = 0;
    }

    i64 rows_, part_, between_;
    bool all_ = false;
    /// Sum of the shares since the last estimate, and the number of rows in it.
    double sum_ = 0;
    i64 shown_ = 0;
    /// Mean share when the last sweep over all rows began, and that predicted for the next one.
    double first_ = 0, next_ = 0;
    /// Number of visits since `first_`.
    i64 visits_ = 0;
    double safe_ = kSafety;
};

}  // namespace bmrm
