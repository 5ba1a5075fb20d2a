// The active set of the inner QP (qp.h): the cuts with positive weight, their weights, and the step to the
// maximiser.
//
// Each group has a reference among its cuts, which loses what the others gain, so that no step leaves the
// simplices; the others are the members of the factor (active_set_factor.h). Kiwiel (IMA J. Numer. Anal. 6
// (1986) 137) instead regularises the system of an active set by a term that is constant on one simplex. The
// weight of this term has to suit the curvature of the cuts; if that spans many orders of magnitude, or
// differs between groups, no weight does.
//
// Few cuts change from one call to the next, so the factor is kept, with the names of its cuts: a call costs
// s^2 flops for s active cuts, while a new factorisation would cost s^3 / 6.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <stdexcept>
#include <vector>

#include "qp/active_set_factor.h"
#include "qp/dense_algebra.h"

namespace bmrm {

struct QpProblem {
    int64_t n;              // cuts
    int64_t groups;         // simplices
    int64_t stride;         // leading dimension of gram
    const double* gram;     // n rows of stride doubles
    const double* offset;   // b, or the value of each cut at alpha = origin
    const double* origin;   // or null; near the optimum, differences from it round less than the whole
    const int32_t* group;   // group of each cut, 0 <= group < groups; or -1: it takes no part, its alpha is 0
    const int64_t* serial;  // a name per cut, which no other cut has while an active set is kept
    double lam;
    // Pivots below this share of the sum of the squares of a cut and its reference are rounding errors.
    double dependent;
    double* alpha;     // in: a feasible start; out: the solution
    double* gradient;  // out: b - G (alpha - origin) / lam, the value of each cut at the minimiser
};

// What is kept of an active set between calls.
struct KeptActiveSet {
    struct Place {
        int64_t serial, index;
    };
    ActiveSetFactor factor;
    std::vector<Place> places;  // of the active cuts: a reference per group, then the factor's members
    int64_t groups = 0;         // 0 if nothing is kept
};

class ActiveSet {
  public:
    ActiveSet(QpProblem& problem, KeptActiveSet& kept)
        : q_(problem),
          kept_(kept),
          factor_(kept.factor),
          groups_(size_t(problem.groups)),
          inside_(size_t(problem.n), 0),
          sum_(groups_),
          inverse_lam_(1.0 / problem.lam) {
        if (q_.origin)
            for (int64_t i = 0; i < q_.n; ++i)
                if (q_.origin[i] != 0.0) support_.push_back(i);
    }

    // Begins with the cuts of positive weight: updates the active set that was kept, or builds a new one.
    void start() {
        for (int64_t i = 0; i < q_.n; ++i)
            if (q_.alpha[i] > 0.0) hold(i, q_.alpha[i]);
        update_gradient();
        carried_ = kept_.groups == q_.groups && find_references();
        kept_.groups = 0;  // not valid until it is complete again
        if (!carried_) return build();
        // Cuts keep their indices, or have moved down to those of others.
        for (size_t place = groups_, k = 0; place < kept_.places.size(); ++place) {
            const int64_t i = find(kept_.places[place]);
            if (i >= 0) {
                hold(i, q_.alpha[i]);
                ++k;
            } else {
                factor_.remove(k);
            }
        }
        set_slopes();
        include_mass();
    }

    // Builds the factor of the active cuts anew, with the shortest of each group as its reference.
    void build() {
        carried_ = false;
        factor_ = ActiveSetFactor();
        store_weights();
        std::vector<int64_t> shortest(groups_, -1);
        for (const int64_t i : active_) {
            int64_t& so_far = shortest[size_t(q_.group[i])];
            if (so_far < 0 || gram(i, i) < gram(so_far, so_far)) so_far = i;
        }
        clear();
        for (const int64_t i : shortest) {
            if (i < 0) throw std::invalid_argument("alpha: a group has no cut with mass");
            hold(i, q_.alpha[i]);
        }
        include_mass();
    }

    // Keeps the active set for the next call.
    void keep() {
        store_weights();
        kept_.places.clear();
        for (const int64_t i : active_) kept_.places.push_back({q_.serial[i], i});
        kept_.groups = q_.groups;
    }

    bool holds(const int64_t i) const { return inside_[size_t(i)]; }
    bool carried() const { return carried_; }     // whether the factor is from an earlier call
    int64_t changes() const { return changes_; }  // number of cuts that entered or left
    int64_t reference(const int64_t i) const { return active_[size_t(q_.group[i])]; }

    // Computes the mean value of the cuts of each group.
    void means(std::vector<double>& mean) const {
        mean.assign(groups_, 0.0);
        for (size_t k = 0; k < active_.size(); ++k)
            mean[size_t(q_.group[active_[k]])] += weight_[k] * q_.gradient[active_[k]];
    }

    // D(alpha), or with an origin its rise from there: alpha'G alpha / lam = sum alpha (b - g), hence D = sum
    // alpha (b + g) / 2.
    double dual() const {
        double sum = 0.0;
        for (size_t k = 0; k < cuts().size(); ++k)
            sum += 0.5 * weights()[k] * (q_.offset[cuts()[k]] + q_.gradient[cuts()[k]]);
        return sum;
    }

    // The value of a cut at the current weights; `gradient` has the values of all cuts at its last update.
    double value(const int64_t i) {
        find_changes();
        return q_.offset[i] -
               inverse_lam_ * dot_at(cuts().size(), cuts().data(), q_.gram + i * q_.stride, weights().data());
    }

    // Adds a cut without weight, given its slope relative to its group's reference; returns whether the
    // active set has changed.
    bool enter(const int64_t i, const double slope) {
        ++changes_;
        const int64_t r = reference(i);
        if (!(gram(i, i) < shorter * gram(r, r))) return include(i, slope, 0.0);
        hold(i, 0.0);
        store_weights();
        update_gradient();
        build();
        return true;
    }

    // Moves to the maximiser, dropping cuts whose weights reach zero on the way.
    void maximise() {
        for (;;) {
            delta_.resize(whole_lanes(active_.size() + 8));
            if (!factor_.solve(delta_.data() + groups_)) break;
            for (size_t k = groups_; k < active_.size(); ++k) delta_[k] *= q_.lam;
            balance();
            // With such a large lam no step gains anything.
            if (!std::all_of(delta_.begin(), delta_.begin() + int64_t(active_.size()),
                             [](const double x) { return std::isfinite(x); }))
                break;
            double step;
            column_.resize(active_.size());
            const size_t blocking =
                blocking_entry(active_.size(), weight_.data(), delta_.data(), column_.data(), step);
            step_inside(active_.size(), step, delta_.data(), weight_.data());
            factor_.step(step);
            if (blocking == active_.size()) break;
            drop(blocking);
        }
    }

    // Removes the accumulated rounding of steps from weights, values and slopes.
    void refresh() {
        renormalise();
        store_weights();
        update_gradient();
        set_slopes();
    }

  private:
    // A cut whose square is below this share of its reference's replaces the reference: the difference of a
    // short cut and a long reference would be mostly rounding error of the latter.
    static constexpr double shorter = 0.01;
    // Maximum deviation of the sum of a group's weights from 1.
    static constexpr double good_sum = 1e-14;

    double gram(const int64_t i, const int64_t j) const { return q_.gram[i * q_.stride + j]; }
    size_t group(const size_t k) const { return size_t(q_.group[active_[k]]); }
    size_t members() const { return active_.size() - groups_; }

    // The cuts whose weights differ from those of the origin, and the differences; without an origin, the
    // active set.
    const std::vector<int64_t>& cuts() const { return q_.origin ? changed_ : active_; }
    const std::vector<double>& weights() const { return q_.origin ? change_ : weight_; }

    void find_changes() {
        if (!q_.origin) return;
        changed_ = active_;
        change_ = weight_;
        for (size_t k = 0; k < active_.size(); ++k) change_[k] -= q_.origin[active_[k]];
        for (const int64_t i : support_) {
            if (holds(i)) continue;
            changed_.push_back(i);
            change_.push_back(-q_.origin[i]);
        }
    }

    void update_gradient() {
        find_changes();
        std::copy_n(q_.offset, q_.n, q_.gradient);
        subtract_rows(cuts().size(), cuts().data(), weights().data(), inverse_lam_, size_t(q_.n), q_.gram,
                      size_t(q_.stride), q_.gradient);
    }

    // Begins the active set with the references that were kept; false if one of them no longer has weight.
    bool find_references() {
        std::vector<int64_t> found(groups_);
        for (size_t p = 0; p < groups_; ++p) {
            found[p] = find(kept_.places[p]);
            if (found[p] < 0) return false;
        }
        clear();
        for (const int64_t i : found) hold(i, q_.alpha[i]);
        return true;
    }

    // The current index of a cut that was kept, -1 if it has no weight.
    int64_t find(const KeptActiveSet::Place& was) const {
        int64_t i = std::min(was.index, q_.n - 1);
        for (int64_t looked = 0; looked < q_.n; ++looked) {
            if (q_.serial[i] == was.serial) return q_.alpha[i] > 0.0 ? i : -1;
            i = i > 0 ? i - 1 : q_.n - 1;
        }
        return -1;
    }

    void include_mass() {
        for (int64_t i = 0; i < q_.n; ++i)
            if (q_.alpha[i] > 0.0 && !holds(i))
                include(i, q_.gradient[i] - q_.gradient[reference(i)], q_.alpha[i]);
    }

    void hold(const int64_t i, const double weight) {
        active_.push_back(i);
        weight_.push_back(weight);
        inside_[size_t(i)] = 1;
    }

    void clear() {
        for (const int64_t i : active_) inside_[size_t(i)] = 0;
        active_.clear();
        weight_.clear();
    }

    void erase(const size_t k) {
        active_.erase(active_.begin() + int64_t(k));
        weight_.erase(weight_.begin() + int64_t(k));
    }

    void let_go(const size_t k) {
        q_.alpha[active_[k]] = 0.0;
        inside_[size_t(active_[k])] = 0;
        ++changes_;
    }

    // Removes an active cut; returns what this adds to slopes relative to its group's reference.
    double drop(const size_t k) {
        let_go(k);
        if (k >= groups_) {
            factor_.remove(k - groups_);
            erase(k);
            return 0.0;
        }
        find_members(k);
        const size_t first = members_.front();
        members_.erase(members_.begin());
        const double slope = factor_.lead(first, members_);
        active_[k] = active_[groups_ + first];
        weight_[k] = weight_[groups_ + first];
        erase(groups_ + first);
        return -slope;
    }

    // Finds the places of a group's members in the factor.
    void find_members(const size_t p) {
        members_.clear();
        for (size_t k = groups_; k < active_.size(); ++k)
            if (group(k) == p) members_.push_back(k - groups_);
    }

    void store_weights() {
        for (size_t k = 0; k < active_.size(); ++k) q_.alpha[active_[k]] = weight_[k];
    }

    void set_slopes() {
        column_.resize(members());
        for (size_t k = 0; k < members(); ++k) {
            const int64_t i = active_[groups_ + k];
            column_[k] = q_.gradient[i] - q_.gradient[reference(i)];
        }
        factor_.set_slopes(column_);
    }

    // Computes what the references lose when the members of their groups gain `delta_`.
    void balance() {
        std::fill_n(delta_.begin(), groups_, 0.0);
        for (size_t k = groups_; k < active_.size(); ++k) delta_[group(k)] -= delta_[k];
    }

    // Adds a cut, given its slope relative to its group's reference and its weight; returns whether the
    // active set has changed. A cut that depends linearly on the active ones has no curvature relative to
    // them: weight moves along the dependence, up the slope, until a cut has none left and is removed.
    bool include(const int64_t i, double against, double weight) {
        const size_t p = size_t(q_.group[i]);
        for (bool changed = false;; changed = true) {
            const double pivot = prepare(i);
            if (pivot > q_.dependent * (gram(i, i) + gram(active_[p], active_[p]))) {
                factor_.append(pivot, against);
                hold(i, weight);
                return true;
            }
            delta_.resize(whole_lanes(active_.size() + 8));
            factor_.combination(delta_.data() + groups_);
            balance();
            delta_[p] += 1.0;
            const double slope = factor_.slope_beside(against);
            const double sign = slope < 0.0 ? -1.0 : 1.0;
            double step = sign < 0.0 ? weight : std::numeric_limits<double>::infinity();
            size_t blocking = active_.size();
            for (size_t k = 0; k < active_.size(); ++k) {
                const double loss = sign * delta_[k];
                if (loss > 0.0 && weight_[k] < step * loss) {
                    step = weight_[k] / loss;
                    blocking = k;
                }
            }
            // Otherwise the small remaining curvature outweighs the slope.
            const bool gains = sign * slope > 0.5 * std::max(pivot, 0.0) * inverse_lam_ * step;
            if (weight == 0.0 && !gains) return changed;
            weight = std::max(0.0, weight + sign * step);
            step_inside(active_.size(), -sign * step, delta_.data(), weight_.data());
            if (blocking == active_.size()) {
                q_.alpha[i] = 0.0;
                return true;
            }
            if (blocking < groups_) {
                find_members(blocking);
                if (members_.empty()) {  // the new cut itself becomes the reference
                    let_go(blocking);
                    active_[blocking] = i;
                    weight_[blocking] = weight;
                    inside_[size_t(i)] = 1;
                    return true;
                }
            }
            against += drop(blocking);
        }
    }

    // Prepares the factor for a cut; returns its pivot.
    double prepare(const int64_t i) {
        const int64_t r = reference(i);
        const double *row = q_.gram + i * q_.stride, *base = q_.gram + r * q_.stride;
        column_.resize(members());
        for (size_t k = 0; k < members(); ++k) {
            const int64_t j = active_[groups_ + k], s = reference(j);
            column_[k] = (row[j] - base[j]) - (row[s] - base[s]);
        }
        return factor_.prepare(column_, (row[i] - row[r]) - (base[i] - base[r]));
    }

    // Rounding must not leave the simplices, since the bound is valid only on them. But scaling the weights
    // of a group rounds each of them once more, so it is not done if their sum is as good as 1.
    void renormalise() {
        sum_.assign(groups_, 0.0);
        for (size_t k = 0; k < active_.size(); ++k) sum_[group(k)] += weight_[k];
        for (size_t k = 0; k < active_.size(); ++k)
            if (std::fabs(sum_[group(k)] - 1.0) > good_sum) weight_[k] /= sum_[group(k)];
    }

    QpProblem& q_;
    KeptActiveSet& kept_;
    ActiveSetFactor& factor_;
    size_t groups_;
    bool carried_ = false;
    std::vector<int64_t> active_;  // a reference per group, then the members in the factor's order
    std::vector<double> weight_;   // alpha of the active cuts
    std::vector<char> inside_;
    std::vector<int64_t> support_;  // the cuts with nonzero weight at the origin
    std::vector<int64_t> changed_;  // the cuts whose weights differ from the origin's
    std::vector<double> change_;
    std::vector<double> sum_, delta_, column_;
    std::vector<size_t> members_;
    double inverse_lam_;
    int64_t changes_ = 0;
};

}  // namespace bmrm
