// The plan `mixed`: whether it is offered, and how long it takes.  Its two parts are predicted as plans of
// their own, from statistics of the long and of the short rows.
#include "formats/mixed.h"

#include <algorithm>
#include <cmath>

#include "choice/format.h"
#include "choice/shapes.h"
#include "runtime/occupancy.h"

namespace bmrm {
namespace {

using namespace tuning;

struct Parts {
    bb_stats many, few;
};

// Divides the statistics of an operator at a row length.
Parts divide(const bb_stats& stats, int64_t least) {
    Parts out{stats, stats};
    bb_stats &many = out.many, &few = out.few;
    many.rows = many.nnz = many.empty_rows = 0;
    for (int bin = 0; bin < BB_LENGTH_BINS; bin++) {
        const int64_t rows = stats.length_rows[bin], nnz = stats.length_nnz[bin];
        const bool is_long = rows > 0 && nnz >= least * rows;
        (is_long ? few : many).length_rows[bin] = (is_long ? few : many).length_nnz[bin] = 0;
        if (!is_long) continue;
        many.rows += rows;
        many.nnz += nnz;
    }
    few.nnz -= many.nnz;
    few.empty_rows += many.rows;
    few.length_rows[0] += many.rows;
    few.longest = std::min(stats.longest, least - 1);
    const double share = stats.nnz ? double(many.nnz) / double(stats.nnz) : 0.0;
    for (int k = 0; k < BB_TOPS; k++) {
        many.top_nnz[k] = int64_t(share * double(stats.top_nnz[k]));
        few.top_nnz[k] = stats.top_nnz[k] - many.top_nnz[k];
    }
    for (int k = 0; k < BB_SPREADS; k++) {
        // A long row meets about every group of columns that its nonzeros can.
        const double groups = std::ceil(double(stats.cols) / std::exp2(k + BB_SPREAD_FIRST));
        double met = 0;
        for_each_length(
            many, [&](double rows, double length) { met += rows * groups * -std::expm1(-length / groups); });
        many.fragments[k] = std::min(int64_t(met), many.nnz);
        few.fragments[k] =
            std::clamp(stats.fragments[k] - many.fragments[k], few.rows - few.empty_rows, few.nnz);
    }
    return out;
}

void offer_mixed(const bb_device& device, const bb_stats& stats, Plans& plans) {
    for (int blocks = kBlocksResident; blocks >= 1; blocks--) {
        const int64_t tile = widest_tile(device, stats, shared_beside_loads(device), blocks);
        if (tile < 1 || stats.cols <= tile || divided(stats.cols, tile) > kMaxTiles) continue;
        const bb_plan plan = {BB_MIXED, 0, 0, 0, tile};
        const double share =
            double(divide(stats, long_row(plan, stats.cols)).many.nnz) / std::max(1.0, double(stats.nnz));
        if (share < kMinLong || share > kMaxLong) continue;
        for (int cap : kHotCaps) plans.add(BB_MIXED, 0, cap, 0, tile);
    }
}

Prediction predict_mixed(const Case& c) {
    const Parts parts = divide(c.stats, long_row(c.plan, c.stats.cols));
    if (parts.many.nnz == 0 || parts.few.nnz == 0) return impossible();
    const bb_plan long_plan = plan_of_long(c.plan), short_plan = plan_of_short(c.plan);
    const Prediction many = tiled_format.predict({c.device, c.constants, parts.many, long_plan});
    Prediction out = sliced_format.predict({c.device, c.constants, parts.few, short_plan});
    out.seconds += many.seconds - c.start(1) + 2 * kNextLaunch;
    out.bytes += many.bytes;
    out.chunks += many.chunks;
    out.elements += many.elements;
    out.items += many.items;
    out.partials += many.partials;
    out.writes += many.writes;
    out.slowest = std::max(out.slowest, many.slowest);
    out.launches += many.launches + 1;
    return out;
}

}  // namespace

const Format mixed_format = {offer_mixed, predict_mixed, true};

}  // namespace bmrm
