// Coordinate ascent in the dual of a risk under lam/2 |w|^2 (Hsieh, Chang, Lin, Keerthi, Sundararajan, ICML
// 2008, 408; for several classes Keerthi, Sundararajan, Chang, Hsieh, Lin, KDD 2008, 408).
//
// The dual has a variable r per margin, the derivative of its loss there, and a concave objective
//
//     D(r) = -|X^T r|^2 / (2 lam) - sum_i f_i(r_i),        f_i the conjugate of the loss of row i.
//
// With w = -X^T r / lam kept up to date, one product with row i determines D along r_i. So r_i moves to the
// maximum at once, and w with it: no row waits for the others, and most rows of a text reach a bound of their
// f_i, where they are left alone. A row with several margins moves to the maximum in all of them.
#pragma once

#include <algorithm>
#include <memory>
#include <numeric>

#include "conjugates.h"
#include "cpu/matrix.h"
#include "dual/gap_watch.h"

namespace bmrm {

/// Maximum number of sweeps of a step over the rows that may still move, after one over all rows.
constexpr i64 kShortSweeps = 4;
/// Average number of visits per row and step after which no further sweep begins.
constexpr i64 kMaxVisits = 3;

/// Number of neighbouring rows that stay together in the random order, for locality in memory.
constexpr i64 kRunRows = 32;

/// Prefetch distances, in visited rows, of the weights of a row's entries, of the entries, and of the row
/// pointers. If few rows are visited, they are scattered in memory, and waiting for them would take most of
/// the time.
constexpr i64 kWeightsAhead = 2;
constexpr i64 kEntriesAhead = 12;
constexpr i64 kPointersAhead = 24;

/// Maximum number of rounds in which what a sum lacks is distributed over the rows.
constexpr int kMaxBalanceRounds = 20;
/// Difference of a sum from its target, relative to the sum of |r|, at which these rounds end.
constexpr double kBalanceTolerance = 1e-12;

/// The weight of a constant is held with this share of the curvature that all rows would give D along it if
/// each gave it as much as along its own features.
constexpr double kHeldCurvature = 0.1;
/// Maximum of that strength, relative to the square of the constant.
constexpr double kMaxHeldStrength = 0.01;

/// Share of the gap, relative to the mean of the rows visited lately, above which a row of several classes is
/// visited again before all others are. Most such rows have several classes between their bounds, where they
/// never rest, and few of them hold most of the gap.
constexpr double kBusyShare = 0.5;

/// Rounding error per class of the sum of the shares of a row, which should be 1.
constexpr double kShareRounding = 0x1p-51;

/// A constant feature; a value of 0 means that there is none.
struct Constant {
    double value, penalty;
    bool held;
};

/// Moves rows in random order, each to the maximum of D; subclasses define what a row is and how it moves.
///
/// A constant feature couples all rows. If the penalty on its weight b is small, each row moves b as far as
/// suits that row alone, and the next row moves it back. So b may be held near the b_0 at which a step
/// begins, by an additional penalty mu/2 (b - b_0)^2 (Rockafellar, Math. Oper. Res. 1 (1976) 97).
class Ascent {
  public:
    Ascent(const Matrix& X, i64 m, double lam, Constant constant)
        : X_(X.by_rows()),
          places_(X.places()),
          lam_(lam),
          constant_(constant.value),
          strength_(constant.penalty),
          order_(m),
          able_(m),
          squares_(X.row_squares()),
          watch_(m) {
        std::iota(able_.begin(), able_.end(), i64{0});
        const double rows = static_cast<double>(m), square = constant_ * constant_;
        const double sum = std::accumulate(squares_.begin(), squares_.end(), 0.0);
        const double firm = kHeldCurvature * lam * rows * rows;
        if (constant.held)
            strength_ += square * (firm < kMaxHeldStrength * sum ? firm / sum : kMaxHeldStrength);
        for (double& own : squares_) own = own / lam + (square > 0 ? square / strength_ : 0.0);
    }
    virtual ~Ascent() = default;

    /// Sweeps over the rows. w, followed by the weight of the constant, belongs to r before and after them.
    /// They end early if the gap seems to be less than `wanted`.
    virtual void step(double* w, double wanted) = 0;
    /// Sets all r, as far as their bounds allow, and writes the values that were set.
    virtual void set(double* r) = 0;
    virtual void get(double* r) const = 0;
    /// Makes the sum of all r equal to `sums`, for each of the K margins of a row, as far as the bounds
    /// allow; afterwards w no longer belongs to r.
    virtual void balance(const double* sums) = 0;
    /// sum_i f_i(r_i); infinite if some r is outside the domain of its f, for whatever reason.
    virtual double conjugate() const = 0;
    /// Whether the last step ended because the gap seemed to be small enough.
    bool enough() const { return enough_; }

  protected:
    /// Excludes rows permanently.
    template <class Fixed>
    void leave_out(const Fixed& fixed) {
        able_.erase(std::remove_if(able_.begin(), able_.end(), fixed), able_.end());
        watch_ = GapWatch(static_cast<i64>(able_.size()));
    }

    /// visit(i, gap) moves row i and returns whether it may move again. It reads w, `ld` numbers per column
    /// of X, and, unless `gap` is null, adds to it the row's share of the gap before the move. fetch(i) is
    /// called some rows ahead. If `repeat`, a sweep over all rows follows when no row may move again.
    template <class Fetch, class Visit>
    void sweep(const double* w, i64 ld, double wanted, bool repeat, const Fetch& fetch, const Visit& visit) {
        const i64 able = static_cast<i64>(able_.size());
        for (i64 k = 0, count = 0, visits = 0; visits < kMaxVisits * able; ++k) {
            if (k == 0 || (repeat && count == 0))
                std::copy(able_.begin(), able_.end(), order_.begin()), count = able;
            if (count == 0 || (!repeat && k > kShortSweeps)) return;
            visits += count;
            shuffle(count);
            watch_.begin(count);
            i64 kept = 0;
            for (i64 n = 0; n < count; ++n) {
                const i64 i = order_[n];
                const auto ahead = [&](i64 rows) { return order_[std::min(n + rows, count - 1)]; };
                X_.fetch_rows(ahead(kWeightsAhead), w, ld, ahead(kEntriesAhead), ahead(kPointersAhead));
                __builtin_prefetch(&squares_[ahead(kEntriesAhead)]);
                fetch(ahead(kEntriesAhead));
                if (visit(i, watch_.share(n))) order_[kept++] = i;
                if ((enough_ = watch_.enough(n, wanted))) return;
            }
            count = kept;
        }
    }

    /// The place of column j of d in the rows of X_.
    i64 place(i64 j, i64 d) const { return places_ && j < d ? places_[j] : j; }

    const Rows& X_;
    const std::uint32_t* const places_;
    const double lam_, constant_;
    /// Strength of the penalty on b, including that which holds it.
    double strength_;
    std::vector<i64> order_;
    /// The rows that can move at all.
    std::vector<i64> able_;
    /// The curvature of D in r_i: |x_i|^2 / lam, plus that of the constant.
    std::vector<double> squares_;

  private:
    /// Shuffles whole runs of the first `count` rows (Fisher and Yates, with the generator of Steele, Lea,
    /// Flood, OOPSLA 2014, 453, which is the same everywhere); the remaining ones stay last.
    void shuffle(i64 count) {
        for (i64 n = count / kRunRows - 1; n > 0; --n) {
            std::uint64_t z = state_ += 0x9e3779b97f4a7c15u;
            z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
            z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
            z ^= z >> 31;
            const i64 other = static_cast<i64>(z % static_cast<std::uint64_t>(n + 1));
            if (other != n)
                std::swap_ranges(&order_[n * kRunRows], &order_[n * kRunRows] + kRunRows,
                                 &order_[other * kRunRows]);
        }
    }

    GapWatch watch_;
    bool enough_ = false;
    std::uint64_t state_ = 0;
};

/// Margins with a loss each; the base class knows how many a row has.
template <class Base>
class OfCoordinates : public Base {
  public:
    void set(double* r) override {
        for (Coordinate& row : rows_) *r = row.r = row.feasible(*r), ++r;
    }
    void get(double* r) const override {
        for (const Coordinate& row : rows_) *r++ = row.r;
    }
    double conjugate() const override {
        double sum = 0;
        for (const Coordinate& row : rows_) sum += row.conjugate();
        return sum;
    }

    /// What a sum lacks is added to the rows that are not at a bound, since D hardly changes along those. For
    /// the rest, and for the last digits, the r of one sign shrink: 0 is within all bounds. If that is not
    /// enough, all r move by the same share of their distances to a bound.
    void balance(const double* sums) override {
        const std::size_t K = rows_.size() / this->order_.size();
        for (std::size_t c = 0; c < K; ++c) {
            for (int k = 0; k < kMaxBalanceRounds && spread(sums[c], c, K); ++k) {
            }
            shrink(sums[c], c, K);
        }
    }

  protected:
    template <class... Arguments>
    OfCoordinates(const Conjugate* rows, i64 count, const Arguments&... arguments)
        : Base(arguments...), rows_(count) {
        for (i64 k = 0; k < count; ++k) rows_[k] = {rows[k], rows[k].feasible(0.0)};
        const i64 K = this->order_.empty() ? 1 : count / static_cast<i64>(this->order_.size());
        this->leave_out([&](i64 i) {
            return std::all_of(&rows_[i * K], &rows_[i * K] + K,
                               [](const Coordinate& row) { return row.low == row.high; });
        });
    }

    std::vector<Coordinate> rows_;

  private:
    /// Distributes evenly what the sum of margin c lacks; returns whether there was anything to distribute,
    /// and a row to take it.
    bool spread(double sum, std::size_t c, std::size_t K) {
        double size = 0;
        i64 count = 0;
        for (std::size_t i = c; i < rows_.size(); i += K) {
            sum -= rows_[i].r;
            size += std::abs(rows_[i].r);
            count += rows_[i].inside();
        }
        if (count == 0 || std::abs(sum) <= kBalanceTolerance * size) return false;
        const double share = sum / static_cast<double>(count);
        for (std::size_t i = c; i < rows_.size(); i += K)
            if (Coordinate& row = rows_[i]; row.inside()) row.r = row.feasible(row.r + share);
        return true;
    }

    void shrink(double sum, std::size_t c, std::size_t K) {
        double up = 0, down = 0;
        for (std::size_t i = c; i < rows_.size(); i += K) (rows_[i].r > 0 ? up : down) += rows_[i].r;
        const double over = up + down - sum, part = over > 0 ? up : down;
        if (over == 0) return;
        if (std::abs(over) > std::abs(part)) return approach(-over, c, K);
        for (std::size_t i = c; i < rows_.size(); i += K)
            if (Coordinate& row = rows_[i]; row.r * over > 0) row.r -= row.r * (over / part);
    }

    void approach(double lack, std::size_t c, std::size_t K) {
        const auto way = [&](const Coordinate& row) { return (lack > 0 ? row.high : row.low) - row.r; };
        double ways = 0;
        for (std::size_t i = c; i < rows_.size(); i += K) ways += way(rows_[i]);
        if (ways == 0 || !std::isfinite(ways)) return;
        const double part = std::min(1.0, lack / ways);
        for (std::size_t i = c; i < rows_.size(); i += K)
            rows_[i].r = rows_[i].feasible(rows_[i].r + part * way(rows_[i]));
    }
};

/// One margin per row.
class MarginAscent final : public OfCoordinates<Ascent> {
  public:
    MarginAscent(const Matrix& X, i64 m, i64 d, double lam, Constant constant, const Conjugate* rows)
        : OfCoordinates(rows, m, X, m, lam, constant), d_(d), own_(places_ ? d + 1 : 0) {}

    void step(double* w, double wanted) override {
        if (!places_) return climb(w, wanted);
        const i64 weights = d_ + (constant_ != 0);
        for (i64 j = 0; j < weights; ++j) own_[place(j, d_)] = w[j];
        climb(own_.get(), wanted);
        for (i64 j = 0; j < weights; ++j) w[j] = own_[place(j, d_)];
    }

  private:
    void climb(double* w, double wanted) {
        const auto fetch = [this](i64 i) { __builtin_prefetch(&rows_[i]), __builtin_prefetch(&rows_[i].r); };
        sweep(w, 1, wanted, false, fetch, [&](i64 i, double* gap) {
            Coordinate& row = rows_[i];
            double u = X_.row_dot(i, w);
            if (constant_ != 0) u += constant_ * w[d_];
            if (gap) *gap += row.gap(u);
            const double to = row.nearly_best(u, squares_[i]), by = row.r - to;
            if (to == row.r) return row.inside();
            row.r = to;
            X_.add_row(i, by / lam_, w);
            if (constant_ != 0) w[d_] += by / strength_ * constant_;
            return true;
        });
    }

    const i64 d_;
    /// The weights in the column order of X_, if that differs.
    Buffer<double> own_;
};

/// K margins per row; a subclass moves them.
class ColumnAscent : public Ascent {
  public:
    ColumnAscent(const Matrix& X, i64 m, i64 d, i64 K, double lam, Constant constant, bool repeat)
        : Ascent(X, m, lam, constant),
          m_(m),
          d_(d),
          K_(K),
          ld_((K + 7) / 8 * 8),
          repeat_(repeat),
          weights_((d + 1) * ld_) {}

    void step(double* w, double wanted) override {
        const i64 rows = d_ + (constant_ != 0);
        for (i64 j = 0; j < rows; ++j) std::copy_n(w + j * K_, K_, weights_.get() + place(j, d_) * ld_);
        std::vector<double> margins(ld_);
        std::vector<Change> changes(K_);
        double *W = weights_.get(), *last = W + d_ * ld_, *u = margins.data();
        sweep(
            W, ld_, wanted, repeat_, [](i64) {},
            [&](i64 i, double* gap) {
                X_.row_dots(i, W, ld_, u);
                if (constant_ != 0)
                    for (i64 c = 0; c < K_; ++c) u[c] += constant_ * last[c];
                i64 count = 0;
                const bool again = move(i, u, changes.data(), count, gap);
                for (i64 k = 0; k < count; ++k) changes[k].factor /= -lam_;
                if (count) X_.add_row_to(i, changes.data(), count, ld_, W);
                if (constant_ != 0)
                    for (i64 k = 0; k < count; ++k)
                        last[changes[k].column] += constant_ * changes[k].factor * lam_ / strength_;
                return again;
            });
        for (i64 j = 0; j < rows; ++j) std::copy_n(W + place(j, d_) * ld_, K_, w + j * K_);
    }

  protected:
    /// Moves the r of row i; reports the changes and its share of the gap, and returns whether it may move
    /// again.
    virtual bool move(i64 i, double* u, Change* changes, i64& count, double* gap) = 0;

    const i64 m_, d_, K_, ld_;

  private:
    /// Whether a step has several sweeps over all rows.
    const bool repeat_;
    Buffer<double> weights_;
};

/// K margins per row, each with a loss of its own.
class MarginsAscent final : public OfCoordinates<ColumnAscent> {
  public:
    MarginsAscent(const Matrix& X, i64 m, i64 d, i64 K, double lam, Constant constant, const Conjugate* rows)
        : OfCoordinates(rows, m * K, X, m, d, K, lam, constant, false) {}

  protected:
    bool move(i64 i, double* u, Change* changes, i64& count, double* gap) override {
        bool again = false;
        for (i64 c = 0; c < K_; ++c) {
            Coordinate& row = rows_[i * K_ + c];
            if (gap) *gap += row.gap(u[c]);
            const double to = row.nearly_best(u[c], squares_[i]);
            if (to != row.r) changes[count++] = {c, to - row.r};
            row.r = to;
            again |= row.inside();
        }
        return again || count;
    }
};

/// The loss max_c (u_c + cost_c) - u_y: r = s (p - e_y), with shares p that add up to 1, and f(r) = -s sum_c
/// p_c cost_c.
class ClassAscent final : public ColumnAscent {
  public:
    /// Costs are K x K, the cost of a class instead of the row's; null for 1 if they differ.
    ClassAscent(const Matrix& X, i64 m, i64 d, i64 K, double lam, Constant constant, const std::int32_t* y,
                const double* costs, const double* weights)
        : ColumnAscent(X, m, d, K, lam, constant, true),
          y_(y, y + m),
          weights_(weights, weights + m),
          shares_(m * K),
          costs_(K * K, 1.0),
          wanted_(K),
          sorted_(K) {
        for (i64 c = 0; c < K; ++c) costs_[c * K + c] = 0.0;
        if (costs) costs_.assign(costs, costs + K * K);
        for (i64 i = 0; i < m; ++i) shares_[i * K + y_[i]] = 1.0;
        leave_out([&](i64 i) { return weights_[i] == 0.0; });
    }

    void set(double* r) override {
        for (i64 i = 0; i < m_; ++i) {
            double* p = &shares_[i * K_];
            for (i64 c = 0; c < K_; ++c)
                p[c] = (weights_[i] > 0 ? r[i * K_ + c] / weights_[i] : 0.0) + (c == y_[i] ? 1.0 : 0.0);
            project(p);
        }
        get(r);
    }
    void get(double* r) const override {
        for (i64 i = 0; i < m_; ++i) {
            for (i64 c = 0; c < K_; ++c) r[i * K_ + c] = weights_[i] * shares_[i * K_ + c];
            r[i * K_ + y_[i]] -= weights_[i];
        }
    }
    double conjugate() const override {
        double total = 0;
        for (i64 i = 0; i < m_; ++i) {
            double cost = 0, sum = 0, least = 0;
            for (i64 c = 0; c < K_; ++c) {
                const double p = shares_[i * K_ + c];
                cost += p * costs_[y_[i] * K_ + c];
                sum += p;
                least = std::min(least, p);
            }
            // Negated, so that NaN counts as well.
            if (!(least >= 0 && std::abs(sum - 1.0) <= kShareRounding * static_cast<double>(K_)))
                return kInfinite;
            total -= weights_[i] * cost;
        }
        return total;
    }

    /// Does nothing: what one class gains another loses.
    void balance(const double*) override {}

  protected:
    bool move(i64 i, double* u, Change* changes, i64& count, double* gap) override {
        const double s = weights_[i], bends = s * squares_[i], *cost = &costs_[y_[i] * K_];
        double* p = &shares_[i * K_];
        i64 worst = 0;
        for (i64 c = 0; c < K_; ++c) {
            u[c] += cost[c];
            if (u[c] > u[worst]) worst = c;
        }
        double share = 0;
        for (i64 c = 0; c < K_; ++c) share += s * p[c] * (u[worst] - u[c]);
        if (gap) *gap += share;
        lately_ += (share - lately_) / static_cast<double>(std::min(++visits_, m_));
        if (p[worst] == 1.0 || s == 0.0) return false;
        if (bends > 0) {
            // The largest is subtracted from all: those near it keep their digits, however small the
            // curvature of D is.
            for (i64 c = 0; c < K_; ++c) wanted_[c] = p[c] + (u[c] - u[worst]) / bends;
            project(wanted_.data());
        } else {
            std::fill(wanted_.begin(), wanted_.end(), 0.0);
            wanted_[worst] = 1.0;
        }
        for (i64 c = 0; c < K_; ++c)
            if (wanted_[c] != p[c]) {
                changes[count++] = {c, s * (wanted_[c] - p[c])};
                p[c] = wanted_[c];
            }
        return share > kBusyShare * lately_;
    }

  private:
    /// Projects K numbers onto the simplex (Held, Wolfe, Crowder, Math. Programming 6 (1974) 62): the parts
    /// above a level at which they add up to 1. If the level's rounding leaves another sum, the shares are
    /// scaled; if it leaves none, since one number is far above all others, the first of the largest gets 1.
    void project(double* v) {
        std::copy_n(v, K_, sorted_.begin());
        i64 count = K_;
        double level = 0;
        for (i64 before = K_ + 1; count < before;) {
            before = count;
            double sum = -1;
            for (i64 k = 0; k < count; ++k) sum += sorted_[k];
            level = sum / static_cast<double>(count);
            i64 above = 0;
            for (i64 k = 0; k < count; ++k)
                if (sorted_[k] > level) sorted_[above++] = sorted_[k];
            count = above;
        }
        const i64 largest = std::max_element(v, v + K_) - v;
        double total = 0;
        for (i64 c = 0; c < K_; ++c) total += v[c] = count > 1 && v[c] > level ? v[c] - level : 0.0;
        if (!(total > 0.5 && total < 2.0)) {
            std::fill_n(v, K_, 0.0);
            v[largest] = 1.0;
        } else if (total != 1.0) {
            for (i64 c = 0; c < K_; ++c) v[c] /= total;
        }
    }

    std::vector<std::int32_t> y_;
    std::vector<double> weights_, shares_, costs_, wanted_, sorted_;
    /// Mean share of the gap of the last m rows visited, the latest counting most.
    double lately_ = 0;
    i64 visits_ = 0;
};

/// Ascent for one margin, or K margins, per row, each with a loss of its own.
inline std::unique_ptr<Ascent> ascent_of_margins(const Matrix& X, i64 m, i64 d, i64 K, double lam,
                                                 Constant constant, const Conjugate* rows) {
    if (K == 1) return std::make_unique<MarginAscent>(X, m, d, lam, constant, rows);
    return std::make_unique<MarginsAscent>(X, m, d, K, lam, constant, rows);
}

/// Ascent for rows with K margins, one per class.
inline std::unique_ptr<Ascent> ascent_of_classes(const Matrix& X, i64 m, i64 d, i64 K, double lam,
                                                 Constant constant, const std::int32_t* y,
                                                 const double* costs, const double* weights) {
    return std::make_unique<ClassAscent>(X, m, d, K, lam, constant, y, costs, weights);
}

}  // namespace bmrm
