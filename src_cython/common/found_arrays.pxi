"""Arrays into which neighbours are written: checks of the arguments of searches, on the CPU and on a GPU."""


cdef void* _whole(array, str name, kind, tuple shape) except? NULL:
    """Return where an array of whole numbers begins that can be written in place."""
    if array.dtype != kind or array.shape != shape or not (array.flags.carray and array.flags.aligned):
        raise ParameterError(f"{name}: expected a contiguous array of {kind.__name__} of shape {shape}")
    return _address(array)


cdef const int64_t* _row_starts(starts, int64_t rows, int64_t found) except? NULL:
    """Return where each row of a sparse matrix begins: sums of counts, of which the last one is ``found``."""
    cdef void* at = _whole(starts, "starts", np.int64, (rows + 1,))
    if starts[0] != 0 or starts[rows] != found or (starts[1:] < starts[:rows]).any():
        raise ParameterError("starts: expected sums of counts")
    return <const int64_t*>at
