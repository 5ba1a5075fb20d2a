// Cholesky factor of the active set of the inner QP, updated as cuts come and go. In each group one of the
// cuts with positive weight, the group's reference, loses what the others gain. So a step is described by the
// other cuts, the members, each relative to its reference, and it does not leave the simplices. The factored
// matrix is the Gram matrix of the members' gradients, each minus its reference's,
//
//     L L' = M,   M_ij = < a_i - a_r(i), a_j - a_r(j) >      (Nocedal, Wright, 2nd ed., sec. 15.3),
//
// which does not depend on lam. L grows by a row when a cut enters and shrinks by Givens rotations when one
// leaves (Gill, Golub, Murray, Saunders, Math. Comp. 28 (1974) 505). When a reference leaves, the first of
// its group's members takes its place: subtracting that row from those of the group's other members, which
// all come after it, keeps L triangular. z = L^{-1} g, for the slopes g of the members, is updated with L, so
// that a step takes a single solve with L'.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "qp/dense_algebra.h"

namespace bmrm {

class ActiveSetFactor {
  public:
    // Number of members.
    size_t size() const { return size_; }

    // Prepares to append a cut, given its products with the members, `column`, and with itself, `diagonal`;
    // returns the pivot, which is zero if the cut depends linearly on the members.
    double prepare(const std::vector<double>& column, const double diagonal) {
        std::copy_n(column.data(), size_, row_.data());
        forward_substitute(size_, l_.data(), capacity_, inverse_.data(), row_.data());
        return diagonal - dot(size_, row_.data(), row_.data());
    }

    // The slope in the direction in which the prepared cut gains and the members follow; the cut's entry of g
    // is `slope`.
    double slope_beside(const double slope) const { return slope - dot(size_, row_.data(), z_.data()); }

    // Computes the combination of members that equals the prepared cut, if it depends on them.
    void combination(double* v) const {
        std::copy_n(row_.data(), size_, v);
        back_substitute(size_, l_.data(), capacity_, inverse_.data(), v);
    }

    // Appends the prepared cut, whose entry of g is `slope`.
    void append(const double pivot, const double slope) {
        const size_t s = size_;
        reserve(s + 1);
        for (size_t j = 0; j < s; ++j) l(j)[s] = row_[j];
        l(s)[s] = std::sqrt(pivot);
        inverse_[s] = 1.0 / l(s)[s];
        z_[s] = slope_beside(slope) * inverse_[s];
        ++size_;
    }

    // Removes member k.
    void remove(const size_t k) {
        remove_row(size_, k, l_.data(), capacity_, inverse_.data(), z_.data());
        --size_;
    }

    // Makes member k the reference of the others of its group, which come after it; returns its entry of g.
    double lead(const size_t k, const std::vector<size_t>& others) {
        double slope = 0.0;
        for (size_t j = 0; j <= k; ++j) {
            const double here = l(j)[k];
            slope += here * z_[j];
            for (const size_t i : others) l(j)[i] -= here;
        }
        remove(k);
        return slope;
    }

    // Sets g.
    void set_slopes(const std::vector<double>& g) {
        std::copy_n(g.data(), size_, z_.data());
        forward_substitute(size_, l_.data(), capacity_, inverse_.data(), z_.data());
    }

    // v = M^{-1} g for the last g, updated for the cuts added and removed since; false if the step is not
    // finite.
    bool solve(double* v) const {
        std::copy_n(z_.data(), size_, v);
        back_substitute(size_, l_.data(), capacity_, inverse_.data(), v);
        return std::all_of(v, v + size_, [](const double x) { return std::isfinite(x); });
    }

    // Updates g after a step t along v, which leaves the share 1 - t of it.
    void step(const double t) {
        for (size_t i = 0; i < size_; ++i) z_[i] *= 1.0 - t;
    }

  private:
    // Column j of L, from row 0 on.
    double* l(const size_t j) { return &l_[j * capacity_]; }

    void reserve(const size_t s) {
        // Kernels access up to eight rows past the last.
        if (s + 8 <= capacity_) return;
        const size_t wider = whole_lanes(2 * s + 16);
        std::vector<double> moved(wider * wider);
        for (size_t j = 0; j < size_; ++j) std::copy(l(j) + j, l(j) + size_, &moved[j * wider + j]);
        l_.swap(moved);
        capacity_ = wider;
        for (auto* vector : {&inverse_, &z_, &row_}) vector->resize(capacity_);
    }

    size_t size_ = 0, capacity_ = 0;
    std::vector<double> l_, inverse_, z_, row_;
};

}  // namespace bmrm
