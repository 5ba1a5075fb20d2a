// Products of a panel of rows with tiles of points, for one instruction set (cpu/isa.h).
#include "cpu/instruction_set.h"
//
#include "cpu/panels.h"
#include "pairs/product_search.h"

namespace bmrm::BMRM_ISA {

struct CandidateLoops {
    BMRM_TARGET static i64 find(const float* panel, i64 d, const float* tiles, const float* starts, i64 first,
                                i64 last, const float* limits, std::uint64_t* rows) {
        for (i64 t = first; t < last; ++t) {
            Floats sum[kTilePoints][kGroup];
            for (int j = 0; j < kTilePoints; ++j)
                for (int v = 0; v < kGroup; ++v) sum[j][v] = all(starts[t * kTilePoints + j]);
            subtract_products(panel, tiles + t * kTilePoints * d, d, sum);
            LaneBits any = 0;
#pragma GCC unroll 4
            for (int v = 0; v < kGroup; ++v) {
                Floats low = sum[0][v];
#pragma GCC unroll 4
                for (int j = 1; j < kTilePoints; ++j) low = least(low, sum[j][v]);
                any |= at_least(load(limits + v * kLanes), low);
            }
            if (__builtin_expect(any == 0, 1)) continue;
#pragma GCC unroll 4
            for (int j = 0; j < kTilePoints; ++j) {
                rows[j] = 0;
#pragma GCC unroll 4
                for (int v = 0; v < kGroup; ++v) {
                    const LaneBits near = at_least(load(limits + v * kLanes), sum[j][v]);
                    rows[j] |= static_cast<std::uint64_t>(near) << v * kLanes;
                }
            }
            return t;
        }
        return last;
    }
};

const CandidateKernels candidate_kernels = {kGroupRows, CandidateLoops::find};

}  // namespace bmrm::BMRM_ISA
