// Compressed rows from a list of edges, by a radix sort of (target, source) pairs: each row has its sources
// in order, and equal edges stay in the order of the list.
#pragma once

#include <cstdint>
#include <memory>

#include "common/integers.h"

namespace bmrm {

/// What becomes of an edge that is listed more than once.
enum class Duplicates { keep, drop, sum };

/// Edges as a user lists them. `weight` may be null, and so may `rank`, which gives each node its number in
/// the result.
struct ListedEdges {
    const std::int32_t* source;
    const std::int32_t* target;
    const double* weight;
    const std::int32_t* rank;
    i64 nodes, count;
};

/// Edges in order, before those that are listed again are dropped.
class SortedEdges {
  public:
    virtual ~SortedEdges() = default;
    /// The number of edges that stay.
    i64 kept = 0;
    /// Writes the rows: ptr has an entry per node and one more, idx and val (may be null) one per kept edge.
    virtual void write(i64* ptr, std::int32_t* idx, double* val) const = 0;
};

std::unique_ptr<SortedEdges> sort_edges(const ListedEdges& edges, Duplicates duplicates, bool drop_loops,
                                        int threads);

/// How often each of n numbers occurs. The threads need at most 4 bytes per id for it.
void count_ids(const std::int32_t* ids, i64 count, i64 n, int threads, i64* counts);

/// The order of nodes by group, if there are groups, and then by count (null: none), the largest first, equal
/// ones in the order of their numbers; and the place of each node in it.
void order_nodes(const i64* counts, const std::uint8_t* groups, i64 n, int threads, std::int32_t* order,
                 std::int32_t* rank);

/// The sum of the weights of each source's edges, each with an error of at most 2 units in the last place
/// (Neumaier, "Rundungsfehleranalyse einiger Verfahren zur Summation endlicher Summen", 1974).
void add_weights_by_source(const std::int32_t* idx, const double* val, i64 count, i64 n, double* sums);

}  // namespace bmrm
