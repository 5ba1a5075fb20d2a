// Passes that are to end early.  A Table has the address of a byte in main memory, leave(), which is 0 until
// then.  Reading it takes microseconds: a lane does so each time that it has done enough work.
#pragma once

namespace bmrm {

constexpr int kLookAfter = 1 << 24;  // operations; GPU_LOOK_OPERATIONS of long_loops.py

// Adds an iteration of a loop to the work of a lane; returns whether its loops are to end.
template <class Table>
__device__ __forceinline__ bool is_to_end(const Table& table, int& work, int more) {
    work += more;
    if (work < kLookAfter) return false;
    const bool found = *static_cast<const volatile char*>(table.leave()) != 0;
    work = found ? kLookAfter : 0;
    return found;
}

}  // namespace bmrm
