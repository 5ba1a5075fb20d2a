// The barrier of a grid.
#pragma once
#include "threads.h"

namespace cooperative_groups {

struct grid_group {
    void sync() const { emulator::leave(emulator::AT_GRID); }
};
inline grid_group this_grid() { return {}; }

}  // namespace cooperative_groups
