#include <algorithm>

#include "kernels/narrow.cuh"
#include "kernels/parts.cuh"
#include "products.h"
#include "tuning.h"

namespace bmrm {

namespace {

// Warps of a block for so many columns, and the shared memory they take.
int narrow_warps(int64_t columns, const ValueArray& coding, int64_t shared_per_block, bool fused, int most,
                 int64_t* bytes) {
    for (int warps = most; warps >= 1; warps--) {
        const int64_t scratch = int64_t(warps) * 32 * 8;
        int64_t values = (columns + 1) * 32 * warps + (coding.coding == BB_DICTIONARY ? 256 : 0);
        if (fused) values += (columns + 1) * 32;
        *bytes = scratch + values * coding.vector_bytes();
        if (*bytes <= shared_per_block) return warps;
    }
    return 0;
}

template <class T, int CODING>
const void* narrow_kernel(bool fused) {
    return fused ? reinterpret_cast<const void*>(&narrow_product<T, CODING, uint8_t, true>)
                 : reinterpret_cast<const void*>(&narrow_product<T, CODING, uint8_t, false>);
}

}  // namespace

bool Narrow::fits(int64_t columns, const ValueArray& coding, const bb_device& device) {
    int64_t bytes = 0;
    return columns <= tuning::kNarrowColumns &&
           narrow_warps(columns, coding, device.shared_per_block, true, 1, &bytes) >= 1;
}

Narrow::Narrow(Memory& memory, const Sliced& rows, const ValueArray& coding, const bb_device& device)
    : memory_(&memory) {
    for (int fused = 0; fused < 2; fused++) {
        with_values(coding.type, coding.coding, [&](auto kind) {
            using T = typename decltype(kind)::T;
            constexpr int CODING = decltype(kind)::CODING;
            kernel_[fused] = narrow_kernel<T, CODING>(fused != 0);
        });
        cudaFuncAttributes attributes;
        BB_CHECK(cudaFuncGetAttributes(&attributes, kernel_[fused]));
        const int64_t room = device.shared_per_block - int64_t(attributes.sharedSizeBytes);
        BB_CHECK(
            cudaFuncSetAttribute(kernel_[fused], cudaFuncAttributeMaxDynamicSharedMemorySize, int(room)));
        const int warps = narrow_warps(rows.cols, coding, room, fused != 0,
                                       attributes.maxThreadsPerBlock / 32, &shared_[fused]);
        threads_[fused] = 32 * warps;
        // A tiny matrix is done in one launch by few blocks, whose sums the last of them can add up soon.
        const int64_t slices = rows.items.size(), for_all = (slices + 4 * warps - 1) / (4 * warps);
        in_place_[fused] = for_all < device.multiprocessors;
        blocks_[fused] = int(std::clamp<int64_t>(for_all, 1, device.multiprocessors));
    }
    block_sums_ = Array<double>(memory, int64_t(device.multiprocessors) * (rows.cols + 1));
    ticket_ = Array<uint32_t>(memory, 1);
    ticket_.fill_bytes(0);
}

void Narrow::launch(bool fused, const Sliced& rows, const ValueArray& coding, FusedInput input,
                    const void* in, void* margins, void* gradient, double* risk) {
    NarrowView view = {view_of(rows, coding), uint32_t(rows.items.size()), int32_t(rows.cols),
                       block_sums_.data(), in_place_[fused] ? ticket_.data() : nullptr};
    void* arguments[] = {&view, &input, &in, &margins, &gradient, &risk};
    BB_CHECK(cudaLaunchKernel(kernel_[fused], dim3(unsigned(blocks_[fused])), dim3(unsigned(threads_[fused])),
                              arguments, size_t(shared_[fused]), memory_->stream));
    if (in_place_[fused]) return;
    by_type(coding.type, [&](auto t) {
        add_up(block_sums_.data(), blocks_[fused], rows.cols + 1, rows.cols,
               static_cast<decltype(t)*>(gradient), risk, memory_->stream);
    });
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
