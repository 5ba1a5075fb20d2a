// The order in which the threads of a slice of the paired form (paired.cuh) take its nonzeros.
//
// In every step each thread of a warp reads a number of shared memory, whose banks serve an address each at a
// time: threads that want different addresses of one bank wait for each other.  Any thread of a chunk may
// take any of its nonzeros at any step, so they are dealt out step by step, to each thread one that the
// fewest before it are in the way of.  In the order of rows and columns a step takes two to three turns,
// dealt out one to two.
#pragma once
#include "fused/paired_layout.h"

namespace bmrm {

// The nonzeros of a chunk: so many from `first` on, in the order of the matrix.
struct ChunkEntries {
    int64_t first;
    uint32_t count;
};

// By a thread, for a slice whose threads have the destinations `dest`.  `entries_of` tells a chunk's
// nonzeros, `address_of` where the number that one wants lies, counted in numbers of type T; `put` gets every
// nonzero's chunk, the nonzero, and its place among the chunk's.
template <class T, class Entries, class Address, class Put>
__device__ void deal_out(const uint16_t* dest, Entries&& entries_of, Address&& address_of, Put&& put) {
    constexpr uint32_t BANKS = 128 / sizeof(T);  // as many threads are served together
    constexpr uint32_t MOST = ~0u;
    uint32_t left[32] = {};  // of a chunk's nonzeros, 32 for each of its threads
    uint32_t steps = 0;
    const auto number = [&](uint32_t lane) { return uint32_t(dest[lane]) & ((1u << kPairedLog2Bit) - 1); };
    for (uint32_t lane = 0; lane < 32; lane++) {
        if (dest[lane] == kPairedNowhere) continue;
        const uint32_t size = 1u << (dest[lane] >> kPairedLog2Bit), before = lane % size * 32,
                       count = entries_of(number(lane)).count;
        const uint32_t own = count > before ? min(count - before, 32u) : 0;
        left[lane] = own == 32 ? ~0u : (1u << own) - 1;
        steps = max(steps, (count + size - 1) / size);
    }
    for (uint32_t step = 0; step < steps; step++) {
        uint32_t addresses[BANKS], last[BANKS];  // that the threads so far want of each bank
        for (uint32_t lane = 0; lane < 32; lane++) {
            if (lane % BANKS == 0)
                for (uint32_t b = 0; b < BANKS; b++) addresses[b] = 0, last[b] = MOST;
            if (dest[lane] == kPairedNowhere) continue;
            const uint32_t size = 1u << (dest[lane] >> kPairedLog2Bit), leader = lane / size * size,
                           place = step * size + lane % size;
            const ChunkEntries own = entries_of(number(lane));
            if (place >= own.count) continue;
            uint32_t least = MOST, taken = 0, wanted = 0;
            for (uint32_t word = leader; word < leader + size && least > 0; word++)
                for (uint32_t bits = left[word]; bits && least > 0; bits &= bits - 1) {
                    const uint32_t entry = (word - leader) * 32 + __ffs(int(bits)) - 1,
                                   address = address_of(own.first + entry), bank = address % BANKS,
                                   waits = last[bank] == address ? 0 : addresses[bank];
                    if (waits >= least) continue;
                    least = waits;
                    taken = entry;
                    wanted = address;
                }
            left[leader + taken / 32] &= ~(1u << taken % 32);
            if (last[wanted % BANKS] != wanted) addresses[wanted % BANKS]++;
            last[wanted % BANKS] = wanted;
            put(number(lane), own.first + taken, place);
        }
    }
}

}  // namespace bmrm
