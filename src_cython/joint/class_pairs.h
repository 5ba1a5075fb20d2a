// Hinge losses of pairs of rows, for few levels.
//
// One merge of two sorted classes finds for each row how many rows of the other class are active with it: for
// a row i of the higher level those from some place on, for a row j of the lower level those up to some
// place. Each step of the merge advances one side by arithmetic, since a branch would be mispredicted every
// other time. With L levels this takes L - 1 steps per row; the sweeps of pair_sweeps.h take two, with three
// such branches each.
#pragma once

#include "joint/classes.h"
#include "joint/pair_sum.h"

namespace bmrm {

/// Maximum number of levels for which merges are used.
constexpr int64_t kMaxMergedLevels = 8;

/// All pairs of rows of one group.
template <class Sum>
class ClassPairs {
  public:
    ClassPairs(const Group& group, const Line& line, int64_t levels, int threads, Arena& arena)
        : group_(group), levels_(levels), threads_(threads), arena_(arena) {
        const Class* found = classes_of(group, line, levels, threads, arena);
        sides_ = arena.take<Side>(levels);
        for (int64_t k = 0; k < levels; ++k) sides_[k] = side_of(found[k]);
    }

    Touched risk(double* r) {
        Side* const end = sides_ + levels_;
        int64_t most = 0;
        for (const Side* side = sides_; side < end; ++side) most = std::max(most, side->rows.size);
        int64_t *from = arena_.take<int64_t>(most), *up_to = arena_.take<int64_t>(most);
        for (const Side* high = sides_; high < end; ++high)
            for (const Side* low = sides_; low < high; ++low) merge(*high, *low, from, up_to);
        double* slopes = arena_.take<double>(group_.size);
        Touched total{};
        for (const Side* side = sides_; side < end; ++side) total += finish(*side, slopes);
        in_chunks(group_.size, kChunk, threads_, [=](int64_t first, int64_t last, int64_t) {
            for (int64_t p = first; p < last; ++p) r[group_.rows[p]] = group_.share * slopes[p];
        });
        return group_.share * total;
    }

  private:
    struct Side {
        Class rows;
        double *weight, *value;
        Sum *up_to, *from;      // sums over the rows before each place, and over those from it on
        double *below, *above;  // what is active with each row on lower and on higher levels
    };

    Side side_of(const Class& rows) const {
        const int64_t n = rows.size, chunks = (n + kChunk - 1) / kChunk;
        const auto numbers = [&] { return arena_.take<double>(n); };
        const auto sums = [&](int64_t size) { return arena_.take<Sum>(size); };
        double *weight = numbers(), *value = Sum::graded ? numbers() : weight;
        const Side side{rows, weight, value, sums(n + 1), sums(n + 1), numbers(), numbers()};
        Sum *before = sums(chunks + 1), *behind = sums(chunks + 1);
        in_chunks(n, kChunk, threads_, [=](int64_t first, int64_t last, int64_t c) {
            Sum sum;
            for (int64_t q = first; q < last; ++q) {
                const int64_t p = rows.place[q];
                side.weight[q] = group_.weight[p];
                if (Sum::graded) side.value[q] = group_.value[p];
                side.below[q] = side.above[q] = 0.0;
                sum.add({side.weight[q], side.value[q]});
            }
            before[c + 1] = behind[c] = sum;
        });
        before[0] = behind[chunks] = {};
        for (int64_t c = 0; c < chunks; ++c) before[c + 1].add(before[c]);
        for (int64_t c = chunks; c-- > 0;) behind[c].add(behind[c + 1]);
        side.up_to[n] = before[chunks];
        side.from[n] = {};
        in_chunks(n, kChunk, threads_, [=](int64_t first, int64_t last, int64_t c) {
            Sum sum = before[c];
            for (int64_t q = first; q < last; ++q) {
                side.up_to[q] = sum;
                sum.add({side.weight[q], side.value[q]});
            }
            sum = behind[c + 1];
            for (int64_t q = last; q-- > first;) {
                sum.add({side.weight[q], side.value[q]});
                side.from[q] = sum;
            }
        });
        return side;
    }

    /// Adds to the rows of `high` what is active of `low`, and the other way round. Each chunk of `high` is
    /// merged with the rows of `low` that it reaches; `from` and `up_to` are the places where the merge met
    /// each row.
    void merge(const Side& high, const Side& low, int64_t* from, int64_t* up_to) const {
        const int64_t n = high.rows.size, o = low.rows.size;
        const double *p = high.rows.margin, *u = low.rows.margin;
        // The number of rows of `low` that are not active with row i - 1 of `high`.
        const auto reached = [=](int64_t i) {
            if (i == 0) return int64_t{0};
            if (i == n) return o;
            return std::partition_point(u, u + o, [=](double x) { return !(x > p[i - 1] - 1.0); }) - u;
        };
        const auto part = [&](int64_t first, int64_t last, int64_t) {
            const int64_t begin = reached(first), end = reached(last);
            int64_t i = first, j = begin, unused;
            while (i < last && j < end) {
                const bool active = u[j] > p[i] - 1.0;
                from[i] = j;
                *(active ? &unused : up_to + j) = i;
                i += active;
                j += !active;
            }
            for (; i < last; ++i) from[i] = end;
            for (; j < end; ++j) up_to[j] = last;
            for (i = first; i < last; ++i) high.below[i] += low.from[from[i]].seen_from(high.value[i]);
            for (j = begin; j < end; ++j)
                low.above[j] += Sum::above * high.up_to[up_to[j]].seen_from(low.value[j]);
        };
        in_chunks(n, kChunk, threads_, part);
    }

    /// Computes the slopes of the rows of a level; returns their part of the sum.
    Touched finish(const Side& side, double* slopes) const {
        // The slopes of all levels add up to zero, so margins may be measured from any origin: one near them
        // rounds least.
        const Class& middle = sides_[levels_ / 2].rows;
        const double origin = middle.size ? middle.margin[middle.size / 2] : 0.0;
        return sum_of_chunks(side.rows.size, kChunk, threads_, arena_, [=](int64_t first, int64_t last) {
            Touched total{};
            for (int64_t q = first; q < last; ++q) {
                const double slope = side.weight[q] * (side.above[q] - side.below[q]);
                slopes[side.rows.place[q]] = slope;
                total += Touched{side.weight[q] * side.below[q] + slope * (side.rows.margin[q] - origin),
                                 side.weight[q] * side.below[q]};
            }
            return total;
        });
    }

    const Group& group_;
    const int64_t levels_;
    const int threads_;
    Arena& arena_;
    Side* sides_;
};

}  // namespace bmrm
