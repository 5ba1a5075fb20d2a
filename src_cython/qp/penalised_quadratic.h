// A quadratic with kinks and intervals: where Newton's model of a smooth risk has its minimum under a
// separable penalty.
//
//     minimise  <s, w - c> + (w - c)' H (w - c) / 2 + sum_j l1_j |w_j - prior_j|,   low_j <= w_j <= high_j
//
// Method: coordinate descent, which finds the face (the features on a kink or at an end, the signs of the
// others), and then one Cholesky solve on that face, as far as the face reaches.  Descent alone is slow where
// columns depend on each other, as indicators of the same attribute do (Friedman, Hastie, Tibshirani, J.
// Stat. Softw. 33 (2010) 1, use it alone); the solve alone would have to find the face one feature at a time.
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
        for (int round = 0; round < most_rounds; ++round) {
            double moved = 0.0;
            for (int k = 0; k < sweeps; ++k) {
                moved = sweep();
                first = std::fmax(first, moved);
                if (moved <= accuracy * first) return round;
            }
            solve_face();
        }
        return most_rounds;
    }

  private:
    static constexpr int most_rounds = 100, sweeps = 3;
    // What a sweep gains, against the largest gain of one: the square root of it is that of the slopes.
    static constexpr double accuracy = 1e-20;
    // Added to the diagonal of a face that has no curvature in some direction, as a share of its mean.
    static constexpr double ridge = 1e-12;

    // Each coordinate to its minimum; returns (twice) what that gains, at least.
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

    // The minimum on the face: Newton's steps, each up to where a coordinate meets a kink or an end, and on
    // without it.
    void solve_face() {
        face_.clear();
        for (size_t j = 0; j < q_.n; ++j)
            if (q_.w[j] != q_.prior[j] && q_.w[j] > q_.low[j] && q_.w[j] < q_.high[j]) face_.push_back(j);
        while (!face_.empty() && !step_on_face()) {
        }
    }

    // One of these steps; true if it was a whole one, or there is none.
    bool step_on_face() {
        const size_t k = face_.size();
        matrix_.resize(k * k);
        step_.resize(k);
        double trace = 0.0;
        for (size_t a = 0; a < k; ++a) trace += q_.H[face_[a] * q_.n + face_[a]];
        for (size_t a = 0; a < k; ++a) {
            const size_t j = face_[a];
            const double* row = q_.H + j * q_.n;
            for (size_t b = 0; b < k; ++b) matrix_[a * k + b] = row[face_[b]];
            matrix_[a * k + a] += ridge * trace / double(k);
            step_[a] = -(q_.slope[j] + std::copysign(q_.l1[j], q_.w[j] - q_.prior[j]));
        }
        if (!cholesky_solve(k, matrix_.data(), step_.data())) return true;
        double share = 1.0;
        for (size_t a = 0; a < k; ++a) share = std::fmin(share, reach(face_[a], step_[a]));
        size_t staying = 0;
        for (size_t a = 0; a < k; ++a) {
            const size_t j = face_[a];
            // A coordinate that ends the step lands exactly, and leaves the face.
            const bool lands = reach(j, step_[a]) <= share;
            const double to = lands ? target(j, step_[a]) : q_.w[j] + share * step_[a];
            axpy(q_.n, to - q_.w[j], q_.H + j * q_.n, q_.slope);
            q_.w[j] = to;
            if (!lands) face_[staying++] = j;
        }
        face_.resize(staying);
        return staying == k;
    }

    // The kink or end that lies in the direction of a step.
    double target(const size_t j, const double step) const {
        const double end = step < 0.0 ? q_.low[j] : q_.high[j];
        if (q_.l1[j] == 0.0 || (q_.prior[j] > q_.w[j]) != (step > 0.0)) return end;
        return step < 0.0 ? std::fmax(end, q_.prior[j]) : std::fmin(end, q_.prior[j]);
    }

    double reach(const size_t j, const double step) const {
        return step == 0.0 ? 2.0 : std::fmin(2.0, (target(j, step) - q_.w[j]) / step);
    }

    PenalisedQuadratic& q_;
    std::vector<size_t> face_;
    std::vector<double> matrix_, step_;
};

}  // namespace bmrm
