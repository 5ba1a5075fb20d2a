// What a plan requires of the sliced format, in host code.
#include "formats/sliced.h"

#include <algorithm>
#include <cmath>

#include "formats/tuning.h"

namespace bmrm {

using namespace tuning;

int narrow_warps(const bb_device& device, int64_t slices, int most) {
    const double each = double(slices) / device.multiprocessors;
    return int(
        std::clamp<double>(std::ceil(kNarrowWarpsPerSlice * each), std::min(kMinNarrowWarps, most), most));
}

Cut cut_of(const bb_plan& plan, int64_t cols) {
    const int64_t tile = std::max<int64_t>(1, plan.tile);
    const int32_t index_bytes = tile <= kByteTile ? 1 : 2;
    switch (plan.kernel) {
        case BB_TILED:
            return {tile, int32_t(divided(std::max<int64_t>(cols, 1), tile)), 0, 0, index_bytes};
        case BB_HOT:
            return {tile, plan.tiles, plan.tiles < divided(cols, tile), 1, index_bytes};
        case BB_NARROW:
            return {cols, 1, 0, 0, 1};
        default:
            return {cols, 0, 1, 0, 4};
    }
}

bool can_slice(const bb_plan& plan, int64_t cols) {
    const Cut cut = cut_of(plan, cols);
    const bool has_tile = plan.kernel == BB_TILED || plan.kernel == BB_HOT;
    return plan.cap >= 1 && plan.cap <= kMaxCap && cut.shared >= 0 && cut.shared <= kMaxTiles &&
           cut.shared + cut.gathered >= 1 && (!has_tile || plan.tile >= 1) &&
           (cut.shared == 0 || cut.tile <= (cut.index_bytes == 1 ? kByteTile : kShortTile));
}

int item_target(const bb_plan& plan) { return plan.kernel == BB_NARROW ? kNarrowItem : plan.cap; }

}  // namespace bmrm
