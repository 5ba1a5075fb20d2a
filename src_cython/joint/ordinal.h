// Ordinal regression by thresholds that are minimised out.
//
//     F(u) = sum over thresholds k of min over theta of sum_i s_i max(0, 1 - y_ik (u_i - theta)),
//
// y_ik = +1 where the level of row i is above k, else -1 (Shashua, Levin 2002; Chu, Keerthi, Neural Comp. 19
// (2007) 792, "implicit constraints"; Rennie, Srebro 2005, "all thresholds").  In theta the sum is piecewise
// linear with a knot at u_i - 1 for each row above and at u_i + 1 for each below: its minimum is where the
// slope changes sign in a merge of two sorted lists.  At that knot the derivative of the knot's own row is
// the share for which the slope in theta vanishes, so the derivatives in u are a subgradient of the minimum,
// exactly. The minimiser rises with k by itself.
#pragma once

#include <limits>

#include "problem.h"
#include "sort.h"

namespace bmrm {

/// Where the merge stops: rows of the two lists that lie before the knot, and the knot's share.
struct Knot {
    double theta_low, theta_high;  // the minimisers
    int64_t above, below;          // positions in the order of margins
    double share;                  // of the knot's own row that counts as passed
    bool at_above;                 // whose knot it is
};

/// All rows are one group; `level` runs from 0 to `levels` - 1.
struct OrdinalRisk {
    int64_t levels;

    /// A row in the order of margins: what the merges need of it, side by side.
    struct Row {
        double margin, weight;
        int64_t level, place;
    };

    double operator()(const Group& group, const Line& line, double* r, int threads) const {
        const std::vector<Row> rows = sorted(group, line, threads);
        const std::vector<Knot> found = knots(rows, threads);
        const int64_t n = group.size, chunk = 4096, chunks = (n + chunk - 1) / chunk;
        std::vector<double> parts(chunks, 0.0);
        const double origin = n ? rows[n / 2].margin : 0.0;
#pragma omp parallel for schedule(static) num_threads(threads) if (threads > 1 && chunks > 4)
        for (int64_t c = 0; c < chunks; ++c)
            for (int64_t q = c * chunk; q < std::min(n, (c + 1) * chunk); ++q) {
                double slope = 0.0, level = 0.0;
                for (int64_t k = 0; k < levels - 1; ++k) {
                    const double active = share_active(found[k], q, rows[q].level > k);
                    slope += rows[q].level > k ? -active : active;
                    level += active;
                }
                const double weight = group.share * rows[q].weight;
                r[group.rows[rows[q].place]] = weight * slope;
                // The derivatives add up to zero: margins may be taken from any origin.
                parts[c] += weight * (level + slope * (rows[q].margin - origin));
            }
        double total = 0.0;
        for (const double part : parts) total += part;
        return total;
    }

    /// Middles of the minimisers, levels - 1 of them.
    void thresholds(const Group& group, const Line& line, int threads, double* out) const {
        for (const Knot& at : knots(sorted(group, line, threads), threads))
            *out++ = 0.5 * (at.theta_low + at.theta_high);
    }

  private:
    static std::vector<Row> sorted(const Group& group, const Line& line, int threads) {
        const int64_t n = group.size;
        std::vector<Ranked> order(n), scratch(n);
        for (int64_t p = 0; p < n; ++p) order[p] = Ranked(line(group.rows[p]), p);
        sort_margins(order.data(), scratch.data(), n, threads);
        std::vector<Row> rows(n);
        for (int64_t q = 0; q < n; ++q) {
            const int64_t p = order[q].place;
            rows[q] = {order[q].margin(), group.weight[p], group.level[p], p};
        }
        return rows;
    }

    std::vector<Knot> knots(const std::vector<Row>& rows, int threads) const {
        std::vector<Knot> found(levels - 1);
#pragma omp parallel for schedule(static, 1) num_threads(threads) if (threads > 1 && rows.size() > 4096)
        for (int64_t k = 0; k < levels - 1; ++k) found[k] = knot(rows, k);
        return found;
    }

    /// Share of the hinge of row q at a threshold that is active, the row being above the threshold or not.
    static double share_active(const Knot& at, int64_t q, bool is_above) {
        if (is_above) {
            if (q < at.above) return 1.0;
            return q == at.above && at.at_above ? at.share : 0.0;
        }
        if (q > at.below) return 1.0;
        if (q < at.below) return 0.0;
        return at.at_above ? 1.0 : 1.0 - at.share;
    }

    /// Merges the knots of the rows above k with those of the rest until the slope turns.
    static Knot knot(const std::vector<Row>& rows, int64_t k) {
        const int64_t n = rows.size();
        constexpr double infinity = std::numeric_limits<double>::infinity();
        double slope = 0.0;
        for (const Row& row : rows) slope -= row.level <= k ? row.weight : 0.0;
        int64_t above = 0, below = 0;
        const auto skip = [&](int64_t q, bool is_above) {
            while (q < n && (rows[q].level > k) != is_above) ++q;
            return q;
        };
        const auto at_above = [&] { return above < n ? rows[above].margin - 1.0 : infinity; };
        const auto at_below = [&] { return below < n ? rows[below].margin + 1.0 : infinity; };
        above = skip(0, true);
        below = skip(0, false);
        double last = -infinity;
        while (above < n || below < n) {
            // Negated, so that a NaN cannot lead beyond the end of a list.
            const bool first = above < n && (below >= n || !(at_above() > at_below()));
            const double theta = first ? at_above() : at_below();
            const int64_t q = first ? above : below;
            const double weight = rows[q].weight;
            if (slope >= 0.0 || slope + weight > 0.0) {
                // Where the slope is zero already, the minimisers reach from the last knot to this one.
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
