#include "runtime/occupancy.h"

#include <algorithm>

namespace bmrm {

using namespace tuning;

int resident_blocks(const bb_device& device, int64_t shared_bytes) {
    if (shared_bytes > device.shared_per_block) return 0;
    const int64_t blocks = device.shared_per_multiprocessor / (shared_bytes + kReservedShared);
    return int(std::clamp<int64_t>(blocks, 1, kBlocksResident));
}

int64_t shared_beside_loads(const bb_device& device, int steps) {
    // The possible splits of memory between shared memory and L1 (KiB of shared memory), largest first; a
    // launch takes the smallest that suffices.
    for (const int64_t kib : {196, 164, 132, 100, 64, 32})
        if (kib << 10 < device.shared_per_multiprocessor && --steps == 0) return kib << 10;
    return device.shared_per_multiprocessor;
}

}  // namespace bmrm
