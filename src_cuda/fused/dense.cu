#include <algorithm>

#include "fused/dense.h"
#include "fused/kernels/dense_fused.cuh"

namespace bmrm {

namespace {

constexpr int kShort = 32 * kMostEach;  // entries of a row that a warp takes whole
constexpr int64_t kLongHead = 1024;     // bytes of shared memory before the rows of dense_fused_long

// Entries that a thread has of a row of the fused pass.
int short_each(int64_t cols) {
    int each = kFewEach;
    while (32 * each < cols) each *= 2;
    return each;
}

template <class T, int VEC>
const void* short_kernel(int each) {
    if (each == kFewEach) return reinterpret_cast<const void*>(&dense_fused_short<T, VEC, kFewEach>);
    if (each == kMostEach) return reinterpret_cast<const void*>(&dense_fused_short<T, VEC, kMostEach>);
    return reinterpret_cast<const void*>(&dense_fused_short<T, VEC, 2 * kFewEach>);
}

int long_threads(int64_t cols, int value_bytes) {
    const int each = value_bytes == 8 ? kLongEach<double> : kLongEach<float>;
    return int((cols + each - 1) / each + 31) / 32 * 32;
}

}  // namespace

FusedDense::FusedDense(Memory& memory, int64_t rows, int64_t cols, bb_type type, const bb_device& device)
    : Dense(memory, rows, cols, type, device), ticket_(memory, 1) {
    ticket_.fill_bytes(0);
}

bool FusedDense::can_fuse() const {
    if (cols_ <= kShort) return true;
    const int bytes = type_ == BB_FLOAT64 ? 8 : 4;
    const int64_t threads = long_threads(cols_, bytes);
    return threads <= 1024 && kLongHead + threads * 64 <= device_.shared_per_block;
}

void FusedDense::fused(int loss, double parameter, double scale, const void* w, bb_numbers labels,
                       bb_numbers weights, void* margins, void* gradient, double* risk) {
    if (!can_fuse()) throw Failure(BB_INVALID, "the matrix has too many columns for the fused pass");
    FusedInput input = {loss, parameter, scale, labels, weights};
    by_type(type_, [&](auto t) {
        using T = decltype(t);
        with_pack<T>(cols_, [&](auto v) {
            constexpr int VEC = decltype(v)::value;
            const T *a = reinterpret_cast<const T*>(values_.data()), *in = static_cast<const T*>(w);
            T *z = static_cast<T*>(margins), *g = static_cast<T*>(gradient);
            int64_t rows = rows_;
            int cols = int(cols_), resident = 0, stages = 1;
            const bool is_short = cols_ <= kShort;
            const int each = short_each(is_short ? cols_ : 0);
            const int threads = !is_short          ? long_threads(cols_, int(sizeof(T)))
                                : each == kFewEach ? kShortThreads<kFewEach>
                                                   : kShortThreads<kMostEach>;
            const void* kernel = is_short ? short_kernel<T, VEC>(each)
                                          : reinterpret_cast<const void*>(&dense_fused_long<T, VEC>);
            size_t shared = size_t(threads) * 8;
            if (!is_short) {
                const int64_t row = int64_t(threads) * 64;
                stages = int(std::clamp<int64_t>((device_.shared_per_block - kLongHead) / row, 1, 3));
                shared = size_t(kLongHead + stages * row);
                BB_CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                              int(device_.shared_per_block)));
            }
            BB_CHECK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&resident, kernel, threads, shared));
            const int blocks =
                std::clamp(resident, 1, is_short ? 4 : std::max(2, 512 / threads)) * device_.multiprocessors;
            reserve(int64_t(blocks) * (cols_ + 1));
            double* sums = sums_.data();
            uint32_t* ticket = ticket_.data();
            void* for_short[] = {&a, &rows, &cols, &input, &in, &z, &g, &risk, &sums, &ticket};
            void* for_long[] = {&a, &rows, &cols, &input, &in, &z, &sums, &stages};
            BB_CHECK(cudaLaunchKernel(kernel, dim3(unsigned(blocks)), dim3(unsigned(threads)),
                                      is_short ? for_short : for_long, shared, memory_->stream));
            if (!is_short || each > kFewEach)
                add_up(sums, blocks, cols_ + 1, cols_, g, {sums + cols_, cols_ + 1, risk}, memory_->stream,
                       memory_->chains);
        });
    });
}

}  // namespace bmrm
