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
            std::uint64_t near[kTilePoints] = {}, any = 0;
            for (int v = 0; v < kGroup; ++v) {
                const Floats limit = load(limits + v * kLanes);
                for (int j = 0; j < kTilePoints; ++j) {
                    near[j] |= static_cast<std::uint64_t>(at_least(limit, sum[j][v])) << v * kLanes;
                    any |= near[j];
                }
            }
            if (__builtin_expect(any != 0, 0)) {
                for (int j = 0; j < kTilePoints; ++j) rows[j] = near[j];
                return t;
            }
        }
        return last;
    }
};

const CandidateKernels candidate_kernels = {kGroupRows, CandidateLoops::find};

}  // namespace bmrm::BMRM_ISA
