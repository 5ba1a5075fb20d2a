// Building a graph on a device: compressed rows by target from listed edges, by one radix sort.
//
// Ids within a range of about as many as there are edges get their numbers from a table of that range; others
// from a sort of all of them.  Nodes get their places from a sort of their degrees, and edges are sorted by
// the places of both ends.  All sorts are stable, so the rows are those of the CPU, and equal edges meet in
// the order of the list.
#include <algorithm>
#include <cstring>
#include <memory>

#include "api/edges.h"
#include "graph/kernels/edges.cuh"
#include "runtime/device_sort.cuh"
#include "runtime/handle.h"
#include "runtime/upload.h"

using namespace bmrm;

namespace {

// A table of ids has as many entries at most, as a multiple of the edges, and some more.
constexpr int64_t kTablePerEdge = 4, kTableLeast = 1 << 20;
constexpr int kTableBytes = 1 + 4 + 4 + 4;  // of an entry: a mark, twice a node, and its place
constexpr int kNumbers = 4 + 4, kKeys = 2 * 8, kPositions = 2 * 4, kWeights = 2 * 8;  // bytes of an edge
constexpr int kNodeBytes = 48;              // degrees, keys, positions and places
constexpr int64_t kMostEdges = 0x7FFFFFFF;  // listed, so that positions of both ends have 32 bits
constexpr int64_t kMostNodes = 0x7FFFFFFF;

}  // namespace

struct bb_edges : Handle {
    bb_edges(int device, const bb_listed_edges& listed, int64_t limit, int threads, bb_edge_facts* facts)
        : Handle(device), count(listed.count) {
        if (count < 0 || count > kMostEdges)
            throw Failure(BB_INVALID, "edges: found " + std::to_string(count) + ", expected at most " +
                                          std::to_string(kMostEdges) + " on a GPU");
        memory.set_limit(limit);
        Uploader uploader(threads);
        ends_[0] = put(uploader, listed.source, 0);
        ends_[1] = put(uploader, listed.target, 1);
        find_facts(uploader, listed, facts);
    }

    Ids put(Uploader& uploader, const bb_ends& end, int which) {
        cudaPointerAttributes found = {};
        const bool known = cudaPointerGetAttributes(&found, end.ids) == cudaSuccess;
        if (!known) cudaGetLastError();
        if (known && found.type == cudaMemoryTypeDevice) return {end.ids, end.bytes, end.step};
        uploaded_[which] = Array<unsigned char>(memory, count * end.bytes);
        uploader.copy(memory, uploaded_[which].data(), end.ids, count * end.bytes);
        return {uploaded_[which].data(), end.bytes, 1};
    }

    void find_facts(Uploader& uploader, const bb_listed_edges& listed, bb_edge_facts* facts) {
        *facts = {0, -1, -1, 0.0};
        if (count == 0) return;
        Array<Word> found(memory, 4);
        found.fill_bytes(0xFF);
        for (const Ids& end : ends_) launch(find_extremes, 0, end, count, found.data());
        BB_CHECK(cudaMemsetAsync(found.data() + 3, 0, sizeof(Word), memory.stream));
        if (listed.weights) {
            weight = Array<double>(memory, count);
            Array<unsigned char> given(memory, count * listed.weight_bytes);
            uploader.copy(memory, given.data(), listed.weights, given.bytes());
            Word *const wrong = found.data() + 2, *const largest = found.data() + 3;
            if (listed.weight_bytes == 4)
                launch(check_weights<float>, 0, reinterpret_cast<const float*>(given.data()), count,
                       weight.data(), wrong, largest);
            else
                launch(check_weights<double>, 0, reinterpret_cast<const double*>(given.data()), count,
                       weight.data(), wrong, largest);
        }
        const std::vector<Word> words = found.to_host();
        facts->low = low_ = id_of(words[0]);
        facts->high = high_ = id_of(~words[1]);
        facts->wrong_weight = int64_t(words[2]);
        memcpy(&facts->largest_weight, &words[3], sizeof(double));
    }

    // --- numbers

    void number(int64_t given) {
        if (given >= 0) {
            if (count && (low_ < 0 || high_ >= given)) throw Failure(BB_INVALID, "edges: an id is no number");
            nodes = given;
            low_ = 0;
            use_numbers(nullptr);
        } else if (count == 0) {
            nodes = 0;
        } else {
            const uint64_t less = uint64_t(high_) - uint64_t(low_);  // the range is one more
            if (less < uint64_t(kTablePerEdge * count + kTableLeast))
                number_by_table(int64_t(less) + 1);
            else
                number_by_sort(less);
        }
        for (auto& raw : uploaded_) raw.reset();
    }

    void use_numbers(const uint32_t* place) {
        Array<int32_t>* numbers[2] = {&source, &target};
        for (int which = 0; which < 2; which++) {
            *numbers[which] = Array<int32_t>(memory, count);
            launch(number_ids, count, ends_[which], count, low_, place, numbers[which]->data());
        }
    }

    void number_by_table(int64_t range) {
        Array<uint8_t> marks(memory, range);
        marks.fill_bytes(0);
        for (const Ids& end : ends_) launch(mark_ids, count, end, count, low_, marks.data());
        short_ids_ = positions_of(memory, marks);
        nodes = short_ids_.size();
        expect_nodes();
        if (nodes == range) {
            short_ids_.reset();
            use_numbers(nullptr);
            return;
        }
        Array<uint32_t> place(memory, range);
        launch(invert, nodes, short_ids_.data(), nodes, place.data());
        use_numbers(place.data());
    }

    void number_by_sort(uint64_t most) {
        Array<uint64_t> keys(memory, 2 * count);
        for (int which = 0; which < 2; which++)
            launch(id_keys, count, ends_[which], count, low_, keys.data() + which * count);
        for (auto& raw : uploaded_) raw.reset();
        const Array<uint32_t> positions = sort_with_positions(memory, keys, most + 1 ? most + 1 : most);
        Array<uint32_t> before;
        {
            Array<uint32_t> changes(memory, 2 * count);
            launch(mark_changes, 2 * count, keys.data(), 2 * count, changes.data());
            before = offsets_of(memory, changes);
        }
        nodes = before.at(2 * count);
        expect_nodes();
        source = Array<int32_t>(memory, count);
        target = Array<int32_t>(memory, count);
        long_ids_ = Array<uint64_t>(memory, nodes);
        launch(number_keys, 2 * count, keys.data(), positions.data(), before.data(), count, source.data(),
               target.data(), long_ids_.data());
    }

    void expect_nodes() const {
        if (nodes > kMostNodes)
            throw Failure(BB_INVALID, "edges: found " + std::to_string(nodes) + " nodes, expected at most " +
                                          std::to_string(kMostNodes));
    }

    bool named() const { return long_ids_ || short_ids_ || (nodes > 0 && low_ != 0); }

    void labels(int64_t* to) {
        Array<int64_t> ids(memory, nodes);
        if (long_ids_)
            launch(shift_ids<uint64_t>, nodes, long_ids_.data(), nodes, low_, ids.data());
        else
            launch(shift_ids<uint32_t>, nodes, short_ids_.data(), nodes, low_, ids.data());
        fetch(ids, to);
        long_ids_.reset();
        short_ids_.reset();
    }

    // --- listed edges

    // Runs a kernel that adds to two counts.
    template <class... Expected, class... Given>
    void count_pairs(int64_t* counts, void (*kernel)(Expected...), Given... given) {
        Array<Word> found(memory, 2);
        found.fill_bytes(0);
        launch(kernel, 0, given..., found.data());
        std::copy_n(found.to_host().begin(), 2, counts);
    }

    void both_ways() {
        Array<uint8_t> marks(memory, count);
        launch(mark_between, count, source.data(), target.data(), count, marks.data());
        const Array<uint32_t> between = positions_of(memory, marks);
        marks.reset();
        const int64_t others = between.size(), all = count + others;
        if (all > 2 * kMostEdges) throw Failure(BB_INVALID, "edges: too many in both directions");
        Array<int32_t> sources(memory, all), targets(memory, all);
        Array<double> weights;
        if (weight) weights = Array<double>(memory, all);
        launch(list_both_ways, all, source.data(), target.data(), weight.data(), count, between.data(),
               others, sources.data(), targets.data(), weights.data());
        source = std::move(sources);
        target = std::move(targets);
        weight = std::move(weights);
        count = all;
    }

    void degrees(bb_node_facts* facts) {
        into_ = Array<uint32_t>(memory, nodes);
        out_of_ = Array<uint32_t>(memory, nodes);
        into_.fill_bytes(0);
        out_of_.fill_bytes(0);
        launch(count_nodes, count, target.data(), count, into_.data());
        launch(count_nodes, count, source.data(), count, out_of_.data());
        Array<Word> found(memory, 5);
        found.fill_bytes(0);
        launch(sum_degrees, 0, Degrees{into_.data(), out_of_.data()}, nodes, found.data());
        const std::vector<Word> sums = found.to_host();
        *facts = {int64_t(sums[0]), int64_t(sums[1]), int64_t(sums[2]), int64_t(sums[3]), int64_t(sums[4])};
        most_ = sums[4];
    }

    void order(bool by_degree, bool peeled, int32_t* to_order, int32_t* to_rank) {
        Array<uint64_t> keys(memory, nodes);
        const int bits = bits_for(most_ + 1);
        launch(order_keys, nodes, Degrees{into_.data(), out_of_.data()}, nodes, by_degree, peeled, most_,
               bits, keys.data());
        const Array<uint32_t> order = sort_with_positions(memory, keys, uint64_t(peeled ? 4 : 1) << bits);
        rank_ = Array<uint32_t>(memory, nodes);
        launch(invert, nodes, order.data(), nodes, rank_.data());
        fetch(order, reinterpret_cast<uint32_t*>(to_order));
        fetch(rank_, reinterpret_cast<uint32_t*>(to_rank));
    }

    // --- rows

    // Returns whether there are weights.
    bool sort(bb_duplicates duplicates, bool drop_loops, bool again) {
        into_.reset();
        out_of_.reset();
        const int bits = bits_for(uint64_t(std::max<int64_t>(nodes, 1)));
        Array<uint64_t> keys(memory, count);
        launch(edge_keys, count, source.data(), target.data(), rank_.data(), count, bits, keys.data());
        rank_.reset();
        if (!again) {
            source.reset();
            target.reset();
        }
        Array<double> sorted;
        if (weight) {
            sorted = picked(memory, weight, sort_with_positions(memory, keys, uint64_t(1) << 2 * bits));
            if (!again) weight.reset();
        } else {
            sort_keys(memory, keys, uint64_t(1) << 2 * bits);
        }
        Array<uint8_t> marks(memory, count);
        launch(mark_kept, count, keys.data(), count, bits, duplicates != BB_EDGES_KEEP, drop_loops,
               marks.data());
        const Array<uint32_t> kept = positions_of(memory, marks);
        marks.reset();
        val.reset();
        if (sorted || duplicates == BB_EDGES_SUM) sum(keys, sorted, kept, duplicates == BB_EDGES_SUM);
        col = Array<int32_t>(memory, kept.size());
        Array<uint32_t> into(memory, nodes);
        into.fill_bytes(0);
        launch(split_keys, kept.size(), keys.data(), kept.data(), kept.size(), bits, col.data(), into.data());
        ptr = offsets_of(memory, widened(into));
        memory.trim();
        return bool(val);
    }

    void sum(const Array<uint64_t>& keys, const Array<double>& sorted, const Array<uint32_t>& kept,
             bool sums) {
        Array<int> others(memory, 1);
        others.fill_bytes(0);
        val = Array<double>(memory, kept.size());
        launch(sum_weights, kept.size(), keys.data(), sorted.data(), count, kept.data(), kept.size(), sums,
               val.data(), others.data());
        if (!others.at(0)) val.reset();  // all are 1
    }

    Array<int64_t> count_sources() {
        Array<uint32_t> found(memory, nodes);
        found.fill_bytes(0);
        launch(count_nodes, col.size(), col.data(), col.size(), found.data());
        return widened(found);
    }

    const Array<double>& strengths() {
        if (sums_) return sums_;
        Array<uint32_t> keys(memory, col.size());
        BB_CHECK(cudaMemcpyAsync(keys.data(), col.data(), size_t(col.bytes()), cudaMemcpyDeviceToDevice,
                                 memory.stream));
        const Array<double> weights =
            picked(memory, val, sort_with_positions(memory, keys, uint64_t(std::max<int64_t>(nodes, 1))));
        const Array<int64_t> first = offsets_of(memory, count_sources());
        sums_ = Array<double>(memory, nodes);
        launch(sum_by_source, nodes, weights.data(), first.data(), nodes, sums_.data());
        return sums_;
    }

    const void* shares(bb_type type) {
        forget();
        const int64_t n = col.size();
        shares_ = Array<unsigned char>(memory, n * (type == BB_FLOAT64 ? 8 : 4));
        const double* const sums = strengths().data();
        if (type == BB_FLOAT64)
            launch(divide_weights<double>, n, val.data(), col.data(), sums, n,
                   reinterpret_cast<double*>(shares_.data()));
        else
            launch(divide_weights<float>, n, val.data(), col.data(), sums, n,
                   reinterpret_cast<float*>(shares_.data()));
        BB_CHECK(cudaStreamSynchronize(memory.stream));  // others read it
        return shares_.data();
    }

    Array<int64_t> widened(const Array<uint32_t>& counts) {
        Array<int64_t> wide(memory, nodes);
        launch(widen, nodes, counts.data(), nodes, wide.data());
        return wide;
    }
    void forget() {
        shares_.reset();
        memory.trim();
    }

    template <class T>
    void fetch(const Array<T>& from, T* to) {
        BB_CHECK(cudaMemcpyAsync(to, from.data(), size_t(from.bytes()), cudaMemcpyDefault, memory.stream));
        BB_CHECK(cudaStreamSynchronize(memory.stream));
    }

    // Runs a kernel over n numbers; 0: over as many as atomics at a few places allow.
    template <class... Expected, class... Given>
    void launch(void (*kernel)(Expected...), int64_t n, Given... given) {
        kernel<<<n ? blocks_for(n) : kFewBlocks, 256, 0, memory.stream>>>(given...);
        BB_CHECK(cudaGetLastError());
    }
    static constexpr unsigned kFewBlocks = 512;

    int64_t count, nodes = 0;  // edges in the list
    Array<int32_t> source, target;
    Array<double> weight;
    Array<int64_t> ptr;  // of the rows
    Array<int32_t> col;
    Array<double> val;  // empty if all are 1

  private:
    Ids ends_[2];
    Array<unsigned char> uploaded_[2], shares_;
    int64_t low_ = 0, high_ = -1;
    Array<uint32_t> short_ids_;  // above the lowest one
    Array<uint64_t> long_ids_;
    Array<uint32_t> into_, out_of_, rank_;
    Word most_ = 0;  // in-links of a node
    Array<double> sums_;
};

extern "C" {

int64_t bb_edges_bytes(int64_t count, int32_t id_bytes, int32_t weighted, int64_t nodes) {
    const int64_t table = std::min(kTablePerEdge * count + kTableLeast, std::max(nodes, kTableLeast));
    const int64_t listed = count * (id_bytes + kNumbers + (weighted ? kWeights : 0)) + table * kTableBytes;
    const int64_t sorted = count * (kKeys + kNumbers + (weighted ? kPositions + kWeights : 0));
    return std::max(listed, sorted) + nodes * kNodeBytes;
}

bb_status bb_edges_create(int32_t device, const bb_listed_edges* listed, int64_t limit, int32_t threads,
                          bb_edge_facts* facts, bb_edges** out) {
    return guarded([&] {
        const OnDevice scope(device);
        *out = new bb_edges(device, *listed, limit, threads, facts);
    });
}

void bb_edges_destroy(bb_edges* edges) { destroy_handle(edges); }

bb_status bb_edges_number(bb_edges* edges, int64_t given, int64_t* nodes, int32_t* named) {
    return on_handle(edges, [&](bb_edges& held) {
        held.number(given);
        *nodes = held.nodes;
        *named = held.named();
    });
}

bb_status bb_edges_labels(bb_edges* edges, int64_t* labels) {
    return on_handle(edges, [&](bb_edges& held) { held.labels(labels); });
}

bb_status bb_edges_at(bb_edges* edges, int64_t edge, int32_t* source, int32_t* target) {
    return on_handle(edges, [&](bb_edges& held) {
        *source = held.source.at(edge);
        *target = held.target.at(edge);
    });
}

bb_status bb_edges_directions(bb_edges* edges, int64_t* counts) {
    return on_handle(edges, [&](bb_edges& held) {
        held.count_pairs(counts, count_directions, held.source.data(), held.target.data(), held.count);
    });
}

bb_status bb_edges_both_ways(bb_edges* edges, int64_t* count) {
    return on_handle(edges, [&](bb_edges& held) {
        held.both_ways();
        *count = held.count;
    });
}

bb_status bb_edges_distances(bb_edges* edges, int64_t step, int64_t near, int64_t reached, int64_t* counts) {
    return on_handle(edges, [&](bb_edges& held) {
        held.count_pairs(counts, count_distances, held.source.data(), held.target.data(),
                         (held.count + step - 1) / step, step, near, reached);
    });
}

bb_status bb_edges_degrees(bb_edges* edges, bb_node_facts* facts) {
    return on_handle(edges, [&](bb_edges& held) { held.degrees(facts); });
}

bb_status bb_edges_order(bb_edges* edges, int32_t by_degree, int32_t peeled, int32_t* order, int32_t* rank) {
    return on_handle(edges, [&](bb_edges& held) { held.order(by_degree, peeled, order, rank); });
}

bb_status bb_edges_sort(bb_edges* edges, bb_duplicates duplicates, int32_t drop_loops, int32_t again,
                        int64_t* kept, int32_t* weighted) {
    return on_handle(edges, [&](bb_edges& held) {
        *weighted = held.sort(duplicates, drop_loops, again);
        *kept = held.col.size();
        BB_CHECK(cudaStreamSynchronize(held.memory.stream));  // others read the rows
    });
}

bb_status bb_edges_rows(bb_edges* edges, bb_edge_rows* rows) {
    return on_handle(edges,
                     [&](bb_edges& held) { *rows = {held.ptr.data(), held.col.data(), held.val.data()}; });
}

bb_status bb_edges_reversed(bb_edges* edges, int64_t step, int64_t* counts) {
    return on_handle(edges, [&](bb_edges& held) {
        held.count_pairs(counts, count_reversed, held.ptr.data(), held.col.data(), held.nodes,
                         (held.col.size() + step - 1) / step, step);
    });
}

bb_status bb_edges_count_sources(bb_edges* edges, int64_t* counts) {
    return on_handle(edges, [&](bb_edges& held) { held.fetch(held.count_sources(), counts); });
}

bb_status bb_edges_strengths(bb_edges* edges, double* sums) {
    return on_handle(edges, [&](bb_edges& held) { held.fetch(held.strengths(), sums); });
}

bb_status bb_edges_shares(bb_edges* edges, bb_type type, const void** values) {
    return on_handle(edges, [&](bb_edges& held) { *values = held.shares(type); });
}

bb_status bb_edges_forget(bb_edges* edges) {
    return on_handle(edges, [&](bb_edges& held) { held.forget(); });
}

}  // extern "C"
