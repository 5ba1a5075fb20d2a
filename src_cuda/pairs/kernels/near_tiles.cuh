// What rows and points measure to each other, all in float64, a tile of 64 rows and 64 points at a time.
//
// A thread has 4 x 4 pairs and adds up what they measure axis by axis, in order (pairs/metrics.h). Chunks of
// kNearAxes axes of both sides lie in shared memory. An axis of a thread's pairs takes 48 operations in
// float64 and eight loads.
//
// The pairs of a row are bits of a mask that all of its threads know, so that each of them knows where its
// own pairs go: for those within a radius in the order of the points, without an exchange between blocks.
#pragma once
#include "device/arithmetic.cuh"
#include "device/warp.cuh"
#include "pairs/kernels/exact.cuh"
#include "pairs/metrics.h"

namespace bmrm {

constexpr int kNearThreads = 256;
constexpr int kNearTile = 64;
constexpr int kNearAxes = 16;
constexpr int kNearEach = 4;                        // rows, and points, of a thread
constexpr int kNearAcross = kNearTile / kNearEach;  // threads of a row

// Coordinates by rows, of float32 or float64.
struct NearRows {
    const void* at;
    bool is_double;

    __device__ __forceinline__ double operator()(int64_t i) const {
        return is_double ? static_cast<const double*>(at)[i] : double(static_cast<const float*>(at)[i]);
    }
};

// The order in which points are looked at: a step that has no divisor in common with their number spreads
// the first of them over all.
struct PointOrder {
    int64_t count, step;

    __host__ __device__ int64_t operator()(int64_t position) const {
        return int64_t(uint64_t(position) * uint64_t(step) % uint64_t(count));
    }
};

struct NearSides {
    NearRows rows, points;
    int64_t axes;
    Box box;
    Metric metric;
    bool one_set;  // the rows are the points
    PointOrder order;

    __device__ __forceinline__ bool is_own(int64_t row, int64_t point) const {
        return one_set && row == point;
    }
};

// Some rows: those from the first one on, or those of a list.
struct NearBatch {
    const uint32_t* list;
    int64_t first, count;

    __device__ __forceinline__ int64_t operator()(int64_t i) const { return list ? list[i] : first + i; }
};

// Adds an axis.
template <Measure MEASURE>
__device__ __forceinline__ void add_axis(double& measured, double d) {
    if (MEASURE == Measure::squares) measured = add_square(measured, d);
    if (MEASURE == Measure::sizes) measured = exact::sum(measured, fabs(d));
    if (MEASURE == Measure::largest) measured = fabs(d) < measured ? measured : fabs(d);
}

template <bool BOX>
__device__ __forceinline__ double near_difference(double a, double b, const Box& box, int64_t axis) {
    return image_difference<BOX ? NEAREST : OPEN>(a, b, BOX ? box.length[axis] : 0,
                                                  BOX ? box.inverse[axis] : 0, 0);
}

// The pair of a row and a point, which may be on a GPU where others are far away.
template <Measure MEASURE, bool BOX>
__device__ __forceinline__ double measure_pair(const NearSides& s, int64_t row, int64_t point) {
    double measured = 0;
#pragma unroll 4
    for (int64_t k = 0; k < s.axes; k++)
        add_axis<MEASURE>(
            measured, near_difference<BOX>(s.rows(row * s.axes + k), s.points(point * s.axes + k), s.box, k));
    return measured;
}

// What a thread has measured of a tile.
struct NearTile {
    double measured[kNearEach][kNearEach];
    const uint32_t* points;  // numbers of all points of the tile
    int count;               // of them

    __device__ static int row(int i) { return int(threadIdx.x) / kNearAcross * kNearEach + i; }
    __device__ static int place(int j) { return int(threadIdx.x) % kNearAcross + j * kNearAcross; }
};

// Calls use(tile) for the points at positions first to last of the order, tiles in order; the blocks of a row
// of the grid share them.
template <Measure MEASURE, bool BOX, class Use>
__device__ __forceinline__ void for_near_tiles(const NearSides& s, const NearBatch& batch, int64_t first,
                                               int64_t last, const Use& use) {
    // A column more, so that the 16 axes of a row go to different banks.
    __shared__ double rows[kNearAxes][kNearTile + 1], points[kNearAxes][kNearTile + 1];
    __shared__ uint32_t numbers[2][kNearTile];
    const int across = int(threadIdx.x) % kNearAxes, down = int(threadIdx.x) / kNearAxes;
    bool rows_stay = false;
    int turn = 0;
    for (int64_t from = first + blockIdx.y * kNearTile; from < last; from += int64_t(gridDim.y) * kNearTile) {
        uint32_t* const here = numbers[turn ^= 1];  // those of the tile before may still be in use
        if (threadIdx.x < kNearTile) here[threadIdx.x] = uint32_t(s.order(min(from + threadIdx.x, last - 1)));
        __syncthreads();
        NearTile tile;
        tile.points = here;
        tile.count = int(min(last - from, int64_t(kNearTile)));
#pragma unroll
        for (int i = 0; i < kNearEach; i++)
#pragma unroll
            for (int j = 0; j < kNearEach; j++) tile.measured[i][j] = 0;
        for (int64_t axis = 0; axis < s.axes; axis += kNearAxes) {
            const int count = int(min(s.axes - axis, int64_t(kNearAxes)));
            if (across < count) {
#pragma unroll
                for (int r = down; r < kNearTile; r += kNearThreads / kNearAxes) {
                    points[across][r] = s.points(int64_t(here[r]) * s.axes + axis + across);
                    if (rows_stay) continue;
                    const int64_t row = min(int64_t(blockIdx.x) * kNearTile + r, batch.count - 1);
                    rows[across][r] = s.rows(batch(row) * s.axes + axis + across);
                }
            }
            rows_stay = s.axes <= kNearAxes;
            __syncthreads();
#pragma unroll 4
            for (int k = 0; k < count; k++) {
                double x[kNearEach], y[kNearEach];
#pragma unroll
                for (int i = 0; i < kNearEach; i++) x[i] = rows[k][NearTile::row(i)];
#pragma unroll
                for (int j = 0; j < kNearEach; j++) y[j] = points[k][NearTile::place(j)];
#pragma unroll
                for (int i = 0; i < kNearEach; i++)
#pragma unroll
                    for (int j = 0; j < kNearEach; j++)
                        add_axis<MEASURE>(tile.measured[i][j],
                                          near_difference<BOX>(x[i], y[j], s.box, axis + k));
            }
            __syncthreads();
        }
        use(tile);
    }
}

// Which of the pairs of a row i of the thread are near, as bits of the places in the tile.
__device__ __forceinline__ uint64_t near_places(const bool (&near)[kNearEach]) {
    const int shift = int(threadIdx.x) & kNearAcross;  // two rows lie in a warp
    uint64_t places = 0;
#pragma unroll
    for (int j = 0; j < kNearEach; j++) {
        const uint32_t both = __ballot_sync(kAllLanes, near[j]);
        places |= uint64_t(both >> shift & 0xFFFFu) << (j * kNearAcross);
    }
    return places;
}

// How many of them come before the place j of the thread.
__device__ __forceinline__ int near_before(uint64_t places, int j) {
    return __popcll(places & ((uint64_t(1) << NearTile::place(j)) - 1));
}

// The last neighbour that a row may still get: at first everything is nearer.
struct NearLimit {
    double distance;
    uint32_t point;
};

// Candidates of each row of a batch, `room` of each.
struct Candidates {
    double* distances;
    uint32_t* points;
    uint32_t* counts;  // more than there is room for: some are lost
    NearLimit* limits;
    int room;
};

// Adds the points at some positions that are nearer than the limits to the candidates.
template <Measure MEASURE, bool BOX>
__global__ void __launch_bounds__(kNearThreads, 2)
    add_candidates(const NearSides s, const NearBatch batch, int64_t first, int64_t last,
                   const Candidates to) {
    double most[kNearEach];
#pragma unroll
    for (int i = 0; i < kNearEach; i++) {
        const int64_t at = int64_t(blockIdx.x) * kNearTile + NearTile::row(i);
        const double limit = at < batch.count ? to.limits[at].distance : -1.0;
        most[i] = limit < 0 ? -1.0 : most_measured(s.metric, limit);
    }
    for_near_tiles<MEASURE, BOX>(s, batch, first, last, [&](NearTile& tile) {
#pragma unroll
        for (int i = 0; i < kNearEach; i++) {
            const int64_t at = int64_t(blockIdx.x) * kNearTile + NearTile::row(i);
            bool near[kNearEach];
#pragma unroll
            for (int j = 0; j < kNearEach; j++) {
                double& measured = tile.measured[i][j];
                near[j] = !(measured > most[i]) && most[i] >= 0 && NearTile::place(j) < tile.count;
                if (!near[j]) continue;
                const int64_t point = tile.points[NearTile::place(j)];
                const NearLimit limit = to.limits[at];
                measured = distance_of(s.metric, measured);
                near[j] =
                    is_nearer(measured, point, limit.distance, limit.point) && !s.is_own(batch(at), point);
            }
            const uint64_t places = near_places(near);
            if (!__ballot_sync(kAllLanes, places != 0)) continue;
            uint32_t begin = 0;
            if (places && threadIdx.x % kNearAcross == 0)
                begin = atomicAdd(to.counts + at, uint32_t(__popcll(places)));
            begin = __shfl_sync(kAllLanes, begin, threadIdx.x & kNearAcross);
#pragma unroll
            for (int j = 0; j < kNearEach; j++) {
                const uint32_t place = begin + uint32_t(near_before(places, j));
                if (!near[j] || place >= uint32_t(to.room)) continue;
                to.distances[at * to.room + place] = tile.measured[i][j];
                to.points[at * to.room + place] = tile.points[NearTile::place(j)];
            }
        }
    });
}

// Calls use(i, near, places, tile) for the rows i of a thread: which pairs are within a radius, for which a
// pair measures at most `most`.
template <Measure MEASURE, bool BOX, class Use>
__device__ __forceinline__ void for_pairs_within(const NearSides& s, const NearBatch& batch, double most,
                                                 const Use& use) {
    for_near_tiles<MEASURE, BOX>(s, batch, 0, s.order.count, [&](const NearTile& tile) {
#pragma unroll
        for (int i = 0; i < kNearEach; i++) {
            const int64_t at = int64_t(blockIdx.x) * kNearTile + NearTile::row(i);
            const int64_t row = at < batch.count ? batch(at) : -1;
            bool near[kNearEach];
#pragma unroll
            for (int j = 0; j < kNearEach; j++)
                near[j] = (tile.measured[i][j] <= most || most == INF) && NearTile::place(j) < tile.count &&
                          row >= 0 && !s.is_own(row, tile.points[NearTile::place(j)]);
            use(i, near, near_places(near), tile);
        }
    });
}

template <Measure MEASURE, bool BOX>
__global__ void __launch_bounds__(kNearThreads, 2)
    count_within(const NearSides s, const NearBatch batch, double most, unsigned long long* counts) {
    unsigned long long found[kNearEach] = {};
    for_pairs_within<MEASURE, BOX>(s, batch, most,
                                   [&](int i, const bool (&)[kNearEach], uint64_t places, const NearTile&) {
                                       found[i] += unsigned(__popcll(places));
                                   });
#pragma unroll
    for (int i = 0; i < kNearEach; i++) {
        const int64_t at = int64_t(blockIdx.x) * kNearTile + NearTile::row(i);
        if (threadIdx.x % kNearAcross == 0 && at < batch.count && found[i]) atomicAdd(counts + at, found[i]);
    }
}

// Where the neighbours of the rows of a batch go, those of row i from starts[i] - starts[0] on.
struct NearLists {
    const int64_t* starts;
    double* distances;
    int64_t* indices;  // or
    int32_t* narrow;
};

// One block per tile of rows.
template <Measure MEASURE, bool BOX>
__global__ void __launch_bounds__(kNearThreads, 2)
    fill_within(const NearSides s, const NearBatch batch, double most, const NearLists to) {
    int64_t next[kNearEach], end[kNearEach];
#pragma unroll
    for (int i = 0; i < kNearEach; i++) {
        const int64_t at = min(int64_t(blockIdx.x) * kNearTile + NearTile::row(i), batch.count - 1);
        next[i] = to.starts[at] - to.starts[0];
        end[i] = to.starts[at + 1] - to.starts[0];
    }
    for_pairs_within<MEASURE, BOX>(
        s, batch, most, [&](int i, const bool (&near)[kNearEach], uint64_t places, const NearTile& tile) {
#pragma unroll
            for (int j = 0; j < kNearEach; j++) {
                const int64_t place = next[i] + near_before(places, j);
                if (!near[j] || place >= end[i])
                    continue;  // points that have changed since they were counted
                const uint32_t point = tile.points[NearTile::place(j)];
                to.distances[place] = distance_of(s.metric, tile.measured[i][j]);
                if (to.narrow)
                    to.narrow[place] = int32_t(point);
                else
                    to.indices[place] = point;
            }
            next[i] += __popcll(places);
        });
}

// The distances of all points from a row as whole numbers in the same order, the row's own last.
template <Measure MEASURE, bool BOX>
__global__ void __launch_bounds__(kNearThreads)
    measure_row(const NearSides s, int64_t row, uint64_t* distances) {
    BB_FOR (point, s.order.count) {
        const double distance = distance_of(s.metric, measure_pair<MEASURE, BOX>(s, row, point));
        distances[point] = s.is_own(row, point) ? ~uint64_t(0) : uint64_t(__double_as_longlong(distance));
    }
}

}  // namespace bmrm
