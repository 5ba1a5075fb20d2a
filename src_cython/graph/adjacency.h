// Compressed rows from a list of edges: two stable counting sorts, by source and then by target, so that each
// row has its sources in order and equal edges stay in the order of the list.
#pragma once

#include <algorithm>

#include "common/integers.h"
#include "common/memory.h"

namespace bmrm {

/// What becomes of an edge that is listed more than once.
enum class Duplicates { keep, drop, sum };

/// Edges by target. `rank` gives each node its number in the result, or is null. ptr has n + 1 entries.
template <class I>
void sort_edges(const I* source, const I* target, const double* weight, const I* rank, i64 n, i64 count,
                i64* ptr, I* idx, double* val) {
    Buffer<i64> place(n + 1);
    Buffer<I> targets(count);
    Buffer<double> weights(weight ? count : 0);
    std::fill_n(place.get(), n + 1, i64{0});
    std::fill_n(ptr, n + 1, i64{0});
    const auto number = [&](I node) { return rank ? rank[node] : node; };
    for (i64 e = 0; e < count; ++e) {
        ++place[number(source[e]) + 1];
        ++ptr[number(target[e]) + 1];
    }
    for (i64 i = 0; i < n; ++i) {
        place[i + 1] += place[i];
        ptr[i + 1] += ptr[i];
    }
    for (i64 e = 0; e < count; ++e) {
        const i64 to = place[number(source[e])]++;
        targets[to] = number(target[e]);
        if (weight) weights[to] = weight[e];
    }
    // place[i] is now the end of source i, and ptr[i] the start of target i.
    for (i64 i = 0, e = 0; i < n; ++i)
        for (; e < place[i]; ++e) {
            const i64 to = ptr[targets[e]]++;
            idx[to] = static_cast<I>(i);
            if (weight) val[to] = weights[e];
        }
    for (i64 i = n; i > 0; --i) ptr[i] = ptr[i - 1];
    ptr[0] = 0;
}

/// Merges equal edges and leaves out loops if asked, in place; returns the number of edges that stay. `val`
/// may be null: then `sum` is not possible.
template <class I>
i64 merge_edges(i64 n, i64* ptr, I* idx, double* val, Duplicates duplicates, bool drop_loops) {
    i64 kept = 0, begin = 0;
    for (i64 i = 0; i < n; ++i) {
        const i64 end = ptr[i + 1], start = kept;
        for (i64 e = begin; e < end; ++e) {
            if (drop_loops && idx[e] == static_cast<I>(i)) continue;
            if (duplicates != Duplicates::keep && kept > start && idx[kept - 1] == idx[e]) {
                if (duplicates == Duplicates::sum) val[kept - 1] += val[e];
                continue;
            }
            idx[kept] = idx[e];
            if (val) val[kept] = val[e];
            ++kept;
        }
        begin = end;
        ptr[i + 1] = kept;
    }
    return kept;
}

/// The sum of the weights of each source's edges, each with an error of at most 2 units in the last place
/// (Neumaier, "Rundungsfehleranalyse einiger Verfahren zur Summation endlicher Summen", 1974).
template <class I>
void add_weights_by_source(const I* idx, const double* val, i64 count, i64 n, double* sums) {
    Buffer<double> lost(n);
    std::fill_n(lost.get(), n, 0.0);
    std::fill_n(sums, n, 0.0);
    for (i64 e = 0; e < count; ++e) {
        double &sum = sums[idx[e]], term = val[e];
        volatile double total = sum + term;
        lost[idx[e]] += sum >= term ? (sum - total) + term : (term - total) + sum;
        sum = total;
    }
    for (i64 i = 0; i < n; ++i) sums[i] += lost[i];
}

}  // namespace bmrm
