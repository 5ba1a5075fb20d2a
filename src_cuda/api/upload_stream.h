// The C interface of an upload stream: where the indices and values of a text arrive on a device while it is
// parsed.
//
// A reader fills the slots of a ring of pinned memory; what is sent from one is on its way while others are
// filled.  Errors as in blackbox.h.
#pragma once
#include "api/blackbox.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct bb_upload_stream bb_upload_stream;

// Bytes of device memory that an upload stream, and the preparation of one block of rows from it, take at a
// time at least: more with each column.
BB_API int64_t bb_upload_stream_bytes(int64_t rows, int64_t nonzeros, bb_type type);
// each: most nonzeros of a slot.
BB_API bb_status bb_upload_stream_open(int32_t device, int64_t nonzeros, bb_type type, int32_t slots,
                                       int64_t each, bb_upload_stream** out);
// Waits until what was sent from a slot has left it, and tells where it is.  From any thread.
BB_API bb_status bb_upload_stream_lend(bb_upload_stream* stream, int32_t slot, int32_t** indices,
                                       void** values);
// Queues the copy of what a slot holds to the places from `first` on.  ones: of the indices alone; places
// that get no values hold 1.  One call at a time.
BB_API bb_status bb_upload_stream_send(bb_upload_stream* stream, int32_t slot, int64_t first, int64_t count,
                                       int32_t ones);
// Waits for all copies, gives the ring back and adds to the first `count` indices.
BB_API bb_status bb_upload_stream_settle(bb_upload_stream* stream, int64_t count, int32_t shift,
                                         const int32_t** indices, const void** values);
// Copies to the host each `step`-th of the elements at an address, `count` of so many bytes.
BB_API bb_status bb_upload_stream_get(bb_upload_stream* stream, const void* from, int64_t step, int64_t count,
                                      int32_t bytes, void* to);
BB_API void bb_upload_stream_close(bb_upload_stream* stream);

#ifdef __cplusplus
}
#endif
