// Products of a panel of rows with tiles of points, for one instruction set (cpu/isa.h).
#include "cpu/instruction_set.h"
//
#include "cpu/panels.h"
#include "pairs/product_search.h"

namespace bmrm::BMRM_ISA {

#if defined(__x86_64__) && BMRM_DOUBLES == 8
#define BMRM_BYTES __attribute__((target("avx512f,avx512vl,avx512dq,avx512bw,avx512vnni,avx2,fma,bmi2")))
#endif

struct CandidateLoops {
    BMRM_TARGET static i64 floats(const float* panel, i64 steps, const float* tiles, const float* starts,
                                  i64 first, i64 last, const float* limits, std::uint64_t* rows) {
        for (i64 t = first; t < last; ++t) {
            Floats sum[kTilePoints][kGroup];
            for (int j = 0; j < kTilePoints; ++j)
                for (int v = 0; v < kGroup; ++v) sum[j][v] = all(starts[t * kTilePoints + j]);
            subtract_products(panel, tiles + t * kTilePoints * steps, steps, sum);
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

#ifdef BMRM_BYTES
    BMRM_BYTES static i64 bytes(const std::int32_t* panel, i64 steps, const std::int32_t* tiles,
                                const std::int32_t* starts, i64 first, i64 last, const std::int32_t* limits,
                                std::uint64_t* rows) {
        __m512i limit[kGroup];
        for (int v = 0; v < kGroup; ++v) limit[v] = _mm512_loadu_si512(limits + v * kLanes);
        for (i64 t = first; t < last; ++t) {
            __m512i sum[kTilePoints][kGroup];
            for (int j = 0; j < kTilePoints; ++j)
                for (int v = 0; v < kGroup; ++v) sum[j][v] = _mm512_set1_epi32(starts[t * kTilePoints + j]);
            const std::int32_t *y = panel, *z = tiles + t * kTilePoints * steps;
            for (i64 f = 0; f < steps; ++f, y += kPanelRows, z += kTilePoints) {
                __m512i some[kGroup];
                for (int v = 0; v < kGroup; ++v) some[v] = _mm512_loadu_si512(y + v * kLanes);
                for (int j = 0; j < kTilePoints; ++j)
                    for (int v = 0; v < kGroup; ++v)
                        sum[j][v] = _mm512_dpbusd_epi32(sum[j][v], some[v], _mm512_set1_epi32(z[j]));
            }
            __mmask16 any = 0;
#pragma GCC unroll 4
            for (int v = 0; v < kGroup; ++v) {
                __m512i low = sum[0][v];
#pragma GCC unroll 4
                for (int j = 1; j < kTilePoints; ++j) low = _mm512_min_epi32(low, sum[j][v]);
                any |= _mm512_cmple_epi32_mask(low, limit[v]);
            }
            if (__builtin_expect(any == 0, 1)) continue;
#pragma GCC unroll 4
            for (int j = 0; j < kTilePoints; ++j) {
                rows[j] = 0;
#pragma GCC unroll 4
                for (int v = 0; v < kGroup; ++v)
                    rows[j] |= static_cast<std::uint64_t>(_mm512_cmple_epi32_mask(sum[j][v], limit[v]))
                               << v * kLanes;
            }
            return t;
        }
        return last;
    }
#endif
};

#ifdef BMRM_BYTES
const CandidateKernels candidate_kernels = {kGroupRows, CandidateLoops::floats, CandidateLoops::bytes};
#else
const CandidateKernels candidate_kernels = {kGroupRows, CandidateLoops::floats, nullptr};
#endif

}  // namespace bmrm::BMRM_ISA
