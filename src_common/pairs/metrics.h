// Distances by which neighbours are ordered; CPU and GPU say the same bits.
//
// Loops add up what a pair measures, axis by axis, each operation rounded once; a distance is made of that.
#pragma once
#include "pairs/decision.h"

namespace bmrm {

/// The cosine metric is that of rows of length 1, for which it is half the squared distance.
enum class Metric { euclidean, sqeuclidean, cosine, manhattan, chebyshev, jaccard };

/// What loops compute of a pair: the sum of squares, the sum or the maximum of sizes, or the share of the
/// axes on which only one of two rows of zeros and ones is 1 in those on which any is.
enum class Measure { squares, sizes, largest, share };

BMRM_HD constexpr Measure measure_of(Metric metric) {
    return metric == Metric::manhattan   ? Measure::sizes
           : metric == Metric::chebyshev ? Measure::largest
           : metric == Metric::jaccard   ? Measure::share
                                         : Measure::squares;
}

/// The distance of a measured pair; one that overflows is infinite.
BMRM_HD double distance_of(Metric metric, double measured) {
    if (!(measured < HUGE_VAL)) return HUGE_VAL;
    return metric == Metric::euclidean ? sqrt(measured)
           : metric == Metric::cosine  ? exact::product(0.5, measured)
                                       : measured;
}

/// A number that no pair exceeds whose distance is at most `distance`.
BMRM_HD double most_measured(Metric metric, double distance) {
    if (metric == Metric::euclidean) return distance * distance * (1.0 + 0x1p-50) + 0x1p-1072;
    return metric == Metric::cosine ? 2.0 * distance : distance;
}

/// The largest number that a pair measures whose distance is at most `distance`.
inline double last_measured(Metric metric, double distance) {
    double most = most_measured(metric, distance);
    while (distance_of(metric, most) > distance) most = nextafter(most, 0.0);
    return most;
}

/// Whether a neighbour comes before another one.
BMRM_HD bool is_nearer(double distance, int64_t index, double other_distance, int64_t other_index) {
    return distance < other_distance || (distance == other_distance && index < other_index);
}

}  // namespace bmrm
