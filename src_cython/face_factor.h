// Cholesky factor of the Gram matrix of the cuts that hold mass, kept while cuts come and go, with what is
// needed to solve the equality-constrained step on their face:
//
//     [ H  E' ] [ delta ]   [ g ]      H = G_SS / lam + rho E'E,
//     [ E  0  ] [  nu   ] = [ 0 ]      E = membership of each cut in its group.
//
// The term rho E'E changes nothing where E delta = 0, and makes H positive definite whenever the whole system
// is regular, although G_SS alone seldom is (Kiwiel, IMA J. Numer. Anal. 6 (1986) 137).  L L' = H grows by a
// row when a cut enters and shrinks by Givens rotations when one leaves (Gill, Golub, Murray, Saunders, Math.
// Comp. 28 (1974) 505).  Y = L^{-1} E' takes part in both, so that the Schur complement Y'Y of the groups
// costs s P^2 flops and not P triangular solves.
#pragma once
#include <cmath>
#include <cstdint>
#include <vector>

#include "dense.h"

namespace bmrm {

class FaceFactor {
  public:
    explicit FaceFactor(const size_t groups) : groups_(groups) {}

    size_t size() const { return size_; }

    // Make ready to append the cut whose H against those inside is `column` and against itself `diagonal`:
    // returns the pivot, which is zero where the cut depends on those inside.
    double prepare(const std::vector<double>& column, const double diagonal) {
        const size_t s = size_;
        reserve(s + 1);
        double* row = l(s);
        for (size_t i = 0; i < s; ++i) row[i] = (column[i] - dot(i, row, l(i))) / l(i)[i];
        return diagonal - dot(s, row, row);
    }

    // How the prepared cut is made of those inside, where it depends on them.
    void combination(std::vector<double>& v) {
        v.assign(l(size_), l(size_) + size_);
        back_substitute(v);
    }

    // Take the prepared cut in.
    void append(const double pivot, const size_t group) {
        const size_t s = size_;
        double* row = l(s);
        row[s] = std::sqrt(pivot);
        double* yrow = y(s);
        for (size_t p = 0; p < groups_; ++p) yrow[p] = p == group ? 1.0 : 0.0;
        for (size_t i = 0; i < s; ++i) axpy(groups_, -row[i], y(i), yrow);
        for (size_t p = 0; p < groups_; ++p) yrow[p] /= row[s];
        ++size_;
    }

    // Take out the cut at position k.
    void remove(const size_t k) {
        for (size_t i = k + 1; i < size_; ++i) {
            double* row = l(i);
            double* above = l(i - 1);
            for (size_t j = 0; j <= i; ++j) above[j] = row[j];
        }
        // Rows k.. now have one entry right of the diagonal: rotate columns (j, j + 1) to clear it.
        for (size_t j = k; j + 1 < size_; ++j) {
            const double a = l(j)[j], b = l(j)[j + 1];
            const double r = std::hypot(a, b), c = a / r, sn = b / r;
            for (size_t i = j; i + 1 < size_; ++i) {
                double* row = l(i);
                const double u = row[j], v = row[j + 1];
                row[j] = c * u + sn * v;
                row[j + 1] = c * v - sn * u;
            }
            double* yj = y(j);
            double* yn = y(j + 1);
            for (size_t p = 0; p < groups_; ++p) {
                const double u = yj[p], v = yn[p];
                yj[p] = c * u + sn * v;
                yn[p] = c * v - sn * u;
            }
        }
        --size_;
    }

    // delta for the right-hand side g.
    void solve(const std::vector<double>& g, std::vector<double>& delta) {
        const size_t s = size_;
        delta.resize(s);
        for (size_t i = 0; i < s; ++i) delta[i] = (g[i] - dot(i, l(i), delta.data())) / l(i)[i];
        schur_.assign(groups_ * groups_, 0.0);
        multiplier_.assign(groups_, 0.0);
        for (size_t i = 0; i < s; ++i) {
            const double* yi = y(i);
            axpy(groups_, delta[i], yi, multiplier_.data());
            for (size_t p = 0; p < groups_; ++p)
                if (yi[p] != 0.0) axpy(groups_, yi[p], yi, &schur_[p * groups_]);
        }
        // Every group has a cut, so Y has full rank and Y'Y is positive definite.
        cholesky_solve(groups_, schur_.data(), multiplier_.data());
        for (size_t i = 0; i < s; ++i) delta[i] -= dot(groups_, y(i), multiplier_.data());
        back_substitute(delta);
    }

  private:
    void back_substitute(std::vector<double>& x) {
        for (size_t i = x.size(); i-- > 0;) {
            x[i] /= l(i)[i];
            axpy(i, -x[i], l(i), x.data());
        }
    }

    double* l(const size_t i) { return &l_[i * capacity_]; }
    double* y(const size_t i) { return &y_[i * groups_]; }

    void reserve(const size_t s) {
        if (s > capacity_) {
            const size_t wider = 2 * s + 16;
            std::vector<double> moved(wider * wider);
            for (size_t i = 0; i < size_; ++i)
                for (size_t j = 0; j <= i; ++j) moved[i * wider + j] = l_[i * capacity_ + j];
            l_.swap(moved);
            capacity_ = wider;
        }
        if (y_.size() < capacity_ * groups_) y_.resize(capacity_ * groups_);
    }

    size_t groups_, size_ = 0, capacity_ = 0;
    std::vector<double> l_, y_, schur_, multiplier_;
};

}  // namespace bmrm
