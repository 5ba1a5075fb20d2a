"""Vectors on the host: checks of the arguments of products, the same for every compiled module."""

cdef _input(value, tuple shape, str name):
    """Return `value` as an aligned C-contiguous float64 array of that shape, copied only if it is not one."""
    array = np.require(value, dtype=np.float64, requirements=("C", "A"))
    if array.shape != shape:
        raise ParameterError(f"{name}: found shape {array.shape}, expected {shape}")
    return array


cdef _output(out, tuple shape):
    """Return `out` if it can be written in place, a new array if it is None."""
    if out is None:
        return np.empty(shape)
    if not isinstance(out, np.ndarray) or out.dtype != np.float64 or out.shape != shape:
        raise ParameterError(f"out: expected a float64 array of shape {shape}")
    if not (out.flags.c_contiguous and out.flags.aligned and out.flags.writeable):
        raise ParameterError("out: expected a writeable, aligned, C-contiguous array")
    return out


cdef inline void* _address(array) except? NULL:
    return <void*><size_t>array.ctypes.data
