// The threads of a GPU as fibers of one thread of the host: they run one after another, each up to where it
// waits for others.  Lanes of a warp wait for those of their mask, threads of a block for a barrier, and the
// blocks of a cooperative launch for the grid's.  A launch whose threads wait for ever ends with an error.
#pragma once
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <functional>
#include <vector>

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
    std::vector<Thread*> threads;
};

inline std::vector<Thread> pool;
inline Thread* current = nullptr;
inline int lane = 0;  // of the current thread, in its warp
inline void* scheduler = nullptr;
inline const std::function<void()>* body = nullptr;
alignas(128) inline unsigned char dynamic_bytes[kDynamicBytes];

inline void leave(State state) {
    Thread& self = *current;
    self.state = state;
    emulator_switch(&self.stack_pointer, scheduler);
}

inline void enter() {
    (*body)();
    leave(DONE);
    abort();
}

// A stack whose end nobody may touch.
inline char* new_stack() {
    void* memory = mmap(nullptr, kStack, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED || mprotect(memory, kPage, PROT_NONE)) abort();
    return static_cast<char*>(memory);
}

inline void prepare(Thread& thread) {
    if (!thread.stack) thread.stack = new_stack();
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
inline bool release(Thread* const* warp, int lanes) {
    bool any = false;
    for (int a = 0; a < lanes; a++) {
        if (warp[a]->state != AT_WARP) continue;
        const unsigned mask = warp[a]->mask;
        bool all = in(mask, a);
        for (int b = 0; b < kLanes && all; b++)
            if (in(mask, b))
                all = b < lanes && warp[b]->state == AT_WARP && warp[b]->mask == mask && warp[b]->kind == warp[a]->kind;
        if (!all) continue;
        for (int b = 0; b < lanes; b++) {
            warp[a]->of_lanes[b] = in(mask, b) ? warp[b]->shows[warp[b]->turn] : nullptr;
            if (!in(mask, b)) continue;
            warp[b]->seen = warp[a]->of_lanes;
            warp[b]->state = READY;
        }
        any = true;
    }
    return any;
}

// Runs a block until all of its threads have ended or wait for the grid; returns false if some wait for ever.
inline bool run_block(const Block& block) {
    const int count = int(block.threads.size());
    blockIdx = block.index;
    while (true) {
        bool progress = false;
        for (int t = 0; t < count; t++) {
            Thread& thread = *block.threads[size_t(t)];
            if (thread.state != READY) continue;
            current = &thread;
            lane = t % kLanes;
            const unsigned place = unsigned(t);
            threadIdx = {place % blockDim.x, place / blockDim.x % blockDim.y, place / blockDim.x / blockDim.y};
            emulator_switch(&scheduler, thread.stack_pointer);
            progress = true;
        }
        for (int t = 0; t < count; t += kLanes)
            progress |= release(&block.threads[size_t(t)], count - t < kLanes ? count - t : kLanes);
        bool at_block = true, at_grid = true, any = false;
        for (Thread* thread : block.threads) {
            at_block &= thread->state == AT_BLOCK || thread->state == DONE;
            at_grid &= thread->state == AT_GRID || thread->state == DONE;
            any |= thread->state == AT_BLOCK;
        }
        if (at_grid) return true;
        if (at_block && any) {
            for (Thread* thread : block.threads)
                if (thread->state == AT_BLOCK) thread->state = READY;
            progress = true;
        }
        if (!progress) return false;
    }
}

// Runs a kernel, all blocks at a time if they are together; returns whether it came to its end.  What is in
// shared memory is lost at the grid's barrier; new one holds NaN.
inline bool run(dim3 grid, dim3 threads, size_t shared_bytes, bool together, const std::function<void()>& kernel) {
    const size_t count = size_t(threads.x) * threads.y * threads.z, blocks = size_t(grid.x) * grid.y * grid.z;
    const size_t resident = together ? blocks : 1;
    if (pool.size() < resident * count) pool.resize(resident * count);
    std::vector<Block> now(resident);
    for (size_t b = 0; b < resident; b++)
        for (size_t t = 0; t < count; t++) now[b].threads.push_back(&pool[b * count + t]);
    body = &kernel;
    gridDim = grid;
    blockDim = threads;
    for (size_t first = 0; first < blocks; first += resident) {
        for (size_t b = 0; b < resident; b++) {
            const unsigned place = unsigned(first + b);
            now[b].index = {place % grid.x, place / grid.x % grid.y, place / grid.x / grid.y};
            for (Thread* thread : now[b].threads) prepare(*thread);
        }
        for (bool going = true; going;) {
            going = false;
            for (const Block& block : now) {
                memset(dynamic_bytes, 0xFF, shared_bytes);
                if (!run_block(block)) return false;
                for (Thread* thread : block.threads) {
                    if (thread->state != AT_GRID) continue;
                    thread->state = READY;
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
