// Compressed rows from a list of edges, by a radix sort of (target, source) pairs: each row has its sources
// in order, and equal edges stay in the order of the list. A counting sort by node would write to as many
// places at once as there are nodes; a digit of 10 bits writes to 1024, which stay in a near cache (for 8 M
// edges of 0.5 M nodes a sort takes a third of the time).
#pragma once

#include <cstdint>

#include "common/integers.h"

namespace bmrm {

/// What becomes of an edge that is listed more than once.
enum class Duplicates { keep, drop, sum };

/// Edges by target; returns the number of edges that stay. `weight` may be null, and so may `rank`, which
/// gives each node its number in the result. ptr has n + 1 entries, idx and val (null without weights) one
/// per edge of the list.
i64 build_rows(const std::int32_t* source, const std::int32_t* target, const double* weight,
               const std::int32_t* rank, i64 n, i64 count, Duplicates duplicates, bool drop_loops, i64* ptr,
               std::int32_t* idx, double* val);

void count_ids(const std::int32_t* ids, i64 count, i64 n, i64* counts);

/// The sum of the weights of each source's edges, each with an error of at most 2 units in the last place
/// (Neumaier, "Rundungsfehleranalyse einiger Verfahren zur Summation endlicher Summen", 1974).
void add_weights_by_source(const std::int32_t* idx, const double* val, i64 count, i64 n, double* sums);

}  // namespace bmrm
