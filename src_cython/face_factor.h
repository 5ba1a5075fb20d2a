// Cholesky factor of the Gram matrix of the cuts that hold mass, kept while cuts come and go, with what is
// needed to solve the equality-constrained step on their face:
//
//     [ H  E' ] [ delta ]   [ g ]      H = G_SS / lam + rho E'E,
//     [ E  0  ] [  nu   ] = [ 0 ]      E = membership of each cut in its group.
//
// The term rho E'E changes nothing where E delta = 0, and makes H positive definite whenever the whole system
// is regular, although G_SS alone seldom is (Kiwiel, IMA J. Numer. Anal. 6 (1986) 137).  L L' = H grows by a
// row when a cut enters and shrinks by Givens rotations when one leaves (Gill, Golub, Murray, Saunders, Math.
// Comp. 28 (1974) 505).  Y = L^{-1} E' takes part in both, and so does the Schur complement Y'Y of the
// groups, by an outer product a change: a step costs s^2 flops, not s^2 + s P^2.
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
        row_ = column;
        forward_substitute(size_, l_.data(), capacity_, row_.data());
        return diagonal - dot(size_, row_.data(), row_.data());
    }

    // How the prepared cut is made of those inside, where it depends on them.
    void combination(std::vector<double>& v) const {
        v = row_;
        back_substitute(size_, l_.data(), capacity_, v.data());
    }

    // Take the prepared cut in.
    void append(const double pivot, const size_t group) {
        const size_t s = size_;
        reserve(s + 1);
        for (size_t j = 0; j < s; ++j) l(j)[s] = row_[j];
        const double diagonal = l(s)[s] = std::sqrt(pivot);
        double* yrow = y(s);
        for (size_t p = 0; p < groups_; ++p) yrow[p] = p == group ? 1.0 : 0.0;
        add_transposed(s, groups_, -1.0, y_.data(), row_.data(), yrow);
        for (size_t p = 0; p < groups_; ++p) yrow[p] /= diagonal;
        add_to_schur(yrow, 1.0);
        group_.push_back(group);
        ++size_;
    }

    // Take out the cut at position k.
    void remove(const size_t k) {
        const size_t s = size_;
        remove_row(s, k, l_.data(), capacity_, groups_, y_.data());
        add_to_schur(y(s - 1), -1.0);
        group_.erase(group_.begin() + int64_t(k));
        --size_;
    }

    // delta and nu for the right-hand side g.
    void solve(const std::vector<double>& g, std::vector<double>& delta, std::vector<double>& nu) {
        half_ = g;
        forward_substitute(size_, l_.data(), capacity_, half_.data());
        finish(delta, nu);
        // What was added to Y'Y and taken off again leaves rounding behind.
        if (!stays(delta)) {
            std::fill(schur_.begin(), schur_.end(), 0.0);
            for (size_t i = 0; i < size_; ++i) add_to_schur(y(i), 1.0);
            finish(delta, nu);
        }
    }

  private:
    // Largest sum of delta over a group, as a share of its largest entry, that is rounding.
    static constexpr double drift = 1e-9;

    void finish(std::vector<double>& delta, std::vector<double>& nu) {
        nu.assign(groups_, 0.0);
        add_transposed(size_, groups_, 1.0, y_.data(), half_.data(), nu.data());
        // Every group has a cut, so Y has full rank and Y'Y is positive definite.
        complement_ = schur_;
        if (!cholesky_solve(groups_, complement_.data(), nu.data())) nu.assign(groups_, NAN);
        delta = half_;
        subtract_product(size_, groups_, y_.data(), nu.data(), delta.data());
        back_substitute(size_, l_.data(), capacity_, delta.data());
    }

    // Whether delta keeps the sum over each group.
    bool stays(const std::vector<double>& delta) {
        sums_.assign(groups_, 0.0);
        double largest = 0.0, off = 0.0;
        for (size_t i = 0; i < size_; ++i) {
            sums_[group_[i]] += delta[i];
            largest = std::fmax(largest, std::fabs(delta[i]));
        }
        for (const double sum : sums_) off = std::fmax(off, std::fabs(sum));
        return off <= drift * largest && std::isfinite(largest);
    }

    void add_to_schur(const double* row, const double sign) {
        for (size_t p = 0; p < groups_; ++p) {
            if (row[p] == 0.0) continue;
            const double c = sign * row[p];
            double* target = &schur_[p * groups_];
            for (size_t q = 0; q < groups_; ++q) target[q] += c * row[q];
        }
    }

    // Column j of L, from row 0 on, and row i of Y.
    double* l(const size_t j) { return &l_[j * capacity_]; }
    double* y(const size_t i) { return &y_[i * groups_]; }

    void reserve(const size_t s) {
        if (s <= capacity_) return;
        const size_t wider = 2 * s + 16;
        std::vector<double> moved(wider * wider);
        for (size_t j = 0; j < size_; ++j) std::copy(l(j) + j, l(j) + size_, &moved[j * wider + j]);
        l_.swap(moved);
        capacity_ = wider;
        y_.resize(capacity_ * groups_);
    }

    size_t groups_, size_ = 0, capacity_ = 0;
    std::vector<double> l_, y_, schur_, complement_, row_, half_, sums_;
    std::vector<size_t> group_;
};

}  // namespace bmrm
