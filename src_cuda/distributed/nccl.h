// NCCL, which is loaded on demand; nothing is linked with it.  Only its sends and receives are used.
#pragma once
#include <cuda_runtime.h>

#include <vector>

#include "api/ranks.h"

namespace bmrm {

// What goes to another rank, and what comes from it.  The other rank has the same in its list, in the same
// place among those with this rank.
struct Transfer {
    int32_t rank;
    const void* sent;
    int64_t sent_bytes;
    void* received;
    int64_t received_bytes;
};

// Queues all transfers of a step on a stream.
void transfer(const bb_nccl& nccl, const std::vector<Transfer>& transfers, cudaStream_t stream);

}  // namespace bmrm
