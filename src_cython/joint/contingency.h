// Structured hinge bounds of measures of a contingency table.
//
// F(u) = max over allowed labellings y' of Delta(y') - (1/m) sum over rows with y'_i != y_i of y_i u_i
//
// (Joachims, ICML 2005, section 4.2). With c positives and b negatives labelled wrongly, the largest term has
// the c lowest positives and the b highest negatives. Joachims scans all (c, b). For each of the measures
// here Delta is concave in b at fixed c, and so is the sum of the b highest margins. So the best b is found
// by bisection on the gain of one more, and the scan takes O(m log m) in total.
#pragma once

#include "contingency_table.h"
#include "joint/classes.h"

namespace bmrm {

/// The smallest b in [low, high] that does not pay, else `high`; those that pay come first. The search
/// doubles its steps from a guess, then bisects.
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

/// The risk of all rows, which form one group with the levels 0 and 1.
struct ContingencyRisk {
    Measure measure;
    double beta;
    int64_t k;

    Touched operator()(const Group& group, const Line& line, double* r, int threads, Arena& arena) const {
        const Class* classes = classes_of(group, line, 2, threads, arena);
        const Class &positive = classes[1], &negative = classes[0];
        const int64_t n = positive.size, o = negative.size;
        double *lowest = arena.take<double>(n + 1), *highest = arena.take<double>(o + 1);
        lowest[0] = highest[0] = 0.0;
        for (int64_t c = 0; c < n; ++c) lowest[c + 1] = lowest[c] + positive.margin[c];
        for (int64_t b = 0; b < o; ++b) highest[b + 1] = highest[b] + negative.margin[o - 1 - b];
        const ContingencyTable table{measure, n, o, k, beta};
        const double scale = group.share;
        // The true labelling is always allowed, and its term is 0.
        double best = 0.0, loss = 0.0;
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
                loss = table.loss(a, low);
                best_c = c;
                best_b = low;
            }
        }
        for (int64_t c = 0; c < n; ++c) r[group.rows[positive.place[c]]] = c < best_c ? -scale : 0.0;
        for (int64_t b = 0; b < o; ++b) r[group.rows[negative.place[o - 1 - b]]] = b < best_b ? scale : 0.0;
        return {best, loss};
    }
};

}  // namespace bmrm
