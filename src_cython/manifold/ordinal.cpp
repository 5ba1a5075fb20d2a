#include "manifold/ordinal.h"

#include <algorithm>

#include "common/memory.h"

namespace bmrm {
namespace {

/// A run of pairs with one disparity, sum / weight. Means are compared by products: a division per pair would
/// take longer than all the rest.
struct PooledBlock {
    double sum, weight;
    i64 end;
};

/// Pairs that a task copies.
constexpr i64 kOrdinalChunk = i64{1} << 16;

}  // namespace

template <class I>
void disparities(i64 count, I* order, const i64* tie_begins, const i64* tie_ends, i64 ties,
                 const double* distances, const double* weights, double total, double* out, int threads) {
    for_each_task(ties, threads_for(count, threads), [&](i64 t) {
        std::sort(order + tie_begins[t], order + tie_ends[t], [&](I a, I b) {
            return distances[a] < distances[b] || (distances[a] == distances[b] && a < b);
        });
    });
    // Copies in the order, apart from the pooling, since many misses of the cache then overlap.
    Buffer<double> sums(count), own_weights(weights ? count : 0);
    const i64 chunks = (count + kOrdinalChunk - 1) / kOrdinalChunk;
    for_each_task(chunks, threads_for(count, threads), [&](i64 c) {
        const i64 end = std::min(count, (c + 1) * kOrdinalChunk);
        for (i64 s = c * kOrdinalChunk; s < end; ++s) sums[s] = distances[order[s]];
        if (weights)
            for (i64 s = c * kOrdinalChunk; s < end; ++s) {
                own_weights[s] = weights[order[s]];
                sums[s] *= own_weights[s];
            }
    });
    // The last block is in registers, so that few pairs wait for memory.
    Buffer<PooledBlock> stack(count + 1);
    PooledBlock* const first = stack.get();
    PooledBlock* top = first;  // after the blocks before the last
    PooledBlock last{0.0, 0.0, 0};
    for (i64 s = 0; s < count; ++s) {
        const double sum = sums[s], weight = weights ? own_weights[s] : 1.0;
        if (s == 0 || last.sum * weight < sum * last.weight) {
            *top++ = last;  // the first one is empty
            last = {sum, weight, s + 1};
            continue;
        }
        last = {last.sum + sum, last.weight + weight, s + 1};
        while (top > first + 1 && top[-1].sum * last.weight >= last.sum * top[-1].weight) {
            --top;
            last.sum += top->sum;
            last.weight += top->weight;
        }
    }
    *top++ = last;
    double size = 0.0;
    for (const PooledBlock* block = first; block < top; ++block)
        if (block->weight > 0.0) size += block->sum * block->sum / block->weight;
    if (!(size > 0.0)) return;
    const double scale = std::sqrt(total / size);
    for_each_task(chunks, threads_for(count, threads), [&](i64 c) {
        const i64 end = std::min(count, (c + 1) * kOrdinalChunk);
        i64 s = c * kOrdinalChunk;
        const PooledBlock* block =
            std::upper_bound(first, top, s, [](i64 at, const PooledBlock& other) { return at < other.end; });
        for (; s < end; ++block) {
            const double value = block->weight > 0.0 ? scale * block->sum / block->weight : 0.0;
            for (; s < std::min(end, block->end); ++s) out[order[s]] = value;
        }
    });
}

template void disparities(i64, std::int32_t*, const i64*, const i64*, i64, const double*, const double*,
                          double, double*, int);
template void disparities(i64, i64*, const i64*, const i64*, i64, const double*, const double*, double,
                          double*, int);

}  // namespace bmrm
