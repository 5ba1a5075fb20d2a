// Combinations into places that lanes of a warp choose, one after another where lanes choose the same: no
// atomic operation, and a fixed order.
#pragma once
#include "device/warp.cuh"

namespace bmrm {

// The number of earlier lanes that take part and have the same index; -1 for a lane that does not take part.
template <class Index>
__device__ __forceinline__ int rank_of(Index index, bool taking_part, int lane) {
    const unsigned taking = __ballot_sync(kAllLanes, taking_part);
    if (!taking_part) return -1;
    return __popc(__match_any_sync(taking, index) & ((1u << lane) - 1u));
}

// Combines the values of all lanes into one place.
template <class Op, class A>
__device__ __forceinline__ void combine_same(A* at, A value, int lane) {
    value = over_warp<Op>(value);
    if (lane == 0) *at = Op::of(*at, value);
    __syncwarp();
}

// Combines the value of each lane into the place that it chooses: those of rank 0, then those of rank 1, ...
template <class Op, class A>
__device__ __forceinline__ void combine_bins(A* results, whole index, A value, int rank) {
    for (int round = 0; __any_sync(kAllLanes, rank >= round); round++) {
        if (rank == round) results[index] = Op::of(results[index], value);
        __syncwarp();
    }
}

// Adds two values to two places, which may be the same: both are read before either is written.
template <class A, class Index>
__device__ __forceinline__ void add_two(A* to, Index one, Index two, A value, A other) {
    const A old = to[two], first = Sum::of(to[one], value);
    to[one] = first;
    to[two] = Sum::of(one == two ? first : old, other);
}

}  // namespace bmrm
