#include "graph/adjacency.h"

#include <algorithm>
#include <vector>

#include "common/memory.h"
#include "graph/edge_sort.h"

namespace bmrm {
namespace {

/// Nodes of a piece of a loop over nodes.
constexpr i64 kNodePiece = i64{1} << 14;

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

template <class Edge>
class Sorted : public SortedEdges {
  public:
    Sorted(const ListedEdges& given, Duplicates duplicates, bool drop_loops, int threads)
        : nodes_(given.nodes),
          bits_(bits_of(given.nodes)),
          rule_(duplicates),
          drop_loops_(drop_loops),
          threads_(threads),
          pieces_(pieces_of(given.count, threads)),
          edges_(given.count),
          starts_(pieces_ + 1, 0) {
        for_each_task(pieces_, threads_, [&](i64 p) {
            for (i64 e = first(p); e < first(p + 1); ++e) {
                const std::int32_t u = given.source[e], v = given.target[e];
                const std::uint64_t from = given.rank ? given.rank[u] : u,
                                    to = given.rank ? given.rank[v] : v;
                edges_[e].key = to << bits_ | from;
                edges_[e].set_weight(given.weight, e);
            }
        });
        {
            Buffer<Edge> room(given.count);
            RadixSort<Edge>(edges_, room, threads_).run(2 * bits_);
        }
        for_each_task(pieces_, threads_, [&](i64 p) {
            i64 count = 0;
            for (i64 e = first(p); e < first(p + 1); ++e) count += stays(e);
            starts_[p + 1] = count;
        });
        for (i64 p = 0; p < pieces_; ++p) starts_[p + 1] += starts_[p];
        kept = starts_[pieces_];
    }

    void write(i64* ptr, std::int32_t* idx, double* val) const override {
        const std::uint64_t low = (std::uint64_t{1} << bits_) - 1;
        for_each_task(pieces_, threads_, [&](i64 p) {
            i64 at = starts_[p];
            i64 row = first(p) == 0 ? -1 : target(first(p) - 1);  // the last one that has begun
            for (i64 e = first(p); e < first(p + 1); ++e) {
                while (row < target(e)) ptr[++row] = at;
                if (!stays(e)) continue;
                idx[at] = static_cast<std::int32_t>(edges_[e].key & low);
                if (val) val[at] = weight(e);
                ++at;
            }
        });
        const i64 last = edges_.size() ? target(edges_.size() - 1) : -1;
        std::fill(ptr + last + 1, ptr + nodes_ + 1, kept);
    }

  private:
    i64 first(i64 piece) const { return edges_.size() * piece / pieces_; }
    i64 target(i64 e) const { return static_cast<i64>(edges_[e].key >> bits_); }
    bool stays(i64 e) const {
        const std::uint64_t key = edges_[e].key;
        if (rule_ != Duplicates::keep && e > 0 && edges_[e - 1].key == key) return false;
        return !drop_loops_ || key >> bits_ != (key & ((std::uint64_t{1} << bits_) - 1));
    }
    /// The weight of an edge that stays, with those that are listed after it.
    double weight(i64 e) const {
        double sum = edges_[e].weight();
        if (rule_ == Duplicates::sum)
            for (i64 k = e + 1; k < edges_.size() && edges_[k].key == edges_[e].key; ++k)
                sum += edges_[k].weight();
        return sum;
    }

    const i64 nodes_;
    const int bits_;
    const Duplicates rule_;
    const bool drop_loops_;
    const int threads_;
    const i64 pieces_;
    Buffer<Edge> edges_;
    std::vector<i64> starts_;  // edges that stay before each piece
};

/// A node, below what it is ordered by.
struct OrderedNode {
    std::uint64_t key;
};

/// Counts from here on are taken to be equal, so that a key has room for a group, a count and a node.
constexpr i64 kMostOrdered = (i64{1} << 31) - 1;

}  // namespace

std::unique_ptr<SortedEdges> sort_edges(const ListedEdges& edges, Duplicates duplicates, bool drop_loops,
                                        int threads) {
    if (edges.weight) return std::make_unique<Sorted<WeightedEdge>>(edges, duplicates, drop_loops, threads);
    return std::make_unique<Sorted<PlainEdge>>(edges, duplicates, drop_loops, threads);
}

void count_ids(const std::int32_t* ids, i64 count, i64 n, int threads, i64* counts) {
    std::fill_n(counts, n, i64{0});
    // The caller counts in the result, each helper in an array of its own.
    const int members =
        static_cast<int>(std::clamp<i64>(count / std::max<i64>(n, kBlockEntries), 1, threads));
    Buffer<std::uint32_t> others(n * (members - 1));
    for_each_task(members - 1, members, [&](i64 m) { std::fill_n(others.get() + n * m, n, 0); });
    const i64 pieces = pieces_of(count, members);
    for_each_task_of_member(pieces, members, [&](i64 p, int member) {
        const std::int32_t *id = ids + count * p / pieces, *const end = ids + count * (p + 1) / pieces;
        if (member == 0) {
            for (; id < end; ++id) ++counts[*id];
        } else {
            std::uint32_t* const own = others.get() + n * (member - 1);
            for (; id < end; ++id) ++own[*id];
        }
    });
    if (members < 2) return;
    for_each_task((n + kNodePiece - 1) / kNodePiece, members, [&](i64 p) {
        for (int m = 0; m < members - 1; ++m)
            for (i64 i = p * kNodePiece; i < std::min(n, (p + 1) * kNodePiece); ++i)
                counts[i] += others[n * m + i];
    });
}

void order_nodes(const i64* counts, const std::uint8_t* groups, i64 n, int threads, std::int32_t* order,
                 std::int32_t* rank) {
    const i64 most = counts && n ? std::min(*std::max_element(counts, counts + n), kMostOrdered) : 0;
    const int node_bits = bits_of(n), bits = bits_of(most + 1);
    Buffer<OrderedNode> nodes(n), room(n);
    const i64 pieces = (n + kNodePiece - 1) / kNodePiece;
    for_each_task(pieces, threads, [&](i64 p) {
        for (i64 i = p * kNodePiece; i < std::min(n, (p + 1) * kNodePiece); ++i) {
            const std::uint64_t less = counts ? std::max<i64>(most - counts[i], 0) : 0;
            nodes[i].key = (std::uint64_t{groups ? groups[i] : std::uint8_t{0}} << bits | less) << node_bits |
                           static_cast<std::uint64_t>(i);
        }
    });
    RadixSort<OrderedNode>(nodes, room, threads).run(bits + (groups ? 2 : 0), node_bits);
    for_each_task(pieces, threads, [&](i64 p) {
        for (i64 i = p * kNodePiece; i < std::min(n, (p + 1) * kNodePiece); ++i) {
            order[i] = static_cast<std::int32_t>(nodes[i].key & ((std::uint64_t{1} << node_bits) - 1));
            rank[order[i]] = static_cast<std::int32_t>(i);
        }
    });
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
