#include <algorithm>

#include "formats/kernels/narrow.cuh"
#include "formats/sliced_product.h"
#include "runtime/occupancy.h"
#include "runtime/partial_sums.cuh"

namespace bmrm {

namespace {

// Returns the bytes of shared memory of a block of `warps` warps.
int64_t narrow_bytes(int64_t columns, const ValueArray& coding, NarrowPass pass, int warps) {
    const int64_t banks = (columns + 1) * 32 * coding.vector_bytes();
    const int64_t table = coding.coding == BB_DICTIONARY ? 256 * coding.vector_bytes() : 0;
    return table + (pass == NARROW_MARGINS ? banks : warps * (banks + 32 * int64_t(sizeof(double))));
}

const Source& expect_narrow(const Source& from) {
    if (!Narrow::fits(from.a.cols, from.coding, from.device))
        throw Failure(BB_INVALID, "plan: X has too many columns for the narrow form");
    if (from.a.repeated)
        throw Failure(BB_INVALID, "plan: a matrix with repeated columns in a row has no narrow form");
    return from;
}

}  // namespace

bool Narrow::fits(int64_t columns, const ValueArray& coding, const bb_device& device) {
    return columns <= tuning::kNarrowColumns &&
           narrow_bytes(columns, coding, NARROW_GRADIENT, 1) <= device.shared_per_block;
}

Narrow::Narrow(const Source& from)
    : memory_(from.memory),
      coding_(from.coding),
      rows_(expect_narrow(from)),
      margins_(
          launch_of(narrow_kernel<NARROW_MARGINS>(from.coding, rows_.slices().widest), NARROW_MARGINS, from)),
      gradient_(launch_of(narrow_kernel<NARROW_GRADIENT>(from.coding, rows_.slices().widest), NARROW_GRADIENT,
                          from)),
      block_sums_(memory_, int64_t(from.device.multiprocessors) * from.a.cols) {}

Narrow::Launch Narrow::launch_of(const void* kernel, NarrowPass pass, const Source& from) const {
    const bb_device& device = from.device;
    const int64_t slices = rows_.slices().items.size(), cols = from.a.cols;
    const int64_t room = shared_beside_loads(device) - tuning::kReservedShared;
    cudaFuncAttributes attributes;
    BB_CHECK(cudaFuncGetAttributes(&attributes, kernel));
    BB_CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                  int(device.shared_per_block)));
    int warps = narrow_warps(device, slices, attributes.maxThreadsPerBlock / 32);
    while (warps > 1 && narrow_bytes(cols, from.coding, pass, warps) > room) warps--;
    Launch launch = {};
    launch.kernel = kernel;
    launch.threads = 32 * warps;
    // At least half of the shared memory: otherwise, as a product ends, two blocks of the next one are placed
    // on one multiprocessor and none on another.
    launch.shared_bytes =
        std::max(narrow_bytes(cols, from.coding, pass, warps), device.shared_per_multiprocessor / 2);
    launch.blocks = int(std::clamp<int64_t>((slices + warps - 1) / warps, 1, device.multiprocessors));
    return launch;
}

void Narrow::start(const Launch& launch, const void* in, void* margins) {
    const Sliced& rows = rows_.slices();
    NarrowView view = {view_of(rows, coding_), uint32_t(rows.items.size()), int32_t(rows.cols),
                       block_sums_.data()};
    void* arguments[] = {&view, &in, &margins};
    const NextLaunch begin(unsigned(launch.blocks), launch.threads, launch.shared_bytes, memory_.stream,
                           memory_.overlaps);
    begin(launch.kernel, arguments);
}

void Narrow::normal(const void* w, void* margins) {
    const Sliced& rows = rows_.slices();
    if (rows.elements == 0) {
        BB_CHECK(cudaMemsetAsync(margins, 0, size_t(rows.rows * coding_.vector_bytes()), memory_.stream));
        return;
    }
    start(margins_, w, margins);
}

void Narrow::transposed(const void* r, void* gradient) {
    const int64_t cols = rows_.slices().cols;
    start(gradient_, r, nullptr);
    by_type(coding_.type, [&](auto t) {
        add_up(block_sums_.data(), gradient_.blocks, cols, cols, static_cast<decltype(t)*>(gradient),
               memory_.stream, memory_.chains);
    });
}

}  // namespace bmrm
