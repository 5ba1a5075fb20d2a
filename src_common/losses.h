// The scalar losses, each written once: value and derivative with respect to the margin u = x.w + b for a
// label y, and the second derivative of the smooth ones.
//
// The CPU kernels (src_cython/losses/risk_kernels.inl) and the device kernels are both compiled from this
// file. Conventions: binary labels are -1 and +1; at a kink the derivative is the one of smaller magnitude,
// so that a margin exactly on the edge counts as satisfied; where a second derivative jumps, it may have the
// value of either side. A new loss is a struct here, a line in BMRM_LOSSES and a class of a few lines in
// bmrm/losses.
//
// Slopes are templates over the real type: the line search on a device computes them in float if the margins
// are float.
//
// Sources: Teo, Vishwanathan, Smola, Le, JMLR 11 (2010), table 5 (hinge, squared hinge, logistic,
// exponential, squared, absolute, quantile, epsilon-insensitive, Huber, Poisson, novelty); Chapelle, Neural
// Comp. 19 (2007) 1155 (Huber hinge).
#pragma once
#include <cmath>
#include <cstdint>
#include <cstring>

#include "host_device.h"

namespace bmrm {

// exp(x) to about 1 ulp without branches or tables, so that loops over it vectorise: x = k ln 2 + r, |r| <=
// ln(2)/2, Taylor to r^13, scaled by 2^k in two steps so that subnormal results round once.
BMRM_HD double exp_branchless(const double x_in) {
    const double x = x_in > 1000.0 ? 1000.0 : (x_in < -1000.0 ? -1000.0 : x_in);
    const double shifter = 6755399441055744.0;  // 1.5 * 2^52: adding it rounds to an integer
    const double shifted = x * 1.4426950408889634074 + shifter;
    const double k = shifted - shifter;
    const double r = (x - k * 6.93147180369123816490e-01) - k * 1.90821492927058770002e-10;
    double p = 1.6059043836821613e-10;
    p = p * r + 2.08767569878681e-09;
    p = p * r + 2.505210838544172e-08;
    p = p * r + 2.755731922398589e-07;
    p = p * r + 2.7557319223985893e-06;
    p = p * r + 2.48015873015873e-05;
    p = p * r + 1.984126984126984e-04;
    p = p * r + 1.388888888888889e-03;
    p = p * r + 8.333333333333333e-03;
    p = p * r + 4.1666666666666664e-02;
    p = p * r + 1.6666666666666666e-01;
    p = p * r + 0.5;
    p = p * r + 1.0;
    p = p * r + 1.0;
    const int32_t n = int32_t(k), half = n >> 1;  // AVX2 has no such shift of 64-bit integers
    const int64_t low_bits = int64_t(half + 1023) << 52, high_bits = int64_t(n - half + 1023) << 52;
    double low, high;
    memcpy(&low, &low_bits, 8);
    memcpy(&high, &high_bits, 8);
    // NaN takes the arithmetic path and stays NaN.
    return p * low * high;
}

// log(1 + t) for 0 <= t <= 1: 2 atanh(t / (2 + t)), whose series in (t / (2 + t))^2 <= 1/9 ends at 1e-17.
BMRM_HD double log1p_unit(const double t) {
    const double s = t / (2.0 + t), q = s * s;
    double p = 1.0 / 33.0;
    p = p * q + 1.0 / 31.0;
    p = p * q + 1.0 / 29.0;
    p = p * q + 1.0 / 27.0;
    p = p * q + 1.0 / 25.0;
    p = p * q + 1.0 / 23.0;
    p = p * q + 1.0 / 21.0;
    p = p * q + 1.0 / 19.0;
    p = p * q + 1.0 / 17.0;
    p = p * q + 1.0 / 15.0;
    p = p * q + 1.0 / 13.0;
    p = p * q + 1.0 / 11.0;
    p = p * q + 1.0 / 9.0;
    p = p * q + 1.0 / 7.0;
    p = p * q + 1.0 / 5.0;
    p = p * q + 1.0 / 3.0;
    p = p * q + 1.0;
    return 2.0 * s * p;
}

#ifdef __CUDACC__
BMRM_HD float exp_branchless(const float x) { return expf(x); }
#endif

// Comparisons are written so that NaN stays NaN: an invalid margin must not look like a row without loss.
template <class R>
BMRM_HD R positive(const R x) {
    return x < R(0) ? R(0) : x;
}
template <class R>
BMRM_HD R magnitude(const R x) {
    return x < R(0) ? -x : x;
}

// A row of weight 0 contributes nothing, even if its loss is infinite.
template <class R>
BMRM_HD R with_weight(const R weight, const R what) {
    return weight > R(0) ? weight * what : R(0);
}

// The parameter of a loss (none has more than one: tau, epsilon, h, delta or nu), and the half-width over
// which its kinks are smoothed (rounded.h), 0 if they are not.
struct LossParameter {
    double value;
    double width = 0.0;
};

// A smooth loss has a continuous derivative, so its second derivative is the curvature of the risk.
struct Smooth {
    static constexpr bool smooth = true;
};
struct Kinked {
    static constexpr bool smooth = false;
    static BMRM_HD double curvature(double, double, LossParameter) { return 0.0; }
};

// max(0, 1 - y u)
struct Hinge : Kinked {
    static BMRM_HD double value(double u, double y, LossParameter) { return positive(1.0 - y * u); }
    template <class R>
    static BMRM_HD R slope(R u, R y, LossParameter) {
        return y * u < R(1) ? -y : R(0);
    }
};

// max(0, 1 - y u)^2
struct SquaredHinge : Smooth {
    static BMRM_HD double value(double u, double y, LossParameter) {
        const double v = positive(1.0 - y * u);
        return v * v;
    }
    template <class R>
    static BMRM_HD R slope(R u, R y, LossParameter) {
        return R(-2) * y * positive(R(1) - y * u);
    }
    static BMRM_HD double curvature(double u, double y, LossParameter) { return y * u < 1.0 ? 2.0 : 0.0; }
};

// 0 for 1 - y u < -h, 1 - y u above h, and a parabola between them.
struct HuberHinge : Smooth {
    static BMRM_HD double value(double u, double y, LossParameter h) {
        const double v = 1.0 - y * u, inner = v + h.value;
        return v > h.value ? v : (inner < 0.0 ? 0.0 : inner * inner / (4.0 * h.value));
    }
    template <class R>
    static BMRM_HD R slope(R u, R y, LossParameter h) {
        const R width = R(h.value), v = R(1) - y * u, inner = positive(v + width);
        return v > width ? -y : -y * inner / (R(2) * width);
    }
    static BMRM_HD double curvature(double u, double y, LossParameter h) {
        return magnitude(1.0 - y * u) <= h.value ? 0.5 / h.value : 0.0;
    }
};

// log(1 + exp(-y u))
struct Logistic : Smooth {
    static BMRM_HD double value(double u, double y, LossParameter) {
        const double v = y * u;
        return positive(-v) + log1p_unit(exp_branchless(-magnitude(v)));
    }
    template <class R>
    static BMRM_HD R slope(R u, R y, LossParameter) {
        const R v = y * u, e = exp_branchless(-magnitude(v));
        return -y * (v > R(0) ? e : R(1)) / (R(1) + e);
    }
    static BMRM_HD double curvature(double u, double y, LossParameter) {
        const double e = exp_branchless(-magnitude(y * u));
        return e / ((1.0 + e) * (1.0 + e));
    }
};

// exp(-y u)
struct Exponential : Smooth {
    static BMRM_HD double value(double u, double y, LossParameter) { return exp_branchless(-y * u); }
    template <class R>
    static BMRM_HD R slope(R u, R y, LossParameter) {
        return -y * exp_branchless(-y * u);
    }
    static BMRM_HD double curvature(double u, double y, LossParameter) {
        return y * y * exp_branchless(-y * u);
    }
};

// (u - y)^2 / 2
struct Squared : Smooth {
    static BMRM_HD double value(double u, double y, LossParameter) { return 0.5 * (u - y) * (u - y); }
    template <class R>
    static BMRM_HD R slope(R u, R y, LossParameter) {
        return u - y;
    }
    static BMRM_HD double curvature(double, double, LossParameter) { return 1.0; }
};

// |u - y|
struct Absolute : Kinked {
    static BMRM_HD double value(double u, double y, LossParameter) { return magnitude(u - y); }
    template <class R>
    static BMRM_HD R slope(R u, R y, LossParameter) {
        return u > y ? R(1) : (u < y ? R(-1) : R(0));
    }
};

// max(tau (y - u), (1 - tau)(u - y)): its minimiser is the tau quantile of y given x.
struct Quantile : Kinked {
    static BMRM_HD double value(double u, double y, LossParameter tau) {
        const double e = y - u;
        return e > 0.0 ? tau.value * e : (tau.value - 1.0) * e;
    }
    template <class R>
    static BMRM_HD R slope(R u, R y, LossParameter tau) {
        return u < y ? R(-tau.value) : (u > y ? R(1.0 - tau.value) : R(0));
    }
};

// max(0, |u - y| - epsilon)
struct EpsilonInsensitive : Kinked {
    static BMRM_HD double value(double u, double y, LossParameter eps) {
        return positive(magnitude(u - y) - eps.value);
    }
    template <class R>
    static BMRM_HD R slope(R u, R y, LossParameter eps) {
        const R e = u - y, width = R(eps.value);
        return e > width ? R(1) : (e < -width ? R(-1) : R(0));
    }
};

// max(0, |u - y| - epsilon)^2
struct SquaredEpsilonInsensitive : Smooth {
    static BMRM_HD double value(double u, double y, LossParameter eps) {
        const double v = positive(magnitude(u - y) - eps.value);
        return v * v;
    }
    template <class R>
    static BMRM_HD R slope(R u, R y, LossParameter eps) {
        const R e = u - y, v = positive(magnitude(e) - R(eps.value));
        return e > R(0) ? R(2) * v : R(-2) * v;
    }
    static BMRM_HD double curvature(double u, double y, LossParameter eps) {
        return magnitude(u - y) > eps.value ? 2.0 : 0.0;
    }
};

// e^2 / 2 for |e| <= delta, else delta (|e| - delta / 2), e = u - y
struct Huber : Smooth {
    static BMRM_HD double value(double u, double y, LossParameter delta) {
        const double e = magnitude(u - y);
        return e <= delta.value ? 0.5 * e * e : delta.value * (e - 0.5 * delta.value);
    }
    template <class R>
    static BMRM_HD R slope(R u, R y, LossParameter delta) {
        const R e = u - y, most = R(delta.value);
        return e > most ? most : (e < -most ? -most : e);
    }
    static BMRM_HD double curvature(double u, double y, LossParameter delta) {
        return magnitude(u - y) <= delta.value ? 1.0 : 0.0;
    }
};

// exp(u) - y u: the negative log-likelihood of a count y with mean exp(u), without its constant
struct Poisson : Smooth {
    static BMRM_HD double value(double u, double y, LossParameter) { return exp_branchless(u) - y * u; }
    template <class R>
    static BMRM_HD R slope(R u, R y, LossParameter) {
        return exp_branchless(u) - y;
    }
    static BMRM_HD double curvature(double u, double, LossParameter) { return exp_branchless(u); }
};

// max(0, -u) / nu, u = x.w - rho; the risk adds -rho, see bmrm/losses/novelty.py
struct Novelty : Kinked {
    static BMRM_HD double value(double u, double, LossParameter nu) { return positive(-u) / nu.value; }
    template <class R>
    static BMRM_HD R slope(R u, R, LossParameter nu) {
        return u < R(0) ? R(-1.0 / nu.value) : R(0);
    }
};

// Every loss: its name in the API and its struct. The order is the numbering used across the C interface.
#define BMRM_LOSSES(X)                                        \
    X(hinge, Hinge)                                           \
    X(squared_hinge, SquaredHinge)                            \
    X(huber_hinge, HuberHinge)                                \
    X(logistic, Logistic)                                     \
    X(exponential, Exponential)                               \
    X(squared, Squared)                                       \
    X(absolute, Absolute)                                     \
    X(quantile, Quantile)                                     \
    X(epsilon_insensitive, EpsilonInsensitive)                \
    X(squared_epsilon_insensitive, SquaredEpsilonInsensitive) \
    X(huber, Huber)                                           \
    X(poisson, Poisson)                                       \
    X(novelty, Novelty)

}  // namespace bmrm
