// How many blocks a multiprocessor holds, given the shared memory that they take.  Host code that needs
// neither a device nor CUDA headers.
#pragma once
#include <stdint.h>

#include "api/blackbox.h"

namespace bmrm {
namespace tuning {

constexpr int kBlocksResident = 2;         // maximum blocks per multiprocessor of a kernel with a shared tile
constexpr int64_t kReservedShared = 1024;  // bytes of shared memory that the driver reserves per block

}  // namespace tuning

// Returns the number of blocks per multiprocessor if each takes `shared_bytes`; 0 if it does not fit.
int resident_blocks(const bb_device& device, int64_t shared_bytes);

// Returns the bytes of shared memory per multiprocessor that leave enough L1 for the loads of a stream that
// are in flight: `steps` splits below the largest.
int64_t shared_beside_loads(const bb_device& device, int steps = 1);

}  // namespace bmrm
