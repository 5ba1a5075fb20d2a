// What decides in which bin a pair of points counts: the squared distance, each operation rounded once, and
// bounds of squared distances. CPU and GPU say the same bits.
//
// Per axis d = a - b; on a periodic axis d - L rint(d / L) for the nearest image, or d - s for another one,
// whose s = m L is rounded. The squared distance is ((d_0^2 + d_1^2) + d_2^2) + ... in the order of the axes.
// Files that include this are compiled without contraction (-ffp-contract=off): a fused multiply-add would
// round once less. On a GPU the operations are intrinsics, which nvcc does not fuse.
//
// No root is taken: rounded roots are monotone, so that a distance is at least an edge exactly if its square
// is at least the least number whose rounded root is. `bmrm.pairs.edges` finds these bounds.
#pragma once
#include <math.h>
#include <stdint.h>

#include "host_device.h"

namespace bmrm {

namespace exact {

BMRM_HD double difference(double a, double b) {
#ifdef __CUDA_ARCH__
    return __dsub_rn(a, b);
#else
    return a - b;
#endif
}

BMRM_HD double sum(double a, double b) {
#ifdef __CUDA_ARCH__
    return __dadd_rn(a, b);
#else
    return a + b;
#endif
}

BMRM_HD double product(double a, double b) {
#ifdef __CUDA_ARCH__
    return __dmul_rn(a, b);
#else
    return a * b;
#endif
}

BMRM_HD double quotient(double a, double b) {
#ifdef __CUDA_ARCH__
    return __ddiv_rn(a, b);
#else
    return a / b;
#endif
}

// The nearest whole number, the even one of two. The host's form needs no instruction beyond SSE2, and every
// compiler vectorises it.
BMRM_HD double nearest_whole(double x) {
#ifdef __CUDA_ARCH__
    return rint(x);
#else
    constexpr double kNoFraction = 4503599627370496.0;  // 2^52: from here on all numbers are whole
    const double size = __builtin_fabs(x), whole = (size + kNoFraction) - kNoFraction;
    return size < kNoFraction ? __builtin_copysign(whole, x) : x;
#endif
}

}  // namespace exact

// The difference on an axis to the nearest image; `period` is 0 on an open axis.
BMRM_HD double nearest_difference(double a, double b, double period) {
    const double d = exact::difference(a, b);
    if (!(period > 0.0)) return d;
    return exact::difference(d, exact::product(period, exact::nearest_whole(exact::quotient(d, period))));
}

// The difference on an axis to the image that is `shift` away: a whole number times the period, rounded.
BMRM_HD double shifted_difference(double a, double b, double shift) {
    return exact::difference(exact::difference(a, b), shift);
}

// One more axis: the sum so far, and the difference on this axis. The first axis adds to 0, which is exact.
BMRM_HD double add_square(double sum, double d) { return exact::sum(sum, exact::product(d, d)); }

// The squared distance to the nearest image; coordinate k of a point is at k times its stride.
BMRM_HD double squared_distance(const double* a, int64_t a_stride, const double* b, int64_t b_stride,
                                const double* box, int axes) {
    double square = 0.0;
    for (int k = 0; k < axes; k++)
        square = add_square(square, nearest_difference(a[k * a_stride], b[k * b_stride], box[k]));
    return square;
}

// The last k from `low` to `high` with bounds[k] <= square, for which bounds[low] <= square.
BMRM_HD int64_t last_reached(double square, const double* bounds, int64_t low, int64_t high) {
    while (low < high) {
        const int64_t middle = (low + high + 1) / 2;
        if (square >= bounds[middle])
            low = middle;
        else
            high = middle - 1;
    }
    return low;
}

// The bin of a squared distance: the last k with bounds[k] <= square, if square < bounds[bins]; else -1.
// There are bins + 1 bounds, which do not fall; NaN and infinity are in no bin.
BMRM_HD int64_t bin_of(double square, const double* bounds, int64_t bins) {
    if (!(square >= bounds[0] && square < bounds[bins])) return -1;
    return last_reached(square, bounds, 0, bins - 1);
}

// The same, which is mostly `guess` or next to it: then few bounds are read.
BMRM_HD int64_t bin_near(double square, const double* bounds, int64_t bins, int64_t guess) {
    const int64_t low = guess > 0 ? guess - 1 : 0, high = guess + 2 < bins ? guess + 2 : bins;
    if (low < high && square >= bounds[low] && square < bounds[high])
        return last_reached(square, bounds, low, high - 1);
    return bin_of(square, bounds, bins);
}

}  // namespace bmrm
