// From a squared distance in float32 to a key, and how near it is to a bound.
//
// place() returns a measure of doubt.  The caller has a threshold, for which `threshold` proves: if the
// measure is at most the threshold, the key is that of decision.h; else float64 decides.  A measure that is
// NaN is in doubt, and a threshold that is NaN says that everything is.
//
// Distances are scaled.  LinearBins have bins of equal width 1 in r; the root is d2 rsqrt(d2), and the bin is
// what rounding to a whole number leaves.  SearchedBins have any bounds, the last one at 1: the upper bits of
// d2 select a cell of a table, which has at most one bound in it or within kCellMargin of its ends.
#pragma once
#include <stdint.h>

#include "device/arithmetic.cuh"
#include "pairs/kernels/inverse_root.cuh"

namespace bmrm {

constexpr float kMagic = 12582912.0f;        // 2^23 + 2^22: the low bits of a sum are its rounded value
constexpr uint32_t kMagicBits = 0x4B400000;  // of kMagic
constexpr double kUnit = 1.0 / (1 << 24);    // relative error of a rounding to float32
constexpr double kRootError = 2.25 * kUnit;  // of rsqrt.approx.ftz: 2^-22.9 (PTX ISA)
constexpr float kCellMargin = 1.0f / 4096;   // relative
constexpr float kAllInDoubt = __builtin_nanf("");
constexpr double kMaxDoubt = 0.25;  // of a bin: beyond it float64 decides everything

constexpr float kLeastSquare = 1e-30f;  // added to squares that may be 0, whose root would be NaN

// Whether some of the measures are above a threshold, or NaN.
template <int COUNT>
__device__ __forceinline__ bool some_above(const float (&doubt)[COUNT], float threshold) {
    bool some = false;
#pragma unroll
    for (int k = 0; k < COUNT; k++) some |= !(doubt[k] <= threshold);
    return some;
}

struct LinearBins {
    static constexpr double kDirectFrom = 1e-3;  // error, in bins, from which on the direct form is faster
    static constexpr float kAdded = 0.0f;        // to d2

    float offset;    // the first bound, plus a half
    uint32_t most;   // the last key
    double last;     // the last bound
    double unequal;  // how far the bounds are from equal widths

    __device__ __forceinline__ void load(unsigned char*) {}
    static int64_t shared_bytes(const LinearBins&) { return 0; }

    __device__ __forceinline__ float place(float d2, uint32_t& key) const {
        const float w = fmaf(d2, inverse_root(d2), -offset), t = w + kMagic;
        key = min(__float_as_uint(t) - (kMagicBits - 1), most);
        return fabsf(w - (t - kMagic));
    }
    // squared, root: bounds of the errors of d2 and of its root, near a bound; extent: a bound of the root.
    // Roots beyond the last bound are far from it, or as near as last + 1.
    __device__ __host__ float threshold(double, double root, double extent) const {
        const double r = fmin(extent, last) + 1;
        const double error = root + r * (kRootError + kUnit) + 2 * double(offset) * kUnit + unequal;
        return error < kMaxDoubt ? float(0.5 - error) - float(kUnit) : kAllInDoubt;
    }
};

// A cell of SearchedBins: the key of d2 below the bound, and the next one above it.
struct SearchedCell {
    float bound;
    uint32_t above;
};

struct SearchedBins {
    static constexpr double kDirectFrom = 1e-4;
    static constexpr float kAdded = 0.0f;

    const SearchedCell* cells;  // in global memory; a copy in shared memory after `load`
    uint32_t first, last;       // the bits of d2 in the first cell; the number of the last cell
    int shift;                  // bits of d2 within a cell
    float least;                // of d2 in the first cell
    bool usable;                // whether each cell has one bound at most

    static int64_t shared_bytes(const SearchedBins& bins) {
        return (int64_t(bins.last) + 2) / 2 * 2 * int64_t(sizeof(SearchedCell));
    }
    __device__ __forceinline__ void load(unsigned char* shared) {
        SearchedCell* const to = reinterpret_cast<SearchedCell*>(shared);
        for (uint32_t k = threadIdx.x; k <= last; k += blockDim.x) to[k] = cells[k];
        cells = to;
    }
    __device__ __forceinline__ float place(float d2, uint32_t& key) const {
        const uint32_t bits = __float_as_uint(fmaxf(d2, least));
        const SearchedCell cell = cells[min((bits >> shift) - first, last)];
        const float beyond = d2 - cell.bound;
        key = cell.above - (__float_as_uint(beyond) >> 31);
        return fmaxf(-fabsf(beyond), d2 * -kCellMargin);
    }
    __device__ __host__ float threshold(double squared, double, double) const {
        const double error = squared + 4 * kUnit;
        return usable ? -float(error) * (1 + float(4 * kUnit)) : kAllInDoubt;
    }
};

}  // namespace bmrm
