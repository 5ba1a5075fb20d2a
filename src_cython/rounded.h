// Piecewise linear losses with their kinks rounded: what bends in a sum of many of them, and cuts of it.
//
// A kink is a jump of the slope at x = 0, as max(0, x) has.  For any sigma in [0, 1] the line sigma x' is
// nowhere above max(0, x').  Here sigma grows from 0 to 1 while x goes from -width to width: the derivative
// of max(0, x) with a parabola in the place of the kink (Chapelle, Neural Comp. 19 (2007) 1155; Nesterov,
// Math. Programming 103 (2005) 127), whose second derivative Newton's steps go by.  The value told at x is
// that of the line, sigma x, up to width / 8 less than max(0, x): with it derivatives and values make cuts of
// the loss as it is.
#pragma once
#include "losses.h"

namespace bmrm {

// NaN stays NaN.
struct RoundedKink {
    template <class R>
    static BMRM_HD R slope(const R x, const double width) {
        const R rise = positive(R(0.5) + x * R(0.5 / width));
        return rise > R(1) ? R(1) : rise;
    }
    static BMRM_HD double value(const double x, const double width) { return slope(x, width) * x; }
    static BMRM_HD double curvature(const double x, const double width) {
        return magnitude(x) <= width ? 0.5 / width : 0.0;
    }
};

// Of other losses there is nothing to round.
template <class Loss>
struct Rounded {
    static constexpr bool kinked = false;
};

struct Kinks : Smooth {
    static constexpr bool kinked = true;
};

template <>
struct Rounded<Hinge> : Kinks {
    static BMRM_HD double value(double u, double y, LossParameter p) {
        return RoundedKink::value(1.0 - y * u, p.width);
    }
    template <class R>
    static BMRM_HD R slope(R u, R y, LossParameter p) {
        return -y * RoundedKink::slope(R(1) - y * u, p.width);
    }
    static BMRM_HD double curvature(double u, double y, LossParameter p) {
        return RoundedKink::curvature(1.0 - y * u, p.width);
    }
};

template <>
struct Rounded<Absolute> : Kinks {
    static BMRM_HD double value(double u, double y, LossParameter p) {
        return 2.0 * RoundedKink::value(u - y, p.width) - (u - y);
    }
    template <class R>
    static BMRM_HD R slope(R u, R y, LossParameter p) {
        return R(2) * RoundedKink::slope(u - y, p.width) - R(1);
    }
    static BMRM_HD double curvature(double u, double y, LossParameter p) {
        return 2.0 * RoundedKink::curvature(u - y, p.width);
    }
};

template <>
struct Rounded<Quantile> : Kinks {
    static BMRM_HD double value(double u, double y, LossParameter p) {
        return RoundedKink::value(u - y, p.width) - p.value * (u - y);
    }
    template <class R>
    static BMRM_HD R slope(R u, R y, LossParameter p) {
        return RoundedKink::slope(u - y, p.width) - R(p.value);
    }
    static BMRM_HD double curvature(double u, double y, LossParameter p) {
        return RoundedKink::curvature(u - y, p.width);
    }
};

template <>
struct Rounded<EpsilonInsensitive> : Kinks {
    static BMRM_HD double value(double u, double y, LossParameter p) {
        return RoundedKink::value(u - y - p.value, p.width) + RoundedKink::value(y - u - p.value, p.width);
    }
    template <class R>
    static BMRM_HD R slope(R u, R y, LossParameter p) {
        const R epsilon = R(p.value);
        return RoundedKink::slope(u - y - epsilon, p.width) - RoundedKink::slope(y - u - epsilon, p.width);
    }
    static BMRM_HD double curvature(double u, double y, LossParameter p) {
        return RoundedKink::curvature(u - y - p.value, p.width) +
               RoundedKink::curvature(y - u - p.value, p.width);
    }
};

}  // namespace bmrm
