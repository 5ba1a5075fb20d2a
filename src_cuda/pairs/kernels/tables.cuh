// Tables of counts by key: one per block in shared memory, with 32 bits per count, whose sums go to totals of
// 64 bits in global memory before a count can overflow; a table that does not fit is the totals themselves.
//
// JOINT: a count belongs to the keys of two pairs, so that one atomic operation counts both.  On an H100 the
// atomic operations of shared memory are what bounds a kernel with one for each pair.
#pragma once
#include <stdint.h>

#include "runtime/device_memory.h"

namespace bmrm {

struct Totals {
    unsigned long long* at;  // by bin
    uint32_t keys;           // two more than the bins: the first and the last key are in no bin
    bool shared;             // whether a table fits into shared memory
};

template <bool JOINT>
class Table {
  public:
    static constexpr bool kJoint = JOINT;

    __device__ Table(uint32_t* shared, const Totals& totals) : counts_(shared), totals_(totals) { clear(); }

    __host__ __device__ static int64_t size(const Totals& totals) {
        return totals.shared ? JOINT ? int64_t(totals.keys) * totals.keys : totals.keys : 0;
    }

    // Counts COUNT pairs, an even number.
    template <int COUNT>
    __device__ __forceinline__ void add(const uint32_t (&key)[COUNT]) {
        if (JOINT) {
#pragma unroll
            for (int k = 0; k < COUNT; k += 2) atomicAdd(counts_ + (key[k] * totals_.keys + key[k + 1]), 1u);
        } else if (totals_.shared) {
#pragma unroll
            for (int k = 0; k < COUNT; k++) atomicAdd(counts_ + key[k], 1u);
        } else {
#pragma unroll
            for (int k = 0; k < COUNT; k++) add_total(key[k], 1);
        }
    }
    __device__ __forceinline__ void add_one(uint32_t key) {
        if (totals_.shared)
            atomicAdd(counts_ + key, 1u);
        else
            add_total(key, 1);
    }

    // Called by all threads.
    __device__ void flush() {
        if (!totals_.shared) return;
        __syncthreads();
        for (uint32_t key = 1 + threadIdx.x; key + 1 < totals_.keys; key += blockDim.x) {
            unsigned long long sum = 0;
            if (JOINT)
                for (uint32_t other = 0; other < totals_.keys; other++)
                    sum += (unsigned long long)counts_[key * totals_.keys + other] +
                           counts_[other * totals_.keys + key];
            else
                sum = counts_[key];
            if (sum) add_total(key, sum);
        }
        __syncthreads();
        clear();
    }

  private:
    __device__ void clear() {
        for (int64_t k = threadIdx.x; k < size(totals_); k += blockDim.x) counts_[k] = 0;
        __syncthreads();
    }
    __device__ __forceinline__ void add_total(uint32_t key, unsigned long long more) {
        if (key - 1 < totals_.keys - 2) atomicAdd(totals_.at + (key - 1), more);
    }

    uint32_t* counts_;
    Totals totals_;
};

}  // namespace bmrm
