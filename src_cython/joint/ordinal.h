// Ordinal regression with thresholds that are minimised out.
//
//     F(u) = sum over thresholds k of min over theta of sum_i s_i max(0, 1 - y_ik (u_i - theta)),
//
// y_ik = +1 if the level of row i is above k, else -1 (Shashua, Levin 2002; Chu, Keerthi, Neural Comp. 19
// (2007) 792, "implicit constraints"; Rennie, Srebro 2005, "all thresholds"). As a function of theta the sum
// is piecewise linear, with a knot at u_i - 1 for each row above k and at u_i + 1 for each other row. A merge
// of two sorted lists finds the knot where the slope changes sign, which is the minimum. The derivative of
// the knot's own row is the share for which the slope in theta vanishes, so the derivatives in u are exactly
// a subgradient of the minimum. The minimisers ascend with k without being forced to.
#pragma once

#include <limits>
#include <numeric>

#include "joint/problem.h"
#include "joint/sort.h"

namespace bmrm {

/// Where the merge stops.
struct Knot {
    double theta_low, theta_high;  // the minimisers
    int64_t above, below;          // positions in the two lists, in the order of margins
    double share;                  // share of the knot's own row that counts as passed
    bool at_above;                 // the knot is of a row above the threshold
};

/// The risk of all rows, which form one group; `level` runs from 0 to `levels` - 1.
struct OrdinalRisk {
    int64_t levels;

    Touched operator()(const Group& group, const Line& line, double* r, int threads, Arena& arena) const {
        const Order order(*this, group, line, threads, arena);
        const Knot* found = knots(order, threads, arena);
        const int64_t n = group.size;
        const double origin = n ? order.rows[n / 2].margin : 0.0;
        return sum_of_chunks(
            n, order.length, threads, arena, [=, &group, &order](int64_t first, int64_t last) {
                Touched total{};
                for (int64_t q = first; q < last; ++q) {
                    const Row& row = order.rows[q];
                    double slope = 0.0, level = 0.0;
                    for (int64_t k = 0; k < levels - 1; ++k) {
                        const double active = share_active(found[k], q, row.level > k);
                        slope += row.level > k ? -active : active;
                        level += active;
                    }
                    const double weight = group.share * row.weight;
                    r[group.rows[order.place[q]]] = weight * slope;
                    // The derivatives add up to zero, so margins may be measured from any origin.
                    total += Touched{weight * (level + slope * (row.margin - origin)), weight * level};
                }
                return total;
            });
    }

    /// Computes the midpoints of the intervals of minimisers, levels - 1 of them.
    void thresholds(const Group& group, const Line& line, std::vector<Arena>& arenas, double* out) const {
        arenas[0].clear();
        const int threads = int(arenas.size());
        const Knot* found = knots(Order(*this, group, line, threads, arenas[0]), threads, arenas[0]);
        for (int64_t k = 0; k < levels - 1; ++k) out[k] = 0.5 * (found[k].theta_low + found[k].theta_high);
    }

  private:
    /// What the merges need of a row, side by side, in the order of margins.
    struct Row {
        double margin, weight;
        int64_t level;
    };

    /// The rows in the order of margins, and the weight of each level in each chunk of them.
    struct Order {
        int64_t size, length, chunks, levels;
        Row* rows;
        int64_t* place;
        double* weights;

        Order(const OrdinalRisk& risk, const Group& group, const Line& line, int threads, Arena& arena)
            : size(group.size),
              length(std::max(kChunk, risk.levels)),
              chunks((size + length - 1) / length),
              levels(risk.levels),
              rows(arena.take<Row>(size)),
              weights(arena.take<double>(chunks * levels)) {
            const Sorted sorted = sort_margins(margins_of(group, line, threads, arena), size, threads, arena);
            place = sorted.place;
            in_chunks(size, length, threads, [=, &group](int64_t first, int64_t last, int64_t c) {
                double* sums = weights + c * levels;
                std::fill(sums, sums + levels, 0.0);
                for (int64_t q = first; q < last; ++q) {
                    const int64_t p = sorted.place[q];
                    rows[q] = {sorted.margin[q], group.weight[p], group.level[p]};
                    sums[rows[q].level] += rows[q].weight;
                }
            });
        }
        /// The weight in a chunk of the levels above k, or of the others.
        double weight(int64_t c, int64_t k, bool above) const {
            const double* sums = weights + c * levels;
            return above ? std::accumulate(sums + k + 1, sums + levels, 0.0)
                         : std::accumulate(sums, sums + k + 1, 0.0);
        }
    };

    Knot* knots(const Order& order, int threads, Arena& arena) const {
        Knot* found = arena.take<Knot>(levels - 1);
        for_each_task(levels - 1, order.chunks > 1 ? threads : 1,
                      [=, &order](int64_t k) { found[k] = knot(order, k); });
        return found;
    }

    /// The share of the hinge of row q that is active at a threshold; `is_above`: the row's level is above
    /// it.
    static double share_active(const Knot& at, int64_t q, bool is_above) {
        if (is_above) {
            if (q < at.above) return 1.0;
            return q == at.above && at.at_above ? at.share : 0.0;
        }
        if (q > at.below) return 1.0;
        if (q < at.below) return 0.0;
        return at.at_above ? 1.0 : 1.0 - at.share;
    }

    /// Merges the knots of the rows above k with those of the others until the slope changes sign. Chunks
    /// that lie before that knot are skipped as a whole.
    static Knot knot(const Order& order, int64_t k) {
        const int64_t n = order.size;
        const Row* rows = order.rows;
        constexpr double infinity = std::numeric_limits<double>::infinity();
        double slope = 0.0;
        for (int64_t c = 0; c < order.chunks; ++c) slope -= order.weight(c, k, false);
        const auto skip = [=](int64_t q, bool is_above) {
            while (q < n && (rows[q].level > k) != is_above) ++q;
            return q;
        };
        // If the knots of a chunk of either list leave the slope negative, it changes sign after the chunk
        // that ends first.
        int64_t a = 0, b = 0;
        const auto end_of = [&](int64_t c, double shift) {
            return c + 1 < order.chunks ? rows[(c + 1) * order.length].margin + shift : infinity;
        };
        while (true) {
            const double end_above = end_of(a, -1.0), end_below = end_of(b, 1.0);
            const double next_above = order.weight(a, k, true), next_below = order.weight(b, k, false);
            if (!(std::min(end_above, end_below) < infinity && slope + next_above + next_below < 0.0)) break;
            slope += end_above < end_below ? next_above : next_below;
            ++(end_above < end_below ? a : b);
        }
        double last = -infinity;
        int64_t above = skip(a * order.length, true), below = skip(b * order.length, false);
        const auto at_above = [&] { return above < n ? rows[above].margin - 1.0 : infinity; };
        const auto at_below = [&] { return below < n ? rows[below].margin + 1.0 : infinity; };
        while (above < n || below < n) {
            // Negated, so that NaN cannot lead past the end of a list.
            const bool first = above < n && (below >= n || !(at_above() > at_below()));
            const double theta = first ? at_above() : at_below();
            const int64_t q = first ? above : below;
            const double weight = rows[q].weight;
            if (slope >= 0.0 || slope + weight > 0.0) {
                // If the slope is already zero, the minimisers reach from the last knot to this one.
                const double share = slope >= 0.0 ? 0.0 : -slope / weight;
                const double low = slope >= 0.0 && last > -infinity ? last : theta;
                return {low, theta, above, below, share, first};
            }
            slope += weight;
            last = theta;
            (first ? above : below) = skip(q + 1, first);
        }
        return {last, last, above, below, 0.0, true};
    }
};

}  // namespace bmrm
