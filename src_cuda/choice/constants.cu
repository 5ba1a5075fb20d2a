// Measures the constants of the prediction, each the median of a few runs of a kernel that does only one
// thing.
#include <algorithm>
#include <functional>
#include <vector>

#include "runtime/device_memory.h"
#include "runtime/event.h"
#include "runtime/graph.h"

namespace bmrm {
namespace {

constexpr int kRuns = 7;
constexpr int kThreads = 1024;
constexpr int kLaunches = 64;            // launches of an empty kernel in one graph
constexpr int kGathers = 256;            // gathers per thread
constexpr int kInFlight = 8;             // gathers in flight per thread
constexpr int kFills = 16;               // fills of a block's shared memory
constexpr int64_t kLargest = 1LL << 30;  // bytes of a vector; less if the device has little memory

// Returns the median of the seconds that `work` takes on a stream, after one run to warm up.
double median_seconds(cudaStream_t stream, const std::function<void()>& work) {
    EventPair times;
    std::vector<double> seconds;
    for (int run = 0; run <= kRuns; run++) {
        times.begin(stream);
        work();
        times.end(stream);
        times.wait();
        if (run > 0) seconds.push_back(times.seconds());
    }
    std::nth_element(seconds.begin(), seconds.begin() + kRuns / 2, seconds.end());
    return seconds[kRuns / 2];
}

__global__ void nothing() {}

__device__ __forceinline__ uint32_t next_random(uint32_t& state) {
    state = state * 1664525u + 1013904223u;
    return state >> 8;  // the low bits of a linear congruential generator have short periods
}

__device__ __forceinline__ uint32_t seed() {
    return (blockIdx.x * blockDim.x + threadIdx.x) * 2654435761u + 1;
}

// Keeps a sum from being optimised away.
__device__ __forceinline__ void keep(float sum, float* out) {
    if (sum == 1.25e30f) *out = sum;
}

__global__ void read_all(const uint4* from, int64_t count, float* out) {
    const int64_t stride = int64_t(gridDim.x) * blockDim.x;
    uint32_t sum = 0;
    int64_t i = int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
    for (; i + 3 * stride < count; i += 4 * stride) {
        uint4 v[4];
#pragma unroll
        for (int k = 0; k < 4; k++) v[k] = __ldcs(from + i + k * stride);
#pragma unroll
        for (int k = 0; k < 4; k++) sum += v[k].x ^ v[k].y ^ v[k].z ^ v[k].w;
    }
    keep(__uint_as_float(sum & 0x3FFFFFFFu), out);
}

__global__ void __launch_bounds__(kThreads) gather_shared(uint32_t mask, float* out) {
    extern __shared__ float slice[];
    for (uint32_t i = threadIdx.x; i <= mask; i += kThreads) slice[i] = float(i);
    __syncthreads();
    uint32_t state = seed();
    float sum = 0;
    for (int k = 0; k < kGathers; k += kInFlight) {
#pragma unroll
        for (int j = 0; j < kInFlight; j++) sum += slice[next_random(state) & mask];
    }
    keep(sum, out);
}

// Bypasses L1, which would hold a part of a small vector.
__global__ void __launch_bounds__(kThreads) gather_global(const float* from, uint32_t mask, float* out) {
    uint32_t state = seed();
    float sum = 0;
    for (int k = 0; k < kGathers; k += kInFlight) {
        float v[kInFlight];
#pragma unroll
        for (int j = 0; j < kInFlight; j++) {
            // Two random numbers, since one has only 24 bits.
            const uint32_t high = next_random(state);
            v[j] = __ldcg(from + ((high << 12 ^ next_random(state)) & mask));
        }
#pragma unroll
        for (int j = 0; j < kInFlight; j++) sum += v[j];
    }
    keep(sum, out);
}

__global__ void __launch_bounds__(kThreads) fill_shared(const uint4* from, int count, float* out) {
    extern __shared__ uint4 packs[];
    for (int round = 0; round < kFills; round++) {
#pragma unroll 4
        for (int i = int(threadIdx.x); i < count; i += kThreads) packs[i] = __ldg(from + i);
        __syncthreads();
    }
    keep(float(packs[threadIdx.x % count].x), out);
}

int64_t power_of_two(int64_t most) {
    int64_t power = 1;
    while (2 * power <= most) power *= 2;
    return power;
}

// Measurements on one device; their vectors are zeros.
class Bench {
  public:
    explicit Bench(int device) : memory_(device), out_(memory_, 1) {
        BB_CHECK(cudaGetDeviceProperties(&properties_, device));
        size_t free = 0, total = 0;
        BB_CHECK(cudaMemGetInfo(&free, &total));
        size_ = power_of_two(std::min<int64_t>(kLargest, int64_t(free) / 8));
        from_ = Array<unsigned char>(memory_, size_);
        to_ = Array<unsigned char>(memory_, size_);
        from_.fill_bytes(0);
        to_.fill_bytes(0);
    }

    double launch() {
        const cudaStream_t stream = memory_.stream;
        Graph graph;
        graph.capture(stream, [=] {
            for (int i = 0; i < kLaunches; i++) nothing<<<1, 32, 0, stream>>>();
        });
        return median_seconds(stream, [&] { graph.launch(stream); }) / kLaunches;
    }

    double copy() {
        const double seconds = median_seconds(memory_.stream, [&] {
            BB_CHECK(
                cudaMemcpyAsync(to_.data(), from_.data(), size_t(size_), cudaMemcpyDefault, memory_.stream));
        });
        return 2.0 * double(size_) / seconds;
    }

    double read() {
        const double seconds = run([&] {
            read_all<<<blocks(2), kThreads, 0, memory_.stream>>>(reinterpret_cast<const uint4*>(from_.data()),
                                                                 size_ / 16, out_.data());
        });
        return double(size_) / seconds;
    }

    double shared_gathers() {
        const int64_t floats = power_of_two(int64_t(properties_.sharedMemPerBlock) / 4);
        return gathers(1, run([&] {
                           gather_shared<<<blocks(1), kThreads, size_t(floats) * 4, memory_.stream>>>(
                               uint32_t(floats - 1), out_.data());
                       }));
    }

    // From a vector of `bytes` bytes.
    double global_gathers(int64_t bytes) {
        const int64_t floats = power_of_two(std::min(bytes, size_)) / 4;
        return gathers(2, run([&] {
                           gather_global<<<blocks(2), kThreads, 0, memory_.stream>>>(
                               reinterpret_cast<const float*>(from_.data()), uint32_t(floats - 1),
                               out_.data());
                       }));
    }

    double fills() {
        const int64_t bytes = int64_t(properties_.sharedMemPerBlockOptin) / 16 * 16;
        BB_CHECK(cudaFuncSetAttribute(fill_shared, cudaFuncAttributeMaxDynamicSharedMemorySize, int(bytes)));
        const double seconds = run([&] {
            fill_shared<<<blocks(1), kThreads, size_t(bytes), memory_.stream>>>(
                reinterpret_cast<const uint4*>(from_.data()), int(bytes / 16), out_.data());
        });
        return double(bytes) * kFills * properties_.multiProcessorCount / seconds;
    }

    int64_t l2_bytes() const { return properties_.l2CacheSize; }

  private:
    unsigned blocks(int a_multiprocessor) const {
        return unsigned(properties_.multiProcessorCount * a_multiprocessor);
    }

    double run(const std::function<void()>& kernel) {
        return median_seconds(memory_.stream, [&] {
            kernel();
            BB_CHECK(cudaGetLastError());
        });
    }

    double gathers(int blocks_each, double seconds) const {
        return double(blocks(blocks_each)) * kThreads * kGathers / seconds;
    }

    Memory memory_;
    Array<float> out_;
    Array<unsigned char> from_, to_;
    cudaDeviceProp properties_;
    int64_t size_ = 0;
};

}  // namespace
}  // namespace bmrm

extern "C" bb_status bb_measure(int32_t id, bb_constants* constants) {
    using namespace bmrm;
    return guarded([&] {
        if (!constants) throw Failure(BB_INVALID, "constants: expected an address to write to");
        const OnDevice current(id);
        Bench bench(id);
        bb_constants found = {};
        found.launch = bench.launch();
        found.copy = bench.copy();
        found.read = bench.read();
        found.gather_shared = bench.shared_gathers();
        found.gather_l2 = bench.global_gathers(bench.l2_bytes() / 8);
        found.gather_memory = bench.global_gathers(kLargest);
        found.fill_shared = bench.fills();
        *constants = found;
    });
}
