// Hinge losses of pairs in O(n log n).
//
//     F(u) = sum over pairs with level_i > level_j of s_i s_j c_ij max(0, 1 - (u_i - u_j)),
//
// with c_ij = 1, or c_ij = v_i - v_j for a value v that rises with the level. A pair is active if u_j > u_i -
// 1. For two classes the scan of both in order is that of Joachims (ICML 2005, algorithm 3).
#pragma once

#include "joint/class_pairs.h"
#include "joint/pair_sweeps.h"

namespace bmrm {

/// The risk of one group; if `graded`, a pair is weighted by the difference of its values.
struct PairRisk {
    bool graded;

    Touched operator()(const Group& group, const Line& line, double* r, int threads, Arena& arena) const {
        const int64_t levels = group.size ? group.level[group.size - 1] + 1 : 0;
        if (levels > kMaxMergedLevels) return PairSweeps(group, line, levels, graded, threads, arena).risk(r);
        if (graded) return ClassPairs<GradedSum>(group, line, levels, threads, arena).risk(r);
        return ClassPairs<WeightSum>(group, line, levels, threads, arena).risk(r);
    }
};

}  // namespace bmrm
