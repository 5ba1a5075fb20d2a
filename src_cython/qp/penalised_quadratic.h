// Minimises a quadratic with kinks and intervals: Newton's model of a smooth risk, plus a separable penalty.
//
//     minimise  <s, w - c> + (w - c)' H (w - c) / 2 + sum_j l1_j |w_j - prior_j|,   low_j <= w_j <= high_j
//
// Method: coordinate descent, which finds the active set (the features on a kink or at an end of their
// interval, and the signs of the others), then one Cholesky solve for the free features, as far as the active
// set stays the same. Descent alone (Friedman, Hastie, Tibshirani, J. Stat. Softw. 33 (2010) 1) is slow if
// columns depend on each other, as indicators of the same attribute do; the solve alone would have to find
// the active set one feature at a time.
#pragma once
#include <algorithm>
#include <cmath>
#include <vector>

#include "qp/dense_algebra.h"

namespace bmrm {

struct PenalisedQuadratic {
    size_t n;
    const double* H;  // n rows of n, symmetric
    double* slope;    // in: s, at c; out: H (w - c) + s
    const double* l1;
    const double* prior;
    const double* low;
    const double* high;
    double* w;  // in: c, in its intervals; out: the minimiser
};

class PenalisedQuadraticSolver {
  public:
    explicit PenalisedQuadraticSolver(PenalisedQuadratic& problem) : q_(problem) {}

    // Returns the number of rounds.
    int run() {
        double first = 0.0;
        for (int round = 0; round < max_rounds; ++round) {
            double moved = 0.0;
            for (int k = 0; k < sweeps; ++k) {
                moved = sweep();
                first = std::fmax(first, moved);
                if (moved <= accuracy * first) return round;
            }
            solve_free();
        }
        return max_rounds;
    }

  private:
    // Maximum number of rounds.
    static constexpr int max_rounds = 100;
    // Number of sweeps of a round before the solve.
    static constexpr int sweeps = 3;
    // Gain of a sweep, relative to the largest one, at which the method ends. The slopes have fallen by its
    // square root then.
    static constexpr double accuracy = 1e-20;
    // Added to the diagonal of the system, relative to its mean, in case some direction has no curvature.
    static constexpr double ridge = 1e-12;

    // Moves each coordinate to its minimum; returns a lower bound of twice the gain.
    double sweep() {
        double gain = 0.0;
        for (size_t j = 0; j < q_.n; ++j) {
            const double* row = q_.H + j * q_.n;
            const double h = row[j];
            if (!(h > 0.0)) continue;
            const double u = h * (q_.w[j] - q_.prior[j]) - q_.slope[j];
            const double beyond = std::copysign(std::fmax(0.0, std::fabs(u) - q_.l1[j]), u);
            const double to = std::fmin(q_.high[j], std::fmax(q_.low[j], q_.prior[j] + beyond / h));
            const double change = to - q_.w[j];
            if (change == 0.0) continue;
            q_.w[j] = to;
            axpy(q_.n, change, row, q_.slope);
            gain += h * change * change;
        }
        return gain;
    }

    // Minimises over the free coordinates: Newton's steps, each up to the point where a coordinate meets a
    // kink or an end, then without that coordinate.
    void solve_free() {
        free_.clear();
        for (size_t j = 0; j < q_.n; ++j)
            if (q_.w[j] != q_.prior[j] && q_.w[j] > q_.low[j] && q_.w[j] < q_.high[j]) free_.push_back(j);
        while (!free_.empty() && !step_free()) {
        }
    }

    // Takes one of these steps; returns true if it was a full one, or if there is none.
    bool step_free() {
        const size_t k = free_.size();
        matrix_.resize(k * k);
        step_.resize(k);
        double trace = 0.0;
        for (size_t a = 0; a < k; ++a) trace += q_.H[free_[a] * q_.n + free_[a]];
        for (size_t a = 0; a < k; ++a) {
            const size_t j = free_[a];
            const double* row = q_.H + j * q_.n;
            for (size_t b = 0; b < k; ++b) matrix_[a * k + b] = row[free_[b]];
            matrix_[a * k + a] += ridge * trace / double(k);
            step_[a] = -(q_.slope[j] + std::copysign(q_.l1[j], q_.w[j] - q_.prior[j]));
        }
        if (!cholesky_solve(k, matrix_.data(), step_.data())) return true;
        double share = 1.0;
        for (size_t a = 0; a < k; ++a) share = std::fmin(share, reach(free_[a], step_[a]));
        size_t staying = 0;
        for (size_t a = 0; a < k; ++a) {
            const size_t j = free_[a];
            // A coordinate that limits the step is set exactly to its kink or end, and is no longer free.
            const bool lands = reach(j, step_[a]) <= share;
            const double to = lands ? target(j, step_[a]) : q_.w[j] + share * step_[a];
            axpy(q_.n, to - q_.w[j], q_.H + j * q_.n, q_.slope);
            q_.w[j] = to;
            if (!lands) free_[staying++] = j;
        }
        free_.resize(staying);
        return staying == k;
    }

    // The kink or end in the direction of a step.
    double target(const size_t j, const double step) const {
        const double end = step < 0.0 ? q_.low[j] : q_.high[j];
        if (q_.l1[j] == 0.0 || (q_.prior[j] > q_.w[j]) != (step > 0.0)) return end;
        return step < 0.0 ? std::fmax(end, q_.prior[j]) : std::fmin(end, q_.prior[j]);
    }

    double reach(const size_t j, const double step) const {
        return step == 0.0 ? 2.0 : std::fmin(2.0, (target(j, step) - q_.w[j]) / step);
    }

    PenalisedQuadratic& q_;
    std::vector<size_t> free_;
    std::vector<double> matrix_, step_;
};

}  // namespace bmrm
