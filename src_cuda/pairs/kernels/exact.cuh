// Points in float64 on the device, and what decides a pair: the arithmetic of src_common/pairs/decision.h.
#pragma once
#include <stdint.h>

#include "pairs/decision.h"
#include "runtime/device_memory.h"

namespace bmrm {

struct ExactPoints {
    const double* at;  // (axes, n)
    int64_t n;
    int axes;
};

// The periodic box: lengths by axis, and their reciprocals; both 0 for an open axis.
struct Box {
    const double* length;
    const double* inverse;
};

struct Bounds {
    const double* at;  // of squared distances, not decreasing
    int64_t bins;
};

enum Images { OPEN, NEAREST, SHIFTED };

// The difference on an axis.  For the nearest image a product with the reciprocal is off by less than 3 units
// in the last place: away from where rounding to a whole number jumps it decides as the quotient does.
template <int IMAGES>
__device__ __forceinline__ double image_difference(double a, double b, double length, double inverse,
                                                   double shift) {
    if (IMAGES == SHIFTED) return shifted_difference(a, b, shift);
    const double d = exact::difference(a, b);
    if (IMAGES == OPEN) return d;
    const double q = exact::product(d, inverse), k = exact::nearest_whole(q);
    if (fabs(q - k) > 0.499999 || fabs(q) > 1e9) return nearest_difference(a, b, length);
    return exact::difference(d, exact::product(length, k));
}

// A coordinate moved into the periodic box, up to rounding; the same bits wherever it is called.
__device__ __forceinline__ double in_box(double x, double length, double inverse) {
    return exact::difference(x, exact::product(length, floor(exact::product(x, inverse))));
}

// The key of a pair: one more than its bin, 0 if it is in none.
__device__ __forceinline__ uint32_t key_of(const Bounds& bounds, double square) {
    return uint32_t(bin_of(square, bounds.at, bounds.bins) + 1);
}

// The same, which is mostly `near` or next to it.
__device__ __forceinline__ uint32_t key_near(const Bounds& bounds, double square, uint32_t near) {
    return uint32_t(bin_near(square, bounds.at, bounds.bins, int64_t(near) - 1) + 1);
}

__device__ __forceinline__ double exact_square(const ExactPoints& a, int64_t i, const ExactPoints& b,
                                               int64_t j, const Box& box) {
    return squared_distance(a.at + i, a.n, b.at + j, b.n, box.length, a.axes);
}

// Turns coordinates into float64 by axis.
template <class T>
__global__ void turn_points(const T* from, int64_t n, int axes, int64_t point, int64_t axis, double* to) {
    BB_FOR (i, n * axes) to[i] = double(from[i % n * point + i / n * axis]);
}

// Brings points into another order.
template <class T>
__global__ void gather_points(const T* from, const uint32_t* position, int64_t n, int axes, T* to) {
    BB_FOR (i, n * axes) to[i] = from[i / n * n + position[i % n]];
}

}  // namespace bmrm
