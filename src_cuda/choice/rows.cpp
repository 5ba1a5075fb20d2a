// The plain kernels on compressed rows: the plans that they offer, and how long these take.
#include <algorithm>
#include <cmath>

#include "choice/format.h"
#include "choice/shapes.h"

namespace bmrm {
namespace {

using namespace tuning;

Prediction compressed_rows(const Case& c) {
    Prediction out{};
    out.chunks = double(c.stats.rows);
    out.elements = double(c.stats.nnz);
    out.bytes = 8.0 * double(c.stats.rows + 1) + out.elements * (4 + c.stats.value_bytes);
    return out;
}

void offer_subwarp(const bb_device&, const bb_stats&, Plans& plans) {
    for (int lanes : kLanes) plans.add(BB_SUBWARP, lanes, 0, 0, 0);
}

Prediction predict_subwarp(const Case& c) {
    Prediction out = compressed_rows(c);
    out.launches = 1;
    // A block stays resident until the longest of its rows is done; its rows are as good as random.
    const double lanes = c.plan.lanes, rows = std::max(1.0, double(c.stats.rows));
    const double a_block = kPlainThreads / lanes;
    double below = 0, steps = 0, fetched = 0;
    for_each_length(c.stats, [&](double count, double length) {
        const double chance = std::pow((below + count) / rows, a_block) - std::pow(below / rows, a_block);
        below += count;
        steps += rows / a_block * chance * std::ceil(length / (2 * lanes));
        // Loads of few lanes fetch more of their sectors than they use, and L1 does not keep the rest.  Short
        // rows share sectors.
        for (const double bytes : {4.0, double(c.stats.value_bytes)})
            if (bytes > 0)
                fetched += count * std::ceil(length / lanes) *
                           std::min(lanes * bytes + kSectorBytes - bytes, length * bytes);
    });
    const double moved = out.bytes + c.vectors();
    const double stream =
        std::max(moved / (kSubwarpShare * c.bandwidth(moved)), fetched / (kSectorSpeed * c.constants.read));
    const double warps_a_block = kPlainThreads / 32.0;
    const double lives = warps_a_block * (rows / a_block * kWarpLife + steps * kWarpStep);
    const double turns = lives / (double(c.device.multiprocessors) * kPlainWarps);
    const double step =
        (c.stats.value_bytes ? kRowLatency : kOnesLatency) * (c.stats.vector_bytes == 8 ? kWideLatency : 1) +
        32 / lanes * kRowsLatency;
    const double longest = std::ceil(double(c.stats.longest) / (2 * lanes)) * step;
    const double gathers = gather_seconds(c, 0, false, kFirstLevelBytes);
    const bool early = all_at_once(rows / a_block, c.device.multiprocessors);
    out.seconds = c.start(1, early) + together({stream, gathers, turns, longest});
    return out;
}

void offer_split(const bb_device&, const bb_stats&, Plans& plans) { plans.add(BB_SPLIT, 0, 0, 0, 0); }

Prediction predict_split(const Case& c) {
    Prediction out = compressed_rows(c);
    out.launches = 2;
    const double moved = out.bytes + c.vectors();
    const double stream = moved / (kSplitShare * c.bandwidth(moved));
    const double longest = double(c.stats.longest), rows = double(c.stats.rows);
    const double shares = std::max(1.0, std::ceil(out.elements / kSplitNonzeros));
    const double turns = std::ceil(shares / (double(c.device.multiprocessors) * kSplitBlocks));
    // A share goes through its rows, including empty ones.  The longest gap between nonempty rows is likely
    // to exceed the mean by a logarithm.
    const double filled = rows - double(c.stats.empty_rows);
    const double gap = filled < rows ? std::min(rows, rows / (filled + 1) * std::log(filled + 2)) : 0;
    const double a_share = rows / shares, most = std::max(a_share, gap);
    // The more rows a share has, the fewer threads add up each row, including a long one among them.
    const double threads =
        std::clamp(kPlainThreads / std::exp2(std::ceil(std::log2(std::max(1.0, most)))), 1.0, 32.0);
    const double adding = std::min(longest, double(kSplitNonzeros)) / threads * kAddLatency;
    const double passing = (turns * a_share + most) / kPlainThreads * kPassLatency;
    // The second kernel adds up what the shares of a row have carried, one after another.
    const double carries = longest / kSplitNonzeros * kCarryLatency;
    const double gathers = gather_seconds(c, 0, false, kFirstLevelBytes);
    const bool early = all_at_once(shares, c.device.multiprocessors);
    out.seconds = c.start(1, early) + c.start(1) + kSplitStart +
                  together({stream, gathers, adding + passing}) + carries;
    return out;
}

}  // namespace

const Format subwarp_format = {offer_subwarp, predict_subwarp, false};
const Format split_format = {offer_split, predict_split, false};

}  // namespace bmrm
