#include "kernels/narrow.cuh"
#include "products.h"
#include "tuning.h"

namespace bmrm {

namespace {

// Warps of a block for so many columns, and the shared memory they take.
int narrow_warps(int64_t columns, const ValueArray& coding, int64_t shared_per_block, bool fused,
                 int64_t* bytes) {
    for (int warps = 32; warps >= 1; warps--) {
        const int64_t scratch = int64_t(warps) * 32 * 8;
        int64_t values = (columns + 1) * 32 * warps + (coding.coding == BB_DICTIONARY ? 256 : 0);
        if (fused) values += columns + 1;
        *bytes = scratch + values * coding.vector_bytes();
        if (*bytes <= shared_per_block) return warps;
    }
    return 0;
}

template <class T, int CODING>
const void* narrow_kernel(int index_bytes, bool fused) {
    if (index_bytes == 1)
        return fused ? reinterpret_cast<const void*>(&narrow_product<T, CODING, uint8_t, true>)
                     : reinterpret_cast<const void*>(&narrow_product<T, CODING, uint8_t, false>);
    return fused ? reinterpret_cast<const void*>(&narrow_product<T, CODING, uint16_t, true>)
                 : reinterpret_cast<const void*>(&narrow_product<T, CODING, uint16_t, false>);
}

}  // namespace

bool Narrow::fits(int64_t columns, const ValueArray& coding, const bb_device& device) {
    int64_t bytes = 0;
    return columns <= tuning::kNarrowColumns &&
           narrow_warps(columns, coding, device.shared_per_block, true, &bytes) >= 1;
}

Narrow::Narrow(Memory& memory, const Sliced& rows, const ValueArray& coding, const bb_device& device)
    : memory_(&memory) {
    for (int fused = 0; fused < 2; fused++) {
        threads_[fused] =
            32 * narrow_warps(rows.cols, coding, device.shared_per_block, fused != 0, &shared_[fused]);
        with_values(coding.type, coding.coding, [&](auto kind) {
            using T = typename decltype(kind)::T;
            constexpr int CODING = decltype(kind)::CODING;
            kernel_[fused] = narrow_kernel<T, CODING>(rows.cut.index_bytes, fused != 0);
        });
        cudaFuncAttributes attributes;
        BB_CHECK(cudaFuncGetAttributes(&attributes, kernel_[fused]));
        BB_CHECK(cudaFuncSetAttribute(kernel_[fused], cudaFuncAttributeMaxDynamicSharedMemorySize,
                                      int(device.shared_per_block - int64_t(attributes.sharedSizeBytes))));
        const int most = attributes.maxThreadsPerBlock / 32 * 32;
        if (threads_[fused] > most) threads_[fused] = most;
    }
    block_sums_ = Array<double>(memory, int64_t(rows.blocks) * (rows.cols + 1));
    ticket_ = Array<uint32_t>(memory, 1);
    ticket_.fill_bytes(0);
}

void Narrow::launch(bool fused, const Sliced& rows, const ValueArray& coding, FusedInput input,
                    const void* in, void* margins, void* gradient, double* risk) {
    NarrowView view = {view_of(rows, coding), int32_t(rows.cols), block_sums_.data(), ticket_.data()};
    void* arguments[] = {&view, &input, &in, &margins, &gradient, &risk};
    BB_CHECK(cudaLaunchKernel(kernel_[fused], dim3(unsigned(rows.blocks)), dim3(unsigned(threads_[fused])),
                              arguments, size_t(shared_[fused]), memory_->stream));
}

void Narrow::transposed(const Sliced& rows, const ValueArray& coding, const void* r, void* gradient) {
    launch(false, rows, coding, {}, r, nullptr, gradient, nullptr);
}

void Narrow::fused(const Sliced& rows, const ValueArray& coding, int loss, double parameter, double scale,
                   const void* w, const double* labels, const double* weights, void* margins, void* gradient,
                   double* risk) {
    launch(true, rows, coding, {loss, parameter, scale, labels, weights}, w, margins, gradient, risk);
}

}  // namespace bmrm
