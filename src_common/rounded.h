// Piecewise linear losses with smoothed kinks: the curvature of a sum of many of them, and cuts of that sum.
//
// A kink is a jump of the slope at x = 0, as in max(0, x). For any sigma in [0, 1] the line sigma x' never
// exceeds max(0, x'). Here sigma grows from 0 to 1 as x goes from -width to width: it is the derivative of
// max(0, x) with a parabola in place of the kink (Chapelle, Neural Comp. 19 (2007) 1155; Nesterov, Math.
// Programming 103 (2005) 127), whose second derivative Newton's method uses. The value returned at x is that
// of the line, sigma x, which is up to width / 8 less than max(0, x). So values and derivatives together are
// cuts of the original loss.
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

// A loss that is linear except for kinks: slope (u - place of kink 0) + sum_k jump max(0, u - place of kink
// k).
template <class Loss>
struct Pieces {
    static constexpr int kinks = 0;  // other losses have none
};

// A loss with one kink, at the label.
struct KinkAtLabel {
    static constexpr int kinks = 1;
    template <class R>
    static BMRM_HD R place(int, R y, LossParameter) {
        return y;
    }
};

template <>
struct Pieces<Hinge> : KinkAtLabel {
    static constexpr double jump = 1.0;
    template <class R>
    static BMRM_HD R slope(R y, LossParameter) {
        return y > R(0) ? R(-1) : R(0);
    }
};

template <>
struct Pieces<Absolute> : KinkAtLabel {
    static constexpr double jump = 2.0;
    template <class R>
    static BMRM_HD R slope(R, LossParameter) {
        return R(-1);
    }
};

template <>
struct Pieces<Quantile> : KinkAtLabel {
    static constexpr double jump = 1.0;
    template <class R>
    static BMRM_HD R slope(R, LossParameter tau) {
        return R(-tau.value);
    }
};

template <>
struct Pieces<EpsilonInsensitive> {
    static constexpr int kinks = 2;
    static constexpr double jump = 1.0;
    template <class R>
    static BMRM_HD R slope(R, LossParameter) {
        return R(-1);
    }
    template <class R>
    static BMRM_HD R place(int k, R y, LossParameter epsilon) {
        return k ? y + R(epsilon.value) : y - R(epsilon.value);
    }
};

// A piecewise linear loss with its kinks smoothed over p.width.
template <class Loss>
struct Rounded : Smooth {
    using P = Pieces<Loss>;
    static constexpr bool kinked = P::kinks > 0;
    // The line through the kink that has exactly this slope, rounding included: if slopes cancel to a small
    // one, the error of the line is as small. The two kinks of a tube give two lines, each from a point where
    // the loss is 0.
    static BMRM_HD double value(double u, double y, LossParameter p) {
        const double below = u - P::place(0, y, p);
        if (P::kinks == 1) return slope(u, y, p) * below;
        return RoundedKink::value(u - P::place(1, y, p), p.width) + RoundedKink::value(-below, p.width);
    }
    template <class R>
    static BMRM_HD R slope(R u, R y, LossParameter p) {
        const R below = u - P::place(0, y, p);
        if (P::kinks == 1) return P::slope(y, p) + R(P::jump) * RoundedKink::slope(below, p.width);
        return RoundedKink::slope(u - P::place(1, y, p), p.width) - RoundedKink::slope(-below, p.width);
    }
    static BMRM_HD double curvature(double u, double y, LossParameter p) {
        double sum = 0;
        for (int k = 0; k < P::kinks; ++k)
            sum += P::jump * RoundedKink::curvature(u - P::place(k, y, p), p.width);
        return sum;
    }
};

}  // namespace bmrm
