// Candidates for the nearest neighbours by the tensor cores, for distances of squares on open axes.
//
// A value of a point (rounded_rows.cuh) differs by at most e, a bound for the row, from
// (s^2 |y - z|^2 - |y|^2) / 2, where s is the scale. If t is the k-th least value, k points are within t + e
// in these numbers, so that no point above t + 2 e is one of the k nearest. Distances in float64 have
// roundings of their own: two that are in the other order there differ by less than
// 2 (d + 8) 2^-53 s^2 |y - z|^2, which is at most (d + 8) 2^-50 (|y|^2 + B^2).
#pragma once
#include "pairs/kernels/near_tiles.cuh"
#include "rows/kernels/tensor_tiles.cuh"
#include "runtime/dynamic_shared.cuh"

namespace bmrm {

constexpr int64_t kSampledPoints = 1024;

// shift (d): the mean of some of the points.
template <class V>
__global__ void sample_mean(const V* points, int64_t d, const PointOrder order, double* shift) {
    const int64_t count = min(order.count, kSampledPoints);
    BB_FOR (f, d) {
        double sum = 0;
#pragma unroll 8
        for (int64_t p = 0; p < count; p++) sum += double(points[order(p) * d + f]) / double(count);
        shift[f] = sum;
    }
}

// Raises `largest` to the bits of the largest difference of a value and the shift of its column.
template <class V>
__global__ void find_largest_difference(const V* values, int64_t size, int64_t d, const double* shift,
                                        unsigned long long* largest) {
    double most = 0;
    BB_FOR (i, size) most = fmax(most, fabs(double(values[i]) - shift[i % d]));
    most = over_warp<Greatest>(most);
    if (threadIdx.x % 32 == 0) atomicMax(largest, (unsigned long long)__double_as_longlong(most));
}

// Begins with rows that get the first `points` points as they are; slacks: 2 e.
static __global__ void begin_rounded(int64_t rows, int64_t d, uint32_t points, const FastError error,
                                     const RowNorms* norms, const WidestNorms* maximum, const Candidates to,
                                     float* slacks) {
    BB_FOR (i, rows) {
        const float widest = __uint_as_float(maximum->all), all = norms[i].all;
        to.counts[i] = points;
        to.limits[i] = {INF, ~0u};
        slacks[i] = twice_error(error, widest, __uint_as_float(maximum->rest), norms[i]) +
                    float(d + 8) * 0x1p-49f * (all * all + widest * widest);
    }
}

// A pass of rows over some tiles of points, which blocks share.
struct RoundedPass {
    const uint4 *rows, *points;
    const float* halves;
    int chunks;
    int64_t first, last;  // positions of the points, the first one that of a tile
    PointOrder order;
    NearBatch batch;
    bool one_set;
    Candidates to;
};

// Adds a point to the candidates of row `at`.  At first all are near, and have the places of their positions;
// the row's own is infinitely far.  Not inlined: it is called at 64 places, and seldom.
__device__ __noinline__ void add_value(const RoundedPass& pass, int64_t at, int64_t position, float value) {
    if (position >= pass.last || at >= pass.batch.count) return;
    const int64_t point = pass.order(position);
    const bool is_own = pass.one_set && point == pass.batch(at);
    uint32_t place = uint32_t(position);
    if (pass.first > 0) {
        if (is_own) return;
        place = atomicAdd(pass.to.counts + at, 1u);
        if (place >= uint32_t(pass.to.room)) return;
    }
    pass.to.distances[at * pass.to.room + place] = is_own ? INF : double(value);
    pass.to.points[at * pass.to.room + place] = uint32_t(point);
}

// Adds the points whose values are not above the limits to the candidates.
template <bool keeps>
__global__ void __launch_bounds__(kTensorThreads, 2) add_rounded(const __grid_constant__ RoundedPass pass) {
    uint4* const shared = dynamic_shared<uint4>();
    const int64_t tiles = (pass.last - pass.first + kTensorPoints - 1) / kTensorPoints;
    const int64_t begin = tiles * blockIdx.y / gridDim.y, end = tiles * (blockIdx.y + 1) / gridDim.y;
    const int64_t first = pass.first + begin * kTensorPoints;
    const int64_t first_row = int64_t(blockIdx.x) * kTensorRows;
    const Chunks from = {pass.rows,   pass.points + first * pass.chunks * kPieces,
                         nullptr,     first_row,
                         pass.chunks, int(end - begin),
                         shared,      shared + (keeps ? pass.chunks * kTensorRows * kPieces : 0)};
    float limits[8];
#pragma unroll
    for (int r = 0; r < 8; r++) {
        const int64_t at = first_row + row_in_tile(r);
        const double limit = at < pass.batch.count ? pass.to.limits[at].distance : -INF;
        limits[r] = __double2float_ru(limit);
    }
    for_values<keeps>(from, pass.halves + first, [&](int r, float value, int j) {
        if (value <= limits[r]) add_value(pass, first_row + row_in_tile(r), first + j, value);
    });
}

// Replaces the values of candidates by their distances; a warp per row.
template <Measure MEASURE, bool BOX>
__global__ void __launch_bounds__(256)
    measure_candidates(const NearSides s, const NearBatch batch, const Candidates of) {
    const int64_t warps = int64_t(gridDim.x) * blockDim.x / 32;
    for (int64_t i = (int64_t(blockIdx.x) * blockDim.x + threadIdx.x) / 32; i < batch.count; i += warps) {
        const uint32_t count = of.counts[i];
        if (count > uint32_t(of.room)) continue;
        for (uint32_t c = threadIdx.x % 32; c < count; c += 32) {
            const int64_t at = i * of.room + c;
            const double measured = measure_pair<MEASURE, BOX>(s, batch(i), of.points[at]);
            of.distances[at] = distance_of(s.metric, measured);
        }
    }
}

}  // namespace bmrm
