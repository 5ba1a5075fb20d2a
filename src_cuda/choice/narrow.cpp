#include <algorithm>
#include <cmath>

#include "choice/format.h"
#include "runtime/occupancy.h"

namespace bmrm {
namespace {

using namespace tuning;

// Returns the bytes of the sums that a warp of BB_NARROW keeps for the columns of X, and one that padding
// adds to.
int64_t narrow_sum_bytes(const bb_stats& stats, int64_t columns) {
    return (columns + 1) * 32 * stats.vector_bytes;
}

// Returns whether BB_NARROW, for an operator of these statistics, is X w of a narrow X; otherwise it is X' r
// of one.
bool is_narrow(const bb_stats& stats) { return stats.cols <= kNarrowColumns && stats.rows >= stats.cols; }

// A narrow X serves both operators with one format; in the transposed one, X's columns are the rows.  What
// looks like the transpose of a narrow X may be a short X, which only the caller can distinguish.
void offer_narrow(const bb_device& device, const bb_stats& stats, Plans& plans) {
    const bool transposed = !is_narrow(stats) && stats.rows <= kNarrowColumns &&
                            narrow_sum_bytes(stats, stats.rows) <= device.shared_per_block;
    if (stats.repeated || !(is_narrow(stats) || transposed)) return;
    const int64_t columns = transposed ? stats.rows : stats.cols;  // no row is longer, hence the cap
    plans.add(BB_NARROW, 0, int(columns), 0, columns);
}

// Both products of a narrow X from its rows: each warp takes a slice at a time, and in X' r adds into sums of
// its own, one set per lane.
Prediction predict_narrow(const Case& c) {
    const bb_stats& stats = c.stats;
    const bool normal = is_narrow(stats);
    const int64_t rows = normal ? stats.rows : stats.cols, columns = normal ? stats.cols : stats.rows;
    const int64_t sums = narrow_sum_bytes(stats, columns);
    if (sums > c.device.shared_per_block) return impossible();
    const int64_t room = normal ? INT64_MAX : shared_beside_loads(c.device) - kReservedShared;
    const int at_most =
        narrow_warps(c.device, (rows + 31) / 32, kMaxNarrowWarps * int(sizeof(float)) / stats.vector_bytes);
    const double warps = double(std::clamp<int64_t>(room / sums, 1, at_most));
    Prediction out{};
    out.launches = 1;
    out.chunks = double(rows);
    out.elements = (1 + kNarrowPadding) * double(stats.nnz);
    out.items = std::ceil(out.chunks / 32);
    out.bytes = 16 * out.items + 4 * out.chunks + out.elements * (1 + stats.value_bytes);
    out.partials = normal ? 0 : double(columns) * c.device.multiprocessors;
    const double moved = out.bytes + c.vectors() + out.partials * 2 * double(sizeof(double));
    const double stream = moved / (kNarrowShare * c.bandwidth(moved));
    // What is longer than a batch follows without looking ahead.
    const double turns = std::ceil(out.items / (c.device.multiprocessors * warps));
    const double wide = stats.vector_bytes / 4.0;
    const double more = std::max(0.0, out.elements / (4 * out.chunks + 1) - (wide > 1 ? 4 : 6));
    const double waits = turns * (kNarrowItemLatency + more * kNarrowQuadLatency);
    const double banks = double(columns) * wide;
    const double beside =
        normal ? banks * kNarrowWeightLatency : kNarrowFinish + banks * warps * kNarrowSumLatency;
    out.seconds = c.start(1) + beside + together({stream, waits});
    return out;
}

}  // namespace

const Format narrow_format = {offer_narrow, predict_narrow, true};

}  // namespace bmrm
