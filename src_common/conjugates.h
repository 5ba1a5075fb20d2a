// Convex conjugates of the losses whose conjugates are simple: the terms of the dual objective, on the CPU
// (src_cython/dual/coordinate_ascent.h) and on a GPU (src_cuda/training/ascent.cu).
//
//     f(r) = sup_u r u - loss(u) = place r + width |r| + bend r^2 / 2 + entropy h(|r| / entropy),
//     h(a) = a log a + (1 - a) log(1 - a),                                low <= r <= high,
//
// and infinite elsewhere. If entropy > 0, width and bend are 0. A row of weight s has the conjugate
// s f(r / s): its bounds and entropy are multiplied by s, its bend is divided by s. A row whose margin has an
// offset o has the conjugate f(r) - o r: its place is o less.
//
// Sources: Shalev-Shwartz, Zhang, JMLR 14 (2013) 567, table 1; Yu, Huang, Lin, Machine Learning 85 (2011) 41
// (logistic); the others follow in the same few lines.
#pragma once
#include <cmath>
#include <limits>

#include "losses.h"

namespace bmrm {

constexpr double kInfinite = std::numeric_limits<double>::infinity();

struct Conjugate {
    double place, width, bend, low, high, entropy;

    // The conjugate at r. It is infinite outside the domain, so that an error in a step to r cannot become a
    // bound.
    BMRM_HD double operator()(double r) const {
        if (!(low <= r && r <= high)) return kInfinite;
        const double size = magnitude(r);
        if (entropy > 0) return r * place + entropy * binary_entropy(size / entropy);
        return r * place + width * size + 0.5 * bend * r * r;
    }

    // The conjugate of a row of weight s. A row of weight 0 allows only r = 0.
    BMRM_HD Conjugate weighted(double s) const {
        const bool counts = s > 0.0;
        Conjugate row = *this;
        row.bend = counts ? bend / s : 0.0;
        row.low = counts ? low * s : 0.0;
        row.high = counts ? high * s : 0.0;
        row.entropy = entropy * s;
        return row;
    }

    BMRM_HD double feasible(double r) const { return r < low ? low : high < r ? high : r; }

    // h(a), accurate for tiny a as well, whose digits 1 - a would lose.
    static BMRM_HD double binary_entropy(double a) {
        const double here = a > 0 ? a * std::log(a) : 0.0;
        return a < 1 ? here + (1.0 - a) * std::log1p(-a) : here;
    }
};

// Maximum number of Newton steps to the logistic maximum of a row.
constexpr int kMaxLogisticSteps = 50;
// Relative error of the margin at which these steps end.
constexpr double kLogisticTolerance = 1e-12;
// Length of a step that may be the last one, along the tangent: it leaves at most a twentieth of the way.
constexpr double kLogisticNear = 0.1;

// One coordinate of the dual: the conjugate of a margin's loss, and the variable r.
struct Coordinate : Conjugate {
    double r;

    BMRM_HD double conjugate() const { return (*this)(r); }

    // The r that maximises the dual, given the margin u and the curvature `square` of the dual's quadratic
    // term.
    BMRM_HD double best(double u, double square) const {
        if (entropy > 0) return feasible(best_logistic(u - place, square));
        const double slope = square * r + u - place, past = magnitude(slope) - width;
        const double bends = square + bend;
        double to = past > 0 ? std::copysign(past, slope) : 0.0;
        to = bends > 0 ? to / bends : to > 0 ? high : to < 0 ? low : r;
        return feasible(to);
    }

    // The same, or nearly, for an ascent that will visit the row again: each step to a logistic maximum costs
    // an exponential.
    double nearly_best(double u, double square) const {
        return entropy > 0 ? feasible(best_logistic(u - place, square, kLogisticNear)) : best(u, square);
    }

    // This margin's share of the gap between the objective and the dual: loss(u) - (r u - f(r)).
    double gap(double u) const {
        const double to = best(u, 0.0);
        return (to - r) * u - (*this)(to) + conjugate();
    }

    bool inside() const { return low < r && r < high; }

    // The r that equals the derivative of the logistic loss at the margin that r itself produces, offset
    // included. With v for y times that margin, v = c + reach / (1 + exp(v)), whose right side is convex
    // above 0 and concave below. So Newton's method converges monotonically from 0, and from any other start
    // after one step. A step that moves v by `near` or less is the last one, and moves the share along the
    // tangent.
    BMRM_HD double best_logistic(double u, double square, double near = 0.0) const {
        const double y = low < 0 ? 1.0 : -1.0, c = y * (u + square * r), reach = square * entropy;
        const bool above = c + 0.5 * reach > 0;
        const auto side = [above](double v) { return above == (v > 0) ? v : 0.0; };
        double v = side(y * u), share = 0;
        for (int k = 0; k < kMaxLogisticSteps; ++k) {
            const double e = exp_branchless(-magnitude(v));
            share = (v > 0 ? e : 1.0) / (1.0 + e);
            const double over = v - c - reach * share;
            if (magnitude(over) <= kLogisticTolerance * (1.0 + magnitude(v))) break;
            const double bends = share * (1.0 - share), by = over / (1.0 + reach * bends);
            if (magnitude(by) <= near) return -y * entropy * (share + bends * by);
            v = side(v - by);
        }
        return -y * entropy * share;
    }
};

// The conjugate of each loss; `known` says whether it is here.
template <class Loss>
struct Dual {
    static constexpr bool known = false;
};

struct KnownDual {
    static constexpr bool known = true;
    static constexpr double unbounded = kInfinite;
    // The conjugate of a loss that decreases in y u, down to 0: r y lies between -most and 0.
    static BMRM_HD Conjugate falling(double y, double place, double bend, double most) {
        return {y * place, 0.0, bend, y > 0 ? -most : 0.0, y > 0 ? 0.0 : most, 0.0};
    }
};

template <>
struct Dual<Hinge> : KnownDual {
    static BMRM_HD Conjugate of(double y, LossParameter) { return falling(y, 1.0, 0.0, 1.0); }
};

template <>
struct Dual<SquaredHinge> : KnownDual {
    static BMRM_HD Conjugate of(double y, LossParameter) { return falling(y, 1.0, 0.5, unbounded); }
};

template <>
struct Dual<HuberHinge> : KnownDual {
    static BMRM_HD Conjugate of(double y, LossParameter h) {
        return falling(y, 1.0 + h.value, 2.0 * h.value, 1.0);
    }
};

template <>
struct Dual<Logistic> : KnownDual {
    static BMRM_HD Conjugate of(double y, LossParameter) {
        Conjugate f = falling(y, 0.0, 0.0, 1.0);
        f.entropy = 1.0;
        return f;
    }
};

template <>
struct Dual<Squared> : KnownDual {
    static BMRM_HD Conjugate of(double y, LossParameter) { return {y, 0.0, 1.0, -unbounded, unbounded, 0.0}; }
};

template <>
struct Dual<Absolute> : KnownDual {
    static BMRM_HD Conjugate of(double y, LossParameter) { return {y, 0.0, 0.0, -1.0, 1.0, 0.0}; }
};

template <>
struct Dual<Quantile> : KnownDual {
    static BMRM_HD Conjugate of(double y, LossParameter tau) {
        return {y, 0.0, 0.0, -tau.value, 1.0 - tau.value, 0.0};
    }
};

template <>
struct Dual<EpsilonInsensitive> : KnownDual {
    static BMRM_HD Conjugate of(double y, LossParameter epsilon) {
        return {y, epsilon.value, 0.0, -1.0, 1.0, 0.0};
    }
};

template <>
struct Dual<SquaredEpsilonInsensitive> : KnownDual {
    static BMRM_HD Conjugate of(double y, LossParameter epsilon) {
        return {y, epsilon.value, 0.5, -unbounded, unbounded, 0.0};
    }
};

template <>
struct Dual<Huber> : KnownDual {
    static BMRM_HD Conjugate of(double y, LossParameter delta) {
        return {y, 0.0, 1.0, -delta.value, delta.value, 0.0};
    }
};

}  // namespace bmrm
