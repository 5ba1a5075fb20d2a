// Cholesky factor of the Gram matrix of the cuts that hold mass, kept while cuts come and go, with what is
// needed to solve the equality-constrained step on their face:
//
//     [ H  E' ] [ delta ]   [ g ]      H = G_SS / lam + rho E'E,
//     [ E  0  ] [  nu   ] = [ 0 ]      E = membership of each cut in its group.
//
// The term rho E'E changes nothing where E delta = 0, and makes H positive definite whenever the whole system
// is regular, although G_SS alone seldom is (Kiwiel, IMA J. Numer. Anal. 6 (1986) 137).  L L' = H grows by a
// row when a cut enters and shrinks by Givens rotations when one leaves (Gill, Golub, Murray, Saunders, Math.
// Comp. 28 (1974) 505).  Y = L^{-1} E' and z = L^{-1} g take part in both, and so does the Schur complement
// Y'Y of the groups, by an outer product a change: a step is one solve with L', s^2 flops, not 2 s^2 + s P^2.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "dense.h"

namespace bmrm {

class FaceFactor {
  public:
    explicit FaceFactor(const size_t groups) : groups_(groups), schur_(groups * groups, 0.0) {}

    size_t size() const { return size_; }

    // Make ready to append the cut whose H against those inside is `column` and against itself `diagonal`:
    // returns the pivot, which is zero where the cut depends on those inside.
    double prepare(const std::vector<double>& column, const double diagonal) {
        std::copy_n(column.data(), size_, row_.data());
        forward_substitute(size_, l_.data(), capacity_, inverse_.data(), row_.data());
        return diagonal - dot(size_, row_.data(), row_.data());
    }

    // The slope, towards more of the prepared cut, of what moves along with those inside: g is `slope` there.
    double slope_beside(const double slope) const { return slope - dot(size_, row_.data(), z_.data()); }

    // How the prepared cut is made of those inside, where it depends on them.
    void combination(std::vector<double>& v) const {
        v = row_;
        back_substitute(size_, l_.data(), capacity_, inverse_.data(), v.data());
    }

    // Take the prepared cut in, whose entry of g is `slope`.
    void append(const double pivot, const size_t group, const double slope) {
        const size_t s = size_;
        reserve(s + 1);
        for (size_t j = 0; j < s; ++j) l(j)[s] = row_[j];
        l(s)[s] = std::sqrt(pivot);
        inverse_[s] = 1.0 / l(s)[s];
        double* yrow = y(s);
        for (size_t p = 0; p < groups_; ++p) yrow[p] = p == group ? 1.0 : 0.0;
        add_transposed(s, groups_, -1.0, y_.data(), row_.data(), yrow);
        for (size_t p = 0; p < groups_; ++p) yrow[p] *= inverse_[s];
        z_[s] = slope_beside(slope) * inverse_[s];
        add_to_schur(yrow, 1.0);
        group_.push_back(group);
        ++size_;
    }

    // Take out the cut at position k.
    void remove(const size_t k) {
        const size_t s = size_;
        remove_row(s, k, l_.data(), capacity_, inverse_.data(), z_.data(), groups_, y_.data());
        add_to_schur(y(s - 1), -1.0);
        group_.erase(group_.begin() + int64_t(k));
        --size_;
    }

    // Say what g is.
    void set_slopes(const std::vector<double>& g) {
        std::copy_n(g.data(), size_, z_.data());
        forward_substitute(size_, l_.data(), capacity_, inverse_.data(), z_.data());
    }

    // delta and nu for the g set before, with what came and went since; false if there is no such step in
    // floating point.
    bool solve(std::vector<double>& delta, std::vector<double>& nu) {
        if (finish(delta, nu) && stays(delta)) return true;
        // What was added to Y'Y and taken off again leaves rounding behind.
        std::fill(schur_.begin(), schur_.end(), 0.0);
        for (size_t i = 0; i < size_; ++i) add_to_schur(y(i), 1.0);
        return finish(delta, nu);
    }

    // Follow g, which becomes (1 - t) g + t E'nu where alpha makes a step t of delta.
    void step(const double t) { axpy(size_, -t, rest_.data(), z_.data()); }

  private:
    // Largest sum of delta over a group, as a share of its largest entry, that is rounding.
    static constexpr double drift = 1e-9;

    bool finish(std::vector<double>& delta, std::vector<double>& nu) {
        nu.assign(groups_, 0.0);
        add_transposed(size_, groups_, 1.0, y_.data(), z_.data(), nu.data());
        // Every group has a cut, so Y has full rank and Y'Y is positive definite.
        complement_ = schur_;
        if (!cholesky_solve(groups_, complement_.data(), nu.data())) return false;
        std::copy_n(z_.data(), size_, rest_.data());
        subtract_product(size_, groups_, y_.data(), nu.data(), rest_.data());
        delta.resize(capacity_);
        std::copy_n(rest_.data(), size_, delta.data());
        back_substitute(size_, l_.data(), capacity_, inverse_.data(), delta.data());
        return std::isfinite(dot(size_, delta.data(), delta.data()));
    }

    // Whether delta keeps the sum over each group.
    bool stays(const std::vector<double>& delta) {
        sums_.assign(groups_, 0.0);
        double largest = 0.0, off = 0.0;
        for (size_t i = 0; i < size_; ++i) {
            sums_[group_[i]] += delta[i];
            largest = std::max(largest, std::fabs(delta[i]));
        }
        for (const double sum : sums_) off = std::max(off, std::fabs(sum));
        return off <= drift * largest;
    }

    void add_to_schur(const double* row, const double sign) {
        for (size_t p = 0; p < groups_; ++p)
            if (row[p] != 0.0) axpy(groups_, sign * row[p], row, &schur_[p * groups_]);
    }

    // Column j of L, from row 0 on, and row i of Y.
    double* l(const size_t j) { return &l_[j * capacity_]; }
    double* y(const size_t i) { return &y_[i * groups_]; }

    void reserve(const size_t s) {
        // Kernels reach up to eight rows beyond the last.
        if (s + 8 <= capacity_) return;
        const size_t wider = whole_lanes(2 * s + 16);
        std::vector<double> moved(wider * wider);
        for (size_t j = 0; j < size_; ++j) std::copy(l(j) + j, l(j) + size_, &moved[j * wider + j]);
        l_.swap(moved);
        capacity_ = wider;
        y_.resize(capacity_ * groups_);
        for (auto* vector : {&inverse_, &z_, &rest_, &row_}) vector->resize(capacity_);
    }

    size_t groups_, size_ = 0, capacity_ = 0;
    // z = L^{-1} g; rest: z - Y nu.
    std::vector<double> l_, inverse_, y_, z_, rest_, schur_, complement_, row_, sums_;
    std::vector<size_t> group_;
};

}  // namespace bmrm
