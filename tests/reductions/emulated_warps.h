// What CUDA text of reductions needs to run on the CPU: the threads of a block are fibers that run one
// after another, and the lanes of a warp wait for one another wherever their mask says so.  Lanes that would
// wait for ever, because they are at different places or some are gone, end the launch with an error.
#pragma once
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "../graph/emulator/fibers.h"

#define __device__
#define __global__
#define __forceinline__ inline
#define __noinline__
#define __launch_bounds__(threads)
#define __shared__ static

struct Place {
    int x;
};
struct uint2 {
    unsigned x, y;
};
struct uint4 {
    unsigned x, y, z, w;
};
static Place threadIdx, blockIdx, blockDim, gridDim;
static double shared[1 << 14];

namespace emulator {

constexpr int kLanes = 32, kMaxThreads = 1024;
constexpr size_t kStack = 1 << 16;
constexpr unsigned kAll = ~0u;

enum State { READY, AT_WARP, AT_BLOCK, DONE };
enum Kind { EXCHANGE, ANY, BALLOT, MATCH, MEET };

struct Thread {
    void* stack_pointer;
    char* stack;
    State state;
    unsigned mask;
    Kind kind;
    long long value;
    const long long* seen;  // values of the lanes of the mask: those of its first lane
    long long of_lanes[kLanes];
};

static Thread threads[kMaxThreads];
static void* scheduler;
static int current;
static void (*body)();

static void leave(State state) {
    threads[current].state = state;
    emulator_switch(&threads[current].stack_pointer, scheduler);
}

static void enter() {
    body();
    leave(DONE);
    abort();
}

// Returns the values of the lanes of the mask once all of them are here.
template <class A>
const long long* meet(Kind kind, unsigned mask, A mine) {
    static_assert(sizeof(A) <= sizeof(long long), "");
    Thread& self = threads[current];
    self.kind = kind;
    self.mask = mask;
    self.value = 0;
    memcpy(&self.value, &mine, sizeof mine);
    leave(AT_WARP);
    return self.seen;
}

template <class A>
A as(long long bits) {
    A out;
    memcpy(&out, &bits, sizeof out);
    return out;
}

inline int lane() { return current % kLanes; }
inline bool in(unsigned mask, int lane) { return mask >> lane & 1; }

// Lets the lanes of a warp go on that have all that they wait for; returns whether there were some.
static bool release(Thread* warp) {
    bool any = false;
    for (int a = 0; a < kLanes; a++) {
        if (warp[a].state != AT_WARP) continue;
        const unsigned mask = warp[a].mask;
        bool all = in(mask, a);
        for (int b = 0; b < kLanes; b++)
            if (in(mask, b))
                all &= warp[b].state == AT_WARP && warp[b].mask == mask && warp[b].kind == warp[a].kind;
        if (!all) continue;
        for (int b = 0; b < kLanes; b++) {
            warp[a].of_lanes[b] = in(mask, b) ? warp[b].value : 0;
            if (!in(mask, b)) continue;
            warp[b].seen = warp[a].of_lanes;
            warp[b].state = READY;
        }
        any = true;
    }
    return any;
}

static bool run_block(int count) {
    memset(shared, 0xFF, sizeof shared);  // NaN: it must be written before it is read
    for (int t = 0; t < count; t++) {
        Thread& thread = threads[t];
        if (!thread.stack) thread.stack = static_cast<char*>(malloc(kStack));
        thread.stack_pointer = first_stack_pointer(thread.stack, kStack, &enter);
        thread.state = READY;
    }
    for (bool all_done = false; !all_done;) {
        bool progress = false;
        for (int t = 0; t < count; t++) {
            if (threads[t].state != READY) continue;
            current = t;
            threadIdx.x = t;
            emulator_switch(&scheduler, threads[t].stack_pointer);
            progress = true;
        }
        for (int t = 0; t < count; t += kLanes) progress |= release(&threads[t]);
        bool all_wait = true;
        all_done = true;
        for (int t = 0; t < count; t++) {
            all_wait &= threads[t].state == AT_BLOCK || threads[t].state == DONE;
            all_done &= threads[t].state == DONE;
        }
        if (all_done) return true;
        if (all_wait)
            for (int t = 0; t < count; t++) {
                if (threads[t].state == DONE) continue;
                threads[t].state = READY;
                progress = true;
            }
        if (!progress) return false;
    }
    return true;
}

// Runs a kernel; returns whether it came to its end.
static bool run(int blocks, int count, void (*kernel)()) {
    body = kernel;
    blockDim.x = count;
    gridDim.x = blocks;
    for (blockIdx.x = 0; blockIdx.x < blocks; blockIdx.x++)
        if (!run_block(count)) return false;
    return true;
}

}  // namespace emulator

template <class A>
A __shfl_xor_sync(unsigned mask, A mine, int apart) {
    return emulator::as<A>(emulator::meet(emulator::EXCHANGE, mask, mine)[emulator::lane() ^ apart]);
}
template <class A>
A __shfl_sync(unsigned mask, A mine, int from) {
    return emulator::as<A>(emulator::meet(emulator::EXCHANGE, mask, mine)[from]);
}
static unsigned bits_of(emulator::Kind kind, unsigned mask, bool test) {
    const long long* seen = emulator::meet(kind, mask, (long long)test);
    unsigned out = 0;
    for (int b = 0; b < emulator::kLanes; b++)
        if (emulator::in(mask, b) && seen[b]) out |= 1u << b;
    return out;
}
inline bool __any_sync(unsigned mask, bool test) { return bits_of(emulator::ANY, mask, test) != 0; }
inline unsigned __ballot_sync(unsigned mask, bool test) { return bits_of(emulator::BALLOT, mask, test); }
inline unsigned __match_any_sync(unsigned mask, unsigned long long value) {
    const long long* seen = emulator::meet(emulator::MATCH, mask, value);
    unsigned out = 0;
    for (int b = 0; b < emulator::kLanes; b++)
        if (emulator::in(mask, b) && seen[b] == (long long)value) out |= 1u << b;
    return out;
}
inline void __syncwarp() { emulator::meet(emulator::MEET, emulator::kAll, 0); }
inline void __syncthreads() { emulator::leave(emulator::AT_BLOCK); }
template <class A>
A __ldg(const A* at) {
    return *at;
}
inline int __popc(unsigned bits) { return __builtin_popcount(bits); }
inline double __longlong_as_double(long long bits) { return emulator::as<double>(bits); }
inline long long __double_as_longlong(double number) {
    long long out;
    memcpy(&out, &number, sizeof out);
    return out;
}
inline void atomicMin(long long* at, long long value) { *at = value < *at ? value : *at; }
