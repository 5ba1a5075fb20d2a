// Scans and reductions over the threads of a block, in their order.
#pragma once
#include "warps.h"

namespace cub {

template <class T, int THREADS>
class BlockScan {
  public:
    struct TempStorage {
        T of_thread[THREADS], total;
    };
    explicit BlockScan(TempStorage& storage) : storage_(storage) {}

    template <int ITEMS, class Add>
    void ExclusiveScan(T (&in)[ITEMS], T (&out)[ITEMS], T start, Add add, T& total) {
        T sum = in[0];
        for (int k = 1; k < ITEMS; k++) sum = add(sum, in[k]);
        T before = scan(sum, start, add, total);
        for (int k = 0; k < ITEMS; k++) {
            const T now = in[k];
            out[k] = before;
            before = add(before, now);
        }
    }
    template <class Add>
    void ExclusiveScan(T in, T& out, T start, Add add, T& total) {
        out = scan(in, start, add, total);
    }

  private:
    // Returns the sum of the threads before this one; the total leaves the start out, as CUB's does.
    template <class Add>
    T scan(T mine, T start, Add add, T& total) {
        storage_.of_thread[threadIdx.x] = mine;
        __syncthreads();
        if (threadIdx.x == 0) {
            T before = start;
            for (int t = 0; t < THREADS; t++) {
                const T now = storage_.of_thread[t];
                storage_.total = t ? add(storage_.total, now) : now;
                storage_.of_thread[t] = before;
                before = add(before, now);
            }
        }
        __syncthreads();
        total = storage_.total;
        return storage_.of_thread[threadIdx.x];
    }

    TempStorage& storage_;
};

template <class T, int THREADS>
class BlockReduce {
  public:
    struct TempStorage {
        T of_thread[THREADS];
    };
    explicit BlockReduce(TempStorage& storage) : storage_(storage) {}

    // Only thread 0 gets the result.
    template <class Add>
    T Reduce(T mine, Add add) {
        storage_.of_thread[threadIdx.x] = mine;
        __syncthreads();
        if (threadIdx.x) return T{};
        for (int t = 1; t < THREADS; t++) mine = add(mine, storage_.of_thread[t]);
        return mine;
    }

  private:
    TempStorage& storage_;
};

}  // namespace cub
