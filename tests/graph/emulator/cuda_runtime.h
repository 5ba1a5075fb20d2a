// What src_cuda/graph needs of the CUDA runtime, on the CPU: memory of the host, and the threads of a block
// as fibers that run one after another.  A fiber runs up to its next shuffle or barrier.
#pragma once
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <algorithm>
#include <functional>
#include <vector>

#include "fibers.h"

#define __CUDACC__ 1
#define visibility(kind)  // the C interface is exported here
#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __grid_constant__
#define __shared__ static

struct dim3 {
    unsigned x = 1, y = 1, z = 1;
    dim3(unsigned x = 1) : x(x) {}
};
inline dim3 threadIdx, blockIdx, blockDim, gridDim;

using std::max;
using std::min;

typedef int cudaError_t;
typedef void* cudaStream_t;
typedef void* cudaEvent_t;
struct cudaIpcMemHandle_t {
    char reserved[64];
};
struct cudaDeviceProp {
    struct {
        char bytes[16];
    } uuid;
};
typedef void* cudaMemPool_t;
enum {
    cudaSuccess = 0,
    cudaErrorNotReady = 600,
    cudaMemcpyDefault = 4,
    cudaHostAllocPortable = 1,
    cudaHostAllocMapped = 2,
    cudaStreamNonBlocking = 1,
    cudaIpcMemLazyEnablePeerAccess = 1,
    cudaEventDisableTiming = 2
};

inline cudaError_t cudaGetDevice(int* device) { return *device = 0; }
inline cudaError_t cudaSetDevice(int) { return 0; }
inline cudaError_t cudaGetLastError() { return 0; }
inline cudaError_t cudaStreamSynchronize(cudaStream_t) { return 0; }
inline cudaError_t cudaStreamQuery(cudaStream_t) { return 0; }
inline cudaError_t cudaMemsetAsync(void* to, int value, size_t bytes, cudaStream_t) {
    memset(to, value, bytes);
    return 0;
}
inline cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, int, cudaStream_t) {
    memcpy(to, from, bytes);
    return 0;
}
inline cudaError_t cudaHostAlloc(void** to, size_t bytes, unsigned) {
    *to = calloc(1, bytes);
    return 0;
}
inline cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, int) {
    memcpy(to, from, bytes);
    return 0;
}
inline cudaError_t cudaMemset(void* to, int value, size_t bytes) {
    memset(to, value, bytes);
    return 0;
}
inline cudaError_t cudaDeviceSynchronize() { return 0; }
// Memory that another process may open.
cudaError_t cudaMalloc(void** to, size_t bytes);
cudaError_t cudaFree(void* memory);
cudaError_t cudaIpcGetMemHandle(cudaIpcMemHandle_t* handle, void* memory);
cudaError_t cudaIpcOpenMemHandle(void** to, cudaIpcMemHandle_t handle, unsigned);
cudaError_t cudaIpcCloseMemHandle(void* memory);
inline cudaError_t cudaMallocHost(void** to, size_t bytes) { return cudaHostAlloc(to, bytes, 0); }
inline cudaError_t cudaGetDeviceProperties(cudaDeviceProp*, int) { return 0; }
// What is queued runs at once, so that streams and events are mere names.
inline cudaError_t cudaDeviceGetStreamPriorityRange(int* lowest, int* highest) {
    return *lowest = *highest = 0;
}
inline cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned, int) {
    *stream = stream;
    return 0;
}
inline cudaError_t cudaStreamDestroy(cudaStream_t) { return 0; }
inline cudaError_t cudaStreamWaitEvent(cudaStream_t, cudaEvent_t, unsigned) { return 0; }
inline cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) {
    *event = event;
    return 0;
}
inline cudaError_t cudaEventRecord(cudaEvent_t, cudaStream_t) { return 0; }
inline cudaError_t cudaEventDestroy(cudaEvent_t) { return 0; }
inline cudaError_t cudaFreeHost(void* memory) {
    free(memory);
    return 0;
}

namespace emulator {

// The state of a block.  `shuffled` has two generations: a thread may write its next value before another has
// read its last one.
struct Thread {
    void* stack_pointer = nullptr;
    std::vector<char> stack;
    bool done = false, waits = false;
    int generation = 0;
    char shuffled[2][8];
};
inline std::vector<Thread> threads;
inline std::function<void()> body;
inline void* scheduler = nullptr;
inline int current = 0;

inline void leave() { emulator_switch(&threads[current].stack_pointer, scheduler); }

[[noreturn]] inline void enter() {
    body();
    threads[current].done = true;
    leave();
    abort();
}

void run(dim3 blocks, int count, std::function<void()> kernel);

template <class T>
T shuffle(T mine, int from) {
    Thread& self = threads[current];
    const int g = self.generation ^= 1;
    memcpy(self.shuffled[g], &mine, sizeof mine);
    leave();
    T out;
    memcpy(&out, threads[current / 32 * 32 + from].shuffled[g], sizeof out);
    return out;
}

}  // namespace emulator

inline void __syncthreads() {
    emulator::threads[emulator::current].waits = true;
    emulator::leave();
}
template <class T>
T __shfl_xor_sync(unsigned, T mine, int apart) {
    return emulator::shuffle(mine, (emulator::current % 32) ^ apart);
}
template <class T>
T __shfl_sync(unsigned, T mine, int from) {
    return emulator::shuffle(mine, from);
}
template <class T>
T __ldg(const T* at) {
    return *at;
}
inline void __threadfence_system() {}
inline uint32_t atomicAdd(uint32_t* at, uint32_t more) {
    const uint32_t before = *at;
    *at += more;
    return before;
}
inline long long __double_as_longlong(double value) {
    long long out;
    memcpy(&out, &value, 8);
    return out;
}
