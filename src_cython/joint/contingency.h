// Structured hinge bounds of measures that a contingency table decides.
//
//     F(u) = max over labellings y' allowed of  Delta(y') - (1/m) sum over rows with y'_i != y_i of y_i u_i
//
// (Joachims, ICML 2005, section 4.2).  With c positives and b negatives labelled wrongly, the largest term
// has the c lowest positives and the b highest negatives.  Joachims scans all (c, b).  For each of the
// measures here Delta is concave in b at fixed c, and so is the sum of the b highest margins: the best b is
// found by bisection on the gain of one more, and the scan is O(m log m) in all.
#pragma once

#include "problem.h"
#include "sort.h"
#include "table.h"

namespace bmrm {

/// The smallest b in [low, high] that is `high` or does not pay, where those that pay come first: by steps
/// that double from a guess, then bisection.
template <class Pays>
int64_t first_that_does_not_pay(int64_t low, int64_t high, int64_t guess, const Pays& pays) {
    guess = std::min(std::max(guess, low), high);
    if (guess < high && pays(guess)) {
        low = guess + 1;
        for (int64_t step = 1; low + step < high; step *= 2) {
            const int64_t b = low + step;
            if (!pays(b)) {
                high = b;
                break;
            }
            low = b + 1;
        }
    } else {
        high = guess;
        for (int64_t step = 1; high - step >= low; step *= 2) {
            const int64_t b = high - step;
            if (pays(b)) {
                low = b + 1;
                break;
            }
            high = b;
        }
    }
    while (low < high) {
        const int64_t b = low + (high - low) / 2;
        if (pays(b))
            low = b + 1;
        else
            high = b;
    }
    return low;
}

/// Risk of all rows, which are one group of the levels 0 and 1.
struct ContingencyRisk {
    Measure measure;
    double beta;
    int64_t k;

    double operator()(const Group& group, const Line& line, double* r, int threads) const {
        std::vector<Ranked> positive, negative;
        for (int64_t p = 0; p < group.size; ++p) {
            const Ranked one(line(group.rows[p]), group.rows[p]);
            (group.level[p] ? positive : negative).push_back(one);
            r[group.rows[p]] = 0.0;
        }
        std::vector<Ranked> scratch(group.size);
        const int64_t n = positive.size(), o = negative.size();
        sort_margins(positive.data(), scratch.data(), n, threads);
        sort_margins(negative.data(), scratch.data(), o, threads);
        std::reverse(negative.begin(), negative.end());
        std::vector<double> lowest(n + 1, 0.0), highest(o + 1, 0.0);
        for (int64_t c = 0; c < n; ++c) lowest[c + 1] = lowest[c] + positive[c].margin();
        for (int64_t b = 0; b < o; ++b) highest[b + 1] = highest[b] + negative[b].margin();
        const Table table{measure, n, o, k, beta};
        const double scale = group.share;
        // The true labelling is always allowed, and its term is 0.
        double best = 0.0;
        int64_t best_c = 0, best_b = 0, last = 0;
        for (int64_t c = 0; c <= n; ++c) {
            const int64_t a = n - c, least = table.least(a), most = table.most(a);
            if (least > most) continue;
            const auto pays = [&](int64_t b) {
                return table.loss(a, b + 1) - table.loss(a, b) + scale * (highest[b + 1] - highest[b]) > 0.0;
            };
            const int64_t low = last = first_that_does_not_pay(least, most, last, pays);
            const double value = table.loss(a, low) + scale * (highest[low] - lowest[c]);
            // Negated, so that NaN is passed on.
            if (!(value <= best)) {
                best = value;
                best_c = c;
                best_b = low;
            }
        }
        for (int64_t c = 0; c < best_c; ++c) r[positive[c].place] = -scale;
        for (int64_t b = 0; b < best_b; ++b) r[negative[b].place] = scale;
        return best;
    }
};

}  // namespace bmrm
