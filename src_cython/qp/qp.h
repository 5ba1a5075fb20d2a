// The inner problem of a bundle method: a concave QP over a product of simplices.
//
//     maximise  D(alpha) = b'alpha - alpha' G alpha / (2 lam)
//     subject to alpha >= 0,  sum of alpha over each group = 1
//
// (Teo, Vishwanathan, Smola, Le, JMLR 11 (2010), eq. 15, with one simplex for each block of rows.) G is the
// Gram matrix of the cuts; it is rank-deficient and grows by a few rows per iteration. D at any feasible
// alpha is a valid lower bound of the optimum, so the solver stops as soon as its own duality gap is small
// compared to the caller's. It starts from the previous alpha.
//
// Method: a primal active set (Nocedal, Wright, Numerical Optimization, 2nd ed., alg. 16.3). The active set
// consists of the cuts with positive weight. Its maximiser takes one solve with a factor that is updated at
// each change (active_set.h). A cut whose weight would become negative leaves. Once the active set is solved,
// cuts with larger values enter.
//
// A round evaluates all cuts with one product of G and lets the best ones enter, a few at a time. Each is
// evaluated again just before, since those that entered may have taken its gain. So most cuts that enter in a
// round stay.
#pragma once
#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

#include "qp/active_set.h"

namespace bmrm {

struct QpResult {
    double dual;      // D(alpha), the lower bound
    double gap;       // the model's primal value at w(alpha) minus dual
    int64_t changes;  // number of cuts that entered or left
};

class QpSolver {
  public:
    QpSolver(QpProblem& problem, KeptActiveSet& kept)
        : q_(problem), active_(problem, kept), top_(size_t(problem.groups)), mean_(top_.size()) {}

    // Runs until gap <= max(abs_tol, rel_tol (best - dual)), where `best` is the caller's upper bound: the
    // inner accuracy follows the outer gap.
    QpResult run(const double best, const double rel_tol, const double abs_tol, const int64_t max_changes) {
        active_.start();
        double best_dual = -std::numeric_limits<double>::infinity(), best_gap = -best_dual;
        int stagnant = 0;
        while (active_.changes() < max_changes) {
            measure();
            const double wanted = std::max(abs_tol, rel_tol * (best - dual_));
            if (!(gap_ > wanted)) break;
            // The dual is of second order in the distance to the optimum: near it the gap still falls when
            // rounding keeps the dual from rising. Cuts that depend on each other may exchange weight
            // forever, each time with a rise in the last digit.
            stagnant = dual_ > best_dual + creep * gap_ || gap_ < 0.5 * best_gap ? 0 : stagnant + 1;
            if (stagnant > max_stagnant) break;
            best_dual = std::max(best_dual, dual_);
            best_gap = std::min(best_gap, gap_);
            if (stagnant > 0 && active_.carried()) active_.build();
            improve(wanted, stagnant > 0, max_changes);
        }
        measure();
        // Weight may have moved between cuts that depend on each other even if no round was needed.
        active_.keep();
        return {dual_, gap_, active_.changes()};
    }

  private:
    // Number of rounds without progress after which the solver gives up.
    static constexpr int max_stagnant = 10;
    // A rise of the dual by less than this share of the gap does not count as progress.
    static constexpr double creep = 1e-6;
    // Cuts whose gain is below this share of the largest gain wait for the next round.
    static constexpr double worth_entering = 0.3;
    // Number of cuts that enter between two solves of the active set.
    static constexpr int together = 3;

    // Computes the best and the mean cut value of each group: the sum of the differences is the gap.
    void measure() {
        top_.assign(top_.size(), -std::numeric_limits<double>::infinity());
        for (int64_t i = 0; i < q_.n; ++i) {
            if (q_.group[i] < 0) continue;
            double& top = top_[size_t(q_.group[i])];
            if (q_.gradient[i] > top) top = q_.gradient[i];
        }
        active_.means(mean_);
        dual_ = active_.dual();
        gap_ = 0.0;
        for (size_t p = 0; p < top_.size(); ++p) gap_ += top_[p] - mean_[p];
    }

    // One round: lets the cuts enter that are worth it, and moves to the maximiser of the active set.
    void improve(const double wanted, const bool only_best, const int64_t max_changes) {
        double most = 0.0;
        for (size_t p = 0; p < top_.size(); ++p) most = std::max(most, top_[p] - mean_[p]);
        const double least = std::max(0.5 * wanted / double(top_.size()), worth_entering * most);
        candidates_.clear();
        for (int64_t i = 0; i < q_.n; ++i) {
            if (q_.group[i] < 0 || active_.holds(i)) continue;
            const double gain = q_.gradient[i] - mean_[size_t(q_.group[i])];
            if (gain >= least) candidates_.push_back({gain, i});
        }
        std::sort(candidates_.begin(), candidates_.end(), [](const Candidate& a, const Candidate& b) {
            return a.gain > b.gain || (a.gain == b.gain && a.cut < b.cut);
        });
        // Cuts that enter together can block each other; alone, the best one always gains. If there are none,
        // the active set is solved once more: the spread of its cut values is part of the gap.
        if (only_best && candidates_.size() > 1) candidates_.resize(1);
        // Values are current, and compared with the last solution, in which the active cuts of a group have
        // one value.
        bool solved = false;
        int entered = 0;
        for (const Candidate& candidate : candidates_) {
            if (active_.changes() >= max_changes) break;
            const int64_t i = candidate.cut, r = active_.reference(i);
            const bool same = !solved && entered == 0;
            const double now = same ? q_.gradient[i] : active_.value(i);
            const double base = same ? q_.gradient[r] : active_.value(r);
            if (now - (solved ? base : mean_[size_t(q_.group[i])]) < least) continue;
            if (!active_.enter(i, now - base) || ++entered < together) continue;
            active_.maximise();
            solved = true;
            entered = 0;
        }
        if (!solved || entered > 0) active_.maximise();
        active_.refresh();
    }

    struct Candidate {
        double gain;
        int64_t cut;
    };

    QpProblem& q_;
    ActiveSet active_;
    std::vector<Candidate> candidates_;
    std::vector<double> top_, mean_;
    double dual_ = 0.0, gap_ = 0.0;
};

}  // namespace bmrm
