// Distances from rows to centres: the loops of nearest_kernels.cpp, and what they share with their callers.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

#include "common/integers.h"
#include "cpu/isa.h"
#include "cpu/simd.h"

namespace bmrm {

/// Centres that are multiplied by a panel at once: with four registers of rows they take 16 of the 32
/// registers.
constexpr int kTileCenters = 4;

/// Centres that are multiplied by single rows side by side: whole tiles.
constexpr i64 kSetCenters = 16;
/// Single rows that are multiplied by a set at once, if there are as many.
constexpr i64 kRowsAtOnce = 8;

/// Factors that make up for the rounding of what they multiply.
constexpr float kRoundUp = 1.0f + 0x1p-20f, kMore = 1.0f + 0x1p-18f, kLess = 1.0f - 0x1p-18f;

/// Centres in tiles of kTileCenters, feature by feature, and half their squared norms; those that only fill
/// the last tile have infinite norms, so that they are never nearest.
struct CenterTiles {
    const float* values;
    const float* halves;
    i64 tiles;
};

/// An upper bound on the distance of a row of norm at most `norm` whose product with a centre is q, with an
/// error of less than `apart` / 2.
inline float upper_bound(float norm, float q, float apart) {
    const float square = norm * norm * kMore + 2.0f * q + 1.5f * apart;
    return std::sqrt(square < 0.0f ? 0.0f : square) * kMore;
}

/// A lower bound, too.
inline float lower_bound(float norm, float q, float apart) {
    const float square = norm * norm * kLess + 2.0f * q - 1.5f * apart;
    return std::sqrt(square > 0.0f ? square : 0.0f) * kLess;
}

/// Loops over a row of values V.
template <class V>
struct RowKernels {
    void (*pack_row)(const V* x, const double* shift, double scale, i64 d, float* y);
    void (*all_distances)(const V* x, i64 d, const double* columns, i64 k, double* out);
    double (*deviation)(const V* x, const double* c, i64 d, double w, double* sum);
    void (*short_products)(const std::int32_t* index, const V* value, i64 n, const double* columns, i64 k,
                           double* out);
    void (*long_products)(const i64* index, const V* value, i64 n, const double* columns, i64 k, double* out);
};

/// The loops of nearest_kernels.cpp.
struct NearestKernels {
    void (*nearest)(const float* panel, i64 d, const CenterTiles& centers, float* least, float* second,
                    std::int32_t* label);
    void (*nearest_by_group)(const float* panel, i64 d, const CenterTiles& centers, i64 tiles_per_group,
                             float* least, float* second, std::int32_t* label, float* group_least);
    void (*set_bounds)(const float* norms, const float* least, float constant, float slope, i64 groups,
                       float* upper, float* lower);
    i64 (*move_bounds)(const std::int32_t* label, const float* moves, const float* group_moves, i64 groups,
                       float* upper, float* lower, std::uint8_t* open);
    float (*product)(const float* y, const float* z, i64 d, float half);
    void (*multiply_set)(const float* const* rows, i64 count, i64 d, const float* values, const float* halves,
                         i64 step, float* out);
    float (*least_of)(const float* q, i64 count, i64 skipped);
    void (*find_needs)(const float* norms, const float* own, float constant, float slope,
                       const std::uint8_t* open, i64 groups, const float* lower, float* upper, float* apart,
                       std::uint8_t* need);
    void (*find_open)(const float* least, const float* second, const std::int32_t* label, const float* norms,
                      float constant, float slope, const std::int32_t* kept, const std::int32_t* former,
                      std::uint8_t* open);
    /// For 1, 2 and 4 points.
    void (*closer[3])(const float* panel, i64 d, const float* tile, const float* closest,
                      const double* weights, float* out, double* sums);
    RowKernels<float> of_floats;
    RowKernels<double> of_doubles;

    template <class V>
    const RowKernels<V>& of() const {
        if constexpr (std::is_same_v<V, float>)
            return of_floats;
        else
            return of_doubles;
    }

    template <class I, class V>
    void sparse_products(const I* index, const V* value, i64 n, const double* columns, i64 k,
                         double* out) const {
        if constexpr (sizeof(I) == 4)
            of<V>().short_products(index, value, n, columns, k, out);
        else
            of<V>().long_products(index, value, n, columns, k, out);
    }
};

BMRM_TABLES(NearestKernels, nearest_kernels)

}  // namespace bmrm
