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
// Stacks are an odd number of cache lines apart: their ends would compete for the same places of the
// cache otherwise.
constexpr size_t kStack = (1 << 17) + 64, kPage = 4096, kDynamicBytes = 1 << 18;
constexpr uint64_t kMark = 0x5AFE57ACC0FFEE00;

enum State { READY, AT_WARP, AT_BLOCK, AT_GRID, DONE };
enum Kind { EXCHANGE, ANY, BALLOT, MATCH, MEET, MATRICES, MULTIPLY };

struct Thread {
    void* stack_pointer = nullptr;  // null before it begins
    char* stack = nullptr;
    State state = DONE;
    unsigned mask = 0;
    Kind kind = MEET;
    // What it shows to the other lanes, and what it has shown before: a lane may come to the next meeting
    // before another one has read this one's values, but not to the one after it.
    unsigned char shows[2][kShown];
    int turn = 0;
    uint3 place;
    const void* const* seen = nullptr;  // what the lanes of the mask show: of its first lane
};
using Shown = const void* [kLanes];

struct Block {
    uint3 index;
    Thread* threads;
    Shown* shown;  // of each thread
    int count;
};

inline Thread* pool = nullptr;
inline Shown* pool_shown = nullptr;
inline size_t pool_size = 0;
inline Thread* current = nullptr;
inline int lane = 0;  // of the current thread, in its warp
inline int lanes_of_warp = 0;
inline void* scheduler = nullptr;
inline void (*call)(const void* kernel) = nullptr;
inline const void* kernel_of_call = nullptr;
alignas(128) inline unsigned char dynamic_bytes[kDynamicBytes];

// Makes a thread the current one.
inline void turn_to(Thread& thread) {
    current = &thread;
    threadIdx = thread.place;
}

// Makes the next lane of the warp the current one, if it is ready.
inline bool next_lane() {
    if (lane + 1 >= lanes_of_warp || current[1].state != READY) return false;
    lane++;
    turn_to(current[1]);
    return true;
}

void enter();

// Returns where the current thread goes on; one that begins does so at the end of its stack.
inline void* place_to_go_on() {
    if (!current->stack_pointer) current->stack_pointer = first_stack_pointer(current->stack, kStack, &enter);
    return current->stack_pointer;
}

// Stops the current thread; the next lane runs at once, or else the scheduler.
inline void leave(State state) {
    Thread& self = *current;
    self.state = state;
    emulator_switch(&self.stack_pointer, next_lane() ? place_to_go_on() : scheduler);
}

// Runs the current thread, and after its end those next lanes that begin, which take over its stack.
inline void enter() {
    while (true) {
        call(kernel_of_call);
        Thread& self = *current;
        uint64_t mark;
        memcpy(&mark, self.stack, sizeof mark);
        if (mark != kMark) abort();  // the stack was too small
        self.state = DONE;
        if (!next_lane()) break;
        if (current->stack_pointer) emulator_switch(&self.stack_pointer, current->stack_pointer);
        char* const fresh = current->stack;
        current->stack = self.stack;
        self.stack = fresh;
    }
    emulator_switch(&current->stack_pointer, scheduler);
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

inline void go_on(Thread& thread) {
    turn_to(thread);
    emulator_switch(&scheduler, place_to_go_on());
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
inline bool release(Thread* warp, Shown* shown, int lanes) {
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
            shown[a][b] = in(mask, b) ? warp[b].shows[warp[b].turn] : nullptr;
            if (!in(mask, b)) continue;
            warp[b].seen = shown[a];
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
// Each warp runs as far as it can, so that the stacks of its lanes stay in the cache.
inline bool run_block(const Block& block) {
    blockIdx = block.index;
    while (true) {
        bool at_block = true, at_grid = true;
        for (int first = 0; first < block.count; first += kLanes) {
            Thread* const warp = block.threads + first;
            const int lanes = lanes_of_warp = block.count - first < kLanes ? block.count - first : kLanes;
            do
                for (lane = 0; lane < lanes; lane++)
                    if (warp[lane].state == READY) go_on(warp[lane]);
            while (release(warp, block.shown + first, lanes));
            for (int t = 0; t < lanes; t++) {
                at_block &= warp[t].state == AT_BLOCK || warp[t].state == DONE;
                at_grid &= warp[t].state == AT_GRID || warp[t].state == DONE;
            }
        }
        if (at_grid) return true;
        if (!at_block) return false;
        for (int t = 0; t < block.count; t++)
            if (block.threads[t].state == AT_BLOCK) block.threads[t].state = READY;
    }
}

// Makes room for threads, each of which keeps its stack.
inline void reserve(size_t count) {
    if (count <= pool_size) return;
    pool = static_cast<Thread*>(realloc(static_cast<void*>(pool), count * sizeof(Thread)));
    pool_shown = static_cast<Shown*>(realloc(static_cast<void*>(pool_shown), count * sizeof(Shown)));
    if (!pool || !pool_shown) abort();
    char* stacks = new_stacks(count - pool_size);
    for (; pool_size < count; pool_size++, stacks += kStack) {
        new (pool + pool_size) Thread();
        pool[pool_size].stack = stacks;
        memcpy(stacks, &kMark, sizeof kMark);
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
    for (size_t t = 0; t < resident * count; t++) pool[t].place = place_in(threads, t % count);
    for (size_t first = 0; first < blocks; first += resident) {
        for (size_t t = 0; t < resident * count; t++) {
            pool[t].stack_pointer = nullptr;  // it begins
            pool[t].state = READY;
        }
        for (bool going = true; going;) {
            going = false;
            for (size_t b = 0; b < resident; b++) {
                memset(dynamic_bytes, 0xFF, shared_bytes);
                const Block block = {place_in(grid, first + b), pool + b * count, pool_shown + b * count,
                                     int(count)};
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
