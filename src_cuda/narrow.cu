#include <algorithm>

#include "kernels/narrow.cuh"
#include "kernels/parts.cuh"
#include "products.h"
#include "select.h"
#include "tuning.h"

namespace bmrm {

namespace {

// Bytes of shared memory of a block of so many warps.
int64_t narrow_bytes(int64_t columns, const ValueArray& coding, NarrowPass pass, int warps) {
    const int64_t banks = (columns + 1) * 32 * coding.vector_bytes();
    const int64_t table = coding.coding == BB_DICTIONARY ? 256 * coding.vector_bytes() : 0;
    const int64_t weights = pass != NARROW_GRADIENT ? banks : 0;
    const int64_t sums = pass != NARROW_MARGINS ? warps * (banks + 32 * int64_t(sizeof(double))) : 0;
    return table + weights + sums;
}

template <class T, int CODING, bool SHORT>
const void* narrow_kernel(NarrowPass pass) {
    switch (pass) {
        case NARROW_MARGINS:
            return reinterpret_cast<const void*>(&narrow_product<T, CODING, NARROW_MARGINS, SHORT>);
        case NARROW_GRADIENT:
            return reinterpret_cast<const void*>(&narrow_product<T, CODING, NARROW_GRADIENT, SHORT>);
        default:
            return reinterpret_cast<const void*>(&narrow_product<T, CODING, NARROW_FUSED, SHORT>);
    }
}

// For rows of so many nonzeros at most.
template <class T, int CODING>
const void* narrow_kernel(NarrowPass pass, uint32_t longest) {
    return longest < 4 * (kHeldQuads<T, true> + 1) ? narrow_kernel<T, CODING, true>(pass)
                                                   : narrow_kernel<T, CODING, false>(pass);
}

}  // namespace

bool Narrow::fits(int64_t columns, const ValueArray& coding, const bb_device& device) {
    return columns <= tuning::kNarrowColumns &&
           narrow_bytes(columns, coding, NARROW_FUSED, 1) <= device.shared_per_block;
}

Narrow::Narrow(Memory& memory, const Sliced& rows, const ValueArray& coding, const bb_device& device)
    : memory_(&memory) {
    const int64_t slices = rows.items.size();
    const int64_t room = shared_beside_loads(device) - tuning::kReservedShared;
    for (const NarrowPass pass : {NARROW_MARGINS, NARROW_GRADIENT, NARROW_FUSED}) {
        Launch& launch = launches_[pass];
        with_values(coding.type, coding.coding, [&](auto kind) {
            using T = typename decltype(kind)::T;
            constexpr int CODING = decltype(kind)::CODING;
            launch.kernel = narrow_kernel<T, CODING>(pass, rows.widest);
        });
        cudaFuncAttributes attributes;
        BB_CHECK(cudaFuncGetAttributes(&attributes, launch.kernel));
        BB_CHECK(cudaFuncSetAttribute(launch.kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                      int(device.shared_per_block)));
        int warps = narrow_warps(device, slices, attributes.maxThreadsPerBlock / 32);
        while (warps > 1 && narrow_bytes(rows.cols, coding, pass, warps) > room) warps--;
        launch.threads = 32 * warps;
        // Half of what there is: else blocks of the next product come to lie two on a multiprocessor, and
        // none on another, as this one ends.
        launch.shared_bytes =
            std::max(narrow_bytes(rows.cols, coding, pass, warps), device.shared_per_multiprocessor / 2);
        launch.blocks = int(std::clamp<int64_t>((slices + warps - 1) / warps, 1, device.multiprocessors));
    }
    block_sums_ = Array<double>(memory, int64_t(device.multiprocessors) * (rows.cols + 1));
}

void Narrow::start(int pass, const Sliced& rows, const ValueArray& coding, FusedInput input, const void* in,
                   void* margins) {
    NarrowView view = {view_of(rows, coding), uint32_t(rows.items.size()), int32_t(rows.cols),
                       block_sums_.data()};
    void* arguments[] = {&view, &input, &in, &margins};
    const Launch& launch = launches_[pass];
    const NextLaunch begin(unsigned(launch.blocks), launch.threads, launch.shared_bytes, memory_->stream,
                           memory_->overlaps);
    begin(launch.kernel, arguments);
}

void Narrow::finish(int pass, const Sliced& rows, const ValueArray& coding, void* gradient, double* risk) {
    by_type(coding.type, [&](auto t) {
        const double* sums = block_sums_.data();
        const int64_t stride = rows.cols + 1;
        add_up(sums, launches_[pass].blocks, stride, rows.cols, static_cast<decltype(t)*>(gradient),
               {sums + rows.cols, stride, risk}, memory_->stream, memory_->chains);
    });
}

void Narrow::normal(const Sliced& rows, const ValueArray& coding, const void* w, void* margins) {
    if (rows.elements == 0) {
        BB_CHECK(cudaMemsetAsync(margins, 0, size_t(rows.rows * coding.vector_bytes()), memory_->stream));
        return;
    }
    start(NARROW_MARGINS, rows, coding, {}, w, margins);
}

void Narrow::transposed(const Sliced& rows, const ValueArray& coding, const void* r, void* gradient) {
    start(NARROW_GRADIENT, rows, coding, {}, r, nullptr);
    finish(NARROW_GRADIENT, rows, coding, gradient, nullptr);
}

void Narrow::fused(const Sliced& rows, const ValueArray& coding, int loss, double parameter, double scale,
                   const void* w, bb_numbers labels, bb_numbers weights, void* margins, void* gradient,
                   double* risk) {
    start(NARROW_FUSED, rows, coding, {loss, parameter, scale, labels, weights}, w, margins);
    finish(NARROW_FUSED, rows, coding, gradient, risk);
}

}  // namespace bmrm
