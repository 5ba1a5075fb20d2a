// The kernels of nearest_kernels.h for the instruction set of this processor.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

#include "cpu/dispatch.h"

namespace bmrm {

/// Rows that are packed together, feature by feature.
constexpr i64 kPanelRows = 64;

/// Centres that are multiplied by a panel at once: with four registers of rows they take 16 of the 32
/// registers.
constexpr int kTileCenters = 4;

/// Centres that are multiplied by single rows side by side: whole tiles.
constexpr i64 kSetCenters = 16;
/// Single rows that are multiplied by a set at once, if there are as many.
constexpr i64 kRowsAtOnce = 8;

/// Centres in tiles of kTileCenters, feature by feature, and half their squared norms; those that only fill
/// the last tile have infinite norms, so that they are never nearest.
struct CenterTiles {
    const float* values;
    const float* halves;
    i64 tiles;
};

}  // namespace bmrm

#define BMRM_AVX512_OPTIONS ",prefer-vector-width=512"
#define BMRM_KERNELS "reductions/nearest_kernels.h"
#include "cpu/each_instruction_set.h"

namespace bmrm {

/// Calls use(kernels) with the kernels of this processor's instruction set.
template <class Use>
void with_nearest_kernels(const Use& use) {
    BMRM_WITH_KERNELS(use, NearestKernels);
}

}  // namespace bmrm
