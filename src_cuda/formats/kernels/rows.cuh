// y = A x on plain compressed rows: the two kernels that need no preparation.
//
// subwarp: `LANES` threads per row (Bell, Garland, SC 2009, "CSR vector").  Good for rows of similar length.
//
// split: equal shares of nonzeros, whatever the rows (after Merrill, Garland, SC 2016, but without the merge:
// the rows that end in a share are found beforehand).  The products of a share go to shared memory, and rows
// that end in the share are summed there.  What is left of the row that goes on is carried to the next share
// and added by `carry` in order, so that the sum does not depend on timing.
//
// Bytes per nonzero: the value's + 4, + 8 per row.
#pragma once
#include "formats/kernels/listing.cuh"
#include "formats/kernels/values.cuh"
#include "formats/tuning.h"
#include "runtime/block_sum.cuh"
#include "runtime/chain.cuh"

namespace bmrm {

// early: whether the kernel may begin early.  Each block would have to wait; if there are more blocks than
// run at a time, most would wait for nothing.
template <class T, int CODING, int LANES>
__global__ void __launch_bounds__(tuning::kPlainThreads)
    subwarp(const int64_t* __restrict__ ptr, const uint32_t* __restrict__ col, const void* __restrict__ data,
            const void* __restrict__ dictionary, int64_t rows, const T* __restrict__ x, T* __restrict__ y,
            bool early) {
    const int64_t row = (int64_t(blockIdx.x) * blockDim.x + threadIdx.x) / LANES;
    const int lane = int(threadIdx.x) % LANES;
    T sum[2] = {T(0), T(0)};
    const int64_t begin = row < rows ? ptr[row] : 0, end = row < rows ? ptr[row + 1] : 0;
    if (early) {
        let_next_start();
        wait_for_previous();
    }
    if (row < rows) {
        const Elements<T, CODING, uint32_t, ONCE> e(col, data, uint64_t(begin), uint64_t(begin),
                                                    static_cast<const T*>(dictionary));
        const uint32_t length = uint32_t(end - begin);
        uint32_t i = uint32_t(lane);
        for (; i + LANES < length; i += 2 * LANES) {
            const uint32_t a = e.one_index(i), b = e.one_index(i + LANES);
            const auto u = e.one_value(i), v = e.one_value(i + LANES);
            sum[0] += e.value(u) * load_input(x + a);
            sum[1] += e.value(v) * load_input(x + b);
        }
        if (i < length) sum[0] += e.value(e.one_value(i)) * load_input(x + e.one_index(i));
    }
    T total = sum[0] + sum[1];
#pragma unroll
    for (int apart = LANES / 2; apart; apart /= 2) total += __shfl_xor_sync(0xFFFFFFFFu, total, apart);
    if (row < rows && lane == 0) y[row] = total;
}

constexpr int kSplitEach = tuning::kSplitNonzeros / tuning::kPlainThreads;  // nonzeros per thread

// The first row that a share touches: the row of its first nonzero.
static __global__ void split_rows(const int64_t* __restrict__ ptr, int64_t rows, int64_t nnz, int64_t shares,
                                  int64_t* __restrict__ share_row) {
    const int64_t share = int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
    if (share > shares) return;
    const int64_t target = share * tuning::kSplitNonzeros < nnz ? share * tuning::kSplitNonzeros : nnz;
    share_row[share] = last_begun(ptr, 0, rows, target);
}

// Lists the nonzeros; `row`: of each.
template <class T, int CODING>
__global__ void list_rows(const uint32_t* __restrict__ row, const uint32_t* __restrict__ col,
                          const void* __restrict__ data, const void* __restrict__ dictionary, int64_t nnz,
                          const Listing to) {
    const Elements<T, CODING, uint32_t, ONCE> e(col, data, 0, 0, static_cast<const T*>(dictionary));
    BB_FOR (i, nnz) put_element(to, i, row[i], col[i], e.at(uint64_t(i)));
}

template <class T, int CODING>
__global__ void __launch_bounds__(tuning::kPlainThreads)
    split(const int64_t* __restrict__ ptr, const uint32_t* __restrict__ col, const void* __restrict__ data,
          const void* __restrict__ dictionary, int64_t rows, int64_t nnz,
          const int64_t* __restrict__ share_row, const T* __restrict__ x, T* __restrict__ y,
          T* __restrict__ carried, bool early) {
    __shared__ T products[tuning::kSplitNonzeros];
    const int64_t begin = int64_t(blockIdx.x) * tuning::kSplitNonzeros;
    const Elements<T, CODING, uint32_t, ONCE> e(col, data, uint64_t(begin), uint64_t(begin),
                                                static_cast<const T*>(dictionary));
    const int64_t end = begin + tuning::kSplitNonzeros < nnz ? begin + tuning::kSplitNonzeros : nnz;
    const uint32_t count = uint32_t(end - begin);
    if (early) {
        let_next_start();
        wait_for_previous();
    }
#pragma unroll
    for (uint32_t k = 0; k < kSplitEach; k++) {
        const uint32_t i = k * tuning::kPlainThreads + threadIdx.x;
        if (i < count) products[i] = e.value(e.one_value(i)) * load_input(x + e.one_index(i));
    }
    __syncthreads();
    // Rows first .. last begin before this share ends.  All but the last one end in it.  The last one is
    // carried on, even if it ends exactly with the share.
    const int64_t first = blockIdx.x == 0 ? 0 : share_row[blockIdx.x], last = share_row[blockIdx.x + 1];
    const bool is_end = end == nnz;
    const int64_t stop = is_end ? rows : last;
    const int64_t many = stop - first;
    // Threads per row: as many as keep all threads busy, a power of two up to a warp.
    int lanes = 1;
    while (lanes < 32 && int64_t(lanes) * 2 * many <= tuning::kPlainThreads) lanes *= 2;
    const int group = int(threadIdx.x) / lanes, lane = int(threadIdx.x) % lanes,
              groups = tuning::kPlainThreads / lanes;
    for (int64_t r = first + group; r - group < stop; r += groups) {
        T sum = T(0);
        if (r < stop) {
            const int64_t from = ptr[r] > begin ? ptr[r] : begin, to = ptr[r + 1] < end ? ptr[r + 1] : end;
            for (int64_t i = from + lane; i < to; i += lanes) sum += products[i - begin];
        }
        for (int apart = lanes / 2; apart; apart /= 2) sum += __shfl_xor_sync(0xFFFFFFFFu, sum, apart);
        if (r < stop && lane == 0) y[r] = sum;
    }
    if (is_end) {
        if (threadIdx.x == 0) carried[blockIdx.x] = T(0);
        return;
    }
    __syncthreads();
    T sum = T(0);
    const int64_t from = ptr[last] > begin ? ptr[last] : begin;
    for (int64_t i = from + threadIdx.x; i < end; i += tuning::kPlainThreads) sum += products[i - begin];
    __shared__ T of_warp[tuning::kPlainThreads / 32];
    sum = over_warp<Sum>(sum);
    if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = sum;
    __syncthreads();
    if (threadIdx.x == 0) {
        for (int w = 1; w < tuning::kPlainThreads / 32; w++) sum += of_warp[w];
        carried[blockIdx.x] = sum;
    }
}

// Adds to each row what earlier shares carried to it: the share in which a row ends adds all of its carries.
template <class T>
__global__ void carry(const int64_t* __restrict__ share_row, int64_t shares, const T* __restrict__ carried,
                      T* __restrict__ y) {
    const int64_t share = int64_t(blockIdx.x) * blockDim.x + threadIdx.x + 1;
    let_next_start();
    wait_for_previous();
    if (share >= shares) return;
    const int64_t row = share_row[share];
    // The row at the start of this share ends here, unless it is also the one carried to the next share.
    if (share + 1 < shares && share_row[share + 1] == row) return;
    double sum = 0;
    for (int64_t s = share - 1; s >= 0; s--) {
        sum += double(load_input(carried + s));
        if (share_row[s] < row) break;
    }
    y[row] = T(double(y[row]) + sum);
}

}  // namespace bmrm
