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
// that would go negative leaves; when the face is solved, cuts above it enter.  Kiwiel (IMA J. Numer. Anal. 6
// (1986) 137) does so for one simplex.
//
// A round values all cuts, with one product of G, and lets the best in, a few at a time; each is valued again
// just before, since those that entered may have taken what it had to gain.  Most of a round's cuts then
// stay.
//
// From one call to the next few cuts change, so the factor is kept with the names of its cuts: a call costs
// s^2 flops for the s cuts of the face, where to factor them again would cost s^3 / 6.
#pragma once
#include <algorithm>
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
    const double* offset;   // b, or the value of each cut at alpha = origin
    const double* origin;   // or null: near the optimum the change from there rounds less than the whole
    const int32_t* group;   // group of each cut, 0 <= group < groups; or -1: it takes no part, its alpha is 0
    const int64_t* serial;  // a name for each cut, which no other ever has while a face is kept
    double lam;
    double* alpha;     // in: a feasible start; out: the answer
    double* gradient;  // out: b - G (alpha - origin) / lam, the value of each cut at the minimiser
};

struct QpResult {
    double dual;      // D(alpha), the lower bound
    double gap;       // the model's primal value at w(alpha) minus dual
    int64_t changes;  // cuts that entered or left
};

// What is kept of a face between calls.
struct KeptFace {
    struct Place {
        int64_t serial, index;
    };
    FaceFactor factor{0};
    std::vector<Place> places;  // of the factor's cuts, in its order
    int64_t groups = 0;
    double lam = 0.0, rho = 0.0, scale = 0.0;  // scale: mean curvature of the cuts when rho was chosen
};

class QpSolver {
  public:
    QpSolver(QpProblem& problem, KeptFace& kept)
        : q_(problem),
          kept_(kept),
          factor_(kept.factor),
          inside_(size_t(problem.n), 0),
          top_(size_t(problem.groups)),
          mean_(top_.size()),
          inverse_lam_(1.0 / problem.lam) {
        if (q_.origin)
            for (int64_t i = 0; i < q_.n; ++i)
                if (q_.origin[i] != 0.0) support_.push_back(i);
    }

    // Until gap <= max(abs_tol, rel_tol (best - dual)): `best` is the caller's upper bound, so that the
    // inner accuracy follows the outer gap.
    QpResult run(const double best, const double rel_tol, const double abs_tol, const int64_t max_changes) {
        start_face();
        double best_dual = -std::numeric_limits<double>::infinity(), best_gap = -best_dual;
        int stagnant = 0;
        while (changes_ < max_changes) {
            measure();
            const double wanted = std::max(abs_tol, rel_tol * (best - dual_));
            if (!(gap_ > wanted)) break;
            // The dual is second order in the distance to the optimum: near it the gap still falls where the
            // dual cannot rise any more for rounding.
            stagnant = dual_ > best_dual || gap_ < 0.5 * best_gap ? 0 : stagnant + 1;
            if (stagnant > most_stagnant) break;
            best_dual = std::max(best_dual, dual_);
            best_gap = std::min(best_gap, gap_);
            if (stagnant > 0 && carried_) build_face();
            improve(wanted, stagnant > 0, max_changes);
        }
        measure();
        // Mass may have moved between cuts that depend on each other even where no round was due.
        store_weights();
        kept_.places.clear();
        for (const int64_t i : face_) kept_.places.push_back({q_.serial[i], i});
        kept_.groups = q_.groups;
        kept_.lam = q_.lam;
        return {dual_, gap_, changes_};
    }

  private:
    static constexpr int most_stagnant = 10;
    // Cuts whose gain is below this share of the best one's wait for the next round.
    static constexpr double worth_entering = 0.3;
    // Cuts that enter between one solve of the face and the next.
    static constexpr int together = 3;
    // Pivots below this share of a cut's own curvature are rounding.
    static constexpr double dependent = 1e-10;

    // The value of each cut where the held ones have their weights.
    void update_gradient() {
        find_changes();
        std::copy_n(q_.offset, q_.n, q_.gradient);
        subtract_rows(cuts().size(), cuts().data(), changes().data(), inverse_lam_, size_t(q_.n), q_.gram,
                      size_t(q_.stride), q_.gradient);
    }

    // That of one of them.
    double value(const int64_t i) {
        find_changes();
        return q_.offset[i] -
               inverse_lam_ * dot_at(cuts().size(), cuts().data(), q_.gram + i * q_.stride, changes().data());
    }

    // The cuts whose weights are not those of the origin, and by how much; without one, the face.
    const std::vector<int64_t>& cuts() const { return q_.origin ? changed_ : face_; }
    const std::vector<double>& changes() const { return q_.origin ? change_ : weight_; }

    void find_changes() {
        if (!q_.origin) return;
        changed_ = face_;
        change_ = weight_;
        for (size_t k = 0; k < face_.size(); ++k) change_[k] -= q_.origin[face_[k]];
        for (const int64_t i : support_) {
            if (inside_[size_t(i)]) continue;
            changed_.push_back(i);
            change_.push_back(-q_.origin[i]);
        }
    }

    // Best and mean cut value of each group: their summed difference is the gap.
    void measure() {
        top_.assign(top_.size(), -std::numeric_limits<double>::infinity());
        mean_.assign(mean_.size(), 0.0);
        for (int64_t i = 0; i < q_.n; ++i) {
            if (q_.group[i] < 0) continue;
            double& top = top_[size_t(q_.group[i])];
            if (q_.gradient[i] > top) top = q_.gradient[i];
        }
        dual_ = gap_ = 0.0;
        for (size_t k = 0; k < face_.size(); ++k) {
            const int64_t i = face_[k];
            mean_[size_t(q_.group[i])] += weight_[k] * q_.gradient[i];
        }
        // alpha'G alpha / lam = sum alpha (b - g), hence D = sum alpha (b + g) / 2; from an origin, D less
        // the value that it has there.
        for (size_t k = 0; k < cuts().size(); ++k)
            dual_ += 0.5 * changes()[k] * (q_.offset[cuts()[k]] + q_.gradient[cuts()[k]]);
        for (size_t p = 0; p < top_.size(); ++p) gap_ += top_[p] - mean_[p];
    }

    // Bring the face that was kept up to date, or make a new one.
    void start_face() {
        for (int64_t i = 0; i < q_.n; ++i)
            if (q_.alpha[i] > 0.0) hold(i, q_.alpha[i]);
        update_gradient();
        double scale = 0.0;
        for (const int64_t i : face_) scale += q_.gram[i * q_.stride + i] * inverse_lam_;
        scale /= double(face_.size());
        const double drift = scale / kept_.scale;
        carried_ = kept_.lam == q_.lam && kept_.groups == q_.groups && drift > 0.25 && drift < 4.0;
        kept_.lam = 0.0;  // of no use to anybody until it is whole again
        kept_.scale = carried_ ? kept_.scale : scale;
        if (!carried_) return build_face();
        rho_ = kept_.rho;
        face_.clear();
        weight_.clear();
        inside_.assign(size_t(q_.n), 0);
        // Cuts keep their places, or move down into those of others.
        size_t k = 0;
        for (const KeptFace::Place& was : kept_.places) {
            int64_t i = std::min(was.index, q_.n - 1), looked = 0;
            for (; looked < q_.n && q_.serial[i] != was.serial; ++looked) i = i > 0 ? i - 1 : q_.n - 1;
            if (looked < q_.n && q_.alpha[i] > 0.0) {
                hold(i, q_.alpha[i]);
                ++k;
            } else {
                factor_.remove(k);
            }
        }
        set_slopes();
        include_mass();
    }

    void build_face() {
        carried_ = false;
        rho_ = kept_.rho = typical_curvature();
        factor_ = FaceFactor(size_t(q_.groups));
        store_weights();
        face_.clear();
        weight_.clear();
        inside_.assign(size_t(q_.n), 0);
        include_mass();
    }

    void include_mass() {
        for (int64_t i = 0; i < q_.n; ++i)
            if (q_.alpha[i] > 0.0 && !inside_[size_t(i)]) include(i, q_.gradient[i], q_.alpha[i]);
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

    void hold(const int64_t i, const double weight) {
        face_.push_back(i);
        weight_.push_back(weight);
        inside_[size_t(i)] = 1;
    }

    void drop(const size_t k) {
        q_.alpha[face_[k]] = 0.0;
        inside_[size_t(face_[k])] = 0;
        face_.erase(face_.begin() + int64_t(k));
        weight_.erase(weight_.begin() + int64_t(k));
        factor_.remove(k);
        ++changes_;
    }

    void store_weights() {
        for (size_t k = 0; k < face_.size(); ++k) q_.alpha[face_[k]] = weight_[k];
    }

    void set_slopes() {
        column_.resize(face_.size());
        gather(face_.size(), face_.data(), 1.0, q_.gradient, column_.data());
        factor_.set_slopes(column_);
    }

    // Let a cut, its value and its weight, into the face; return whether the face is another.  A cut that
    // depends on those inside has no curvature against them: mass moves along the dependence, up the slope,
    // until a cut has none left and leaves.
    bool include(const int64_t i, const double value, double weight) {
        const double* row = q_.gram + i * q_.stride;
        const double own = row[i] * inverse_lam_ + rho_;
        for (bool changed = false;; changed = true) {
            column_.resize(face_.size());
            gather(face_.size(), face_.data(), inverse_lam_, row, column_.data());
            for (size_t k = 0; k < face_.size(); ++k)
                if (q_.group[face_[k]] == q_.group[i]) column_[k] += rho_;
            const double pivot = factor_.prepare(column_, own);
            if (pivot > dependent * own) {
                factor_.append(pivot, size_t(q_.group[i]), value);
                hold(i, weight);
                return true;
            }
            factor_.combination(delta_);
            const double slope = factor_.slope_beside(value);
            const double sign = slope < 0.0 ? -1.0 : 1.0;
            double step = sign < 0.0 ? weight : std::numeric_limits<double>::infinity();
            size_t blocking = face_.size();
            for (size_t k = 0; k < face_.size(); ++k) {
                const double loss = sign * delta_[k];
                if (loss > 0.0 && weight_[k] < step * loss) {
                    step = weight_[k] / loss;
                    blocking = k;
                }
            }
            // Below this the little curvature that there is outweighs the slope.
            const bool gains = sign * slope > 0.5 * std::max(pivot, 0.0) * step;
            if (weight == 0.0 && !gains) return changed;
            weight = std::max(0.0, weight + sign * step);
            step_inside(face_.size(), -sign * step, delta_.data(), weight_.data());
            if (blocking == face_.size()) {
                q_.alpha[i] = 0.0;
                return true;
            }
            drop(blocking);
        }
    }

    // One round: the maximiser of the face, with the cuts let in that are worth it, one after the other.
    void improve(const double wanted, const bool only_best, const int64_t max_changes) {
        double most = 0.0;
        for (size_t p = 0; p < top_.size(); ++p) most = std::max(most, top_[p] - mean_[p]);
        const double least = std::max(0.5 * wanted / double(top_.size()), worth_entering * most);
        candidates_.clear();
        for (int64_t i = 0; i < q_.n; ++i) {
            if (q_.group[i] < 0 || inside_[size_t(i)]) continue;
            const double gain = q_.gradient[i] - mean_[size_t(q_.group[i])];
            if (gain >= least) candidates_.push_back({gain, i});
        }
        std::sort(candidates_.begin(), candidates_.end(), [](const Candidate& a, const Candidate& b) {
            return a.gain > b.gain || (a.gain == b.gain && a.cut < b.cut);
        });
        // Cuts that enter together can block each other; alone, the best one always gains.  Without any,
        // the face is solved once more: its own spread of cut values is part of the gap.
        if (only_best && candidates_.size() > 1) candidates_.resize(1);
        multiplier_ = mean_;
        // Values are those of now, against the face as it was solved last.
        bool solved = false;
        int entered = 0;
        for (const Candidate& candidate : candidates_) {
            if (changes_ >= max_changes) break;
            const int64_t i = candidate.cut;
            const double now = solved || entered ? value(i) : q_.gradient[i];
            if (now - multiplier_[size_t(q_.group[i])] < least) continue;
            ++changes_;
            if (!include(i, now, 0.0) || ++entered < together) continue;
            solve_face();
            solved = true;
            entered = 0;
        }
        if (!solved || entered > 0) solve_face();
        renormalise();
        store_weights();
        update_gradient();
        set_slopes();
    }

    // Move to the maximiser of the face, dropping cuts that reach zero on the way.
    void solve_face() {
        for (;;) {
            if (!factor_.solve(delta_, multiplier_)) break;
            double step;
            column_.resize(face_.size());
            const size_t blocking =
                blocking_entry(face_.size(), weight_.data(), delta_.data(), column_.data(), step);
            step_inside(face_.size(), step, delta_.data(), weight_.data());
            factor_.step(step);
            if (blocking == face_.size()) break;
            drop(blocking);
        }
    }

    // Rounding must not leave the simplices: the bound is only valid on them.
    void renormalise() {
        mean_.assign(mean_.size(), 0.0);
        for (size_t k = 0; k < face_.size(); ++k) mean_[size_t(q_.group[face_[k]])] += weight_[k];
        for (size_t k = 0; k < face_.size(); ++k) weight_[k] /= mean_[size_t(q_.group[face_[k]])];
    }

    struct Candidate {
        double gain;
        int64_t cut;
    };

    QpProblem& q_;
    KeptFace& kept_;
    FaceFactor& factor_;
    bool carried_ = false;       // the factor is from an earlier call
    std::vector<int64_t> face_;  // in the factor's order
    std::vector<char> inside_;
    std::vector<Candidate> candidates_;
    std::vector<double> weight_;    // alpha of the face
    std::vector<int64_t> support_;  // the cuts with a weight at the origin
    std::vector<int64_t> changed_;  // those whose weight has changed since
    std::vector<double> change_;
    std::vector<double> top_, mean_, delta_, multiplier_, column_;
    double inverse_lam_, rho_ = 0.0, dual_ = 0.0, gap_ = 0.0;
    int64_t changes_ = 0;
};

}  // namespace bmrm
