#include "choice/format.h"

namespace bmrm {
namespace {

using namespace tuning;

// Only dense rows are stored so.
void offer_dense(const bb_device&, const bb_stats&, Plans&) {}

Prediction predict_dense(const Case& c) {
    Prediction out{};
    out.launches = 1;
    out.chunks = double(c.stats.rows);
    out.elements = double(c.stats.rows) * double(c.stats.cols);
    out.bytes = out.elements * c.stats.value_bytes;
    const double moved = out.bytes + c.vectors();
    out.seconds = c.start(1, false) + moved / c.bandwidth(moved);
    return out;
}

}  // namespace

const Format dense_format = {offer_dense, predict_dense, false};

}  // namespace bmrm
