// The scheduler of the fibers, and what src_cuda/runtime does on a device.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <map>
#include <string>

#include "matrix/handle.h"

namespace emulator {

namespace {

constexpr size_t kStack = 16384;

void prepare(Thread& thread) {
    if (thread.stack.empty()) thread.stack.resize(kStack);
    thread.done = thread.waits = false;
    thread.stack_pointer = first_stack_pointer(thread.stack.data(), kStack, &enter);
}

}  // namespace

void run(dim3 blocks, int count, std::function<void()> kernel) {
    body = std::move(kernel);
    if (threads.size() < size_t(count)) threads.resize(size_t(count));
    gridDim = blocks;
    blockDim = dim3(unsigned(count));
    for (unsigned b = 0; b < blocks.x; b++) {
        blockIdx = dim3(b);
        for (int t = 0; t < count; t++) prepare(threads[size_t(t)]);
        for (bool any = true; any;) {
            any = false;
            bool all_wait = true;
            for (int t = 0; t < count; t++) {
                Thread& thread = threads[size_t(t)];
                if (!thread.done && !thread.waits) {
                    current = t;
                    threadIdx = dim3(unsigned(t));
                    emulator_switch(&scheduler, thread.stack_pointer);
                }
                any |= !thread.done;
                all_wait &= thread.done || thread.waits;
            }
            if (all_wait)
                for (Thread& thread : threads) thread.waits = false;
        }
    }
}

}  // namespace emulator

namespace {

struct Mapped {
    std::string name;
    size_t bytes;
};
std::map<void*, Mapped> mapped;

cudaError_t map_memory(void** to, const std::string& name, size_t bytes, int flags) {
    const int file = shm_open(name.c_str(), O_RDWR | flags, 0600);
    if (file < 0 || (flags && ftruncate(file, off_t(bytes)))) return 1;
    bytes = size_t(lseek(file, 0, SEEK_END));
    *to = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    close(file);
    mapped[*to] = {name, bytes};
    return 0;
}

}  // namespace

cudaError_t cudaMalloc(void** to, size_t bytes) {
    static int count = 0;
    return map_memory(to, "/emulated-" + std::to_string(getpid()) + "-" + std::to_string(count++), bytes,
                      O_CREAT);
}
cudaError_t cudaFree(void* memory) {
    shm_unlink(mapped[memory].name.c_str());
    return cudaIpcCloseMemHandle(memory);
}
cudaError_t cudaIpcGetMemHandle(cudaIpcMemHandle_t* handle, void* memory) {
    strcpy(handle->reserved, mapped[memory].name.c_str());
    return 0;
}
cudaError_t cudaIpcOpenMemHandle(void** to, cudaIpcMemHandle_t handle, unsigned) {
    return map_memory(to, handle.reserved, 0, 0);
}
cudaError_t cudaIpcCloseMemHandle(void* memory) {
    const size_t bytes = mapped[memory].bytes;
    mapped.erase(memory);
    return munmap(memory, bytes);
}

namespace bmrm {

namespace {
std::string last_failure;
}

void check_cuda(cudaError_t error, const char* call) {
    if (error) throw Failure(BB_CUDA, call);
}
void remember_failure(const char* text) noexcept { last_failure = text; }

Memory::Memory(int device) : device(device) {}
Memory::~Memory() = default;
// What is new holds NaN: it must be written before it is read.
void* Memory::take(int64_t bytes) {
    used_ += bytes;
    void* memory = malloc(size_t(bytes) + 8);
    memset(memory, 0xFF, size_t(bytes) + 8);
    return memory;
}
void Memory::give(void* pointer, int64_t bytes) noexcept {
    used_ -= bytes;
    free(pointer);
}

}  // namespace bmrm

extern "C" {

const char* emulator_failure() { return bmrm::last_failure.c_str(); }
bb_matrix* emulator_matrix(int64_t n, int64_t cols, const int64_t* ptr, const int32_t* idx, const double* val,
                           int32_t type) {
    return new bb_matrix(n, cols, ptr, idx, val, bb_type(type));
}
void emulator_free(bb_matrix* matrix) { delete matrix; }
int64_t emulator_used(bb_matrix* matrix) { return matrix->memory.used(); }
}
