// The C interface of what one rank needs from the others, if the rows of a problem or the nodes of a graph
// are spread over several devices: sums of a few numbers, which the caller computes, and NCCL for vectors,
// which is loaded on demand.  Failures as in blackbox.h.
#pragma once
#include "api/blackbox.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct {
    int32_t rank, size;  // this rank, from 0, and the number of ranks
    void* context;       // first argument of the calls, which return 0 if they succeed
    // Sums `count` doubles on the host over the ranks, in place.
    int32_t (*total)(void* context, double* numbers, int64_t count);
    // The same for numbers of the matrix's type on the host; called if there is no NCCL.
    int32_t (*add_up)(void* context, void* numbers, int64_t count);
    // Completes an array on the host, of which rank r has the bytes bounds[r] to bounds[r + 1]; likewise.
    int32_t (*gather)(void* context, void* whole, const int64_t* bounds);
} bb_ranks;

typedef struct bb_nccl bb_nccl;  // a communicator of NCCL, one device per rank

enum {
    BB_NCCL_ID_BYTES = 128,  // bytes of ncclUniqueId
    BB_UUID_BYTES = 16       // bytes of a device's UUID
};

// uuid: is set to what identifies a device, whatever its host and its number there.
BB_API bb_status bb_device_uuid(int32_t device, char uuid[BB_UUID_BYTES]);

// Loads NCCL.
// library: a name or a path for dlopen.
BB_API bb_status bb_nccl_load(const char* library);
// id: is set to a new name for a communicator, which one rank requests and sends to all.
BB_API bb_status bb_nccl_id(char id[BB_NCCL_ID_BYTES]);
// Joins a communicator; every rank calls it, and waits in it for the others.
// device: of this rank; id: from bb_nccl_id; rank, size: as in bb_ranks; out: is set to the communicator,
// which bb_nccl_leave frees.
BB_API bb_status bb_nccl_join(int32_t device, const char id[BB_NCCL_ID_BYTES], int32_t rank, int32_t size,
                              bb_nccl** out);
// Frees a communicator.
BB_API void bb_nccl_leave(bb_nccl* nccl);

#ifdef __cplusplus
}
#endif
