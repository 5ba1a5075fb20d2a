// The threads of a GPU as fibers of one thread of the host: they run one after another, each up to where it
// waits for others.  Lanes of a warp wait for those of their mask, threads of a block for a barrier, and the
// blocks of a cooperative launch for the grid's.  A launch whose threads wait for ever ends with an error.
// It includes little: it is read with every text that is compiled at run time.
#pragma once
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <new>

#include "fibers.h"

struct dim3 {
    unsigned x = 1, y = 1, z = 1;
    dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z) {}
};
struct uint3 {
    unsigned x, y, z;
};
inline uint3 threadIdx, blockIdx;
inline dim3 blockDim, gridDim;

namespace emulator {

constexpr int kLanes = 32, kMaxThreads = 1024, kShown = 24;
constexpr size_t kStack = 1 << 17, kPage = 4096, kDynamicBytes = 1 << 18;
constexpr uint64_t kMark = 0x5AFE57ACC0FFEE00;

enum State { READY, AT_WARP, AT_BLOCK, AT_GRID, DONE };
enum Kind { EXCHANGE, ANY, BALLOT, MATCH, MEET, MATRICES, MULTIPLY };

struct Thread {
    void* stack_pointer = nullptr;
    char* stack = nullptr;
    State state = DONE;
    unsigned mask = 0;
    Kind kind = MEET;
    // What it shows to the other lanes, and what it has shown before: a lane may come to the next meeting
    // before another one has read this one's values, but not to the one after it.
    unsigned char shows[2][kShown];
    int turn = 0;
    const void* const* seen = nullptr;  // what the lanes of the mask show: those of its first lane
    const void* of_lanes[kLanes];
};

struct Block {
    uint3 index;
    Thread* threads;
    int count;
};

inline Thread* pool = nullptr;
inline size_t pool_size = 0;
inline Thread* current = nullptr;
inline int lane = 0;  // of the current thread, in its warp
inline void* scheduler = nullptr;
inline void (*call)(const void* kernel) = nullptr;
inline const void* kernel_of_call = nullptr;
alignas(128) inline unsigned char dynamic_bytes[kDynamicBytes];

inline void leave(State state) {
    Thread& self = *current;
    self.state = state;
    emulator_switch(&self.stack_pointer, scheduler);
}

inline void enter() {
    call(kernel_of_call);
    if (memcmp(current->stack, &kMark, sizeof kMark)) abort();  // the stack was too small
    leave(DONE);
    abort();
}

// Stacks one after another, the first of which ends at a page that nobody may touch; the others end at a
// mark. A page per stack would be a mapping per stack, and the kernel of the system limits these.
inline char* new_stacks(size_t count) {
    const int kind = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
    void* memory = mmap(nullptr, count * kStack + kPage, PROT_READ | PROT_WRITE, kind, -1, 0);
    if (memory == MAP_FAILED || mprotect(memory, kPage, PROT_NONE)) abort();
    return static_cast<char*>(memory) + kPage;
}

inline void prepare(Thread& thread) {
    memcpy(thread.stack, &kMark, sizeof kMark);
    thread.stack_pointer = first_stack_pointer(thread.stack, kStack, &enter);
    thread.state = READY;
}

inline bool in(unsigned mask, int lane) { return mask >> lane & 1; }

// Returns what each lane of the mask shows, once all of them are here.
template <class A>
const void* const* meet(Kind kind, unsigned mask, const A& mine) {
    static_assert(sizeof mine <= kShown, "");
    Thread& self = *current;
    self.kind = kind;
    self.mask = mask;
    self.turn ^= 1;
    memcpy(self.shows[self.turn], &mine, sizeof mine);
    leave(AT_WARP);
    return self.seen;
}

// Lets the lanes of a warp go on that have all that they wait for; returns whether there were some.
inline bool release(Thread* warp, int lanes) {
    bool any = false;
    for (int a = 0; a < lanes; a++) {
        Thread& first = warp[a];
        if (first.state != AT_WARP) continue;
        bool all = in(first.mask, a);
        for (int b = 0; b < kLanes && all; b++)
            if (in(first.mask, b))
                all = b < lanes && warp[b].state == AT_WARP && warp[b].mask == first.mask &&
                      warp[b].kind == first.kind;
        if (!all) continue;
        const unsigned mask = first.mask;
        for (int b = 0; b < lanes; b++) {
            first.of_lanes[b] = in(mask, b) ? warp[b].shows[warp[b].turn] : nullptr;
            if (!in(mask, b)) continue;
            warp[b].seen = first.of_lanes;
            warp[b].state = READY;
        }
        any = true;
    }
    return any;
}

inline uint3 place_in(dim3 size, size_t number) {
    const unsigned place = unsigned(number);
    return {place % size.x, place / size.x % size.y, place / size.x / size.y};
}

// Runs a block until all of its threads have ended or wait for the grid; returns false if some wait for ever.
inline bool run_block(const Block& block) {
    const int count = block.count;
    blockIdx = block.index;
    while (true) {
        bool progress = false;
        for (int t = 0; t < count; t++) {
            Thread& thread = block.threads[t];
            if (thread.state != READY) continue;
            current = &thread;
            lane = t % kLanes;
            threadIdx = place_in(blockDim, size_t(t));
            emulator_switch(&scheduler, thread.stack_pointer);
            progress = true;
        }
        for (int t = 0; t < count; t += kLanes)
            progress |= release(block.threads + t, count - t < kLanes ? count - t : kLanes);
        bool at_block = true, at_grid = true, any = false;
        for (int t = 0; t < count; t++) {
            const State state = block.threads[t].state;
            at_block &= state == AT_BLOCK || state == DONE;
            at_grid &= state == AT_GRID || state == DONE;
            any |= state == AT_BLOCK;
        }
        if (at_grid) return true;
        if (at_block && any) {
            for (int t = 0; t < count; t++)
                if (block.threads[t].state == AT_BLOCK) block.threads[t].state = READY;
            progress = true;
        }
        if (!progress) return false;
    }
}

// Makes room for threads, each of which keeps its stack.
inline void reserve(size_t count) {
    if (count <= pool_size) return;
    pool = static_cast<Thread*>(realloc(static_cast<void*>(pool), count * sizeof(Thread)));
    if (!pool) abort();
    char* stacks = new_stacks(count - pool_size);
    for (; pool_size < count; pool_size++, stacks += kStack) {
        new (pool + pool_size) Thread();
        pool[pool_size].stack = stacks;
    }
}

// Runs a kernel, all blocks at a time if they are together; returns whether it came to its end.  What is in
// shared memory is lost at the grid's barrier; new one holds NaN.
template <class Kernel>
bool run(dim3 grid, dim3 threads, size_t shared_bytes, bool together, const Kernel& kernel) {
    const size_t count = size_t(threads.x) * threads.y * threads.z, blocks = size_t(grid.x) * grid.y * grid.z;
    const size_t resident = together ? blocks : 1;
    reserve(resident * count);
    call = [](const void* kernel) { (*static_cast<const Kernel*>(kernel))(); };
    kernel_of_call = &kernel;
    gridDim = grid;
    blockDim = threads;
    for (size_t first = 0; first < blocks; first += resident) {
        for (size_t t = 0; t < resident * count; t++) prepare(pool[t]);
        for (bool going = true; going;) {
            going = false;
            for (size_t b = 0; b < resident; b++) {
                memset(dynamic_bytes, 0xFF, shared_bytes);
                const Block block = {place_in(grid, first + b), pool + b * count, int(count)};
                if (!run_block(block)) return false;
                for (size_t t = 0; t < count; t++) {
                    if (block.threads[t].state != AT_GRID) continue;
                    block.threads[t].state = READY;
                    going = true;
                }
            }
        }
    }
    return true;
}

// Returns what a lane has shown; nothing if it is not in the mask.
template <class A>
A shown(const void* const* seen, int lane) {
    A out = {};
    if (seen[lane]) memcpy(&out, seen[lane], sizeof out);
    return out;
}

}  // namespace emulator
