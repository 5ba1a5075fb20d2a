// Combinations over the lanes of a warp, in a fixed order.
#pragma once
#include "device/operators.cuh"

namespace bmrm {

constexpr int kWarpLanes = 32;
constexpr unsigned kAllLanes = 0xFFFFFFFFu;

// Combines over the lanes whose numbers differ only in the bits from NARROWEST to WIDEST; each gets the
// result.
template <class Op, int WIDEST = kWarpLanes / 2, int NARROWEST = 1, class A>
__device__ __forceinline__ A over_warp(A mine) {
#pragma unroll
    for (int apart = WIDEST; apart >= NARROWEST; apart /= 2)
        mine = Op::of(mine, __shfl_xor_sync(kAllLanes, mine, apart));
    return mine;
}

// Combines each of N numbers over the warp, N being a power of two up to 32: a butterfly, whose exchanges
// halve the numbers that a lane has, about one per number instead of five.  mine[0] of lane i is then number
// i * N / 32; what else is in `mine` has no meaning.
template <class Op, class A, int N, int APART = kWarpLanes / 2, int COUNT = N>
__device__ __forceinline__ void over_warp_each(A (&mine)[N], int lane) {
    if constexpr (COUNT > 1) {
        constexpr int kHalf = COUNT / 2;
        const bool upper = lane & APART;
#pragma unroll
        for (int i = 0; i < kHalf; i++) {
            const A given = upper ? mine[i] : mine[i + kHalf], kept = upper ? mine[i + kHalf] : mine[i];
            mine[i] = Op::of(kept, __shfl_xor_sync(kAllLanes, given, APART));
        }
        over_warp_each<Op, A, N, APART / 2, kHalf>(mine, lane);
    } else {
        mine[0] = over_warp<Op, APART>(mine[0]);
    }
}

// Finds the best value over WIDTH lanes, of equal ones that with the least number; `more` goes with them.
template <class Op, int WIDTH = kWarpLanes, class A, class N, class... More>
__device__ __forceinline__ void best_of_warp(A& value, N& number, More&... more) {
#pragma unroll
    for (int apart = WIDTH / 2; apart > 0; apart /= 2) {
        const A other = __shfl_xor_sync(kAllLanes, value, apart);
        const N which = __shfl_xor_sync(kAllLanes, number, apart);
        const bool is_first = comes_first<Op>(other, which, value, number);
        const auto take = [&](auto& mine) {
            const auto theirs = __shfl_xor_sync(kAllLanes, mine, apart);
            if (is_first) mine = theirs;
        };
        (take(more), ...);
        if (is_first) value = other, number = which;
    }
}

}  // namespace bmrm
