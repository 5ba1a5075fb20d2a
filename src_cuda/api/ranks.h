// The C interface of what a rank's solve needs of the others, where the rows are spread over several devices:
// sums of a few numbers, which the caller makes, and NCCL for gradients, which is looked for when it is
// wanted.
#pragma once
#include "api/blackbox.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct {
    int32_t rank, size;
    void* context;  // of the calls, which return 0 where they have worked
    // Adds up numbers over the ranks, in place.
    int32_t (*total)(void* context, double* numbers, int64_t count);
    // Likewise for numbers of the matrix's type in main memory; asked where there is no NCCL.
    int32_t (*add_up)(void* context, void* numbers, int64_t count);
} bb_ranks;

typedef struct bb_nccl bb_nccl;  // a communicator of NCCL, one device a rank

enum { BB_NCCL_ID_BYTES = 128, BB_UUID_BYTES = 16 };

// What tells a device from all others, on whichever host and under whichever number.
BB_API bb_status bb_device_uuid(int32_t device, char uuid[BB_UUID_BYTES]);

// Finds the library, by a name or a path that dlopen knows.
BB_API bb_status bb_nccl_load(const char* library);
// A fresh name for a communicator, which one rank asks for and gives to all.
BB_API bb_status bb_nccl_id(char id[BB_NCCL_ID_BYTES]);
// Every rank calls it, and waits for the others in it.
BB_API bb_status bb_nccl_join(int32_t device, const char id[BB_NCCL_ID_BYTES], int32_t rank, int32_t size,
                              bb_nccl** out);
BB_API void bb_nccl_leave(bb_nccl* nccl);

#ifdef __cplusplus
}
#endif
