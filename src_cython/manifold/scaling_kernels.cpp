// Some rows of pairs against a segment of columns, for multidimensional scaling, for one
// instruction set (cpu/isa.h).
//
// Coordinates are planar: those along axis k are at X + k * stride. The number of columns of a segment is a
// multiple of kLanes, and whole registers may be read and written after its end.
#define BMRM_AVX512_OPTIONS ",prefer-vector-width=512"
#include "cpu/instruction_set.h"
//
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "manifold/scaling.h"

namespace bmrm::BMRM_ISA {

struct ScalingLoops {
    typedef double Doubles __attribute__((vector_size(8 * BMRM_DOUBLES), aligned(8)));
    typedef i64 Longs __attribute__((vector_size(8 * BMRM_DOUBLES), aligned(8)));
    static constexpr int kLanes = BMRM_DOUBLES;

    BMRM_INLINE static Doubles load(const double* from) { return *reinterpret_cast<const Doubles*>(from); }
    BMRM_INLINE static void store(double* to, const Doubles& value) {
        *reinterpret_cast<Doubles*>(to) = value;
    }
    BMRM_INLINE static double sum(const Doubles& value) {
        double total = 0.0;
        for (int l = 0; l < kLanes; ++l) total += value[l];
        return total;
    }

    BMRM_INLINE static Doubles root(const Doubles& x) {
#if defined(__x86_64__) && BMRM_DOUBLES == 8
        return (Doubles)_mm512_maskz_sqrt_pd(0xff, (__m512d)x);
#elif defined(__x86_64__) && BMRM_DOUBLES == 4
        return (Doubles)_mm256_sqrt_pd((__m256d)x);
#elif defined(__x86_64__)
        return (Doubles)_mm_sqrt_pd((__m128d)x);
#else
        Doubles y;
        for (int l = 0; l < kLanes; ++l) y[l] = __builtin_sqrt(x[l]);
        return y;
#endif
    }

    /// 1 / sqrt(x) to about 2 units in the last place; x is at least kLeastSquare. With AVX-512, y has 14
    /// bits, r = 1 - x y^2, and (1 - r)^(-1/2) = 1 + r/2 + 3 r^2/8 + 5 r^3/16 + 35 r^4/128 + O(2^-65): a
    /// third of the time of a root and a division.
    BMRM_INLINE static Doubles inverse_root(const Doubles& x) {
#if defined(__x86_64__) && BMRM_DOUBLES == 8
        const Doubles y = (Doubles)_mm512_maskz_rsqrt14_pd(0xff, (__m512d)x);
        const Doubles r = 1.0 - (x * y) * y;
        const Doubles q = r * (0.5 + r * (0.375 + r * (0.3125 + r * 0.2734375)));
        return y + y * q;
#else
        return 1.0 / root(x);
#endif
    }

    /// Adds to H, for the pairs of R rows with the columns, what lowers the stress: c (x_i - x_j) with
    /// c = w (delta / d - 1) to row i, and its opposite to column j unless `both` is false. `rows` has the
    /// coordinates of the R rows (R x p), `row_sums` (R x p) what is added to them. P is p, or 0 for any p.
    /// Pairs at one place with w delta > 0 add nothing here; returns whether there are any.
    template <int R, int P, bool weighted, bool both>
    BMRM_TARGET static bool descent(const double* rows, const double* X, i64 stride, i64 p, i64 count,
                                    const double* const* delta, const double* const* weights, double* H,
                                    double* row_sums, double* scratch, double* stress, double* squares) {
        const i64 dims = P ? P : p;
        Doubles x[R * (P ? P : 1)], g[R * (P ? P : 1)];
        if constexpr (P > 0) {
            for (int s = 0; s < R * P; ++s) {
                x[s] = Doubles{} + rows[s];
                g[s] = Doubles{};
            }
        } else {
            for (i64 s = 0; s < R * p * kLanes; ++s) scratch[s] = 0.0;
        }
        Doubles all = Doubles{}, far = Doubles{};
        Longs together = Longs{};
        for (i64 j = 0; j < count; j += kLanes) {
            Doubles c[R];
            for (int r = 0; r < R; ++r) {
                Doubles square = Doubles{};
                for (i64 k = 0; k < dims; ++k) {
                    const Doubles u =
                        (P ? x[r * P + k] : Doubles{} + rows[r * p + k]) - load(X + k * stride + j);
                    square += u * u;
                }
                const Doubles given = load(delta[r] + j);
                const Longs apart = square >= kLeastSquare;
                const Doubles y = apart ? inverse_root(square) : Doubles{};
                const Doubles e = given - square * y;
                c[r] = given * y - 1.0;
                if constexpr (weighted) {
                    const Doubles w = load(weights[r] + j);
                    all += w * (e * e);
                    far += w * square;
                    c[r] = w * c[r];
                    together |= ~apart & (w * given > 0.0);
                } else {
                    all += e * e;
                    far += square;
                    together |= ~apart & (given > 0.0);
                }
            }
            for (i64 k = 0; k < dims; ++k) {
                const Doubles column = load(X + k * stride + j);
                Doubles h = both ? load(H + k * stride + j) : Doubles{};
                for (int r = 0; r < R; ++r) {
                    const Doubles u = (P ? x[r * P + k] : Doubles{} + rows[r * p + k]) - column;
                    const Doubles t = c[r] * u;
                    if constexpr (P > 0) {
                        g[r * P + k] += t;
                    } else {
                        double* at = scratch + (r * p + k) * kLanes;
                        store(at, load(at) + t);
                    }
                    if constexpr (both) h -= t;
                }
                if constexpr (both) store(H + k * stride + j, h);
            }
        }
        for (i64 s = 0; s < R * dims; ++s) row_sums[s] += sum(P ? g[P ? s : 0] : load(scratch + s * kLanes));
        *stress += sum(all);
        *squares += sum(far);
        i64 any = 0;
        for (int l = 0; l < kLanes; ++l) any |= together[l];
        return any != 0;
    }

    typedef float Floats __attribute__((vector_size(8 * BMRM_DOUBLES), aligned(4)));
    typedef std::int32_t Ints __attribute__((vector_size(8 * BMRM_DOUBLES), aligned(4)));
    static constexpr int kFloatLanes = 2 * BMRM_DOUBLES;

    BMRM_INLINE static Floats load(const float* from) { return *reinterpret_cast<const Floats*>(from); }

    /// 1 / sqrt(x) to less than 2 units in the last place; x is at least kLeastFloatSquare. With AVX-512, y
    /// has 14 bits, r = 1 - x y^2, and (1 - r)^(-1/2) = 1 + r/2 + O(2^-27).
    BMRM_INLINE static Floats inverse_root(const Floats& x) {
#if defined(__x86_64__) && BMRM_DOUBLES == 8
        const Floats y = (Floats)_mm512_maskz_rsqrt14_ps(0xffff, (__m512)x);
        const Floats r = 1.0f - (x * y) * y;
        return y + y * (0.5f * r);
#elif defined(__x86_64__) && BMRM_DOUBLES == 4
        return 1.0f / (Floats)_mm256_sqrt_ps((__m256)x);
#elif defined(__x86_64__)
        return 1.0f / (Floats)_mm_sqrt_ps((__m128)x);
#else
        Floats y;
        for (int l = 0; l < kFloatLanes; ++l) y[l] = 1.0f / __builtin_sqrtf(x[l]);
        return y;
#endif
    }

    /// The first and the second half, as float64.
    BMRM_INLINE static Doubles lower(const Floats& x) {
#if defined(__x86_64__) && BMRM_DOUBLES == 8
        return (Doubles)_mm512_maskz_cvtps_pd(0xff, _mm512_castps512_ps256((__m512)x));
#elif defined(__x86_64__) && BMRM_DOUBLES == 4
        return (Doubles)_mm256_cvtps_pd(_mm256_castps256_ps128((__m256)x));
#elif defined(__x86_64__)
        return (Doubles)_mm_cvtps_pd((__m128)x);
#else
        Doubles y;
        for (int l = 0; l < kLanes; ++l) y[l] = x[l];
        return y;
#endif
    }
    BMRM_INLINE static Doubles upper(const Floats& x) {
#if defined(__x86_64__) && BMRM_DOUBLES == 8
        return (Doubles)_mm512_maskz_cvtps_pd(0xff, _mm512_maskz_extractf32x8_ps(0xff, (__m512)x, 1));
#elif defined(__x86_64__) && BMRM_DOUBLES == 4
        return (Doubles)_mm256_cvtps_pd(_mm256_extractf128_ps((__m256)x, 1));
#elif defined(__x86_64__)
        return (Doubles)_mm_cvtps_pd(_mm_movehl_ps((__m128)x, (__m128)x));
#else
        Doubles y;
        for (int l = 0; l < kLanes; ++l) y[l] = x[kLanes + l];
        return y;
#endif
    }
    BMRM_INLINE static void add_to(double* to, const Floats& x) {
        store(to, load(to) + lower(x));
        store(to + kLanes, load(to + kLanes) + upper(x));
    }

    /// Does what `descent` does with terms in float32, of which it adds kRun at most; products with weights
    /// and all other sums are in float64.
    template <int R, int P, bool weighted>
    BMRM_TARGET static bool float_descent(const float* rows, const float* X, i64 stride, i64 p, i64 count,
                                          const float* const* delta, const double* const* weights, double* H,
                                          double* row_sums, double* scratch, double* stress,
                                          double* squares) {
        constexpr bool kKept = P > 0 && !weighted;  // whether sums of a row stay in registers
        const i64 dims = P ? P : p;
        Doubles g[R * (P ? P : 1)], all = Doubles{}, far = Doubles{};
        for (int s = 0; s < R * (P ? P : 1); ++s) g[s] = Doubles{};
        for (i64 s = 0; !kKept && s < R * p * kLanes; ++s) scratch[s] = 0.0;
        Ints together = Ints{};
        for (i64 j = 0; j < count;) {
            const i64 end = std::min(count, j + kRun * kFloatLanes);
            Floats run[R * (P ? P : 1)], run_all = Floats{}, run_far = Floats{};
            for (int s = 0; s < R * (P ? P : 1); ++s) run[s] = Floats{};
            for (; j < end; j += kFloatLanes) {
                Floats c[R];
                for (int r = 0; r < R; ++r) {
                    Floats square = Floats{};
                    for (i64 k = 0; k < dims; ++k) {
                        const Floats u = rows[r * dims + k] - load(X + k * stride + j);
                        square += u * u;
                    }
                    const Floats given = load(delta[r] + j);
                    const Ints apart = square >= static_cast<float>(kLeastFloatSquare);
                    const Floats y = apart ? inverse_root(square) : Floats{};
                    const Floats e = given - square * y;
                    c[r] = given * y - 1.0f;
                    together |= ~apart & (given > 0.0f);
                    if constexpr (weighted) {
                        for (int half = 0; half < 2; ++half) {
                            const Doubles w = load(weights[r] + j + half * kLanes);
                            const Doubles apart_by = half ? upper(e) : lower(e);
                            all += w * (apart_by * apart_by);
                            far += w * (half ? upper(square) : lower(square));
                        }
                    } else {
                        run_all += e * e;
                        run_far += square;
                    }
                }
                for (i64 k = 0; k < dims; ++k) {
                    const Floats column = load(X + k * stride + j);
                    Floats h = Floats{};
                    for (int r = 0; r < R; ++r) {
                        const Floats t = c[r] * (rows[r * dims + k] - column);
                        double* at = scratch + (r * dims + k) * kLanes;
                        if constexpr (weighted) {
                            const Doubles first = load(weights[r] + j) * lower(t);
                            const Doubles second = load(weights[r] + j + kLanes) * upper(t);
                            store(at, load(at) + (first + second));
                            store(H + k * stride + j, load(H + k * stride + j) - first);
                            store(H + k * stride + j + kLanes, load(H + k * stride + j + kLanes) - second);
                        } else {
                            h -= t;
                            if constexpr (kKept)
                                run[r * P + k] += t;
                            else
                                store(at, load(at) + (lower(t) + upper(t)));
                        }
                    }
                    if constexpr (!weighted) add_to(H + k * stride + j, h);
                }
            }
            if constexpr (!weighted) {
                all += lower(run_all) + upper(run_all);
                far += lower(run_far) + upper(run_far);
            }
            if constexpr (kKept)
                for (int s = 0; s < R * P; ++s) g[s] += lower(run[s]) + upper(run[s]);
        }
        for (i64 s = 0; s < R * dims; ++s)
            row_sums[s] += sum(kKept ? g[P ? s : 0] : load(scratch + s * kLanes));
        *stress += sum(all);
        *squares += sum(far);
        i64 any = 0;
        for (int l = 0; l < kFloatLanes; ++l) any |= together[l];
        return any != 0;
    }

    BMRM_TARGET static void narrow(const double* from, i64 count, float* out) {
        for (i64 j = 0; j < count; ++j) out[j] = static_cast<float>(from[j]);
    }

    /// Adds w (y_i - y_j) to row i of H and its opposite to column j, for T numbers per point.
    BMRM_TARGET static void differences(const double* row, const double* Y, i64 stride, i64 T, i64 count,
                                        const double* weights, double* H, double* row_sums) {
        for (i64 k = 0; k < T; ++k) {
            Doubles g = Doubles{};
            for (i64 j = 0; j < count; j += kLanes) {
                const Doubles t = load(weights + j) * (row[k] - load(Y + k * stride + j));
                g += t;
                store(H + k * stride + j, load(H + k * stride + j) - t);
            }
            row_sums[k] += sum(g);
        }
    }

    /// Adds delta^2 y_j to row i of H and delta^2 y_i to column j, for T numbers per point.
    BMRM_TARGET static void squared(const double* row, const double* Y, i64 stride, i64 T, i64 count,
                                    const double* delta, double* H, double* row_sums) {
        for (i64 k = 0; k < T; ++k) {
            Doubles g = Doubles{};
            for (i64 j = 0; j < count; j += kLanes) {
                const Doubles value = load(delta + j), square = value * value;
                g += square * load(Y + k * stride + j);
                store(H + k * stride + j, load(H + k * stride + j) + square * row[k]);
            }
            row_sums[k] += sum(g);
        }
    }

    /// Adds a product of half the Hessian of the stress: for each of T directions y, with u = x_i - x_j,
    /// w ((1 - delta / d) (y_i - y_j) + (delta / d^3) u'(y_i - y_j) u) to row i of H, its opposite to column
    /// j. Direction t is at Y + t p stride; `y_row` (T x p) has its parts at row i. Pairs at one place count
    /// as if delta were 0.
    BMRM_TARGET static void curvature(const double* row, const double* X, i64 stride, i64 p,
                                      const double* y_row, const double* Y, i64 T, i64 count,
                                      const double* delta, const double* weights, double* H, double* row_sums,
                                      double* scratch) {
        for (i64 s = 0; s < T * p * kLanes; ++s) scratch[s] = 0.0;
        for (i64 j = 0; j < count; j += kLanes) {
            Doubles square = Doubles{};
            for (i64 k = 0; k < p; ++k) {
                const Doubles u = row[k] - load(X + k * stride + j);
                square += u * u;
            }
            const Doubles y = square >= kLeastSquare ? inverse_root(square) : Doubles{};
            const Doubles w = load(weights + j), ratio = load(delta + j) * y;
            const Doubles even = w * (1.0 - ratio), along = w * ratio * y * y;
            for (i64 t = 0; t < T; ++t) {
                const double* from = Y + t * p * stride + j;
                double* to = H + t * p * stride + j;
                Doubles inner = Doubles{};
                for (i64 k = 0; k < p; ++k)
                    inner +=
                        (row[k] - load(X + k * stride + j)) * (y_row[t * p + k] - load(from + k * stride));
                inner = along * inner;
                for (i64 k = 0; k < p; ++k) {
                    const Doubles added = even * (y_row[t * p + k] - load(from + k * stride)) +
                                          inner * (row[k] - load(X + k * stride + j));
                    double* at = scratch + (t * p + k) * kLanes;
                    store(at, load(at) + added);
                    store(to + k * stride, load(to + k * stride) - added);
                }
            }
        }
        for (i64 s = 0; s < T * p; ++s) row_sums[s] += sum(load(scratch + s * kLanes));
    }

    /// Distances from a row to the columns of a segment.
    BMRM_TARGET static void distances(const double* row, const double* X, i64 stride, i64 p, i64 count,
                                      double* out) {
        for (i64 j = 0; j < count; j += kLanes) {
            Doubles square = Doubles{};
            for (i64 k = 0; k < p; ++k) {
                const Doubles u = row[k] - load(X + k * stride + j);
                square += u * u;
            }
            store(out + j, root(square));
        }
    }

    /// Distances from R rows (R x m) to the kPairPanel columns of a panel (m x kPairPanel).
    template <int R>
    BMRM_TARGET static void panel_distances(const double* rows, const double* panel, i64 m,
                                            double* const* out) {
        constexpr int kGroup = 4;  // registers of columns at once: with two rows they hide the latency
        for (i64 j = 0; j < kPairPanel; j += kGroup * kLanes) {
            Doubles square[R][kGroup];
            for (int r = 0; r < R; ++r)
                for (int v = 0; v < kGroup; ++v) square[r][v] = Doubles{};
            for (i64 f = 0; f < m; ++f)
                for (int v = 0; v < kGroup; ++v) {
                    const Doubles column = load(panel + f * kPairPanel + j + v * kLanes);
                    for (int r = 0; r < R; ++r) {
                        const Doubles u = rows[r * m + f] - column;
                        square[r][v] += u * u;
                    }
                }
            for (int r = 0; r < R; ++r)
                for (int v = 0; v < kGroup; ++v) store(out[r] + j + v * kLanes, root(square[r][v]));
        }
    }

    /// Copies dissimilarities and weights (null: 1) as float64; NaN becomes 0 with weight 0.
    template <class V, class U>
    BMRM_TARGET static void clean(const V* delta, const U* weights, i64 count, double* out,
                                  double* out_weights) {
        for (i64 j = 0; j < count; ++j) {
            const double value = static_cast<double>(delta[j]);
            const double w = weights ? static_cast<double>(weights[j]) : 1.0;
            const bool known = value == value;
            out[j] = known ? value : 0.0;
            out_weights[j] = known ? w : 0.0;
        }
    }

    template <class V>
    BMRM_TARGET static void widen(const V* from, i64 count, double* out) {
        for (i64 j = 0; j < count; ++j) out[j] = static_cast<double>(from[j]);
    }
};

template <class V>
constexpr WideningKernels<V> widening_of() {
    using L = ScalingLoops;
    return {L::widen<V>, L::clean<V, float>, L::clean<V, double>};
}

template <class Real, int R, int P>
constexpr DescentLoop<Real>* descent_of(bool weighted) {
    using L = ScalingLoops;
    if constexpr (std::is_same_v<Real, float>)
        return weighted ? L::float_descent<R, P, true> : L::float_descent<R, P, false>;
    else
        return weighted ? L::descent<R, P, true, true> : L::descent<R, P, false, true>;
}

#define BMRM_DESCENTS(Real, R)                                               \
    {                                                                        \
        {descent_of<Real, R, 0>(false), descent_of<Real, R, 0>(true)},       \
            {descent_of<Real, R, 1>(false), descent_of<Real, R, 1>(true)},   \
            {descent_of<Real, R, 2>(false), descent_of<Real, R, 2>(true)}, { \
            descent_of<Real, R, 3>(false), descent_of<Real, R, 3>(true)      \
        }                                                                    \
    }

const ScalingKernels scaling_kernels = {
    ScalingLoops::kLanes,
    ScalingLoops::kFloatLanes,
    {{BMRM_DESCENTS(double, 1), BMRM_DESCENTS(double, 2)}},
    {{BMRM_DESCENTS(float, 1), BMRM_DESCENTS(float, 2)}},
    {ScalingLoops::descent<1, 0, true, false>, ScalingLoops::descent<1, 1, true, false>,
     ScalingLoops::descent<1, 2, true, false>, ScalingLoops::descent<1, 3, true, false>},
    ScalingLoops::differences,
    ScalingLoops::squared,
    ScalingLoops::curvature,
    ScalingLoops::distances,
    {ScalingLoops::panel_distances<1>, ScalingLoops::panel_distances<2>},
    ScalingLoops::narrow,
    widening_of<float>(),
    widening_of<double>()};

#undef BMRM_DESCENTS

}  // namespace bmrm::BMRM_ISA
