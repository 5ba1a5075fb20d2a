// Sums of some points x over a tile of points y, for one instruction set (cpu/isa.h).
//
// In float64 the squared distances of an x to the tile are those of pairs/decision.h, so that a shape ends at
// the distance that NumPy computes. In float32 the terms are 2^-t, t = scale d2: 2^-t = 2^n 2^f with n whole
// and |f| <= 1/2 (pairs/smoothing.h). Eight registers of terms are added in pairs, 3 u, u = 2^-24, and then
// in float64.
#define BMRM_AVX512_OPTIONS ",prefer-vector-width=512"
#include "cpu/exponential.h"
//
#include <cmath>
#include <cstring>

#include "cpu/lanes.h"
#include "pairs/decision.h"
#include "pairs/density_sums.h"

namespace bmrm::BMRM_ISA {

struct DensityLoops {
    BMRM_INLINE static void distances(const DensityBlock<double>& block, i64 i, double* squares) {
        for (int k = 0; k < block.axes; ++k) {
            const double x = block.x[k * block.x_stride + i];
            const double* const y = block.y + k * block.y_stride;
            if (k == 0)
                for (i64 j = 0; j < kDensityTile; ++j)
                    squares[j] = add_square(0.0, exact::difference(x, y[j]));
            else
                for (i64 j = 0; j < kDensityTile; ++j)
                    squares[j] = add_square(squares[j], exact::difference(x, y[j]));
        }
    }

    BMRM_TARGET static void nearest(const DensityBlock<double>& block, double* least) {
        alignas(64) double squares[kDensityTile];
        for (i64 i = 0; i < block.x_count; ++i) {
            distances(block, i, squares);
            double found = least[i];
#pragma omp simd reduction(min : found)
            for (i64 j = 0; j < kDensityTile; ++j) found = squares[j] < found ? squares[j] : found;
            least[i] = found;
        }
    }

    template <Shape shape>
    BMRM_TARGET static void bounded_sums(const DensityBlock<double>& block, const Smoothing& smoothing,
                                         double* sums, double* inside) {
        alignas(64) double squares[kDensityTile];
        const Smoothing own = smoothing;
        for (i64 i = 0; i < block.x_count; ++i) {
            distances(block, i, squares);
            double sum = 0.0, weight = 0.0;
#pragma omp simd reduction(+ : sum, weight)
            for (i64 j = 0; j < kDensityTile; ++j) {
                sum += block.weights[j] * bounded_term<shape>(squares[j], own);
                weight += squares[j] < own.end ? block.weights[j] : 0.0;
            }
            sums[i] += sum;
            inside[i] += weight;
        }
    }

    /// exp(x) for kLeastExponent <= x <= 0. That the logarithm of 2 is rounded makes an error of u / 3 times
    /// x.
    BMRM_INLINE static Doubles decay(Doubles x) {
        const Doubles zero{}, round = zero + kWhole, shifted = fused(x, zero + kInverseLog2, round);
        return scaled_exponential(fused(shifted - round, zero - 0x1.62e42fefa39efp-1, x), shifted);
    }

    template <Shape shape, bool weighted, bool far>
    BMRM_TARGET static void endless_sums(const DensityBlock<double>& block, const Smoothing& smoothing,
                                         const double* offsets, double* sums) {
        constexpr int kRegisters = 4;
        static_assert(kDensityTile % (kRegisters * BMRM_DOUBLES) == 0);
        alignas(64) double lengths[kRegisters * BMRM_DOUBLES];
        const Doubles minus = Doubles{} - smoothing.scale, end = Doubles{} + kLeastExponent;
        for (i64 i = 0; i < block.x_count; ++i) {
            const Doubles offset = Doubles{} + offsets[i];
            Doubles sum{};
            for (i64 j = 0; j < kDensityTile; j += kRegisters * BMRM_DOUBLES) {
                Doubles square[kRegisters];
                for (int r = 0; r < kRegisters; ++r) square[r] = Doubles{};
                for (int k = 0; k < block.axes; ++k) {
                    const Doubles x = Doubles{} + block.x[k * block.x_stride + i];
                    const double* const y = block.y + k * block.y_stride + j;
#pragma GCC unroll 4
                    for (int r = 0; r < kRegisters; ++r) {
                        const Doubles d = x - load(y + r * BMRM_DOUBLES);
                        square[r] = fused(d, d, square[r]);
                    }
                }
                if constexpr (shape == Shape::exponential) {
                    std::memcpy(lengths, square, sizeof square);
                    for (double& length : lengths) length = std::sqrt(length);
                    std::memcpy(square, lengths, sizeof square);
                }
#pragma GCC unroll 4
                for (int r = 0; r < kRegisters; ++r) {
                    Doubles x = fused(square[r], minus, offset);
                    if constexpr (far) x = x > end ? x : end;
                    if constexpr (weighted)
                        sum = fused(load(block.weights + j + r * BMRM_DOUBLES), decay(x), sum);
                    else
                        sum += decay(x);
                }
            }
            sums[i] += total(sum);
        }
    }

    BMRM_INLINE static Doubles load(const double* from) { return *reinterpret_cast<const Doubles*>(from); }
    BMRM_INLINE static double total(const Doubles& value) {
        double sum = 0.0;
        for (int l = 0; l < BMRM_DOUBLES; ++l) sum += value[l];
        return sum;
    }

    typedef float Halves __attribute__((vector_size(4 * BMRM_DOUBLES), aligned(4)));

    /// Adds a register of float32 to one of float64.
    BMRM_INLINE static void widen(const Floats& value, Doubles& sum) {
        Halves halves[2];
        std::memcpy(halves, &value, sizeof halves);
        sum += __builtin_convertvector(halves[0], Doubles);
        sum += __builtin_convertvector(halves[1], Doubles);
    }

    template <bool weighted, bool far>
    BMRM_TARGET static void light(const DensityBlock<float>& block, float scale, float most, double* sums,
                                  double* moments) {
        constexpr int kRegisters = 8;
        static_assert(kDensityTile % (kRegisters * kLanes) == 0);
        const Floats minus = all(-scale), round = all(kWholeFloat), end = all(most);
        for (i64 i = 0; i < block.x_count; ++i) {
            Doubles sum{}, moment{};
            Floats spread{};
            for (i64 j = 0; j < kDensityTile; j += kRegisters * kLanes) {
                Floats square[kRegisters];
                for (int r = 0; r < kRegisters; ++r) square[r] = Floats{};
                for (int k = 0; k < block.axes; ++k) {
                    const Floats x = all(block.x[k * block.x_stride + i]);
                    const float* const y = block.y + k * block.y_stride + j;
#pragma GCC unroll 8
                    for (int r = 0; r < kRegisters; ++r) {
                        const Floats d = x - bmrm::BMRM_ISA::load(y + r * kLanes);
                        square[r] = fused(d, d, square[r]);
                    }
                }
#pragma GCC unroll 8
                for (int r = 0; r < kRegisters; ++r) {
                    const Floats s = far ? least(square[r], end) : square[r];
                    const Floats shifted = fused(s, minus, round);  // its last bits are n
                    const Floats f = fused(s, minus, round - shifted);
                    Floats p = all(power_of_two_factor(0));
#pragma GCC unroll 5
                    for (int k = 1; k < 6; ++k) p = fused(p, f, all(power_of_two_factor(k)));
                    p = (Floats)((Words)p + ((Words)shifted << 23));
                    if constexpr (weighted) p *= bmrm::BMRM_ISA::load(block.weights + j + r * kLanes);
                    spread = fused(p, s, spread);
                    square[r] = p;
                }
#pragma GCC unroll 3
                for (int half = kRegisters / 2; half > 0; half /= 2)
#pragma GCC unroll 4
                    for (int r = 0; r < half; ++r) square[r] += square[r + half];
                widen(square[0], sum);
            }
            widen(spread, moment);
            sums[i] += total(sum);
            moments[i] += total(moment);
        }
    }
};

const DensityKernels density_kernels = {
    DensityLoops::nearest,
    {nullptr, DensityLoops::bounded_sums<Shape::tophat>, DensityLoops::bounded_sums<Shape::epanechnikov>,
     nullptr, DensityLoops::bounded_sums<Shape::linear>, DensityLoops::bounded_sums<Shape::cosine>},
    {{DensityLoops::endless_sums<Shape::gaussian, false, false>,
      DensityLoops::endless_sums<Shape::gaussian, false, true>},
     {DensityLoops::endless_sums<Shape::gaussian, true, false>,
      DensityLoops::endless_sums<Shape::gaussian, true, true>}},
    {{DensityLoops::endless_sums<Shape::exponential, false, false>,
      DensityLoops::endless_sums<Shape::exponential, false, true>},
     {DensityLoops::endless_sums<Shape::exponential, true, false>,
      DensityLoops::endless_sums<Shape::exponential, true, true>}},
    {{DensityLoops::light<false, false>, DensityLoops::light<false, true>},
     {DensityLoops::light<true, false>, DensityLoops::light<true, true>}},
    BMRM_DOUBLES > 2,
};

}  // namespace bmrm::BMRM_ISA
