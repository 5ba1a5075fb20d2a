// The scheduler of the fibers, and what src_cuda/runtime does on a device.
#include <string>

#include "matrix/handle.h"

asm(R"(
.text
.globl emulator_switch
emulator_switch:
    push %rbx
    push %rbp
    push %r12
    push %r13
    push %r14
    push %r15
    mov %rsp, (%rdi)
    mov %rsi, %rsp
    pop %r15
    pop %r14
    pop %r13
    pop %r12
    pop %rbp
    pop %rbx
    ret
)");

namespace emulator {

namespace {

constexpr size_t kStack = 16384, kSaved = 6;

void prepare(Thread& thread) {
    if (thread.stack.empty()) thread.stack.resize(kStack);
    thread.done = thread.waits = false;
    auto top = reinterpret_cast<uintptr_t>(thread.stack.data() + kStack) / 16 * 16;
    auto* words = reinterpret_cast<void**>(top) - 2;  // so that the stack is aligned as after a call
    *words = reinterpret_cast<void*>(&enter);
    thread.stack_pointer = words - kSaved;
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
