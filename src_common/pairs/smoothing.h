// Functions of the distance whose sums are kernel densities, the same on CPU and GPU.
#pragma once
#include <math.h>

#include "host_device.h"

namespace bmrm {

enum class Shape { gaussian, tophat, epanechnikov, exponential, linear, cosine };
constexpr int kShapes = 6;
// Their names in Python.
constexpr const char* kShapeNames[kShapes] = {"gaussian",    "tophat", "epanechnikov",
                                              "exponential", "linear", "cosine"};

BMRM_HD constexpr bool is_endless(Shape shape) {
    return shape == Shape::gaussian || shape == Shape::exponential;
}

// A function of s = scale * d2, or of scale * sqrt(d2) for exponential and linear. All but gaussian and
// exponential are 0 from d2 = end on, which is infinite for these two.
struct Smoothing {
    Shape shape;
    double scale, end;
};

// Points whose terms are added on their own.
constexpr int kDensityTile = 512;

// The factor of f^(5 - k) in 2^f for |f| <= 1/2 in float32, evaluated from the highest power on. With those
// of the evaluation, and of f, the error is below 3 u, u = 2^-24 (computed for all f; 3.4 u without fused
// products).
BMRM_HD constexpr float power_of_two_factor(int k) {
    constexpr float factors[6] = {0x1.5b7cc0p-10f, 0x1.3ceff6p-7f, 0x1.c6b878p-5f,
                                  0x1.ebf9b0p-3f,  0x1.62e428p-1f, 1.0f};
    return factors[k];
}

// Adding it rounds to a whole number, which the last bits then are.
constexpr float kWholeFloat = 0x1.8p23f;

// cos(pi / 2 sqrt(z)) for 0 <= z <= 1, of error below 4 u, u = 2^-53: its Taylor series.
BMRM_HD double quarter_cosine(double z) {
    constexpr double kSquare = 2.4674011002723395;  // (pi / 2)^2
    constexpr int kTerms = 12;
    double sum = 1.0;
    for (int k = kTerms; k > 0; --k) sum = 1.0 - sum * z * (kSquare / ((2 * k - 1) * (2 * k)));
    return sum;
}

// A term that is 0 from smoothing.end on.
template <Shape shape>
BMRM_HD double bounded_term(double square, const Smoothing& smoothing) {
    double value = 1.0;
    if constexpr (shape == Shape::epanechnikov) value = 1.0 - square * smoothing.scale;
    if constexpr (shape == Shape::linear) value = 1.0 - sqrt(square) * smoothing.scale;
    if constexpr (shape == Shape::cosine) value = quarter_cosine(square * smoothing.scale);
    return square < smoothing.end && value > 0.0 ? value : 0.0;
}

// The exponent of an endless term: offset - s.
template <Shape shape>
BMRM_HD double endless_exponent(double square, const Smoothing& smoothing, double offset) {
    return offset - smoothing.scale * (shape == Shape::gaussian ? square : sqrt(square));
}

}  // namespace bmrm
