// The convex conjugates of the losses that have simple ones: what a row is in the dual, on the CPU
// (src_cython/dual/coordinate_ascent.h) and on a GPU (src_cuda/training/ascent.cu).
//
//     f(r) = sup_u r u - loss(u) = place r + width |r| + bend r^2 / 2 + entropy h(|r| / entropy),
//     h(a) = a log a + (1 - a) log(1 - a),                                low <= r <= high,
//
// and infinite elsewhere; the last term, where entropy > 0, stands alone.  A row of weight s has s f(r / s):
// the bounds and the entropy times s, the bend over it.
// Sources: Shalev-Shwartz, Zhang, JMLR 14 (2013) 567, table 1; Yu, Huang, Lin, Machine Learning 85 (2011) 41
// (logistic); the others by the same few lines.
#pragma once
#include <cmath>
#include <limits>

#include "losses.h"

namespace bmrm {

constexpr double kInfinite = std::numeric_limits<double>::infinity();

struct Conjugate {
    double place, width, bend, low, high, entropy;

    // Of the derivative r. What is out of the domain has no finite conjugate, so that no error in a step to r
    // becomes a bound.
    BMRM_HD double operator()(double r) const {
        if (!(low <= r && r <= high)) return kInfinite;
        const double size = magnitude(r);
        if (entropy > 0) return entropy * binary_entropy(size / entropy);
        return r * place + width * size + 0.5 * bend * r * r;
    }

    // The same of a row of weight s; the one r of a row without weight is 0.
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

    // h(a), to all digits also where a is tiny: then 1 - a has none of them.
    static BMRM_HD double binary_entropy(double a) {
        const double here = a > 0 ? a * std::log(a) : 0.0;
        return a < 1 ? here + (1.0 - a) * std::log1p(-a) : here;
    }
};

// Steps to a row's logistic maximum, how far its margin may be off, and how near it is where the last step
// may be taken along the tangent, which may leave a twentieth of the way.
constexpr int kLogisticSteps = 50;
constexpr double kLogisticExact = 1e-12, kLogisticNear = 0.1;

// The conjugate of the loss of a margin, and r.
struct Coordinate : Conjugate {
    double r;

    BMRM_HD double conjugate() const { return (*this)(r); }

    // Where the dual is largest, for a margin u and a dual that bends by `square`.
    BMRM_HD double best(double u, double square) const {
        if (entropy > 0) return feasible(best_logistic(u, square));
        const double slope = square * r + u - place, past = magnitude(slope) - width;
        const double bends = square + bend;
        double to = past > 0 ? std::copysign(past, slope) : 0.0;
        to = bends > 0 ? to / bends : to > 0 ? high : to < 0 ? low : r;
        return feasible(to);
    }

    // The same or nearly, for an ascent that comes back: a step to a logistic maximum takes an exponential.
    double nearly_best(double u, double square) const {
        return entropy > 0 ? feasible(best_logistic(u, square, kLogisticNear)) : best(u, square);
    }

    // This margin's share of the gap between objective and dual: loss(u) - (r u - f(r)).
    double gap(double u) const {
        const double to = best(u, 0.0);
        return (to - r) * u - (*this)(to) + conjugate();
    }

    bool inside() const { return low < r && r < high; }

    // Where r is the derivative of the logistic loss at the margin that it makes. With v for y times that
    // margin, v = c + reach / (1 + exp(v)), bent one way above 0 and the other way below: from 0 on, and
    // from any place after one step, Newton's steps go straight to the root. One that moves v by
    // `near` or less is the last, and moves the share along its tangent.
    BMRM_HD double best_logistic(double u, double square, double near = 0.0) const {
        const double y = low < 0 ? 1.0 : -1.0, c = y * (u + square * r), reach = square * entropy;
        const bool above = c + 0.5 * reach > 0;
        const auto side = [above](double v) { return above == (v > 0) ? v : 0.0; };
        double v = side(y * u), share = 0;
        for (int k = 0; k < kLogisticSteps; ++k) {
            const double e = exp_branchless(-magnitude(v));
            share = (v > 0 ? e : 1.0) / (1.0 + e);
            const double over = v - c - reach * share;
            if (magnitude(over) <= kLogisticExact * (1.0 + magnitude(v))) break;
            const double bends = share * (1.0 - share), by = over / (1.0 + reach * bends);
            if (magnitude(by) <= near) return -y * entropy * (share + bends * by);
            v = side(v - by);
        }
        return -y * entropy * share;
    }
};

template <class Loss>
struct Dual {
    static constexpr bool known = false;
};

struct KnownDual {
    static constexpr bool known = true;
    static constexpr double unbounded = kInfinite;
    // Of a loss that falls along y u, down to 0: r y is from -most to 0.
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
