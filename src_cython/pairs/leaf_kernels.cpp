// What the points of a leaf measure to a point or a box, for one instruction set (cpu/isa.h): in float64,
// each operation rounded once in the order of the axes, as decision.h has it.
#define BMRM_AVX512_OPTIONS ",prefer-vector-width=512"
#include "cpu/instruction_set.h"
//
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "pairs/leaf_search.h"

namespace bmrm::BMRM_ISA {

struct LeafLoops {
    static constexpr int kDoubles = BMRM_DOUBLES;
    static constexpr int kAtOnce = 4;  // registers
    typedef double Doubles __attribute__((vector_size(8 * kDoubles), aligned(8)));
    typedef i64 Longs __attribute__((vector_size(8 * kDoubles), aligned(8)));

    BMRM_INLINE static Doubles load(const double* from) { return *reinterpret_cast<const Doubles*>(from); }
    BMRM_INLINE static Doubles magnitude(Doubles x) { return (Doubles)((Longs)x & 0x7fffffffffffffff); }

    BMRM_INLINE static std::uint32_t at_most(Doubles a, Doubles b) {
#if defined(__x86_64__) && BMRM_DOUBLES == 8
        return _mm512_cmp_pd_mask((__m512d)a, (__m512d)b, _CMP_LE_OQ);
#elif defined(__x86_64__) && BMRM_DOUBLES == 4
        return _mm256_movemask_pd(_mm256_cmp_pd((__m256d)a, (__m256d)b, _CMP_LE_OQ));
#elif defined(__x86_64__)
        return _mm_movemask_pd((__m128d)(a <= b));
#else
        std::uint32_t bits = 0;
        for (int l = 0; l < kDoubles; ++l) bits |= (a[l] <= b[l] ? 1u : 0u) << l;
        return bits;
#endif
    }

    /// `nearest_difference` of decision.h.
    BMRM_INLINE static Doubles difference(Doubles a, double b, double period) {
        constexpr double kNoFraction = 0x1p52;  // from here on all numbers are whole
        const Doubles d = a - b;
        if (!(period > 0.0)) return d;
        const Doubles turns = d / period, size = magnitude(turns);
        const Doubles whole = (size + kNoFraction) - kNoFraction;
        const Doubles toward = (Doubles)((Longs)whole | ((Longs)turns & (i64{1} << 63)));
        return d - period * (size < kNoFraction ? toward : turns);
    }

    template <Measure measure>
    struct Sum {
        Doubles sum{}, any{};

        BMRM_INLINE void add(Doubles d) {
            if constexpr (measure == Measure::squares) sum += d * d;
            if constexpr (measure == Measure::sizes) sum += magnitude(d);
            if constexpr (measure == Measure::largest) {
                const Doubles size = magnitude(d);
                sum = size < sum ? sum : size;  // NaN stays
            }
        }
        BMRM_INLINE Doubles total() const {
            if constexpr (measure != Measure::share) return sum;
            // Twice those on which one or both are 1: whole numbers, so that the quotient is rounded once.
            return sum > 0.0 ? (sum + sum) / (any + sum) : sum;
        }
    };

    template <Measure measure>
    BMRM_TARGET static std::uint32_t points(const double* leaf, const double* point, i64 stride,
                                            const double* periods, int axes, double limit, double* measured) {
        std::uint32_t bits = 0;
        for (int first = 0; first < kLeaf; first += kAtOnce * kDoubles) {
            Sum<measure> sums[kAtOnce];
            const double* x = leaf + first;
            for (int k = 0; k < axes; ++k, x += kLeaf) {
                const double at = point[k * stride];
#pragma GCC unroll 4
                for (int v = 0; v < kAtOnce; ++v) {
                    const Doubles there = load(x + v * kDoubles);
                    if constexpr (measure == Measure::share) {
                        sums[v].sum += magnitude(there - at);
                        sums[v].any += there + at;
                    } else {
                        sums[v].add(difference(there, at, periods[k]));
                    }
                }
            }
            for (int v = 0; v < kAtOnce; ++v) {
                const Doubles total = sums[v].total();
                *reinterpret_cast<Doubles*>(measured + first + v * kDoubles) = total;
                bits |= at_most(total, Doubles{} + limit) << (first + v * kDoubles);
            }
        }
        return bits;
    }

    template <Measure measure>
    BMRM_TARGET static std::uint32_t box(const double* leaf, const Interval* box, const double* slack,
                                         const double* periods, int axes, const double* limits) {
        std::uint32_t bits = 0;
        for (int first = 0; first < kLeaf; first += kAtOnce * kDoubles) {
            Sum<measure> sums[kAtOnce];
            const double* x = leaf + first;
            for (int k = 0; k < axes; ++k, x += kLeaf) {
                const double reach = box[k].half + slack[k];
#pragma GCC unroll 4
                for (int v = 0; v < kAtOnce; ++v) {
                    const Doubles d = load(x + v * kDoubles);
                    const Doubles gap = magnitude(difference(d, box[k].centre, periods[k])) - reach;
                    sums[v].add(gap > 0.0 ? gap : Doubles{});
                }
            }
            for (int v = 0; v < kAtOnce; ++v) {
                const int at = first + v * kDoubles;
                bits |= at_most(sums[v].total() * (1.0 - kBoundSlack), load(limits + at)) << at;
            }
        }
        return bits;
    }
};

const LeafKernels leaf_kernels = {{LeafLoops::points<Measure::squares>, LeafLoops::points<Measure::sizes>,
                                   LeafLoops::points<Measure::largest>, LeafLoops::points<Measure::share>},
                                  {LeafLoops::box<Measure::squares>, LeafLoops::box<Measure::sizes>,
                                   LeafLoops::box<Measure::largest>, nullptr}};

}  // namespace bmrm::BMRM_ISA
