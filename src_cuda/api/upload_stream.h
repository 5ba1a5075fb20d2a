// The C interface of an upload stream: the indices and values of a text arrive on a device while the text is
// parsed.  Failures as in blackbox.h.
//
// A reader fills the slots of a ring of pinned memory; the contents of one slot are copied to the device
// while others are filled.
#pragma once
#include "api/blackbox.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct bb_upload_stream bb_upload_stream;

// Returns a lower bound of the device memory, in bytes, that an upload stream and the preparation of one
// block of `rows` rows with `nonzeros` values of `type` take at any time; each column adds to it.
BB_API int64_t bb_upload_stream_bytes(int64_t rows, int64_t nonzeros, bb_type type);
// Opens an upload stream.
// nonzeros: the maximum number that it may receive; type: of the values; slots: of the ring; each: the
// maximum number of nonzeros per slot; out: is set to the stream, which bb_upload_stream_close frees.
BB_API bb_status bb_upload_stream_open(int32_t device, int64_t nonzeros, bb_type type, int32_t slots,
                                       int64_t each, bb_upload_stream** out);
// Waits until the last copy from a slot is done, and returns its addresses.  May be called from any thread.
// slot: from 0; indices, values: are set to where the caller writes, `each` elements each.
BB_API bb_status bb_upload_stream_lend(bb_upload_stream* stream, int32_t slot, int32_t** indices,
                                       void** values);
// Queues the copy of a slot.  One call at a time.
// first, count: the nonzeros of the stream that the slot holds; ones: 1 to copy the indices alone (values
// that are never copied are 1).
BB_API bb_status bb_upload_stream_send(bb_upload_stream* stream, int32_t slot, int64_t first, int64_t count,
                                       int32_t ones);
// Waits for all copies, and frees the ring.
// count: the number of nonzeros received; shift: is added to their indices; indices, values: are set to the
// arrays on the device, which live as long as the stream.
BB_API bb_status bb_upload_stream_settle(bb_upload_stream* stream, int64_t count, int32_t shift,
                                         const int32_t** indices, const void** values);
// Frees a stream and its arrays; NULL is allowed.
BB_API void bb_upload_stream_close(bb_upload_stream* stream);

#ifdef __cplusplus
}
#endif
