// The bin of a squared distance by a table of keys: the upper bits of a number, which are ordered as the
// numbers are. A key narrows the bins down to one or two, which comparisons with their bounds decide.
#pragma once

#include <cstring>
#include <vector>

#include "common/integers.h"
#include "pairs/decision.h"

namespace bmrm {

class BinFinder {
  public:
    BinFinder(const double* bounds, i64 bins);

    i64 bins() const { return bins_; }
    const double* bounds() const { return bounds_.data(); }
    double least() const { return least_; }
    double end() const { return end_; }
    bool holds(double square) const { return square >= least_ && square < end_; }

    /// Whether each key leaves two bins at most, as for edges that are not far from even.
    bool narrow() const { return narrow_; }

    /// The bin of a squared distance that `holds`; NARROW as `narrow` says.
    template <bool NARROW>
    __attribute__((always_inline)) inline i64 bin(double square) const {
        std::int64_t bits;
        std::memcpy(&bits, &square, sizeof bits);
        const i64 place = (bits >> shift_) - first_key_, key = place < 0 ? 0 : place;
        const i64 low = low_[key];
        if (NARROW) return low + (square >= bounds_[low + 1]);  // never at the last bound
        return last_reached(square, bounds_.data(), low, low_[key + 1]);
    }
    i64 bytes() const { return static_cast<i64>(low_.size() * sizeof(std::int32_t)); }

  private:
    /// Makes the table for bounds from `first` to `last`, as bits, with at most so many keys.
    void make_table(std::int64_t first, std::int64_t last, i64 most);

    i64 bins_;
    std::vector<double> bounds_;
    double least_, end_;
    int shift_ = 0;
    i64 first_key_ = 0;
    bool narrow_ = true;
    std::vector<std::int32_t> low_;  // per key, the bin of its least number; the last bin after the last key
};

}  // namespace bmrm
