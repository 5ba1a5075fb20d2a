// First half of the binned product: every nonzero times its input, written where the second half reads it.
//
// If neither rows nor columns are close together (graphs), each gather from L2 moves a sector of 32 bytes for
// the 4 that are needed.  So nonzeros are processed by tiles of columns, whose inputs are in shared memory,
// and the products go to regions of the output, each as large as shared memory.  Then the rows of a region
// are summed from there (sliced.cuh, with a matrix of ones).  Both halves read and write whole lines.  This
// is propagation blocking (Beamer, Asanovic, Patterson, IPDPS 2017) with the bins known beforehand: nothing
// is counted or sorted at run time, and sums have a fixed order.
//
// Bytes per nonzero: the value's + 2 + 1 (four share a destination), a product written and read, + 2.
#pragma once
#include "formats/kernels/sliced.cuh"

namespace bmrm {

// Nonzeros in quads: those of a quad belong to one tile and one region.
struct BinnedView {
    const uint32_t* tile_quad;  // first quad of each tile; tiles + 1
    const BlockShare* shares;   // per block, in quads
    const uint32_t* dest;       // per quad: the quad of products that it becomes
    const uint16_t* local;
    const void *values, *dictionary;
    int64_t cols, tile;
};

template <class T>
__device__ __forceinline__ void store_four(T* to, const T (&v)[4]) {
    if constexpr (sizeof(T) == 4) {
        *reinterpret_cast<float4*>(to) = make_float4(v[0], v[1], v[2], v[3]);
    } else {
        *reinterpret_cast<double2*>(to) = make_double2(v[0], v[1]);
        *reinterpret_cast<double2*>(to + 2) = make_double2(v[2], v[3]);
    }
}

template <class T, int CODING>
__global__ void __launch_bounds__(tuning::kBinnedThreads)
    binned_products(const BinnedView view, const T* __restrict__ x, T* __restrict__ products) {
    extern __shared__ __align__(16) unsigned char raw[];
    T* table = reinterpret_cast<T*>(raw);
    T* slice = table + (CODING == BB_DICTIONARY ? 256 : 0);
    if (CODING == BB_DICTIONARY)
        for (int i = int(threadIdx.x); i < 256; i += int(blockDim.x))
            table[i] = static_cast<const T*>(view.dictionary)[i];
    let_next_start();
    using E = Elements<T, CODING, uint16_t, ONCE>;
    constexpr uint32_t FLIGHT = sizeof(T) == 4 ? 4 : 2;
    const uint4 share = __ldg(reinterpret_cast<const uint4*>(view.shares) + blockIdx.x);
    uint32_t begin = share.x;
    const uint32_t end = share.y, first_stop = share.z, first_tile = share.w;
    if (begin >= end) wait_for_previous();
    for (uint32_t tile = first_tile; begin < end; tile++) {
        const uint32_t stop = tile == first_tile ? first_stop : min(end, view.tile_quad[tile + 1]);
        if (stop == begin) continue;
        const int64_t first = int64_t(tile) * view.tile;
        __syncthreads();
        wait_for_previous();
        start_fill(slice, x + first, min(view.tile, view.cols - first), view.tile);
        const E e(view.local, view.values, uint64_t(begin) * 4, uint64_t(begin) * 4, table);
        const uint32_t* to = view.dest + begin;
        const uint32_t count = stop - begin, step = blockDim.x * FLIGHT;
        Quad<uint16_t> index[FLIGHT];
        typename E::Code::Four v[FLIGHT];
        uint32_t dest[FLIGHT];
        const auto fetch = [&](uint32_t q) {
#pragma unroll
            for (uint32_t k = 0; k < FLIGHT; k++)
                if (q + k * blockDim.x < count) {
                    index[k] = e.four_indices((q + k * blockDim.x) * 4);
                    v[k] = e.four_values((q + k * blockDim.x) * 4);
                    dest[k] = load<ONCE>(to + q + k * blockDim.x);
                }
        };
        fetch(threadIdx.x);
        end_fill();
        for (uint32_t q = threadIdx.x; q < count; q += step) {
            T product[FLIGHT][4];
            uint32_t at[FLIGHT];
#pragma unroll
            for (uint32_t k = 0; k < FLIGHT; k++)
                if (q + k * blockDim.x < count) {
                    at[k] = dest[k];
#pragma unroll
                    for (int j = 0; j < 4; j++) product[k][j] = e.value(v[k], j) * slice[index[k][j]];
                }
            if (q + step < count) fetch(q + step);
#pragma unroll
            for (uint32_t k = 0; k < FLIGHT; k++)
                if (q + k * blockDim.x < count) store_four(products + uint64_t(at[k]) * 4, product[k]);
        }
        begin = stop;
    }
}

}  // namespace bmrm
