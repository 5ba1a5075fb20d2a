// Parts of a sparse product, each alone: what bounds_gpu.py holds products against.
//
// Like the products they may begin before what was queued before them has ended (programmatic dependent
// launch): they read matrices at once, and wait before they touch inputs and outputs.

namespace {

constexpr int kAtOnce = 4;  // loads of 16 bytes that a thread has under way

__device__ void let_next_start() { asm volatile("griddepcontrol.launch_dependents;"); }
__device__ void wait_for_previous() { asm volatile("griddepcontrol.wait;" ::: "memory"); }

__device__ long long thread_of_grid() { return (long long)blockIdx.x * blockDim.x + threadIdx.x; }
__device__ long long threads_of_grid() { return (long long)gridDim.x * blockDim.x; }

__device__ void write_all(float* to, long long count, float what) {
    for (long long i = thread_of_grid(); i < count; i += threads_of_grid()) to[i] = what;
}

// The nonzeros of a block's share of tiles, four at a time: value times input, all into one sum a thread.
// Inputs of a tile are copied to shared memory first, the first nonzeros meanwhile on their way.
template <class Four>
__device__ float sum_of_share(const Four* index, const float4* value, const long long* first_of_tile,
                              int tiles, int width, const float* x, int columns) {
    extern __shared__ __align__(16) float inputs[];
    const long long all = first_of_tile[tiles];
    const long long stop = all * (blockIdx.x + 1) / gridDim.x;
    long long at = all * blockIdx.x / gridDim.x;
    int tile = 0;
    while (tile + 1 < tiles && first_of_tile[tile + 1] <= at) tile++;
    const int threads = int(blockDim.x);
    float sum[2] = {0, 0};
    Four next_index[kAtOnce];
    float4 next_value[kAtOnce];
    let_next_start();
    for (bool first = true; at < stop; tile++, first = false) {
        const long long end = first_of_tile[tile + 1] < stop ? first_of_tile[tile + 1] : stop;
        long long i = at + threadIdx.x;
        const auto fetch = [&] {
#pragma unroll
            for (int k = 0; k < kAtOnce; k++)
                if (i + k * threads < end) {
                    next_index[k] = index[i + k * threads];
                    next_value[k] = __ldcs(value + i + k * threads);
                }
        };
        fetch();
        if (first)
            wait_for_previous();
        else
            __syncthreads();
        const int from = tile * width, count = min(width, columns - from);
        for (int j = int(threadIdx.x); j < (count + 3) / 4; j += threads)
            asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(
                             unsigned(__cvta_generic_to_shared(inputs + 4 * j))),
                         "l"(x + from + 4 * j));
        asm volatile("cp.async.commit_group; cp.async.wait_group 0;" ::: "memory");
        __syncthreads();
        while (i < end) {
            Four held_index[kAtOnce];
            float4 held_value[kAtOnce];
            int held = 0;
#pragma unroll
            for (int k = 0; k < kAtOnce; k++) {
                held_index[k] = next_index[k];
                held_value[k] = next_value[k];
                held += i + k * threads < end;
            }
            i += kAtOnce * threads;
            fetch();
#pragma unroll
            for (int k = 0; k < kAtOnce; k++)
                if (k < held) {
                    sum[0] += held_value[k].x * inputs[held_index[k].x];
                    sum[1] += held_value[k].y * inputs[held_index[k].y];
                    sum[0] += held_value[k].z * inputs[held_index[k].z];
                    sum[1] += held_value[k].w * inputs[held_index[k].w];
                }
        }
        at = end;
    }
    return sum[0] + sum[1];
}

}  // namespace

extern "C" {

__global__ void launch_alone(int) {
    let_next_start();
    wait_for_previous();
}

// Reads `count` times 16 bytes and writes the outputs.
__global__ void read_alone(const uint4* from, long long count, float* out, long long outputs) {
    let_next_start();
    uint4 next[kAtOnce];
    unsigned mix = 0;
    long long i = thread_of_grid();
    const long long step = threads_of_grid();
    const auto fetch = [&] {
#pragma unroll
        for (int k = 0; k < kAtOnce; k++)
            next[k] = i + k * step < count ? __ldcs(from + i + k * step) : make_uint4(0, 0, 0, 0);
    };
    fetch();
    wait_for_previous();
    while (i < count) {
        uint4 held[kAtOnce];
#pragma unroll
        for (int k = 0; k < kAtOnce; k++) held[k] = next[k];
        i += kAtOnce * step;
        fetch();
#pragma unroll
        for (int k = 0; k < kAtOnce; k++) mix ^= held[k].x ^ held[k].y ^ held[k].z ^ held[k].w;
    }
    write_all(out, outputs, __uint_as_float(mix));
}

#define BMRM_GATHER(name, Four)                                                                            \
    __global__ void __launch_bounds__(1024)                                                                \
        name(const Four* index, const float4* value, const long long* first_of_tile, int tiles, int width, \
             const float* x, int columns, float* out, long long outputs) {                                 \
        write_all(out, outputs, sum_of_share(index, value, first_of_tile, tiles, width, x, columns));      \
    }
BMRM_GATHER(gather_by_bytes, uchar4)
BMRM_GATHER(gather_by_shorts, ushort4)
#undef BMRM_GATHER

// The same with inputs gathered from global memory, by indices of four bytes.
__global__ void gather_from_afar(const uint4* index, const float4* value, long long count, const float* x,
                                 float* out, long long outputs) {
    let_next_start();
    wait_for_previous();
    float sum = 0;
    const long long step = threads_of_grid();
    for (long long i = thread_of_grid(); i < count; i += 2 * step) {
        const bool both = i + step < count;
        const uint4 a = __ldcs(index + i), b = both ? __ldcs(index + i + step) : make_uint4(0, 0, 0, 0);
        const float4 v = __ldcs(value + i), u = both ? __ldcs(value + i + step) : make_float4(0, 0, 0, 0);
        sum += v.x * x[a.x] + v.y * x[a.y] + v.z * x[a.z] + v.w * x[a.w];
        sum += u.x * x[b.x] + u.y * x[b.y] + u.z * x[b.z] + u.w * x[b.w];
    }
    write_all(out, outputs, sum);
}
}
