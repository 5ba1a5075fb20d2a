// The devices, their memory, streams, events and graphs.
#include <cuda_runtime.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>

#include "streams.h"

namespace emulator {

struct Pool {
    int device;
};

namespace {

constexpr size_t kGuard = 64;  // bytes after an allocation that nobody may write
constexpr unsigned char kNew = 0xFF;
constexpr size_t kKept = 16 << 20;  // bytes of freed memory that is looked at again before it is used again

struct Piece {
    size_t bytes;
    cudaMemoryType type;
    int device;
    std::string name;  // of memory that other processes may open
};

struct Device {
    int count = 1, major = 9, minor = 0, multiprocessors = 3;
    int64_t bytes = int64_t(1) << 27;
    int shared = 227 << 10;  // bytes of a block at most
};

struct World {
    std::recursive_mutex lock;
    Device device;
    std::map<const unsigned char*, Piece> pieces;
    std::unordered_map<const void*, Bind> kernels;
    Streams streams;
    std::deque<std::pair<unsigned char*, size_t>> freed;  // and the bytes of each, with those after it
    size_t kept = 0;
    int64_t used = 0;
    cudaError_t failure = cudaSuccess;  // stays
};
// Never destroyed: Python may free arrays when the process ends.
World& world() {
    static World* const made = new World;
    return *made;
}
thread_local int current_device = 0;
thread_local cudaError_t last_error = cudaSuccess;

using Hold = std::lock_guard<std::recursive_mutex>;

cudaError_t told(cudaError_t error) {
    if (error && error != cudaErrorNotReady) last_error = error;
    return error;
}

cudaError_t queue(Stream* stream, Work work) {
    const Hold hold(world().lock);
    world().streams.add(world().streams.found(stream), std::move(work));
    return told(world().failure);
}

// The allocation that an address lies in, or null.
Piece* piece_of(const void* address) {
    auto& pieces = world().pieces;
    auto after = pieces.upper_bound(static_cast<const unsigned char*>(address));
    if (after == pieces.begin()) return nullptr;
    --after;
    return static_cast<const unsigned char*>(address) <
                   after->first + std::max<size_t>(after->second.bytes, 1)
               ? &after->second
               : nullptr;
}

cudaError_t allocate(void** to, size_t bytes, cudaMemoryType type, int device) {
    const Hold hold(world().lock);
    if (type == cudaMemoryTypeDevice) {
        if (world().used + int64_t(bytes) > world().device.bytes) return told(cudaErrorMemoryAllocation);
        world().used += int64_t(bytes);
    }
    void* memory = nullptr;
    if (posix_memalign(&memory, 256, bytes + kGuard)) return told(cudaErrorMemoryAllocation);
    memset(memory, type == cudaMemoryTypeDevice ? kNew : 0, bytes);
    memset(static_cast<char*>(memory) + bytes, kNew, kGuard);
    world().pieces[static_cast<unsigned char*>(memory)] = {bytes, type, device, {}};
    *to = memory;
    return cudaSuccess;
}

void forget_freed() {
    const auto [memory, bytes] = world().freed.front();
    world().freed.pop_front();
    world().kept -= bytes;
    for (size_t k = 0; k < bytes; k++)
        if (memory[k] != kNew) stop("something was written to memory after it was freed");
    free(memory);
}

// Frees memory at once, whoever may still use it.
void release(void* memory) {
    const Hold hold(world().lock);
    if (!memory) return;
    const auto at = world().pieces.find(static_cast<unsigned char*>(memory));
    if (at == world().pieces.end()) stop("what is freed was not allocated");
    for (size_t k = 0; k < kGuard; k++)
        if (at->first[at->second.bytes + k] != kNew)
            stop("something was written after the end of " + std::to_string(at->second.bytes) + " bytes");
    if (at->second.type == cudaMemoryTypeDevice) world().used -= int64_t(at->second.bytes);
    const size_t bytes = at->second.bytes + kGuard;
    world().pieces.erase(at);
    memset(memory, kNew, bytes);
    world().freed.push_back({static_cast<unsigned char*>(memory), bytes});
    world().kept += bytes;
    while (world().kept > kKept) forget_freed();
}

cudaError_t map_memory(void** to, const std::string& name, size_t bytes, int flags) {
    const int file = shm_open(name.c_str(), O_RDWR | flags, 0600);
    if (file < 0 || (flags && ftruncate(file, off_t(bytes)))) return told(cudaErrorMemoryAllocation);
    bytes = size_t(lseek(file, 0, SEEK_END));
    *to = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    close(file);
    world().pieces[static_cast<unsigned char*>(*to)] = {bytes, cudaMemoryTypeDevice, current_device, name};
    return cudaSuccess;
}

bool on_host(const Piece* piece) { return !piece || piece->type != cudaMemoryTypeDevice; }

struct Copy {
    unsigned char* to;
    size_t to_pitch;
    const unsigned char* from;
    size_t from_pitch, width, height;

    void run() const {
        for (size_t k = 0; k < height; k++) memcpy(to + k * to_pitch, from + k * from_pitch, width);
    }
};

cudaError_t copy(Copy copy, Stream* stream, bool waits) {
    const Hold hold(world().lock);
    if (!copy.width || !copy.height) return told(world().failure);
    stream = world().streams.found(stream);
    const Piece *to = piece_of(copy.to), *from = piece_of(copy.from);
    if (!from && !stream->capture) {  // the bytes are those of now
        auto bytes = std::make_shared<std::vector<unsigned char>>(copy.width * copy.height);
        Copy{bytes->data(), copy.width, copy.from, copy.from_pitch, copy.width, copy.height}.run();
        copy.from = bytes->data();
        copy.from_pitch = copy.width;
        queue(stream, [copy, bytes] { copy.run(); });
    } else {
        queue(stream, [copy] { copy.run(); });
    }
    if ((waits || !to) && !stream->capture) world().streams.drain(stream);
    return told(world().failure);
}

}  // namespace

void remember(const void* kernel, Bind bind) {
    const Hold hold(world().lock);
    world().kernels[kernel] = bind;
}

cudaError_t launch(dim3 grid, dim3 threads, size_t shared_bytes, Stream* stream, bool together, Work body) {
    const unsigned count = threads.x * threads.y * threads.z;
    if (!grid.x || !grid.y || !grid.z || !count || count > kMaxThreads || grid.y > 65535 || grid.z > 65535 ||
        grid.x > INT_MAX || shared_bytes > kDynamicBytes)
        return told(cudaErrorInvalidConfiguration);
    return queue(stream, [=] {
        if (!run(grid, threads, shared_bytes, together, body)) world().failure = cudaErrorLaunchFailure;
    });
}

namespace {

cudaError_t launch_bound(const void* kernel, dim3 grid, dim3 threads, void** arguments, size_t shared_bytes,
                         Stream* stream, bool together) {
    const Hold hold(world().lock);
    const auto at = world().kernels.find(kernel);
    if (at == world().kernels.end()) return told(cudaErrorInvalidDeviceFunction);
    return launch(grid, threads, shared_bytes, stream, together, at->second(kernel, arguments));
}

}  // namespace

}  // namespace emulator

using namespace emulator;

struct CUevent_st {
    Event event;
};

cudaError_t cudaGetDeviceCount(int* count) {
    *count = world().device.count;
    return told(*count ? cudaSuccess : cudaErrorNoDevice);
}
cudaError_t cudaGetDevice(int* device) {
    *device = current_device;
    return cudaSuccess;
}
cudaError_t cudaSetDevice(int device) {
    if (device < 0 || device >= world().device.count) return told(cudaErrorInvalidDevice);
    current_device = device;
    return cudaSuccess;
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* out, int device) {
    if (device < 0 || device >= world().device.count) return told(cudaErrorInvalidDevice);
    *out = {};
    strcpy(out->name, "emulated");
    snprintf(out->uuid.bytes, sizeof out->uuid.bytes, "emulated %d", device);
    out->major = world().device.major;
    out->minor = world().device.minor;
    out->multiProcessorCount = world().device.multiprocessors;
    out->l2CacheSize = 1 << 20;
    out->sharedMemPerBlock = 48 << 10;
    out->sharedMemPerBlockOptin = size_t(world().device.shared);
    out->sharedMemPerMultiprocessor = out->sharedMemPerBlockOptin + 1024;
    return cudaSuccess;
}
cudaError_t cudaMemGetInfo(size_t* free_bytes, size_t* total) {
    const Hold hold(world().lock);
    *total = size_t(world().device.bytes);
    *free_bytes = *total - size_t(world().used);
    return cudaSuccess;
}
cudaError_t cudaDeviceSynchronize() {
    const Hold hold(world().lock);
    world().streams.drain_all();
    return told(world().failure);
}
cudaError_t cudaGetLastError() { return std::exchange(last_error, world().failure); }
const char* cudaGetErrorString(cudaError_t error) {
    switch (error) {
        case cudaSuccess:
            return "no error";
        case cudaErrorMemoryAllocation:
            return "out of memory";
        case cudaErrorInvalidConfiguration:
            return "invalid configuration argument";
        case cudaErrorNoDevice:
            return "no CUDA-capable device is detected";
        case cudaErrorInvalidDevice:
            return "invalid device ordinal";
        case cudaErrorLaunchFailure:
            return "threads of a kernel wait for others that never come";
        default:
            return "an error of the emulated device";
    }
}

cudaError_t cudaMalloc(void** to, size_t bytes) {
    static int count = 0;
    const Hold hold(world().lock);
    return map_memory(to, "/emulated-" + std::to_string(getpid()) + "-" + std::to_string(count++), bytes,
                      O_CREAT);
}
cudaError_t cudaFree(void* memory) {
    const Hold hold(world().lock);
    if (!memory) return cudaSuccess;
    cudaDeviceSynchronize();
    shm_unlink(piece_of(memory)->name.c_str());
    return cudaIpcCloseMemHandle(memory);
}
cudaError_t cudaIpcGetMemHandle(cudaIpcMemHandle_t* handle, void* memory) {
    const Hold hold(world().lock);
    strcpy(handle->reserved, piece_of(memory)->name.c_str());
    return cudaSuccess;
}
cudaError_t cudaIpcOpenMemHandle(void** to, cudaIpcMemHandle_t handle, unsigned) {
    const Hold hold(world().lock);
    return map_memory(to, handle.reserved, 0, 0);
}
cudaError_t cudaIpcCloseMemHandle(void* memory) {
    const Hold hold(world().lock);
    const size_t bytes = piece_of(memory)->bytes;
    world().pieces.erase(static_cast<unsigned char*>(memory));
    munmap(memory, bytes);
    return cudaSuccess;
}
cudaError_t cudaHostAlloc(void** to, size_t bytes, unsigned) {
    return allocate(to, bytes, cudaMemoryTypeHost, current_device);
}
cudaError_t cudaFreeHost(void* memory) {
    release(memory);
    return cudaSuccess;
}
cudaError_t cudaMemPoolCreate(cudaMemPool_t* pool, const cudaMemPoolProps* properties) {
    *pool = new Pool{properties->location.id};
    return cudaSuccess;
}
cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t, cudaMemPoolAttr, void*) { return cudaSuccess; }
cudaError_t cudaMemPoolTrimTo(cudaMemPool_t, size_t) { return cudaSuccess; }
cudaError_t cudaMemPoolDestroy(cudaMemPool_t pool) {
    delete pool;
    return cudaSuccess;
}
cudaError_t cudaMallocFromPoolAsync(void** to, size_t bytes, cudaMemPool_t pool, cudaStream_t stream) {
    const Hold hold(world().lock);
    if (const cudaError_t error = allocate(to, bytes, cudaMemoryTypeDevice, pool->device)) return error;
    if (Recorded* graph = world().streams.found(stream)->capture) {
        graph->memory.push_back(std::shared_ptr<void>(*to, [](void* memory) { release(memory); }));
        graph->allocated++;
    }
    return cudaMemsetAsync(*to, kNew, bytes, stream);
}
cudaError_t cudaFreeAsync(void* memory, cudaStream_t stream) {
    const Hold hold(world().lock);
    Recorded* const graph = memory ? world().streams.found(stream)->capture : nullptr;
    if (!graph) return queue(stream, [memory] { release(memory); });
    bool own = false;
    for (const auto& each : graph->memory) own |= each.get() == memory;
    if (!own) stop("a graph frees memory that it did not allocate");
    graph->freed++;
    return cudaMemsetAsync(memory, kNew, piece_of(memory)->bytes, stream);
}
cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* out, const void* memory) {
    const Hold hold(world().lock);
    const Piece* piece = piece_of(memory);
    *out = {cudaMemoryTypeUnregistered, 0};
    if (piece) *out = {piece->type, piece->device};
    return cudaSuccess;
}
cudaError_t cudaMemcpy2DAsync(void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t width,
                              size_t height, cudaMemcpyKind, cudaStream_t stream) {
    const Copy one = {static_cast<unsigned char*>(to),
                      to_pitch,
                      static_cast<const unsigned char*>(from),
                      from_pitch,
                      width,
                      height};
    return copy(one, stream, false);
}
cudaError_t cudaMemcpy2D(void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t width,
                         size_t height, cudaMemcpyKind kind) {
    cudaMemcpy2DAsync(to, to_pitch, from, from_pitch, width, height, kind, nullptr);
    return cudaStreamSynchronize(nullptr);
}
cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream) {
    return cudaMemcpy2DAsync(to, bytes, from, bytes, bytes, 1, kind, stream);
}
cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind) {
    return cudaMemcpy2D(to, bytes, from, bytes, bytes, 1, kind);
}
cudaError_t cudaMemsetAsync(void* to, int value, size_t bytes, cudaStream_t stream) {
    return queue(stream, [=] { memset(to, value, bytes); });
}
cudaError_t cudaMemset(void* to, int value, size_t bytes) {
    return cudaMemsetAsync(to, value, bytes, nullptr);
}

cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned, int) {
    const Hold hold(world().lock);
    *stream = world().streams.create();
    return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
    const Hold hold(world().lock);
    world().streams.destroy(stream);
    return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
    const Hold hold(world().lock);
    world().streams.drain(world().streams.found(stream));
    return told(world().failure);
}
cudaError_t cudaStreamQuery(cudaStream_t stream) {
    const Hold hold(world().lock);
    stream = world().streams.found(stream);
    world().streams.run_one(stream);
    return told(world().failure ? world().failure : stream->queue.empty() ? cudaSuccess : cudaErrorNotReady);
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
    const Hold hold(world().lock);
    const bool may = world().streams.await(world().streams.found(stream), event->event);
    return told(may ? world().failure : cudaErrorStreamCaptureIsolation);
}
cudaError_t cudaLaunchHostFunc(cudaStream_t stream, void (*work)(void*), void* given) {
    return queue(stream, [=] { work(given); });
}
cudaError_t cudaDeviceGetStreamPriorityRange(int* lowest, int* highest) {
    *lowest = *highest = 0;
    return cudaSuccess;
}
cudaError_t cudaEventCreate(cudaEvent_t* event) {
    *event = new CUevent_st;
    return cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
    delete event;
    return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
    const Hold hold(world().lock);
    event->event = world().streams.record(world().streams.found(stream));
    return told(world().failure);
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
    const Hold hold(world().lock);
    world().streams.finish(event->event);
    return told(world().failure);
}
cudaError_t cudaEventQuery(cudaEvent_t event) {
    const Hold hold(world().lock);
    const bool left = event->event && !event->event->over;
    if (left) world().streams.run_one(event->event->stream);
    return told(world().failure               ? world().failure
                : left && !event->event->over ? cudaErrorNotReady
                                              : cudaSuccess);
}
// Between two events a millisecond passes, whatever runs, so that choices by time are always the same.
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t first, cudaEvent_t last) {
    *milliseconds = float(1e3 * (last->event->seconds - first->event->seconds));
    return cudaSuccess;
}

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode) {
    const Hold hold(world().lock);
    world().streams.begin_capture(world().streams.found(stream));
    return cudaSuccess;
}
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
    const Hold hold(world().lock);
    *graph = world().streams.end_capture(stream);
    return told(*graph ? cudaSuccess : cudaErrorStreamCaptureUnjoined);
}
cudaError_t cudaGraphInstantiate(cudaGraphExec_t* to, cudaGraph_t graph, unsigned long long) {
    const Hold hold(world().lock);
    *to = world().streams.instantiate(*graph);
    return cudaSuccess;
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t graph, cudaStream_t stream) {
    const Hold hold(world().lock);
    world().streams.launch(*graph, world().streams.found(stream));
    return told(world().failure);
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
    const Hold hold(world().lock);
    world().streams.destroy(graph);
    return cudaSuccess;
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t graph) { return cudaGraphDestroy(graph); }

cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t* config, const void* kernel, void** arguments) {
    return launch_bound(kernel, config->gridDim, config->blockDim, arguments, config->dynamicSmemBytes,
                        config->stream, false);
}
cudaError_t cudaLaunchKernel(const void* kernel, dim3 grid, dim3 threads, void** arguments,
                             size_t shared_bytes, cudaStream_t stream) {
    return launch_bound(kernel, grid, threads, arguments, shared_bytes, stream, false);
}
cudaError_t cudaLaunchCooperativeKernel(const void* kernel, dim3 grid, dim3 threads, void** arguments,
                                        size_t shared_bytes, cudaStream_t stream) {
    return launch_bound(kernel, grid, threads, arguments, shared_bytes, stream, true);
}
cudaError_t emulated_attribute(int value) {
    cudaDeviceProp device;
    cudaGetDeviceProperties(&device, current_device);
    return told(size_t(value) <= device.sharedMemPerBlockOptin ? cudaSuccess : cudaErrorInvalidValue);
}

// For tests: what the devices are from now on, and memory of another library.
#pragma GCC visibility push(default)
extern "C" {

void emulator_configure(int count, int major, int minor, int multiprocessors, int64_t bytes, int shared) {
    const Hold hold(world().lock);
    world().device = {count, major, minor, multiprocessors, bytes, shared};
    current_device = 0;  // one that an earlier test chose may be gone
    last_error = cudaSuccess;
}
void* emulator_allocate(int64_t bytes) {
    void* memory = nullptr;
    return allocate(&memory, size_t(bytes), cudaMemoryTypeDevice, 0) ? nullptr : memory;
}
void emulator_free(void* memory) {
    cudaDeviceSynchronize();
    release(memory);
}
int64_t emulator_used() { return world().used; }
void emulator_run_ahead(int ahead) { world().streams.ahead = ahead != 0; }
}
