// The inner problem of a bundle method: a concave QP over a product of simplices.
//
//     maximise  D(alpha) = b'alpha - alpha' G alpha / (2 lam)
//     subject to alpha >= 0,  sum of alpha over each group = 1
//
// (Teo, Vishwanathan, Smola, Le, JMLR 11 (2010), eq. 15, with one simplex for each block of rows.)
// G is the Gram matrix of the cuts: rank-deficient, and it grows by a few rows an iteration.  D at any
// feasible alpha is already a valid lower bound on the optimum, so the solver stops as soon as its own
// duality gap is small against the caller's; it starts from the previous alpha.
//
// Method: a primal active set (Nocedal, Wright, Numerical Optimization, 2nd ed., alg. 16.3).  The face is
// the set of cuts that hold mass.  Its maximiser is one solve with a factor that follows each change; a cut
// that would go negative leaves; when the face is solved, the best cut of every group that still has a gap
// enters.  Kiwiel (IMA J. Numer. Anal. 6 (1986) 137) does so for one simplex.
//
// From one call to the next few cuts change, so the factor is kept with the names of its cuts: a call costs
// s^2 flops for the s cuts of the face, where to factor them again would cost s^3 / 6.
#pragma once
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "dense.h"
#include "face_factor.h"

namespace bmrm {

struct QpProblem {
    int64_t n;              // cuts
    int64_t groups;         // simplices
    int64_t stride;         // leading dimension of gram
    const double* gram;     // n rows of stride doubles
    const double* offset;   // b
    const int32_t* group;   // group of each cut, 0 <= group < groups; or -1: it takes no part, its alpha is 0
    const int64_t* serial;  // a name for each cut, which no other ever has while a face is kept
    double lam;
    double* alpha;     // in: a feasible start; out: the answer
    double* gradient;  // out: b - G alpha / lam, the value of each cut at the minimiser
};

struct QpResult {
    double dual;      // D(alpha), the lower bound
    double gap;       // the model's primal value at w(alpha) minus dual
    int64_t changes;  // cuts that entered or left
};

// What is kept of a face between calls.
struct KeptFace {
    FaceFactor factor{0};
    std::vector<int64_t> serial;  // of the factor's cuts, in its order
    int64_t groups = 0;
    double lam = 0.0, rho = 0.0, scale = 0.0;  // scale: mean curvature of the cuts when rho was chosen
};

class QpSolver {
  public:
    QpSolver(QpProblem& problem, KeptFace& kept)
        : q_(problem),
          kept_(kept),
          factor_(kept.factor),
          top_(size_t(problem.groups)),
          mean_(top_.size()),
          inverse_lam_(1.0 / problem.lam) {}

    // Until gap <= max(abs_tol, rel_tol (best - dual)): `best` is the caller's upper bound, so that the
    // inner accuracy follows the outer gap.
    QpResult run(const double best, const double rel_tol, const double abs_tol, const int64_t max_changes) {
        update_gradient();
        start_face();
        double best_dual = -std::numeric_limits<double>::infinity(), best_gap = -best_dual;
        int stagnant = 0;
        while (changes_ < max_changes) {
            measure();
            const double wanted = std::fmax(abs_tol, rel_tol * (best - dual_));
            if (!(gap_ > wanted)) break;
            // The dual is second order in the distance to the optimum: near it the gap still falls where the
            // dual cannot rise any more for rounding.
            stagnant = dual_ > best_dual || gap_ < 0.5 * best_gap ? 0 : stagnant + 1;
            if (stagnant > most_stagnant) break;
            best_dual = std::fmax(best_dual, dual_);
            best_gap = std::fmin(best_gap, gap_);
            // Cuts that enter together can block each other; alone, the best one always gains.  Without any,
            // the face is solved once more: its own spread of cut values is part of the gap.
            if (stagnant > 0 && carried_) build_face();
            enter(wanted, stagnant > 0);
            solve_face();
            update_gradient();
        }
        measure();
        kept_.serial.resize(face_.size());
        for (size_t k = 0; k < face_.size(); ++k) kept_.serial[k] = q_.serial[face_[k]];
        kept_.groups = q_.groups;
        kept_.lam = q_.lam;
        return {dual_, gap_, changes_};
    }

  private:
    static constexpr int most_stagnant = 10;
    // Cuts whose gain is below this share of the best one's wait: many that enter together leave again.
    static constexpr double worth_entering = 0.5;
    // Pivots below this share of a cut's own curvature are rounding.
    static constexpr double dependent = 1e-10;

    // H of the face's system, see face_factor.h.
    double curvature(const int64_t i, const int64_t j) const {
        return q_.gram[i * q_.stride + j] * inverse_lam_ + (q_.group[i] == q_.group[j] ? rho_ : 0.0);
    }

    void update_gradient() {
        for (int64_t i = 0; i < q_.n; ++i) q_.gradient[i] = q_.offset[i];
        for (int64_t j = 0; j < q_.n; ++j)
            if (q_.alpha[j] != 0.0)
                axpy(size_t(q_.n), -q_.alpha[j] / q_.lam, q_.gram + j * q_.stride, q_.gradient);
    }

    // Best and mean cut value of each group: their summed difference is the gap.
    void measure() {
        top_.assign(top_.size(), -std::numeric_limits<double>::infinity());
        mean_.assign(mean_.size(), 0.0);
        dual_ = gap_ = 0.0;
        for (int64_t i = 0; i < q_.n; ++i) {
            if (q_.group[i] < 0) continue;
            const size_t p = size_t(q_.group[i]);
            if (q_.gradient[i] > top_[p]) top_[p] = q_.gradient[i];
            mean_[p] += q_.alpha[i] * q_.gradient[i];
            // alpha'G alpha / lam = sum alpha (b - g), hence D = sum alpha (b + g) / 2.
            dual_ += 0.5 * q_.alpha[i] * (q_.offset[i] + q_.gradient[i]);
        }
        for (size_t p = 0; p < top_.size(); ++p) gap_ += top_[p] - mean_[p];
    }

    void start_face() {
        inside_.assign(size_t(q_.n), 0);
        const double scale = mean_curvature(), drift = scale / kept_.scale;
        carried_ = kept_.lam == q_.lam && kept_.groups == q_.groups && drift > 0.25 && drift < 4.0;
        kept_.lam = 0.0;  // of no use to anybody until it is whole again
        kept_.scale = carried_ ? kept_.scale : scale;
        if (!carried_) return build_face();
        rho_ = kept_.rho;
        // The names of the factor's cuts come in much the same order as the cuts do.
        int64_t i = 0;
        for (size_t k = 0; k < kept_.serial.size();) {
            int64_t looked = 0;
            while (looked < q_.n && q_.serial[i] != kept_.serial[k]) {
                i = i + 1 < q_.n ? i + 1 : 0;
                ++looked;
            }
            if (looked < q_.n && q_.alpha[i] > 0.0) {
                face_.push_back(i);
                inside_[size_t(i)] = 1;
                ++k;
            } else {
                factor_.remove(k);
                kept_.serial.erase(kept_.serial.begin() + int64_t(k));
            }
        }
        include_mass();
    }

    void build_face() {
        carried_ = false;
        rho_ = kept_.rho = typical_curvature();
        factor_ = FaceFactor(size_t(q_.groups));
        face_.clear();
        inside_.assign(size_t(q_.n), 0);
        include_mass();
    }

    void include_mass() {
        for (int64_t i = 0; i < q_.n; ++i)
            if (q_.alpha[i] > 0.0 && !inside_[size_t(i)]) include(i);
    }

    double mean_curvature() const {
        double sum = 0.0;
        for (int64_t i = 0; i < q_.n; ++i)
            if (q_.group[i] >= 0) sum += q_.gram[i * q_.stride + i];
        return sum / (q_.lam * double(q_.n));
    }

    // The scale of the cuts' own curvature, which may span many orders.
    double typical_curvature() const {
        double logs = 0.0;
        int64_t positive = 0;
        for (int64_t i = 0; i < q_.n; ++i) {
            if (q_.group[i] < 0) continue;
            const double own = q_.gram[i * q_.stride + i] / q_.lam;
            if (own > 0.0) {
                logs += std::log(own);
                ++positive;
            }
        }
        return positive > 0 ? std::exp(logs / double(positive)) : 1.0;
    }

    // Let a cut into the face.  One that depends on the cuts inside has no curvature against them: mass moves
    // along the dependence, up the slope, until a cut has none left and leaves.
    void include(const int64_t i) {
        for (;;) {
            column_.resize(face_.size());
            for (size_t k = 0; k < face_.size(); ++k) column_[k] = curvature(i, face_[k]);
            const double own = curvature(i, i), pivot = factor_.prepare(column_, own);
            if (pivot > dependent * own) {
                factor_.append(pivot, size_t(q_.group[i]));
                face_.push_back(i);
                inside_[size_t(i)] = 1;
                return;
            }
            factor_.combination(delta_);
            double slope = q_.gradient[i];
            for (size_t k = 0; k < face_.size(); ++k) slope -= delta_[k] * q_.gradient[face_[k]];
            const double sign = slope < 0.0 ? -1.0 : 1.0;
            double step = sign < 0.0 ? q_.alpha[i] : std::numeric_limits<double>::infinity();
            size_t blocking = face_.size();
            for (size_t k = 0; k < face_.size(); ++k) {
                const double loss = sign * delta_[k];
                if (loss > 0.0 && q_.alpha[face_[k]] < step * loss) {
                    step = q_.alpha[face_[k]] / loss;
                    blocking = k;
                }
            }
            // Below this the little curvature that there is outweighs the slope.
            const bool gains = sign * slope > 0.5 * std::fmax(pivot, 0.0) * step;
            if (q_.alpha[i] == 0.0 && !gains) return;
            q_.alpha[i] = std::fmax(0.0, q_.alpha[i] + sign * step);
            for (size_t k = 0; k < face_.size(); ++k) {
                double& a = q_.alpha[face_[k]];
                a = std::fmax(0.0, a - sign * step * delta_[k]);
            }
            if (blocking == face_.size()) {
                q_.alpha[i] = 0.0;
                return;
            }
            drop(blocking);
        }
    }

    void drop(const size_t k) {
        q_.alpha[face_[k]] = 0.0;
        inside_[size_t(face_[k])] = 0;
        face_.erase(face_.begin() + int64_t(k));
        factor_.remove(k);
        ++changes_;
    }

    void enter(const double wanted, const bool only_best) {
        best_.assign(top_.size(), -1);
        for (int64_t i = 0; i < q_.n; ++i) {
            if (q_.group[i] < 0) continue;
            int64_t& b = best_[size_t(q_.group[i])];
            if (!inside_[size_t(i)] && (b < 0 || q_.gradient[i] > q_.gradient[b])) b = i;
        }
        int64_t worst = -1;
        double worst_gain = 0.0;
        for (size_t p = 0; p < best_.size(); ++p) {
            if (best_[p] < 0) continue;
            const double gain = q_.gradient[best_[p]] - mean_[p];
            if (gain > worst_gain) {
                worst_gain = gain;
                worst = best_[p];
            }
        }
        const double least = std::fmax(0.5 * wanted / double(top_.size()), worth_entering * worst_gain);
        for (size_t p = 0; p < best_.size(); ++p) {
            if (best_[p] < 0) continue;
            const double gain = q_.gradient[best_[p]] - mean_[p];
            if (only_best ? best_[p] != worst : !(gain >= least)) continue;
            include(best_[p]);
            ++changes_;
        }
    }

    // Move to the maximiser of the face, dropping cuts that reach zero on the way.  A step t of delta takes
    // the slopes g of the face to (1 - t) g + t nu: no product with G until the face is solved.
    void solve_face() {
        slope_.resize(face_.size());
        for (size_t k = 0; k < face_.size(); ++k) slope_[k] = q_.gradient[face_[k]];
        for (;;) {
            factor_.solve(slope_, delta_, multiplier_);
            double step = 1.0;
            size_t blocking = face_.size();
            for (size_t k = 0; k < face_.size(); ++k) {
                if (delta_[k] >= 0.0) continue;
                const double ratio = -q_.alpha[face_[k]] / delta_[k];
                if (ratio < step) {
                    step = ratio;
                    blocking = k;
                }
            }
            for (size_t k = 0; k < face_.size(); ++k) {
                double& a = q_.alpha[face_[k]];
                a = std::fmax(0.0, a + step * delta_[k]);
                slope_[k] += step * (multiplier_[size_t(q_.group[face_[k]])] - slope_[k]);
            }
            if (blocking == face_.size()) break;
            slope_.erase(slope_.begin() + int64_t(blocking));
            drop(blocking);
        }
        renormalise();
    }

    // Rounding must not leave the simplices: the bound is only valid on them.
    void renormalise() {
        mean_.assign(mean_.size(), 0.0);
        for (const int64_t i : face_) mean_[size_t(q_.group[i])] += q_.alpha[i];
        for (const int64_t i : face_) q_.alpha[i] /= mean_[size_t(q_.group[i])];
    }

    QpProblem& q_;
    KeptFace& kept_;
    FaceFactor& factor_;
    bool carried_ = false;  // the factor is from an earlier call
    std::vector<int64_t> face_, best_;
    std::vector<char> inside_;
    std::vector<double> top_, mean_, slope_, delta_, multiplier_, column_;
    double inverse_lam_, rho_ = 0.0, dual_ = 0.0, gap_ = 0.0;
    int64_t changes_ = 0;
};

}  // namespace bmrm
