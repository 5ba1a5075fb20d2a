#include "graph/kernels/order.cuh"
#include "graph/numbering.h"
#include "runtime/chain.cuh"

namespace bmrm {

Numbering::Numbering(Memory& memory, const uint32_t* places, int64_t nodes) : memory_(memory), nodes_(nodes) {
    if (!places) return;
    places_ = Array<uint32_t>(memory, nodes);
    places_.from_host(places, nodes);
    BB_CHECK(cudaStreamSynchronize(memory.stream));  // the caller's array has been read
}

void Numbering::fetch(Bridge& bridge, const double* by_place, double* values) const {
    if (!places_) return bridge.fetch(memory_, BB_FLOAT64, by_place, nodes_, values);
    const Array<double> by_number(memory_, nodes_);
    const NextLaunch launch(blocks_for(nodes_), 256, 0, memory_.stream, false);
    launch(order_by_number, by_place, places_.data(), nodes_, by_number.data());
    bridge.fetch(memory_, BB_FLOAT64, by_number.data(), nodes_, values);
}

}  // namespace bmrm
