// Hinge losses of pairs in O(n log n).
//
//     F(u) = sum over pairs with level_i > level_j of s_i s_j c_ij max(0, 1 - (u_i - u_j)),
//
// with c_ij = 1, or c_ij = v_i - v_j for a value v that rises with the level.  A pair is active where
// u_j > u_i - 1.  In the order of margins the j active with i form an upper end of the list, and the i active
// with j a lower one, so one sweep in each direction meets them all; sums over the levels below or above come
// from a tree of partial sums (Fenwick 1994).  For two classes this is the scan of Joachims (ICML 2005,
// algorithm 3); for several grades Lee and Lin, Neural Comp. 26 (2014) 781, use an order-statistic tree in
// the same place.
//
// The order is cut into chunks, each of which is swept for itself: the sums that a sweep begins with are
// those of the chunks beyond, and of a part of one.
#pragma once

#include "class_pairs.h"

namespace bmrm {

/// Partial sums over levels.
class LevelSums {
  public:
    /// `memory` has room for one sum more than there are levels.
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

/// Risk of one group; `graded` weighs a pair by the difference of its values.
struct PairRisk {
    bool graded;

    /// A row in the order of margins: what the sweeps need of it, side by side.
    struct Row {
        double margin, weight, value;
        int64_t level;

        GradedSum sum() const { return {weight, value}; }
    };

    double operator()(const Group& group, const Line& line, double* r, int threads, Arena& arena) const {
        const int64_t n = group.size;
        const int64_t levels = n ? group.level[n - 1] + 1 : 0;
        if (levels <= kFewLevels) {
            if (graded) return ClassPairs<GradedSum>(group, line, levels, threads, arena).risk(r);
            return ClassPairs<WeightSum>(group, line, levels, threads, arena).risk(r);
        }
        const Sorted order = sort_margins(margins_of(group, line, threads, arena), n, threads, arena);
        // With chunks no shorter than there are levels, the sums of all chunks take no more room than the
        // rows.
        const int64_t length = std::max(kChunk, levels), chunks = (n + length - 1) / length;
        const int64_t summed = chunks > 1 ? levels : 0;
        Row* rows = arena.take<Row>(n);
        GradedSum* sums = arena.take<GradedSum>(chunks * summed);
        in_chunks(n, length, threads, [=, &group](int64_t first, int64_t last, int64_t c) {
            std::fill(sums + c * summed, sums + (c + 1) * summed, GradedSum{});
            for (int64_t k = first; k < last; ++k) {
                const int64_t p = order.place[k];
                rows[k] = {order.margin[k], group.weight[p], graded ? group.value[p] : 0.0, group.level[p]};
                if (summed) sums[c * levels + rows[k].level].add(rows[k].sum());
            }
        });
        double *below = arena.take<double>(n), *above = arena.take<double>(n);
        GradedSum* memory = arena.take<GradedSum>(2 * chunks * (levels + 1));
        // Sums of the chunks [from, to), as those of rows that a sweep has passed.
        const auto pass = [=](LevelSums& passed, int64_t from, int64_t to, bool upward) {
            for (int64_t c = from; c < to; ++c)
                for (int64_t k = 0; k < levels; ++k)
                    passed.add(upward ? levels - 1 - k : k, sums[c * levels + k]);
        };
        const auto down = [=](int64_t first, int64_t last, int64_t c) {
            LevelSums passed(memory + 2 * c * (levels + 1), levels);
            const double top = rows[last - 1].margin - 1.0;
            // The rows above the top one's limit: whole chunks, then one by one.
            int64_t whole = chunks, j = n;
            while (summed && whole > 0 && rows[(whole - 1) * length].margin > top) j = --whole * length;
            pass(passed, whole, chunks, false);
            for (int64_t i = last - 1; i >= first; --i) {
                for (const double limit = rows[i].margin - 1.0; j > 0 && rows[j - 1].margin > limit;) {
                    --j;
                    passed.add(rows[j].level, rows[j].sum());
                }
                const GradedSum sum = passed.below(rows[i].level);
                below[i] = graded ? sum.seen_from(rows[i].value) : sum.weight;
            }
        };
        const auto up = [=](int64_t first, int64_t last, int64_t c) {
            LevelSums passed(memory + (2 * c + 1) * (levels + 1), levels);
            int64_t whole = 0;
            const auto end = [=](int64_t chunk) { return std::min(n, (chunk + 1) * length); };
            while (summed && whole < chunks && rows[first].margin > rows[end(whole) - 1].margin - 1.0)
                ++whole;
            pass(passed, 0, whole, true);
            for (int64_t j = first, i = whole ? end(whole - 1) : 0; j < last; ++j) {
                for (; i < n && rows[j].margin > rows[i].margin - 1.0; ++i)
                    passed.add(levels - 1 - rows[i].level, rows[i].sum());
                const GradedSum sum = passed.below(levels - 1 - rows[j].level);
                above[j] = graded ? -sum.seen_from(rows[j].value) : sum.weight;
            }
        };
        in_chunks(2 * chunks, 1, threads, [=](int64_t task, int64_t, int64_t) {
            const int64_t c = task / 2, first = c * length, last = std::min(n, first + length);
            if (task % 2)
                up(first, last, c);
            else
                down(first, last, c);
        });
        // The derivatives add up to zero, so that margins may be taken from any origin: one among them.
        const double origin = n ? rows[n / 2].margin : 0.0;
        double* totals = arena.take<double>(chunks);
        in_chunks(n, length, threads, [=, &group](int64_t first, int64_t last, int64_t c) {
            totals[c] = 0.0;
            for (int64_t k = first; k < last; ++k) {
                const double slope = rows[k].weight * (above[k] - below[k]);
                r[group.rows[order.place[k]]] = group.share * slope;
                totals[c] += rows[k].weight * below[k] + slope * (rows[k].margin - origin);
            }
        });
        return group.share * std::accumulate(totals, totals + chunks, 0.0);
    }
};

}  // namespace bmrm
