#include "pairs/bin_finder.h"

#include <algorithm>

namespace bmrm {

namespace {

/// Keys of a table: it stays in the first cache beside the counts of some hundred bins. There are more, up to
/// so many per bin, if keys would leave more than two bins.
constexpr i64 kLeastKeys = 2048, kMostKeysPerBin = 64;

std::int64_t bits_of(double number) {
    std::int64_t bits;
    std::memcpy(&bits, &number, sizeof bits);
    return bits;
}

}  // namespace

BinFinder::BinFinder(const double* bounds, i64 bins)
    : bins_(bins), bounds_(bounds, bounds + bins + 1), least_(bounds[0]), end_(bounds[bins]) {
    const auto positive = std::upper_bound(bounds_.begin(), bounds_.end(), 0.0);
    if (positive == bounds_.end()) {  // nothing is below the last bound
        low_.assign(2, 0);
        return;
    }
    const std::int64_t first = bits_of(*positive), last = bits_of(end_);
    for (i64 most = kLeastKeys;; most *= 4) {
        make_table(first, last, most);
        if (narrow_ || most > kMostKeysPerBin * bins) return;
    }
}

void BinFinder::make_table(std::int64_t first, std::int64_t last, i64 most) {
    shift_ = 0;
    narrow_ = true;
    while (((last >> shift_) - (first >> shift_)) + 3 > most) ++shift_;
    first_key_ = (first >> shift_) - 1;  // of all numbers below those with the key of the first bound
    const i64 keys = (last >> shift_) - first_key_ + 1;
    low_.resize(keys + 1);
    i64 bin = 0;
    for (i64 key = 0; key <= keys; ++key) {
        const std::int64_t start = key ? (first_key_ + key) << shift_ : 0;
        while (bin < bins_ - 1 && bits_of(bounds_[bin + 1]) <= start) ++bin;
        low_[key] = static_cast<std::int32_t>(bin);
        narrow_ = narrow_ && (key == 0 || bin - low_[key - 1] <= 1);
    }
}

}  // namespace bmrm
