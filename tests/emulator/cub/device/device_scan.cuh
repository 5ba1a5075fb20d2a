// Algorithms over arrays of the device.  Without scratch memory they only say how much they want.
#pragma once
#include <cuda_runtime.h>

#include <algorithm>
#include <numeric>
#include <vector>

namespace cuda {

template <class T = void>
struct maximum {
    template <class A>
    A operator()(const A& x, const A& y) const {
        return std::max(x, y);
    }
};

}  // namespace cuda

namespace cub {

// Queues the work of an algorithm as one of a single thread.
template <class Work>
cudaError_t emulated(void* scratch, size_t& bytes, cudaStream_t stream, const Work& work) {
    if (scratch) return emulator::launch(1, 1, 0, stream, false, work);
    bytes = 1;
    return cudaSuccess;
}

struct DeviceScan {
    template <class In, class Out, class Add>
    static cudaError_t InclusiveScan(void* scratch, size_t& bytes, In in, Out out, Add add, int64_t n,
                                     cudaStream_t stream) {
        return emulated(scratch, bytes, stream, [=] { std::partial_sum(in, in + n, out, add); });
    }
    template <class In, class Out>
    static cudaError_t InclusiveSum(void* scratch, size_t& bytes, In in, Out out, int64_t n,
                                    cudaStream_t stream) {
        return InclusiveScan(scratch, bytes, in, out, std::plus<>(), n, stream);
    }
};

struct DeviceSelect {
    template <class In, class Flags, class Out, class Count>
    static cudaError_t Flagged(void* scratch, size_t& bytes, In in, Flags flags, Out out, Count* count,
                               int64_t n, cudaStream_t stream) {
        return emulated(scratch, bytes, stream, [=] {
            int64_t found = 0;
            for (int64_t i = 0; i < n; i++)
                if (flags[i]) out[found++] = in[i];
            *count = Count(found);
        });
    }
};

struct DeviceRunLengthEncode {
    template <class In, class Out, class Lengths, class Count>
    static cudaError_t Encode(void* scratch, size_t& bytes, In in, Out out, Lengths lengths, Count* count,
                              int64_t n, cudaStream_t stream) {
        return emulated(scratch, bytes, stream, [=] {
            int64_t found = 0;
            for (int64_t i = 0; i < n; i++) {
                if (i == 0 || in[i] != in[i - 1]) {
                    out[found] = in[i];
                    lengths[found++] = 0;
                }
                lengths[found - 1]++;
            }
            *count = Count(found);
        });
    }
};

template <class T>
struct DoubleBuffer {
    T* d_buffers[2];
    int selector = 0;
    DoubleBuffer(T* current, T* other) : d_buffers{current, other} {}
    T* Current() const { return d_buffers[selector]; }
};

struct DeviceRadixSort {
    template <class Key>
    static cudaError_t SortKeys(void* scratch, size_t& bytes, DoubleBuffer<Key>& keys, int64_t n, int begin,
                                int end, cudaStream_t stream) {
        DoubleBuffer<Key> values = keys;  // which are sorted with themselves
        return SortPairs(scratch, bytes, keys, values, n, begin, end, stream);
    }
    template <class Key, class Value>
    static cudaError_t SortPairs(void* scratch, size_t& bytes, DoubleBuffer<Key>& keys,
                                 DoubleBuffer<Value>& values, int64_t n, int begin, int end,
                                 cudaStream_t stream) {
        Key *in = keys.d_buffers[keys.selector], *out = keys.d_buffers[!keys.selector];
        Value *from = values.d_buffers[values.selector], *to = values.d_buffers[!values.selector];
        if (scratch) {
            keys.selector ^= 1;
            values.selector ^= 1;
        }
        return emulated(scratch, bytes, stream, [=] {
            const auto digits = [=](Key key) {
                return (uint64_t(key) >> begin) &
                       (end - begin >= 64 ? ~uint64_t(0) : (uint64_t(1) << (end - begin)) - 1);
            };
            std::vector<int64_t> order;
            for (int64_t i = 0; i < n; i++) order.push_back(i);
            std::stable_sort(order.begin(), order.end(),
                             [&](int64_t a, int64_t b) { return digits(in[a]) < digits(in[b]); });
            for (int64_t i = 0; i < n; i++) {
                out[i] = in[order[size_t(i)]];
                to[i] = from[order[size_t(i)]];
            }
        });
    }
};

}  // namespace cub
