// The passes over listed edges and over nodes with which a graph is built; edges.cu has their order.
//
// Sums here are of integers, so that atomics add them up in any order.  A sum of weights is taken by one
// thread, in the order of the list: that is what it means on the CPU.
#pragma once
#include <float.h>
#include <stdint.h>

#include "runtime/device_memory.h"

namespace bmrm {

using Word = unsigned long long;  // what atomics take

// The ids of one end of all edges.
struct Ids {
    const void* ids;
    int bytes;
    int64_t step;

    __device__ int64_t operator[](int64_t i) const {
        return bytes == 4 ? static_cast<const int32_t*>(ids)[i * step]
                          : static_cast<const int64_t*>(ids)[i * step];
    }
};

// Signed numbers in the order of unsigned ones, and back.
__host__ __device__ inline Word ordered(int64_t id) { return Word(id) ^ (Word(1) << 63); }
inline int64_t id_of(Word word) { return int64_t(word ^ (Word(1) << 63)); }

// found[0]: the least of the ids, found[1]: the complement of the largest, both as `ordered`.
static __global__ void find_extremes(Ids ids, int64_t n, Word* found) {
    Word low = ~Word(0), high = ~Word(0);
    BB_FOR (i, n) {
        const Word id = ordered(ids[i]);
        low = low < id ? low : id;
        high = high < ~id ? high : ~id;
    }
    atomicMin(found, low);
    atomicMin(found + 1, high);
}

// wrong: the first weight that is negative or not finite; largest: the bits of the largest of the others.
template <class W>
__global__ void check_weights(const W* from, int64_t n, double* to, Word* wrong, Word* largest) {
    double most = 0.0;
    BB_FOR (i, n) {
        const double weight = double(from[i]);
        to[i] = weight;
        if (!(weight >= 0.0 && weight <= DBL_MAX))
            atomicMin(wrong, Word(i));
        else
            most = fmax(most, weight);
    }
    most = fmax(most, 0.0);  // -0 would be the largest word
    atomicMax(largest, Word(__double_as_longlong(most)));
}

// --- numbers of nodes

static __global__ void mark_ids(Ids ids, int64_t n, int64_t low, uint8_t* marks) {
    BB_FOR (i, n) marks[ids[i] - low] = 1;
}

static __global__ void invert(const uint32_t* order, int64_t n, uint32_t* place) {
    BB_FOR (i, n) place[order[i]] = uint32_t(i);
}

// place: of each id above the lowest; null: ids are numbers.
static __global__ void number_ids(Ids ids, int64_t n, int64_t low, const uint32_t* place, int32_t* to) {
    BB_FOR (i, n) {
        const int64_t id = ids[i] - low;
        to[i] = int32_t(place ? place[id] : id);
    }
}

static __global__ void id_keys(Ids ids, int64_t n, int64_t low, uint64_t* keys) {
    BB_FOR (i, n) keys[i] = uint64_t(ids[i]) - uint64_t(low);
}

static __global__ void mark_changes(const uint64_t* keys, int64_t n, uint32_t* changes) {
    BB_FOR (i, n) changes[i] = i == 0 || keys[i] != keys[i - 1];
}

// before: the changes before each key.  The first half of the positions are sources, the others targets.
static __global__ void number_keys(const uint64_t* keys, const uint32_t* positions, const uint32_t* before,
                                   int64_t edges, int32_t* source, int32_t* target, uint64_t* distinct) {
    BB_FOR (i, 2 * edges) {
        const uint32_t number = before[i + 1] - 1, at = positions[i];
        (at < edges ? source[at] : target[at - edges]) = int32_t(number);
        if (before[i + 1] != before[i]) distinct[number] = keys[i];
    }
}

// ids: above the lowest; null: they are consecutive.
template <class Id>
__global__ void shift_ids(const Id* ids, int64_t n, int64_t low, int64_t* to) {
    BB_FOR (i, n) to[i] = int64_t(uint64_t(ids ? ids[i] : i) + uint64_t(low));
}

// --- what is asked of listed edges

static __global__ void count_directions(const int32_t* source, const int32_t* target, int64_t n,
                                        Word* counts) {
    Word backward = 0, forward = 0;
    BB_FOR (i, n) {
        backward += source[i] > target[i];
        forward += source[i] < target[i];
    }
    atomicAdd(counts, backward);
    atomicAdd(counts + 1, forward);
}

static __global__ void count_distances(const int32_t* source, const int32_t* target, int64_t looked_at,
                                       int64_t step, int64_t near, int64_t reached, Word* counts) {
    Word within[2] = {};
    BB_FOR (i, looked_at) {
        const int64_t by = int64_t(source[i * step]) - target[i * step], distance = by < 0 ? -by : by;
        within[0] += distance < near;
        within[1] += distance < reached;
    }
    atomicAdd(counts, within[0]);
    atomicAdd(counts + 1, within[1]);
}

static __global__ void mark_between(const int32_t* source, const int32_t* target, int64_t n, uint8_t* marks) {
    BB_FOR (i, n) marks[i] = source[i] != target[i];
}

// Edges as they are listed, each with its smaller node first, and then those between two nodes the other way.
static __global__ void list_both_ways(const int32_t* source, const int32_t* target, const double* weight,
                                      int64_t n, const uint32_t* between, int64_t others, int32_t* sources,
                                      int32_t* targets, double* weights) {
    BB_FOR (i, n + others) {
        const int64_t e = i < n ? i : between[i - n];
        const int32_t low = min(source[e], target[e]), high = max(source[e], target[e]);
        sources[i] = i < n ? low : high;
        targets[i] = i < n ? high : low;
        if (weight) weights[i] = weight[e];
    }
}

// --- the order of nodes

static __global__ void count_nodes(const int32_t* nodes, int64_t n, uint32_t* counts) {
    BB_FOR (i, n) atomicAdd(counts + nodes[i], 1u);
}

// A node is `last` without out-links, and `first` with out-links only.
struct Degrees {
    const uint32_t *into, *out_of;

    __device__ bool last(int64_t node) const { return out_of[node] == 0; }
    __device__ bool first(int64_t node) const { return into[node] == 0 && out_of[node] != 0; }
};

// facts: into_last, out_of_first, last, first, most.
static __global__ void sum_degrees(Degrees of, int64_t n, Word* facts) {
    Word sums[4] = {}, most = 0;
    BB_FOR (i, n) {
        const bool last = of.last(i), first = of.first(i);
        sums[0] += last ? of.into[i] : 0;
        sums[1] += first ? of.out_of[i] : 0;
        sums[2] += last;
        sums[3] += first;
        most = most > of.into[i] ? most : Word(of.into[i]);
    }
    for (int k = 0; k < 4; k++) atomicAdd(facts + k, sums[k]);
    atomicMax(facts + 4, most);
}

// Keys of nodes: the group, if nodes are peeled, above what the in-links are less than `most`.
static __global__ void order_keys(Degrees of, int64_t n, bool by_degree, bool peeled, Word most, int bits,
                                  uint64_t* keys) {
    BB_FOR (i, n) {
        const uint64_t group = peeled ? 1 + of.last(i) - of.first(i) : 0;
        keys[i] = group << bits | (by_degree ? most - of.into[i] : 0);
    }
}

// --- rows

static __global__ void edge_keys(const int32_t* source, const int32_t* target, const uint32_t* rank,
                                 int64_t n, int bits, uint64_t* keys) {
    BB_FOR (i, n) {
        const uint64_t from = rank ? rank[source[i]] : source[i], to = rank ? rank[target[i]] : target[i];
        keys[i] = to << bits | from;
    }
}

static __global__ void mark_kept(const uint64_t* keys, int64_t n, int bits, bool once, bool drop_loops,
                                 uint8_t* kept) {
    BB_FOR (i, n) {
        const uint64_t low = (uint64_t(1) << bits) - 1;
        kept[i] =
            !(once && i > 0 && keys[i - 1] == keys[i]) && !(drop_loops && keys[i] >> bits == (keys[i] & low));
    }
}

// into: counts the edges of each target.
static __global__ void split_keys(const uint64_t* keys, const uint32_t* kept, int64_t n, int bits,
                                  int32_t* source, uint32_t* into) {
    BB_FOR (i, n) {
        const uint64_t key = keys[kept[i]];
        source[i] = int32_t(key & ((uint64_t(1) << bits) - 1));
        atomicAdd(into + (key >> bits), 1u);
    }
}

// The weight of each edge that stays: with `sums`, that of all that are listed like it, in the order of the
// list.  sorted: the weights in the order of the keys; null: each is 1.
static __global__ void sum_weights(const uint64_t* keys, const double* sorted, int64_t edges,
                                   const uint32_t* kept, int64_t n, bool sums, double* weights, int* others) {
    BB_FOR (i, n) {
        int64_t e = kept[i];
        const uint64_t key = keys[e];
        double sum = sorted ? sorted[e] : 1.0;
        if (sums)
            while (++e < edges && keys[e] == key) sum += sorted ? sorted[e] : 1.0;
        weights[i] = sum;
        if (sum != 1.0) *others = 1;
    }
}

// Compensated sums of the weights of each source, which are consecutive (Neumaier 1974; adjacency.h).
static __global__ void sum_by_source(const double* weights, const int64_t* first, int64_t n, double* sums) {
    BB_FOR (i, n) {
        double sum = 0.0, lost = 0.0;
        for (int64_t e = first[i]; e < first[i + 1]; e++) {
            const double term = weights[e], total = sum + term;
            lost += sum >= term ? (sum - total) + term : (term - total) + sum;
            sum = total;
        }
        sums[i] = sum + lost;
    }
}

template <class T>
__global__ void divide_weights(const double* weights, const int32_t* source, const double* sums, int64_t n,
                               T* shares) {
    BB_FOR (i, n) {
        const double sum = sums[source[i]];
        shares[i] = T(sum > 0.0 ? weights[i] / sum : 0.0);
    }
}

// Of every `step`-th edge: counts those between two nodes, and of these the ones whose reverse is there.
static __global__ void count_reversed(const int64_t* first, const int32_t* source, int64_t nodes,
                                      int64_t looked_at, int64_t step, Word* counts) {
    Word found[2] = {};
    BB_FOR (i, looked_at) {
        const int64_t e = i * step, from = source[e];
        int64_t low = 0, high = nodes;  // the target: its edges are the last that begin at e or before
        while (low + 1 < high) {
            const int64_t middle = (low + high) / 2;
            (first[middle] <= e ? low : high) = middle;
        }
        const int64_t to = low;
        if (from == to) continue;
        low = first[from];
        high = first[from + 1];
        while (low < high) {
            const int64_t middle = (low + high) / 2;
            if (source[middle] < to)
                low = middle + 1;
            else
                high = middle;
        }
        found[0]++;
        found[1] += low < first[from + 1] && source[low] == to;
    }
    atomicAdd(counts, found[0]);
    atomicAdd(counts + 1, found[1]);
}

static __global__ void widen(const uint32_t* counts, int64_t n, int64_t* to) {
    BB_FOR (i, n) to[i] = counts[i];
}

}  // namespace bmrm
