// The convex conjugates of the losses that have simple ones: what a row is in the dual (cpu/ascent.h).
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

struct Conjugate {
    double place, width, bend, low, high, entropy;

    // Of the derivative r, a feasible one.
    double operator()(double r) const {
        const auto plogp = [](double p) { return p > 0 ? p * std::log(p) : 0.0; };
        if (entropy > 0) return entropy * (plogp(std::abs(r) / entropy) + plogp(1.0 - std::abs(r) / entropy));
        return r * place + width * std::abs(r) + 0.5 * bend * r * r;
    }
};

template <class Loss>
struct Dual {
    static constexpr bool known = false;
};

struct KnownDual {
    static constexpr bool known = true;
    static constexpr double unbounded = std::numeric_limits<double>::infinity();
    // Of a loss that falls along y u, down to 0: r y is from -most to 0.
    static Conjugate falling(double y, double place, double bend, double most) {
        return {y * place, 0.0, bend, y > 0 ? -most : 0.0, y > 0 ? 0.0 : most, 0.0};
    }
};

template <>
struct Dual<Hinge> : KnownDual {
    static Conjugate of(double y, LossParameter) { return falling(y, 1.0, 0.0, 1.0); }
};

template <>
struct Dual<SquaredHinge> : KnownDual {
    static Conjugate of(double y, LossParameter) { return falling(y, 1.0, 0.5, unbounded); }
};

template <>
struct Dual<HuberHinge> : KnownDual {
    static Conjugate of(double y, LossParameter h) { return falling(y, 1.0 + h.value, 2.0 * h.value, 1.0); }
};

template <>
struct Dual<Logistic> : KnownDual {
    static Conjugate of(double y, LossParameter) {
        Conjugate f = falling(y, 0.0, 0.0, 1.0);
        f.entropy = 1.0;
        return f;
    }
};

template <>
struct Dual<Squared> : KnownDual {
    static Conjugate of(double y, LossParameter) { return {y, 0.0, 1.0, -unbounded, unbounded, 0.0}; }
};

template <>
struct Dual<Absolute> : KnownDual {
    static Conjugate of(double y, LossParameter) { return {y, 0.0, 0.0, -1.0, 1.0, 0.0}; }
};

template <>
struct Dual<Quantile> : KnownDual {
    static Conjugate of(double y, LossParameter tau) {
        return {y, 0.0, 0.0, -tau.value, 1.0 - tau.value, 0.0};
    }
};

template <>
struct Dual<EpsilonInsensitive> : KnownDual {
    static Conjugate of(double y, LossParameter epsilon) { return {y, epsilon.value, 0.0, -1.0, 1.0, 0.0}; }
};

template <>
struct Dual<SquaredEpsilonInsensitive> : KnownDual {
    static Conjugate of(double y, LossParameter epsilon) {
        return {y, epsilon.value, 0.5, -unbounded, unbounded, 0.0};
    }
};

template <>
struct Dual<Huber> : KnownDual {
    static Conjugate of(double y, LossParameter delta) {
        return {y, 0.0, 1.0, -delta.value, delta.value, 0.0};
    }
};

}  // namespace bmrm
