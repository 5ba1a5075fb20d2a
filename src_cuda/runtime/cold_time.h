// The time of a product with something else in the caches, as a difference of two times.
#pragma once
#include <algorithm>
#include <cmath>

namespace bmrm {

// Filling the caches takes longer than a small product: if the difference is a smaller share of the time of
// both, both are timed again, some times at most.
constexpr double kClearColdShare = 0.25;
constexpr int kMaxColdRounds = 5;

// Returns the seconds of a product after something has filled the caches.  both: measures the seconds of the
// filling and the product; fill: those of the filling; alone: those of products one after another, which do
// not take longer with warm caches.  Of several times the least is the one with the least noise.
template <class Both, class Fill, class Alone>
double cold_seconds(Both&& both, Fill&& fill, Alone&& alone) {
    double with = INFINITY, without = INFINITY;
    for (int round = 0; round < kMaxColdRounds; round++) {
        with = std::min(with, both());
        without = std::min(without, fill());
        if (with - without >= kClearColdShare * with) break;
    }
    return std::max(with - without, alone());
}

}  // namespace bmrm
