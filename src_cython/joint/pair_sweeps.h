// Hinge losses of pairs of rows, for many levels.
//
// In the order of margins the rows j that are active with i form the upper end of the list, and the rows i
// active with j the lower end, so one sweep in each direction meets them all. Sums over the levels below or
// above come from a tree of partial sums (Fenwick 1994). Lee and Lin, Neural Comp. 26 (2014) 781, use an
// order-statistic tree instead.
//
// The list is split into chunks that are swept independently. The sums that a sweep starts with are those of
// the chunks beyond, and of a part of one chunk.
#pragma once

#include "joint/pair_sum.h"
#include "joint/sort.h"

namespace bmrm {

/// Partial sums over levels.
class LevelSums {
  public:
    /// `memory` has room for levels + 1 sums.
    LevelSums(GradedSum* memory, int64_t levels) : sums_(memory), levels_(levels) {
        std::fill(sums_, sums_ + levels + 1, GradedSum{});
    }
    void add(int64_t level, const GradedSum& sum) {
        for (int64_t k = level + 1; k <= levels_; k += k & -k) sums_[k].add(sum);
    }
    /// The sum over all levels below.
    GradedSum below(int64_t level) const {
        GradedSum found;
        for (int64_t k = level; k > 0; k -= k & -k) found.add(sums_[k]);
        return found;
    }

  private:
    GradedSum* sums_;
    int64_t levels_;
};

/// All pairs of rows of one group; if `graded`, a pair is weighted by the difference of its values.
class PairSweeps {
  public:
    PairSweeps(const Group& group, const Line& line, int64_t levels, bool graded, int threads, Arena& arena)
        : group_(group),
          graded_(graded),
          levels_(levels),
          threads_(threads),
          // At least as long as there are levels, so that the sums of all chunks take no more room than the
          // rows.
          length_(std::max(kChunk, levels)),
          chunks_((group.size + length_ - 1) / length_),
          summed_(chunks_ > 1 ? levels : 0),
          order_(sort_margins(margins_of(group, line, threads, arena), group.size, threads, arena)),
          rows_(arena.take<Row>(group.size)),
          sums_(arena.take<GradedSum>(chunks_ * summed_)),
          passed_(arena.take<GradedSum>(2 * chunks_ * (levels + 1))),
          below_(arena.take<double>(group.size)),
          above_(arena.take<double>(group.size)),
          arena_(arena) {
        in_chunks(group.size, length_, threads, [=](int64_t first, int64_t last, int64_t c) {
            std::fill(sums_ + c * summed_, sums_ + (c + 1) * summed_, GradedSum{});
            for (int64_t k = first; k < last; ++k) {
                const int64_t p = order_.place[k];
                rows_[k] = {order_.margin[k], group_.weight[p], graded_ ? group_.value[p] : 0.0,
                            group_.level[p]};
                if (summed_) sums_[c * levels_ + rows_[k].level].add(rows_[k].sum());
            }
        });
    }

    Touched risk(double* r) const {
        const int64_t n = group_.size;
        for_each_task(2 * chunks_, threads_, [=](int64_t task) {
            const int64_t c = task / 2, first = c * length_, last = std::min(n, first + length_);
            if (task % 2)
                sweep_up(first, last, passed_ + task * (levels_ + 1));
            else
                sweep_down(first, last, passed_ + task * (levels_ + 1));
        });
        // The derivatives add up to zero, so margins may be measured from any origin: one near them rounds
        // least.
        const double origin = n ? rows_[n / 2].margin : 0.0;
        const Touched total = sum_of_chunks(n, length_, threads_, arena_, [=](int64_t first, int64_t last) {
            Touched sum{};
            for (int64_t k = first; k < last; ++k) {
                const double slope = rows_[k].weight * (above_[k] - below_[k]);
                r[group_.rows[order_.place[k]]] = group_.share * slope;
                sum += Touched{rows_[k].weight * below_[k] + slope * (rows_[k].margin - origin),
                               rows_[k].weight * below_[k]};
            }
            return sum;
        });
        return group_.share * total;
    }

  private:
    /// What the sweeps need of a row, side by side, in the order of margins.
    struct Row {
        double margin, weight, value;
        int64_t level;

        GradedSum sum() const { return {weight, value}; }
    };

    /// Sums what is active on lower levels with the rows of a chunk, from the top down.
    void sweep_down(int64_t first, int64_t last, GradedSum* memory) const {
        LevelSums passed(memory, levels_);
        const double top = rows_[last - 1].margin - 1.0;
        int64_t whole = chunks_, j = group_.size;
        while (summed_ && whole > 0 && rows_[(whole - 1) * length_].margin > top) {
            j = --whole * length_;
            for (int64_t k = 0; k < levels_; ++k) passed.add(k, sums_[whole * levels_ + k]);
        }
        for (int64_t i = last - 1; i >= first; --i) {
            for (const double limit = rows_[i].margin - 1.0; j > 0 && rows_[j - 1].margin > limit;) {
                --j;
                passed.add(rows_[j].level, rows_[j].sum());
            }
            const GradedSum sum = passed.below(rows_[i].level);
            below_[i] = graded_ ? sum.seen_from(rows_[i].value) : sum.weight;
        }
    }

    /// Sums what is active on higher levels, from the bottom up.
    void sweep_up(int64_t first, int64_t last, GradedSum* memory) const {
        LevelSums passed(memory, levels_);
        int64_t i = 0;
        for (int64_t whole = 0; summed_ && whole < chunks_; ++whole) {
            const int64_t end = std::min(group_.size, (whole + 1) * length_);
            if (!(rows_[first].margin > rows_[end - 1].margin - 1.0)) break;
            for (int64_t k = 0; k < levels_; ++k) passed.add(levels_ - 1 - k, sums_[whole * levels_ + k]);
            i = end;
        }
        for (int64_t j = first; j < last; ++j) {
            for (; i < group_.size && rows_[j].margin > rows_[i].margin - 1.0; ++i)
                passed.add(levels_ - 1 - rows_[i].level, rows_[i].sum());
            const GradedSum sum = passed.below(levels_ - 1 - rows_[j].level);
            above_[j] = graded_ ? -sum.seen_from(rows_[j].value) : sum.weight;
        }
    }

    const Group& group_;
    const bool graded_;
    const int64_t levels_;
    const int threads_;
    const int64_t length_, chunks_, summed_;
    const Sorted order_;
    Row* rows_;
    GradedSum *sums_, *passed_;  // by chunk and level; and the rows that each sweep has passed
    double *below_, *above_;
    Arena& arena_;
};

}  // namespace bmrm
