#include "graph/adjacency.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "common/memory.h"

namespace bmrm {
namespace {

/// Bits of a digit of the sort.
constexpr int kEdgeDigit = 10;

/// A pair of nodes as one number, the target first, and its weight if there are weights.
struct PlainEdge {
    std::uint64_t key;
    void set_weight(const double*, i64) {}
    double weight() const { return 1.0; }
};

struct WeightedEdge {
    std::uint64_t key;
    double value;
    void set_weight(const double* weights, i64 e) { value = weights[e]; }
    double weight() const { return value; }
};

/// The number of bits that the numbers below n need.
inline int bits_of(i64 n) {
    int bits = 1;
    while (bits < 32 && (i64{1} << bits) < n) ++bits;
    return bits;
}

/// Sorts edges by key, whose lowest `bits` bits are used, stably.
template <class Edge>
void sort_by_key(Buffer<Edge>& edges, i64 count, int bits) {
    const int digits = (bits + kEdgeDigit - 1) / kEdgeDigit;
    constexpr i64 size = i64{1} << kEdgeDigit;
    std::vector<i64> places(digits * size, 0);
    for (i64 e = 0; e < count; ++e)
        for (int d = 0; d < digits; ++d)
            ++places[d * size + ((edges[e].key >> (d * kEdgeDigit)) & (size - 1))];
    Buffer<Edge> other(count);
    for (int d = 0; d < digits; ++d) {
        i64* place = places.data() + d * size;
        if (std::find(place, place + size, count) != place + size) continue;  // all have the same digit
        for (i64 v = 0, begin = 0; v < size; ++v) begin += std::exchange(place[v], begin);
        for (i64 e = 0; e < count; ++e)
            other[place[(edges[e].key >> (d * kEdgeDigit)) & (size - 1)]++] = edges[e];
        std::swap(edges, other);
    }
}

template <class Edge>
i64 rows_of(const std::int32_t* source, const std::int32_t* target, const double* weight,
            const std::int32_t* rank, i64 n, i64 count, Duplicates duplicates, bool drop_loops, i64* ptr,
            std::int32_t* idx, double* val) {
    const int bits = bits_of(n);
    const std::uint64_t low = (std::uint64_t{1} << bits) - 1;
    Buffer<Edge> edges(count);
    for (i64 e = 0; e < count; ++e) {
        const std::uint64_t u = rank ? rank[source[e]] : source[e], v = rank ? rank[target[e]] : target[e];
        edges[e].key = v << bits | u;
        edges[e].set_weight(weight, e);
    }
    sort_by_key(edges, count, 2 * bits);
    std::fill_n(ptr, n + 1, i64{0});
    i64 kept = 0;
    std::uint64_t before = ~std::uint64_t{0};
    for (i64 e = 0; e < count; ++e) {
        const std::uint64_t key = edges[e].key, u = key & low, v = key >> bits;
        if (drop_loops && u == v) continue;
        if (key == before && duplicates != Duplicates::keep) {
            if (duplicates == Duplicates::sum) val[kept - 1] += edges[e].weight();
            continue;
        }
        before = key;
        idx[kept] = static_cast<std::int32_t>(u);
        if (val) val[kept] = edges[e].weight();
        ++kept;
        ptr[v + 1] = kept;
    }
    for (i64 i = 0; i < n; ++i) ptr[i + 1] = std::max(ptr[i + 1], ptr[i]);
    return kept;
}

}  // namespace

i64 build_rows(const std::int32_t* source, const std::int32_t* target, const double* weight,
               const std::int32_t* rank, i64 n, i64 count, Duplicates duplicates, bool drop_loops, i64* ptr,
               std::int32_t* idx, double* val) {
    return weight ? rows_of<WeightedEdge>(source, target, weight, rank, n, count, duplicates, drop_loops, ptr,
                                          idx, val)
                  : rows_of<PlainEdge>(source, target, weight, rank, n, count, duplicates, drop_loops, ptr,
                                       idx, val);
}

void count_ids(const std::int32_t* ids, i64 count, i64 n, i64* counts) {
    std::fill_n(counts, n, i64{0});
    for (i64 e = 0; e < count; ++e) ++counts[ids[e]];
}

void add_weights_by_source(const std::int32_t* idx, const double* val, i64 count, i64 n, double* sums) {
    Buffer<double> lost(n);
    std::fill_n(lost.get(), n, 0.0);
    std::fill_n(sums, n, 0.0);
    for (i64 e = 0; e < count; ++e) {
        const double sum = sums[idx[e]], term = val[e], total = sum + term;
        lost[idx[e]] += sum >= term ? (sum - total) + term : (term - total) + sum;
        sums[idx[e]] = total;
    }
    for (i64 i = 0; i < n; ++i) sums[i] += lost[i];
}

}  // namespace bmrm
