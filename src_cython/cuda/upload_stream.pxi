"""Uploads the indices and values of a text while it is parsed: binding of ``src_cuda/api/upload_stream.h``."""


@cython.no_gc_clear
cdef class Landing:
    """An upload stream: memory on a device for the indices and values of a text, filled through a ring of pinned slots.

    `bmrm.io._svmlight.parse` uses it as a sink.

    Parameters
    ----------
    nonzeros : int
        Maximum number of nonzeros.
    dtype : {float32, float64}
        Type of the values.
    slots : int
        Number of slots of the ring.
    each : int
        Number of nonzeros per slot.
    device : int, default 0

    Attributes
    ----------
    capsule : capsule
        Holds the ``svmlight_block_consumer``.
    failure : Exception or None
        Why the upload failed, if it has.

    Raises
    ------
    DeviceMemoryError
        If there is not enough memory on the device, or not enough pinned memory.
    """

    cdef bb_upload_stream* handle
    cdef svmlight_block_consumer consumer
    cdef object dtype
    cdef int32_t device
    cdef readonly object capsule, failure

    def __cinit__(self, int64_t nonzeros, dtype, int32_t slots, int64_t each, *, device=0):
        self.dtype, self.device = np.dtype(dtype), _device(device)
        cdef bb_type kind = _type_of(self.dtype)
        with nogil:
            check(bb_upload_stream_open(self.device, nonzeros, kind, slots, each, &self.handle))
        self.consumer.context, self.consumer.slots = <void*>self, slots
        self.consumer.lend, self.consumer.send = _lend_slot, _send_slot
        self.capsule = PyCapsule_New(&self.consumer, SVMLIGHT_BLOCK_CONSUMER, NULL)

    def __dealloc__(self):
        self.release()

    def release(self):
        """Release the memory, including that of the arrays."""
        cdef bb_upload_stream* handle = self.handle
        self.handle = NULL
        if handle != NULL:
            with nogil:
                bb_upload_stream_close(handle)

    @property
    def is_held(self):
        """Whether the memory is still there."""
        return self.handle != NULL

    @staticmethod
    def predict_bytes(int64_t rows, int64_t nonzeros, dtype):
        """Return the bytes of device memory needed to upload and prepare a matrix with few columns."""
        return bb_upload_stream_bytes(rows, nonzeros, _type_of(np.dtype(dtype)))

    def settle(self, int64_t count, int32_t shift):
        """Finish the upload: add `shift` to the first `count` indices, and return them and as many values."""
        cdef bb_upload_stream* handle = self.handle
        cdef const int32_t* indices
        cdef const void* values
        with nogil:
            check(bb_upload_stream_settle(handle, count, shift, &indices, &values))
        return (
            held_array(self, self.device, indices, count, np.dtype(np.int32)),
            held_array(self, self.device, values, count, self.dtype),
        )

    cdef int32_t fail(self, bb_status status) noexcept with gil:
        """Keep the exception of a failed call, in the thread that made it."""
        try:
            check(status)
        except Exception as error:
            self.failure = error
        return 1


cdef int32_t _lend_slot(void* context, int32_t slot, svmlight_slot* out) noexcept nogil:
    cdef bb_status status = bb_upload_stream_lend((<Landing>context).handle, slot, &out.indices, &out.values)
    return 0 if status == BB_OK else (<Landing>context).fail(status)


cdef int32_t _send_slot(void* context, int32_t slot, int64_t first, int64_t count, int32_t ones) noexcept nogil:
    cdef bb_status status = bb_upload_stream_send((<Landing>context).handle, slot, first, count, ones)
    return 0 if status == BB_OK else (<Landing>context).fail(status)
