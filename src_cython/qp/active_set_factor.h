// Cholesky factor of the face of the inner QP, kept while cuts come and go.  In each group one of the cuts
// that hold mass, the group's reference, gives what the others take: a step along the face is a step of the
// other ones, its members, each against its reference, so that it leaves no simplex.  What is factored is
// the Gram matrix of the members' gradients, each less its reference's,
//
//     L L' = M,   M_ij = < a_i - a_r(i), a_j - a_r(j) >      (Nocedal, Wright, 2nd ed., sec. 15.3),
//
// which says nothing of lam.  L grows by a row when a cut enters and shrinks by Givens rotations when one
// leaves (Gill, Golub, Murray, Saunders, Math. Comp. 28 (1974) 505).  Where a reference leaves, the first of
// its group's members takes its place: subtracting that row from those of the others in the group, all of
// them behind it, leaves L triangular.  z = L^{-1} g, for the slopes g of the members, takes part in all
// that, so that a step is one solve with L'.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "qp/dense_algebra.h"

namespace bmrm {

class ActiveSetFactor {
  public:
    // Members.
    size_t size() const { return size_; }

    // Make ready to append the cut whose M against the members is `column` and against itself `diagonal`:
    // returns the pivot, which is zero where the cut depends on those inside.
    double prepare(const std::vector<double>& column, const double diagonal) {
        std::copy_n(column.data(), size_, row_.data());
        forward_substitute(size_, l_.data(), capacity_, inverse_.data(), row_.data());
        return diagonal - dot(size_, row_.data(), row_.data());
    }

    // The slope, towards more of the prepared cut, of what moves along with those inside: g is `slope` there.
    double slope_beside(const double slope) const { return slope - dot(size_, row_.data(), z_.data()); }

    // How the prepared cut is made of the members, where it depends on them.
    void combination(double* v) const {
        std::copy_n(row_.data(), size_, v);
        back_substitute(size_, l_.data(), capacity_, inverse_.data(), v);
    }

    // Take the prepared cut in, whose entry of g is `slope`.
    void append(const double pivot, const double slope) {
        const size_t s = size_;
        reserve(s + 1);
        for (size_t j = 0; j < s; ++j) l(j)[s] = row_[j];
        l(s)[s] = std::sqrt(pivot);
        inverse_[s] = 1.0 / l(s)[s];
        z_[s] = slope_beside(slope) * inverse_[s];
        ++size_;
    }

    // Take out member k.
    void remove(const size_t k) {
        remove_row(size_, k, l_.data(), capacity_, inverse_.data(), z_.data());
        --size_;
    }

    // Make member k the reference of the others of its group, which are behind it; return its entry of g.
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

    // Say what g is.
    void set_slopes(const std::vector<double>& g) {
        std::copy_n(g.data(), size_, z_.data());
        forward_substitute(size_, l_.data(), capacity_, inverse_.data(), z_.data());
    }

    // v = M^{-1} g for the g set before, with what came and went since; false if there is no such step in
    // floating point.
    bool solve(double* v) const {
        std::copy_n(z_.data(), size_, v);
        back_substitute(size_, l_.data(), capacity_, inverse_.data(), v);
        return std::all_of(v, v + size_, [](const double x) { return std::isfinite(x); });
    }

    // Follow g, of which a step t along v leaves 1 - t.
    void step(const double t) {
        for (size_t i = 0; i < size_; ++i) z_[i] *= 1.0 - t;
    }

  private:
    // Column j of L, from row 0 on.
    double* l(const size_t j) { return &l_[j * capacity_]; }

    void reserve(const size_t s) {
        // Kernels reach up to eight rows beyond the last.
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
