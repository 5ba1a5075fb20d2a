// The nearest of the candidates of each row: a block sorts them in shared memory.
#pragma once
#include "pairs/kernels/near_tiles.cuh"
#include "runtime/dynamic_shared.cuh"

namespace bmrm {

constexpr int kSelectThreads = 128;
constexpr int64_t kCandidateBytes = 12;  // a distance and a point

static __global__ void begin_candidates(int64_t rows, const Candidates to) {
    BB_FOR (i, rows) {
        to.counts[i] = 0;
        to.limits[i] = {INF, ~0u};
    }
}

struct SharedCandidates {
    double* distances;
    uint32_t* points;

    __device__ explicit SharedCandidates(int room)
        : distances(dynamic_shared<double>()), points(reinterpret_cast<uint32_t*>(distances + room)) {}

    // Reads those of a row, and fills up to a power of two, which is returned, by what comes last.
    __device__ int load(const Candidates& from, int64_t row, int count) {
        int size = 2;
        while (size < count) size *= 2;
        for (int i = threadIdx.x; i < size; i += blockDim.x) {
            distances[i] = i < count ? from.distances[row * from.room + i] : INF;
            points[i] = i < count ? from.points[row * from.room + i] : ~0u;
        }
        __syncthreads();
        return size;
    }

    // A bitonic network.
    __device__ void sort(int size) {
        for (int whole = 2; whole <= size; whole *= 2)
            for (int apart = whole / 2; apart > 0; apart /= 2) {
                for (int i = threadIdx.x; i < size; i += blockDim.x) {
                    const int j = i ^ apart;
                    if (j < i) continue;
                    const bool wrong = is_nearer(distances[j], points[j], distances[i], points[i]);
                    if (wrong != ((i & whole) == 0)) continue;
                    const double distance = distances[i];
                    const uint32_t point = points[i];
                    distances[i] = distances[j], points[i] = points[j];
                    distances[j] = distance, points[j] = point;
                }
                __syncthreads();
            }
    }
};

// Keeps the k nearest candidates of each row, and those that are at most its slack farther than the last of
// them, if there are slacks. A row that has lost some gets no more.
static __global__ void __launch_bounds__(kSelectThreads)
    keep_nearest(int64_t rows, int k, const float* slacks, const Candidates of) {
    SharedCandidates mine(of.room);
    for (int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
        const uint32_t count = of.counts[row];
        __syncthreads();
        if (count > uint32_t(of.room)) {
            if (threadIdx.x == 0) of.limits[row] = {-INF, 0};
            continue;
        }
        if (count < uint32_t(k)) continue;
        mine.sort(mine.load(of, row, int(count)));
        const double last = mine.distances[k - 1], limit = slacks ? last + double(slacks[row]) : last;
        for (int i = threadIdx.x; i < int(count); i += blockDim.x) {
            if (i >= k && !(slacks && mine.distances[i] <= limit)) break;
            of.distances[row * of.room + i] = mine.distances[i];
            of.points[row * of.room + i] = mine.points[i];
            if (i + 1 < k || (slacks && i + 1 < int(count) && mine.distances[i + 1] <= limit)) continue;
            of.counts[row] = uint32_t(i + 1);  // the last one
            of.limits[row] = {limit, slacks ? ~0u : mine.points[i]};
        }
        __syncthreads();
    }
}

// Rows that have lost candidates.
struct Crowded {
    uint32_t* rows;
    unsigned* count;
};

// Writes the k nearest of the rows of a batch, which were kept last, to the results of rows from `first` on,
// or lists a row.
static __global__ void write_nearest(const NearBatch batch, int64_t first, int k, const Candidates from,
                                     double* distances, int64_t* indices, const Crowded crowded) {
    BB_FOR (i, batch.count * k) {
        const int64_t row = i / k, place = row * from.room + i % k, to = (batch(row) - first) * k + i % k;
        if (from.counts[row] > uint32_t(from.room)) {
            if (i % k == 0) crowded.rows[atomicAdd(crowded.count, 1u)] = uint32_t(batch(row));
            continue;
        }
        distances[to] = from.distances[place];
        indices[to] = from.points[place];
    }
}

// Writes the first k of sorted distances (measure_row).
static __global__ void write_sorted(int k, const uint64_t* sorted, const uint32_t* points, double* distances,
                                    int64_t* indices) {
    BB_FOR (i, k) {
        distances[i] = __longlong_as_double(int64_t(sorted[i]));
        indices[i] = points[i];
    }
}

}  // namespace bmrm
