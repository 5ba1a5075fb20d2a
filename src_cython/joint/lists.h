// Structured hinge bounds of measures of ranked lists, one list per group.
//
// NDCG (Le, Smola, Direct optimization of ranking measures, 2007): with the score of a permutation
// f(pi) = sum_i d_i u_pi(i), d_i = 1 / log2(1 + i) up to position k and 0 beyond,
//
//     F(u) = max over pi of 1 - NDCG(pi) + f(pi)  -  mean of f over the ideal permutations.
//
// The maximum is an assignment with the benefits d_i (u_j - v_j), v_j the gain of row j over the ideal DCG.
// Since these are products, no general assignment problem has to be solved: the sum is largest if both
// factors are in the same order (Hardy, Littlewood, Polya, theorem 368), so one sort suffices.
//
// Reciprocal rank (Chakrabarti, Khanna, Sawant, Bhattacharyya, KDD 2008): with f(pi) the mean of u_i - u_j
// over the pairs of a relevant i that pi puts before an irrelevant j,
//
//     F(u) = max over q of  1 - 1/q + loss of f if the q - 1 highest irrelevant rows precede all relevant
//            ones and all other pairs are ordered by margin.
//
// From q to q + 1 the first part gains less and the second loses more each time, so the search ends at the
// first step that does not pay.
#pragma once

#include <cmath>

#include "joint/classes.h"

namespace bmrm {

/// `value` is v_j, `anchor` the mean discount of the row over the ideal permutations.
struct DiscountedGainRisk {
    int64_t k;

    Touched operator()(const Group& group, const Line& line, double* r, int threads, Arena& arena) const {
        const int64_t n = group.size, top = std::min(n, k);
        double* benefit = arena.take<double>(n);
        double total = 1.0, loss = 1.0;
        for (int64_t p = 0; p < n; ++p) {
            const double u = line(group.rows[p]);
            total -= group.anchor[p] * u;
            // Negated, so that the highest come first.
            benefit[p] = group.value[p] - u;
            r[group.rows[p]] = -group.share * group.anchor[p];
        }
        const Sorted order =
            top < n / 8 ? Sorted::compared(benefit, n, top, arena) : sort_margins(benefit, n, threads, arena);
        for (int64_t i = 0; i < top; ++i) {
            const double discount = 1.0 / std::log2(double(i + 2));
            total -= discount * order.margin[i];
            loss -= discount * group.value[order.place[i]];
            r[group.rows[order.place[i]]] += group.share * discount;
        }
        return {group.share * total, group.share * loss};
    }
};

/// Level 1 is relevant, level 0 is not; a group has both.
struct ReciprocalRankRisk {
    Touched operator()(const Group& group, const Line& line, double* r, int threads, Arena& arena) const {
        const Class* classes = classes_of(group, line, 2, threads, arena);
        const Class &good = classes[1], &bad = classes[0];
        const int64_t n = good.size, o = bad.size;
        double* lowest = arena.take<double>(n + 1);
        lowest[0] = 0.0;
        for (int64_t i = 0; i < n; ++i) lowest[i + 1] = lowest[i] + good.margin[i];
        // For each irrelevant row: the number of relevant rows below it, and the sum of their distances.
        int64_t* below = arena.take<int64_t>(o);
        double total = 0.0;
        for (int64_t j = 0, i = n; j < o; ++j) {
            const double u = bad.margin[o - 1 - j];
            while (i > 0 && !(good.margin[i - 1] < u)) --i;
            below[j] = i;
            total += double(i) * u - lowest[i];
        }
        const double scale = 1.0 / (double(n) * double(o));
        total *= scale;
        double loss = 0.0;
        int64_t ahead = 0;
        for (; ahead < o; ++ahead) {
            const double u = bad.margin[o - 1 - ahead];
            const int64_t i = below[ahead];
            const double forced = double(n - i) * u - (lowest[n] - lowest[i]);  // not positive
            const double fall = 1.0 / (double(ahead + 1) * double(ahead + 2)), gain = fall + scale * forced;
            if (!(gain > 0.0)) break;
            total += gain;
            loss += fall;
        }
        for (int64_t j = 0; j < o; ++j)
            r[group.rows[bad.place[o - 1 - j]]] = group.share * scale * double(j < ahead ? n : below[j]);
        // A relevant row counts the rows forced ahead of it and those with a larger margin.
        for (int64_t i = 0, j = o; i < n; ++i) {
            while (j > 0 && below[j - 1] <= i) --j;
            r[group.rows[good.place[i]]] = -group.share * scale * double(std::max(j, ahead));
        }
        return {group.share * total, group.share * loss};
    }
};

}  // namespace bmrm
