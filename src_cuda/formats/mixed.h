// The plan `mixed`: rows of many nonzeros in tiles whose inputs are in shared memory, the others gathered.
//
// Tiles pay for a row that has several nonzeros in each, not for one whose nonzeros would be alone.  In X' r
// of text, and in graphs, a few rows have most of the nonzeros: these cost no gathers then, and the tiles of
// the others would be nearly empty.  `hot` does the same for columns, which helps if columns are popular.
#pragma once
#include "formats/sliced.h"
#include "formats/tuning.h"

namespace bmrm {

// Returns the least number of nonzeros of a row in tiles.
inline int64_t long_row(const bb_plan& plan, int64_t cols) {
    return tuning::kLongFragment * divided(cols, plan.tile > 0 ? plan.tile : 1);
}

inline bb_plan plan_of_long(const bb_plan& plan) { return {BB_TILED, 0, plan.cap, 0, plan.tile}; }
inline bb_plan plan_of_short(const bb_plan& plan) { return {BB_SLICED, 0, plan.cap, 0, 0}; }

}  // namespace bmrm
