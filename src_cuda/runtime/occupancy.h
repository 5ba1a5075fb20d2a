// How many blocks a multiprocessor holds for the shared memory that they take.  Host code that needs neither
// a device nor CUDA's headers.
#pragma once
#include <stdint.h>

#include "api/blackbox.h"

namespace bmrm {
namespace tuning {

constexpr int kBlocksResident = 2;         // of a kernel with a shared tile, on a multiprocessor
constexpr int64_t kReservedShared = 1024;  // bytes of shared memory that the driver takes for each block

}  // namespace tuning

// Blocks of a multiprocessor for so many bytes of shared memory a block; 0 where it does not fit.
int resident_blocks(const bb_device& device, int64_t shared_bytes);

// Bytes of shared memory of a multiprocessor that leave L1 the room which the loads of a stream take while
// they are under way: so many steps below the most that there can be.
int64_t shared_beside_loads(const bb_device& device, int steps = 1);

}  // namespace bmrm
