// Products of the rows of a panel, packed feature by feature, with some rows of another set, for one
// instruction set (cpu/isa.h).
#pragma once

#include "cpu/lanes.h"
#include "cpu/simd.h"

namespace bmrm::BMRM_ISA {

/// Registers with the rows of one sweep.
constexpr int kGroup = BMRM_DOUBLES == 8 ? 4 : 2;
constexpr i64 kGroupRows = kLanes * kGroup;

/// Subtracts the product of each row of a sweep with each row of a tile, both feature by feature, from the
/// sums: of d multiply-adds in their order.
template <int kTile>
BMRM_INLINE void subtract_products(const float* panel, const float* tile, i64 d,
                                   Floats (&sum)[kTile][kGroup]) {
    for (i64 f = 0; f < d; ++f, panel += kPanelRows, tile += kTile) {
        Floats rows[kGroup];
        for (int v = 0; v < kGroup; ++v) rows[v] = load(panel + v * kLanes);
        for (int j = 0; j < kTile; ++j)
            for (int v = 0; v < kGroup; ++v) sum[j][v] = fused(-rows[v], all(tile[j]), sum[j][v]);
    }
}

}  // namespace bmrm::BMRM_ISA
