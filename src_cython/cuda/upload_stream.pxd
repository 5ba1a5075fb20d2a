"""The C interface of an upload stream; ``src_cuda/api/upload_stream.h`` documents it."""

from cuda.blackbox cimport bb_status, bb_type
from libc.stdint cimport int32_t, int64_t


cdef extern from "api/upload_stream.h" nogil:
    ctypedef struct bb_upload_stream:
        pass

    int64_t bb_upload_stream_bytes(int64_t rows, int64_t nonzeros, bb_type type)
    bb_status bb_upload_stream_open(int32_t device, int64_t nonzeros, bb_type type, int32_t slots, int64_t each,
                                    bb_upload_stream **out)
    bb_status bb_upload_stream_lend(bb_upload_stream *stream, int32_t slot, int32_t **indices, void **values)
    bb_status bb_upload_stream_send(bb_upload_stream *stream, int32_t slot, int64_t first, int64_t count,
                                    int32_t ones)
    bb_status bb_upload_stream_settle(bb_upload_stream *stream, int64_t count, int32_t shift,
                                      const int32_t **indices, const void **values)
    bb_status bb_upload_stream_get(bb_upload_stream *stream, const void *from_, int64_t step, int64_t count,
                                   int32_t bytes, void *to)
    void bb_upload_stream_close(bb_upload_stream *stream)
