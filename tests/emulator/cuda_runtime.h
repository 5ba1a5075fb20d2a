// CUDA's runtime as far as src_cuda calls it, with main memory as that of the devices.
//
// What is queued in a stream runs when somebody waits for it, as late as it may: a buffer of the host that is
// written again too early, or a result that is read too early, shows.  streams.h has the orders of several
// streams.  Copies from memory that is not pinned take their bytes at once, as CUDA's do, and those to it
// wait.  Memory holds NaN from where its stream allocates it, and once it is freed, for which nothing waits;
// that nobody writes to it then, or after its end, is checked.
//
// What differs from a GPU besides time: kernels run one after another; the halves of a fused multiplication
// and addition round each; a launch never begins before the one before it has ended; shared memory that a
// kernel declares is one for all blocks of a launch; capacities are those of `emulator::device`.  In place of
// what needs the device itself there are rows/kernels/mma.cuh (tensor cores), cub/ and thrust/
// (algorithms), cooperative_groups.h, cuda_pipeline.h, nccl.cpp and blas.cpp.
#pragma once
#include <limits.h>
#include <stddef.h>

#include <algorithm>
#include <functional>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "warps.h"

#define __CUDACC__ 1
#define __CUDA_ARCH_LIST__ 900
#define __align__(bytes) alignas(bytes)

using std::max;
using std::min;

enum cudaError_t {
    cudaSuccess = 0,
    cudaErrorInvalidValue = 1,
    cudaErrorMemoryAllocation = 2,
    cudaErrorInitializationError = 3,
    cudaErrorInvalidConfiguration = 9,
    cudaErrorStubLibrary = 34,
    cudaErrorInsufficientDriver = 35,
    cudaErrorInvalidDeviceFunction = 98,
    cudaErrorNoDevice = 100,
    cudaErrorInvalidDevice = 101,
    cudaErrorNoKernelImageForDevice = 209,
    cudaErrorECCUncorrectable = 214,
    cudaErrorJitCompilerNotFound = 221,
    cudaErrorUnsupportedPtxVersion = 222,
    cudaErrorNotReady = 600,
    cudaErrorIllegalAddress = 700,
    cudaErrorLaunchTimeout = 702,
    cudaErrorAssert = 710,
    cudaErrorHardwareStackError = 714,
    cudaErrorIllegalInstruction = 715,
    cudaErrorMisalignedAddress = 716,
    cudaErrorInvalidAddressSpace = 717,
    cudaErrorInvalidPc = 718,
    cudaErrorLaunchFailure = 719,
    cudaErrorSystemDriverMismatch = 803,
    cudaErrorCompatNotSupportedOnDevice = 804,
    cudaErrorStreamCaptureUnjoined = 904,
    cudaErrorStreamCaptureIsolation = 905
};
enum cudaMemcpyKind {
    cudaMemcpyHostToHost,
    cudaMemcpyHostToDevice,
    cudaMemcpyDeviceToHost,
    cudaMemcpyDeviceToDevice,
    cudaMemcpyDefault
};
enum cudaMemoryType { cudaMemoryTypeUnregistered, cudaMemoryTypeHost, cudaMemoryTypeDevice };
enum {
    cudaHostAllocPortable = 1,
    cudaHostAllocMapped = 2,
    cudaStreamNonBlocking = 1,
    cudaEventDisableTiming = 2,
    cudaIpcMemLazyEnablePeerAccess = 1
};
enum cudaFuncAttribute { cudaFuncAttributeMaxDynamicSharedMemorySize = 8 };
enum cudaStreamCaptureMode { cudaStreamCaptureModeThreadLocal = 1 };
enum cudaMemPoolAttr { cudaMemPoolAttrReleaseThreshold = 4 };
enum cudaMemAllocationType { cudaMemAllocationTypePinned = 1 };
enum cudaMemLocationType { cudaMemLocationTypeDevice = 1 };
enum cudaLaunchAttributeID { cudaLaunchAttributeProgrammaticStreamSerialization = 6 };

namespace emulator {
struct Stream;
struct Pool;
struct Recorded;
}  // namespace emulator
typedef emulator::Stream* cudaStream_t;
typedef struct CUevent_st* cudaEvent_t;
typedef emulator::Pool* cudaMemPool_t;
typedef emulator::Recorded* cudaGraph_t;
typedef emulator::Recorded* cudaGraphExec_t;

struct cudaDeviceProp {
    char name[256];
    struct {
        char bytes[16];
    } uuid;
    int major, minor, multiProcessorCount, l2CacheSize;
    size_t sharedMemPerBlock, sharedMemPerBlockOptin, sharedMemPerMultiprocessor;
};
struct cudaPointerAttributes {
    cudaMemoryType type;
    int device;
};
struct cudaFuncAttributes {
    int maxThreadsPerBlock;
};
struct cudaIpcMemHandle_t {
    char reserved[64];
};
struct cudaMemPoolProps {
    cudaMemAllocationType allocType;
    struct {
        cudaMemLocationType type;
        int id;
    } location;
};
struct cudaLaunchAttribute {
    cudaLaunchAttributeID id;
    struct {
        int programmaticStreamSerializationAllowed;
    } val;
};
struct cudaLaunchConfig_t {
    dim3 gridDim, blockDim;
    size_t dynamicSmemBytes;
    cudaStream_t stream;
    cudaLaunchAttribute* attrs;
    unsigned numAttrs;
};

cudaError_t cudaGetDeviceCount(int* count);
cudaError_t cudaGetDevice(int* device);
cudaError_t cudaSetDevice(int device);
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* out, int device);
cudaError_t cudaMemGetInfo(size_t* free_bytes, size_t* total);
cudaError_t cudaDeviceSynchronize();
cudaError_t cudaGetLastError();
const char* cudaGetErrorString(cudaError_t error);

cudaError_t cudaMalloc(void** to, size_t bytes);  // memory that another process may open
cudaError_t cudaFree(void* memory);
cudaError_t cudaIpcGetMemHandle(cudaIpcMemHandle_t* handle, void* memory);
cudaError_t cudaIpcOpenMemHandle(void** to, cudaIpcMemHandle_t handle, unsigned);
cudaError_t cudaIpcCloseMemHandle(void* memory);
cudaError_t cudaHostAlloc(void** to, size_t bytes, unsigned);
cudaError_t cudaFreeHost(void* memory);
cudaError_t cudaMemPoolCreate(cudaMemPool_t* pool, const cudaMemPoolProps* properties);
cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t, cudaMemPoolAttr, void*);
cudaError_t cudaMemPoolTrimTo(cudaMemPool_t, size_t);
cudaError_t cudaMemPoolDestroy(cudaMemPool_t pool);
cudaError_t cudaMallocFromPoolAsync(void** to, size_t bytes, cudaMemPool_t pool, cudaStream_t);
cudaError_t cudaFreeAsync(void* memory, cudaStream_t stream);
cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* out, const void* memory);
cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind);
cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind, cudaStream_t stream);
cudaError_t cudaMemcpy2D(void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t width,
                         size_t height, cudaMemcpyKind);
cudaError_t cudaMemcpy2DAsync(void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t width,
                              size_t height, cudaMemcpyKind, cudaStream_t stream);
cudaError_t cudaMemset(void* to, int value, size_t bytes);
cudaError_t cudaMemsetAsync(void* to, int value, size_t bytes, cudaStream_t stream);

cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned, int);
cudaError_t cudaStreamDestroy(cudaStream_t stream);
cudaError_t cudaStreamSynchronize(cudaStream_t stream);
cudaError_t cudaStreamQuery(cudaStream_t stream);
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned = 0);
cudaError_t cudaLaunchHostFunc(cudaStream_t stream, void (*work)(void*), void* given);
cudaError_t cudaDeviceGetStreamPriorityRange(int* lowest, int* highest);
cudaError_t cudaEventCreate(cudaEvent_t* event);
cudaError_t cudaEventDestroy(cudaEvent_t event);
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream);
cudaError_t cudaEventSynchronize(cudaEvent_t event);
cudaError_t cudaEventQuery(cudaEvent_t event);
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t first, cudaEvent_t last);

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode);
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph);
cudaError_t cudaGraphInstantiate(cudaGraphExec_t* to, cudaGraph_t graph, unsigned long long);
cudaError_t cudaGraphLaunch(cudaGraphExec_t graph, cudaStream_t stream);
cudaError_t cudaGraphDestroy(cudaGraph_t graph);
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t graph);

inline cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
    return cudaStreamCreateWithPriority(stream, flags, 0);
}
inline cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) { return cudaEventCreate(event); }
inline cudaError_t cudaMallocHost(void** to, size_t bytes) { return cudaHostAlloc(to, bytes, 0); }
template <class T>
cudaError_t cudaMallocHost(T** to, size_t bytes) {
    return cudaHostAlloc(reinterpret_cast<void**>(to), bytes, 0);
}

namespace emulator {

// Queues a kernel.
cudaError_t launch(dim3 grid, dim3 threads, size_t shared_bytes, cudaStream_t stream, bool together,
                   std::function<void()> body);

// Returns a copy of the arguments that lives as long as the result, bound to the kernel.
using Bind = std::function<void()> (*)(const void* kernel, void* const* arguments);
void remember(const void* kernel, Bind bind);

template <class... Parameters, size_t... K>
std::function<void()> bind_values(void (*kernel)(Parameters...), void* const* arguments,
                                  std::index_sequence<K...>) {
    return [kernel, values = std::tuple<std::remove_const_t<Parameters>...>(
                        *static_cast<std::remove_const_t<Parameters>*>(arguments[K])...)] {
        std::apply(kernel, values);
    };
}
template <class... Parameters>
std::function<void()> bind_kernel(const void* kernel, void* const* arguments) {
    return bind_values(reinterpret_cast<void (*)(Parameters...)>(const_cast<void*>(kernel)), arguments,
                       std::index_sequence_for<Parameters...>());
}

// An address without its type; of a kernel, how to call it is remembered.
template <class... Parameters>
const void* erased(void (*kernel)(Parameters...)) {
    const void* out = reinterpret_cast<const void*>(kernel);
    remember(out, &bind_kernel<Parameters...>);
    return out;
}
inline const void* erased(const void* address) { return address; }

// What a launch with three angle brackets becomes (building/emulated.py): Launch(...).of(body)(arguments).
class Launch {
  public:
    Launch(dim3 grid, dim3 threads, size_t shared_bytes = 0, cudaStream_t stream = nullptr)
        : grid_(grid), threads_(threads), shared_bytes_(shared_bytes), stream_(stream) {}
    template <class Body>
    auto of(const Body& body) const {
        return [this_ = *this, body](auto... arguments) {
            launch(this_.grid_, this_.threads_, this_.shared_bytes_, this_.stream_, false,
                   [=] { body(arguments...); });
        };
    }

  private:
    dim3 grid_, threads_;
    size_t shared_bytes_;
    cudaStream_t stream_;
};

template <class T>
T* dynamic_shared() {
    return reinterpret_cast<T*>(dynamic_bytes);
}

}  // namespace emulator

template <class... Parameters, class... Arguments>
cudaError_t cudaLaunchKernelEx(const cudaLaunchConfig_t* config, void (*kernel)(Parameters...),
                               Arguments... arguments) {
    return emulator::launch(config->gridDim, config->blockDim, config->dynamicSmemBytes, config->stream,
                            false, [=] { kernel(Parameters(arguments)...); });
}
cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t* config, const void* kernel, void** arguments);
cudaError_t cudaLaunchKernel(const void* kernel, dim3 grid, dim3 threads, void** arguments,
                             size_t shared_bytes, cudaStream_t stream);
cudaError_t cudaLaunchCooperativeKernel(const void* kernel, dim3 grid, dim3 threads, void** arguments,
                                        size_t shared_bytes, cudaStream_t stream);
cudaError_t emulated_attribute(int value);
template <class Kernel>
cudaError_t cudaFuncSetAttribute(Kernel, cudaFuncAttribute, int value) {
    return emulated_attribute(value);
}
template <class Kernel>
cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* out, Kernel) {
    *out = {emulator::kMaxThreads};
    return cudaSuccess;
}
template <class Kernel>
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, Kernel, int, size_t) {
    *blocks = 2;
    return cudaSuccess;
}
