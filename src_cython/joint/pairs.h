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
#pragma once

#include "problem.h"
#include "sort.h"

namespace bmrm {

/// Partial sums over levels, of weights and of weighted values.
class LevelSums {
  public:
    explicit LevelSums(int64_t levels) : sums_(levels + 1) {}

    void add(int64_t level, double weight, double value) {
        for (int64_t k = level + 1; k < int64_t(sums_.size()); k += k & -k) {
            sums_[k].weight += weight;
            sums_[k].value += weight * value;
        }
    }
    /// Adds the sums over all levels below to `weight` and `value`.
    void below(int64_t level, double& weight, double& value) const {
        weight = value = 0.0;
        for (int64_t k = level; k > 0; k -= k & -k) {
            weight += sums_[k].weight;
            value += sums_[k].value;
        }
    }

  private:
    struct Sum {
        double weight = 0.0, value = 0.0;
    };
    std::vector<Sum> sums_;
};

/// Risk of one group; `graded` weighs a pair by the difference of its values.
struct PairRisk {
    bool graded;

    /// A row in the order of margins: what the sweeps need of it, side by side.
    struct Row {
        double margin, weight, value;
        int64_t level;
    };

    double operator()(const Group& group, const Line& line, double* r, int threads) const {
        const int64_t n = group.size;
        std::vector<Ranked> order(n), scratch(n);
        for (int64_t p = 0; p < n; ++p) order[p] = Ranked(line(group.rows[p]), p);
        sort_margins(order.data(), scratch.data(), n, threads);
        std::vector<Row> rows(n);
        std::vector<double> below(n), above(n);
        int64_t levels = 0;
        for (int64_t k = 0; k < n; ++k) {
            const int64_t p = order[k].place;
            rows[k] = {order[k].margin(), group.weight[p], group.value[p], group.level[p]};
            levels = std::max(levels, group.level[p] + 1);
        }
        const auto down = [&] {
            LevelSums sums(levels);
            for (int64_t i = n - 1, j = n; i >= 0; --i) {
                for (const double limit = rows[i].margin - 1.0; j > 0 && rows[j - 1].margin > limit;) {
                    --j;
                    sums.add(rows[j].level, rows[j].weight, rows[j].value);
                }
                double weight, value;
                sums.below(rows[i].level, weight, value);
                below[i] = graded ? rows[i].value * weight - value : weight;
            }
        };
        const auto up = [&] {
            LevelSums sums(levels);
            for (int64_t j = 0, i = 0; j < n; ++j) {
                for (; i < n && rows[j].margin > rows[i].margin - 1.0; ++i)
                    sums.add(levels - 1 - rows[i].level, rows[i].weight, rows[i].value);
                double weight, value;
                sums.below(levels - 1 - rows[j].level, weight, value);
                above[j] = graded ? value - rows[j].value * weight : weight;
            }
        };
#pragma omp parallel sections num_threads(2) if (threads > 1)
        {
#pragma omp section
            down();
#pragma omp section
            up();
        }
        // The derivatives add up to zero, so that margins may be taken from any origin: one among them.
        const double origin = n ? rows[n / 2].margin : 0.0;
        double total = 0.0;
        for (int64_t k = 0; k < n; ++k) {
            const double slope = rows[k].weight * (above[k] - below[k]);
            r[group.rows[order[k].place]] = group.share * slope;
            total += rows[k].weight * below[k] + slope * (rows[k].margin - origin);
        }
        return group.share * total;
    }
};

}  // namespace bmrm
