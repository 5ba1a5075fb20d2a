// The kernels of nearest_kernels.h for the instruction set of this processor.
#pragma once

#include <cstdint>
#include <limits>

#include "cpu/dispatch.h"

namespace bmrm {

/// Rows that are packed together, feature by feature.
constexpr i64 kPanelRows = 64;

/// Centres that are multiplied by a panel at once: with four registers of rows they take 16 of the 32
/// registers.
constexpr int kTileCenters = 4;

/// Centres in tiles of kTileCenters, feature by feature, and half their squared norms; those that only fill
/// the last tile have infinite norms, so that they are never nearest.
struct CenterTiles {
    const float* values;
    const float* halves;
    i64 tiles;
};

}  // namespace bmrm

#define BMRM_ISA baseline
#define BMRM_TARGET
#define BMRM_FLOATS 4
#define BMRM_GROUP 2
#include "reductions/nearest_kernels.h"
#undef BMRM_ISA
#undef BMRM_TARGET
#undef BMRM_FLOATS
#undef BMRM_GROUP

#if defined(__x86_64__)
#define BMRM_ISA avx2
#define BMRM_TARGET __attribute__((target("avx2,fma,bmi2")))
#define BMRM_FLOATS 8
#define BMRM_GROUP 2
#include "reductions/nearest_kernels.h"
#undef BMRM_ISA
#undef BMRM_TARGET
#undef BMRM_FLOATS
#undef BMRM_GROUP

#define BMRM_ISA avx512
#define BMRM_TARGET \
    __attribute__((target("avx512f,avx512vl,avx512dq,avx512bw,avx2,fma,bmi2,prefer-vector-width=512")))
#define BMRM_FLOATS 16
#define BMRM_GROUP 4
#include "reductions/nearest_kernels.h"
#undef BMRM_ISA
#undef BMRM_TARGET
#undef BMRM_FLOATS
#undef BMRM_GROUP
#endif

namespace bmrm {

/// Calls use(kernels) with the kernels of this processor's instruction set.
template <class Use>
void with_nearest_kernels(const Use& use) {
#if defined(__x86_64__)
    if (isa() == Isa::avx512) return use(avx512::NearestKernels{});
    if (isa() == Isa::avx2) return use(avx2::NearestKernels{});
#endif
    use(baseline::NearestKernels{});
}

}  // namespace bmrm
