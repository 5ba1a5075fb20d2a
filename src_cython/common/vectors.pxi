"""Arrays on the host as products take and give them, the same for every backend."""

cdef _input(value, tuple shape, str name):
    """`value` as an aligned C-contiguous float64 array of that shape, copied only where it is not."""
    array = np.require(value, dtype=np.float64, requirements=("C", "A"))
    if array.shape != shape:
        raise ParameterError(f"{name}: found shape {array.shape}, expected {shape}")
    return array


cdef _columns(value, int64_t rows, str name):
    """`value` as such an array of so many rows and any number of columns."""
    array = np.require(value, dtype=np.float64, requirements=("C", "A"))
    if array.ndim != 2 or array.shape[0] != rows:
        raise ParameterError(f"{name}: found shape {array.shape}, expected ({rows}, K)")
    return array


cdef _output(out, tuple shape):
    """`out` when it can be written in place, a new array when it is None."""
    if out is None:
        return np.empty(shape)
    if not isinstance(out, np.ndarray) or out.dtype != np.float64 or out.shape != shape:
        raise ParameterError(f"out: expected a float64 array of shape {shape}")
    if not (out.flags.c_contiguous and out.flags.aligned and out.flags.writeable):
        raise ParameterError("out: expected a writeable, aligned, C-contiguous array")
    return out


cdef _integers(value, str name, bint narrow):
    """`value` as a one-dimensional int64 array, or int32 when it is that and `narrow` allows it."""
    array = np.asarray(value)
    if array.ndim != 1:
        raise DataError(f"{name}: found {array.ndim} dimensions, expected 1")
    if array.dtype.kind not in "iu" and array.size:
        raise DataError(f"{name}: found dtype {array.dtype}, expected integers")
    if array.dtype == np.uint64 and array.size and array.max() > np.iinfo(np.int64).max:
        raise DataError(f"{name}: found {array.max()}, more than int64 holds")
    dtype = np.int32 if narrow and array.dtype == np.int32 else np.int64
    return np.require(array, dtype=dtype, requirements=("C", "A"))


cdef inline void* _address(array) except? NULL:
    return <void*><size_t>array.ctypes.data
