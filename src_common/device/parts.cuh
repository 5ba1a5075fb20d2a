// Combination of the parts of results, in their order, by a kernel of blocks of 1024 threads: a column of
// threads per element, whose groups have every 32nd part; all threads of the block if there is one number.
// The blocks of the first elements are those after `before`.
#pragma once
#include "device/warp.cuh"

namespace bmrm {

constexpr int kPartGroups = 32;
template <class A>
using PartsHeld = A (*)[kWarpLanes + 1];  // a row per group; one place more avoids bank conflicts

__device__ __forceinline__ whole first_element(unsigned before) {
    return (blockIdx.x + gridDim.x - before % gridDim.x) % gridDim.x * whole(kWarpLanes);
}

// Not inline: it is compiled once.
template <class Op, class A>
__device__ __noinline__ void combine_parts(const A* from, A* to, whole count, whole parts, A identity,
                                           unsigned before, PartsHeld<A> held) {
    const int cell = threadIdx.x % kWarpLanes, group = threadIdx.x / kWarpLanes;
    const whole start = count == 1 ? threadIdx.x : group;
    const whole step = count == 1 ? kPartGroups * kWarpLanes : kPartGroups;
    for (whole first = first_element(before); first < count; first += gridDim.x * whole(kWarpLanes)) {
        const whole q = count == 1 ? 0 : first + cell;
        A best = identity;
#pragma unroll 4
        for (whole part = q < count ? start : parts; part < parts; part += step)
            best = Op::of(best, from[part * count + q]);
        if (count == 1) best = over_warp<Op>(best);
        held[group][cell] = best;
        __syncthreads();
        best = over_warp<Op>(held[cell][group]);
        if (cell == 0 && first + group < count) to[first + group] = best;
        __syncthreads();
    }
}

// The same of extrema, with the rows at which they are, of equal ones the first.  Calls
// bring(element, part) for what else is taken from that part; -1 if no row took part.
template <class Op, class A, class Bring>
__device__ __forceinline__ void combine_best(const A* from, const whole* rows, A* to, whole* to_rows,
                                             whole count, whole parts, A identity, unsigned before,
                                             PartsHeld<A> held, PartsHeld<whole> held_parts,
                                             const Bring& bring) {
    const int cell = threadIdx.x % kWarpLanes, group = threadIdx.x / kWarpLanes;
    for (whole first = first_element(before); first < count; first += gridDim.x * whole(kWarpLanes)) {
        const whole q = first + cell;
        A best = identity;
        whole row = GREATEST_WHOLE, chosen = -1;
        const auto take = [&](A value, whole part) {
            const whole other = rows[part * count + q];
            if (chosen < 0 || comes_first<Op>(value, other, best, row))
                best = value, row = other, chosen = part;
        };
#pragma unroll 4
        for (whole part = q < count ? group : parts; part < parts; part += kPartGroups)
            if (rows[part * count + q] != GREATEST_WHOLE) take(from[part * count + q], part);
        held[group][cell] = best;
        held_parts[group][cell] = chosen;
        __syncthreads();
        if (group == 0 && q < count) {
#pragma unroll 1
            for (int g = 1; g < kPartGroups; g++)
                if (held_parts[g][cell] >= 0) take(held[g][cell], held_parts[g][cell]);
            to[q] = best;
            to_rows[q] = row;
            bring(q, chosen);
        }
        __syncthreads();
    }
}

}  // namespace bmrm
