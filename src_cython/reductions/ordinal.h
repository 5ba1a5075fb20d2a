// Disparities of ordinal multidimensional scaling: the numbers nearest to the distances, in weighted least
// squares, that do not fall as the dissimilarities rise.
//
// The pairs are sorted by dissimilarity once. Of equal ones the order is free (Kruskal's primary approach),
// so they are sorted by distance in each step. Adjacent violators are pooled from left to right with a stack
// of blocks, in linear time; the result does not depend on threads.
//
// J. B. Kruskal, Nonmetric multidimensional scaling: a numerical method, Psychometrika 29 (1964).
#pragma once

#include <algorithm>
#include <vector>

#include "common/memory.h"

namespace bmrm {

/// A run of pairs with one disparity.
struct PooledBlock {
    double mean, weight;
    i64 end;
};

/// Writes the disparity of each pair to `out`. `order` (count) has the pairs by rising dissimilarity, and is
/// changed within runs of equal ones, `ties` of them from tie_begins to tie_ends. `weights` may be null.
template <class I>
void disparities(i64 count, I* order, const i64* tie_begins, const i64* tie_ends, i64 ties,
                 const double* distances, const double* weights, double* out, int threads) {
    for_each_task(ties, threads_for(count, threads), [&](i64 t) {
        std::sort(order + tie_begins[t], order + tie_ends[t], [&](I a, I b) {
            return distances[a] < distances[b] || (distances[a] == distances[b] && a < b);
        });
    });
    std::vector<PooledBlock> blocks;
    for (i64 s = 0; s < count; ++s) {
        PooledBlock block{distances[order[s]], weights ? weights[order[s]] : 1.0, s + 1};
        while (!blocks.empty() && blocks.back().mean >= block.mean) {
            const PooledBlock& last = blocks.back();
            const double weight = last.weight + block.weight;
            // The smaller weight's share of the difference: the mean stays between the two.
            if (weight > 0.0) block.mean = last.mean + (block.mean - last.mean) * (block.weight / weight);
            block.weight = weight;
            blocks.pop_back();
        }
        blocks.push_back(block);
    }
    i64 begin = 0;
    for (const PooledBlock& block : blocks) {
        for (; begin < block.end; ++begin) out[order[begin]] = block.mean;
    }
}

}  // namespace bmrm
