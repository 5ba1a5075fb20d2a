// Products of a panel of rows with tiles of points, for one instruction set (cpu/isa.h).
#define BMRM_AVX512_OPTIONS ",prefer-vector-width=512"
#include "cpu/instruction_set.h"
//
#include "cpu/panels.h"
#include "pairs/product_search.h"

namespace bmrm::BMRM_ISA {

#if defined(__x86_64__) && BMRM_DOUBLES == 8
#define BMRM_BYTES __attribute__((target("avx512f,avx512vl,avx512dq,avx512bw,avx512vnni,avx2,fma,bmi2")))
#endif

struct CandidateLoops {
    /// The numbers of a tile of points, for the rows of a sweep: of each point what it begins with, less the
    /// products.
    BMRM_INLINE static void measure_tile(const float* panel, const float* tile, const float* starts,
                                         i64 steps, Floats (&sum)[kTilePoints][kGroup]) {
        for (int j = 0; j < kTilePoints; ++j)
            for (int v = 0; v < kGroup; ++v) sum[j][v] = all(starts[j]);
        subtract_products(panel, tile, steps, sum);
    }

    BMRM_TARGET static i64 floats(const float* panel, i64 steps, const float* tiles, const float* starts,
                                  i64 first, i64 last, const float* limits, std::uint64_t* rows) {
        for (i64 t = first; t < last; ++t) {
            Floats sum[kTilePoints][kGroup];
            measure_tile(panel, tiles + t * kTilePoints * steps, starts + t * kTilePoints, steps, sum);
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

    BMRM_TARGET static i64 counts(const float* panel, i64 steps, const float* tiles, const float* starts,
                                  i64 first, i64 last, const float* limits, const SurelyNear& sure,
                                  std::uint64_t* rows) {
        Ints found[kGroup] = {};
        i64 t = first;
        for (LaneBits any = 0; t < last; ++t) {
            Floats sum[kTilePoints][kGroup];
            measure_tile(panel, tiles + t * kTilePoints * steps, starts + t * kTilePoints, steps, sum);
#pragma GCC unroll 4
            for (int v = 0; v < kGroup; ++v) {
                const Floats limit = load(limits + v * kLanes);
                const Floats surely = load(sure.limits + v * kLanes) - all(sure.slacks[t]);
#pragma GCC unroll 4
                for (int j = 0; j < kTilePoints; ++j) {
                    found[v] -= (Ints)(sum[j][v] <= surely);
                    any |= at_least(limit, sum[j][v]) ^ at_least(surely, sum[j][v]);
                }
            }
            if (__builtin_expect(any == 0, 1)) continue;
#pragma GCC unroll 4
            for (int j = 0; j < kTilePoints; ++j) {
                rows[j] = 0;
#pragma GCC unroll 4
                for (int v = 0; v < kGroup; ++v) {
                    const Floats surely = load(sure.limits + v * kLanes) - all(sure.slacks[t]);
                    const LaneBits open =
                        at_least(load(limits + v * kLanes), sum[j][v]) ^ at_least(surely, sum[j][v]);
                    rows[j] |= static_cast<std::uint64_t>(open) << v * kLanes;
                }
            }
            break;
        }
        for (int v = 0; v < kGroup; ++v)
            for (int l = 0; l < kLanes; ++l)
                sure.counts[v * kLanes + l] += static_cast<std::uint32_t>(found[v][l]);
        return t;
    }

    BMRM_TARGET static Code encode_floats(const double* x, const double* shift, i64 d, double scale, bool,
                                          float* to, i64 stride) {
        double square = 0;
#pragma omp simd reduction(+ : square)
        for (i64 k = 0; k < d; ++k) {
            const auto y = static_cast<float>((x[k] - shift[k]) * scale);
            to[k * stride] = y;
            square += static_cast<double>(y) * y;
        }
        return {square};
    }

    BMRM_TARGET static Code encode_bytes(const double* x, const double* shift, i64 d, double scale,
                                         bool is_point, Bytes* to, i64 stride) {
        constexpr i64 kTogether = 64;
        double square = 0, rest = 0;
        i64 sum = 0;
        const int sign = is_point ? -1 : 1, offset = is_point ? 0 : kLargestByte + 1;
        for (i64 first = 0; first < d; first += kTogether) {
            const i64 count = d - first < kTogether ? d - first : kTogether;
            alignas(64) std::uint8_t bytes[kTogether] = {};
            int part = 0;
#pragma omp simd reduction(+ : square, rest, part)
            for (i64 k = 0; k < count; ++k) {
                const double y = (x[first + k] - shift[first + k]) * scale;
                const int whole = static_cast<int>(y + __builtin_copysign(0.5, y));
                square += y * y;
                rest += (y - whole) * (y - whole);
                part += whole;
                bytes[k] = static_cast<std::uint8_t>(sign * whole + offset);
            }
            sum += part;
            for (i64 k = 0; k < count; k += kStepBytes, to += stride)
                __builtin_memcpy(to, bytes + k, kStepBytes);
        }
        return {square, rest, sum};
    }

#ifdef BMRM_BYTES
    BMRM_BYTES static i64 bytes(const Bytes* panel, i64 steps, const Bytes* tiles, const Bytes* starts,
                                i64 first, i64 last, const Bytes* limits, std::uint64_t* rows) {
        __m512i limit[kGroup];
        for (int v = 0; v < kGroup; ++v) limit[v] = _mm512_loadu_si512(limits + v * kLanes);
        for (i64 t = first; t < last; ++t) {
            __m512i sum[kTilePoints][kGroup];
            for (int j = 0; j < kTilePoints; ++j)
                for (int v = 0; v < kGroup; ++v) sum[j][v] = _mm512_set1_epi32(starts[t * kTilePoints + j]);
            const Bytes *y = panel, *z = tiles + t * kTilePoints * steps;
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

#ifndef BMRM_BYTES
constexpr FindCandidates<Bytes> kBytes = nullptr;
#else
constexpr FindCandidates<Bytes> kBytes = CandidateLoops::bytes;
#endif
const CandidateKernels candidate_kernels = {kGroupRows,
                                            CandidateLoops::floats,
                                            kBytes,
                                            CandidateLoops::counts,
                                            CandidateLoops::encode_floats,
                                            CandidateLoops::encode_bytes};

}  // namespace bmrm::BMRM_ISA
