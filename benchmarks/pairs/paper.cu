// The kernels of a paper on two-body statistics, for benchmarks/pairs/paper.py; not shipped, and not exact:
// distances are in float32.  The paper's names: naive, SHM-SHM, Register-SHM, Register-ROC, and tiling by
// shuffles; output in a register (type I), in global memory, or in a private copy per block in shared memory
// that a second kernel adds up (type II); the triangle of a block with itself as it is, or balanced: thread i
// with the points (i + j) mod B.
//
// A block of threads has as many rows, and goes over the blocks of points after its own.

enum Source { NAIVE, SHM_SHM, REGISTER_SHM, REGISTER_ROC, SHUFFLE };
enum Output { COUNT, GLOBAL, PRIVATE };
enum Part { ALL, WITHIN_BLOCKS };

struct Points {
    const float *x, *y, *z;
};
struct Point {
    float x, y, z;
};

__device__ __forceinline__ Point read(const Points& points, int i) {
    return {points.x[i], points.y[i], points.z[i]};
}
__device__ __forceinline__ Point read_only(const Points& points, int i) {
    return {__ldg(points.x + i), __ldg(points.y + i), __ldg(points.z + i)};
}
// Volatile: SHM-SHM reads its row from shared memory for each pair.
__device__ __forceinline__ Point read_tile(const volatile float* tile, int i, int threads) {
    return {tile[i], tile[i + threads], tile[i + 2 * threads]};
}
__device__ __forceinline__ float squared(const Point& a, const Point& b) {
    const float x = a.x - b.x, y = a.y - b.y, z = a.z - b.z;
    return x * x + y * y + z * z;
}

// What a pair is counted in.  scale: bins per unit of distance, or the squared radius of a count.
template <int OUTPUT>
struct Counts {
    unsigned* table;
    unsigned long long* out;
    float scale;
    int bins;
    unsigned within;

    __device__ __forceinline__ void add(float d2) {
        if (OUTPUT == COUNT) {
            within += d2 < scale;
            return;
        }
        const int bin = min(int(sqrtf(d2) * scale), bins - 1);
        if (OUTPUT == PRIVATE)
            atomicAdd(table + bin, 1u);
        else
            atomicAdd(out + bin, 1ull);
    }
};

__device__ __forceinline__ void stage(const Points& points, int first, int n, float* tile) {
    const int i = first + int(threadIdx.x), threads = int(blockDim.x);
    if (i >= n) return;
    tile[threadIdx.x] = points.x[i];
    tile[threadIdx.x + threads] = points.y[i];
    tile[threadIdx.x + 2 * threads] = points.z[i];
}

// A block of threads with another block of points.
template <int SOURCE, int OUTPUT>
__device__ __forceinline__ void between(const Points& points, int row, int first, int n, const float* tile,
                                        const float* anchor, Counts<OUTPUT>& counts) {
    const int threads = int(blockDim.x), count = min(threads, n - first), lane = int(threadIdx.x) % 32;
    const Point mine = read(points, min(row, n - 1));
    if (SOURCE == SHUFFLE) {
        for (int begin = 0; begin < count; begin += 32) {
            const Point other = read(points, min(first + begin + lane, n - 1));
            const int some = min(32, count - begin);
            for (int k = 0; k < some; k++) {
                const Point b = {__shfl_sync(0xFFFFFFFFu, other.x, k), __shfl_sync(0xFFFFFFFFu, other.y, k),
                                 __shfl_sync(0xFFFFFFFFu, other.z, k)};
                if (row < n) counts.add(squared(mine, b));
            }
        }
        return;
    }
    if (row >= n) return;
    for (int k = 0; k < count; k++) {
        const Point b = SOURCE == NAIVE          ? read(points, first + k)
                        : SOURCE == REGISTER_ROC ? read_only(points, first + k)
                                                 : read_tile(tile, k, threads);
        counts.add(squared(SOURCE == SHM_SHM ? read_tile(anchor, int(threadIdx.x), threads) : mine, b));
    }
}

// A block of threads with its own points.
template <int SOURCE, int OUTPUT, bool BALANCED>
__device__ __forceinline__ void within(const Points& points, int row, int first, int n, const float* anchor,
                                       Counts<OUTPUT>& counts) {
    const int threads = int(blockDim.x), count = min(threads, n - first), t = int(threadIdx.x);
    if (row >= n) return;
    const bool staged = SOURCE == SHM_SHM || SOURCE == REGISTER_SHM;
    const Point mine = read(points, row);
    const auto other = [&](int k) {
        return staged                   ? read_tile(anchor, k, threads)
               : SOURCE == REGISTER_ROC ? read_only(points, first + k)
                                        : read(points, first + k);
    };
    if (BALANCED) {
        for (int j = 1; 2 * j <= count; j++)
            if (2 * j < count || 2 * t < count) counts.add(squared(mine, other((t + j) % count)));
    } else {
        for (int k = t + 1; k < count; k++) counts.add(squared(mine, other(k)));
    }
}

// copies: (blocks, bins) of OUTPUT PRIVATE.  Shared memory: a table, then two tiles.
template <int SOURCE, int OUTPUT, bool BALANCED>
__global__ void two_body(const float* x, const float* y, const float* z, int n, float scale, int bins,
                         int part, unsigned long long* out, unsigned* copies) {
    extern __shared__ unsigned shared[];
    const Points points = {x, y, z};
    const int threads = int(blockDim.x), first = int(blockIdx.x) * threads, row = first + int(threadIdx.x);
    unsigned* const table = shared;
    float* const anchor = reinterpret_cast<float*>(shared + (OUTPUT == PRIVATE ? bins : 0));
    float* const tile = anchor + 3 * threads;
    const bool staged = SOURCE == SHM_SHM || SOURCE == REGISTER_SHM;
    Counts<OUTPUT> counts = {table, out, scale, bins, 0};
    if (OUTPUT == PRIVATE)
        for (int k = int(threadIdx.x); k < bins; k += threads) table[k] = 0;
    if (staged) stage(points, first, n, anchor);
    __syncthreads();
    for (int other = first + threads; other < n && part == ALL; other += threads) {
        if (staged) {
            stage(points, other, n, tile);
            __syncthreads();
        }
        between<SOURCE, OUTPUT>(points, row, other, n, tile, anchor, counts);
        if (staged) __syncthreads();
    }
    within<SOURCE, OUTPUT, BALANCED>(points, row, first, n, anchor, counts);
    __syncthreads();
    if (OUTPUT == COUNT && counts.within) atomicAdd(out, (unsigned long long)counts.within);
    if (OUTPUT == PRIVATE)
        for (int k = int(threadIdx.x); k < bins; k += threads)
            copies[blockIdx.x * (long long)bins + k] = table[k];
}

// The combination of private copies: a thread per bin.
__global__ void add_copies(const unsigned* copies, int blocks, int bins, unsigned long long* out) {
    const int bin = int(blockIdx.x * blockDim.x + threadIdx.x);
    if (bin >= bins) return;
    unsigned long long sum = 0;
    for (int b = 0; b < blocks; b++) sum += copies[b * (long long)bins + bin];
    out[bin] = sum;
}

// The plain kernels that ours are compared with: four rows per thread in registers, columns in shared memory,
// one atomic operation per pair; blocks of 256 threads, all pairs of rows with columns (i < j and i > j).
constexpr int kRows = 4, kColumns = 256;

template <int OUTPUT>
__global__ void plain(const float4* points, int n, float scale, int bins, unsigned long long* out) {
    extern __shared__ unsigned shared[];
    __shared__ float4 tile[kColumns];
    Counts<OUTPUT> counts = {shared, out, scale, bins, 0};
    for (int k = int(threadIdx.x); k < bins && OUTPUT == PRIVATE; k += kColumns) shared[k] = 0;
    Point mine[kRows];
    const int row = int(blockIdx.x) * kRows * kColumns + int(threadIdx.x);
    for (int k = 0; k < kRows; k++) {
        const float4 p = points[min(row + k * kColumns, n - 1)];
        mine[k] = {p.x, p.y, p.z};
    }
    for (int first = int(blockIdx.y) * kColumns; first < n; first += int(gridDim.y) * kColumns) {
        __syncthreads();
        tile[threadIdx.x] = points[min(first + int(threadIdx.x), n - 1)];
        __syncthreads();
#pragma unroll 8
        for (int q = 0; q < kColumns; q++) {
            const float4 p = tile[q];
#pragma unroll
            for (int k = 0; k < kRows; k++) counts.add(squared(mine[k], {p.x, p.y, p.z}));
        }
    }
    __syncthreads();
    if (OUTPUT == COUNT && counts.within) atomicAdd(out, (unsigned long long)counts.within);
    for (int k = int(threadIdx.x); k < bins && OUTPUT == PRIVATE; k += kColumns)
        if (shared[k]) atomicAdd(out + k, (unsigned long long)shared[k]);
}
