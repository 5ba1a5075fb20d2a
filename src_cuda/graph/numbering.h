// Vectors of all nodes on their way to the host, in the order of numbers.  The device puts them in that
// order: its gathered reads hit the level-two cache, where a core of the host waits for memory at each node.
#pragma once
#include "matrix/handle.h"

namespace bmrm {

class Numbering {
  public:
    // places: the place of each number, on the host; null if they are equal.
    Numbering(Memory& memory, const uint32_t* places, int64_t nodes);

    // The places on the device, or null.
    const uint32_t* places() const { return places_.data(); }
    // Copies a vector in the order of places to the host.
    void fetch(Bridge& bridge, const double* by_place, double* values) const;

  private:
    Memory& memory_;
    const int64_t nodes_;
    Array<uint32_t> places_;
};

}  // namespace bmrm
