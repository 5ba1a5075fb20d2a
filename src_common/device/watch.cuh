// Loops that are to end early: if the pass is to, or if a row failed that comes before those that a lane has
// yet to do, or is one of them.  A lane whose index was outside goes on with another one, perhaps for ever.
//
// A Table has the address of a byte in main memory, leave(), which is 0 until a pass is to end, and what
// failures.cuh needs.  Reading the byte takes microseconds: a lane does so each time that it has done enough
// work.
#pragma once
#include "device/operators.cuh"

namespace bmrm {

constexpr int kLookAfter = 1 << 24;  // operations; GPU_LOOK_OPERATIONS of long_loops.py

// Adds an iteration of a loop to the work of a lane, whose rows begin with `row`; returns whether it is to
// end.
template <class Table>
__device__ __forceinline__ bool is_to_end(const Table& table, whole row, int& work, int more) {
    work += more;
    if (work < kLookAfter) return false;
    const whole failed = *static_cast<const volatile whole*>(table.error()) / Table::SITES;
    const bool found = failed <= row || *static_cast<const volatile char*>(table.leave()) != 0;
    work = found ? kLookAfter : 0;
    return found;
}

}  // namespace bmrm
