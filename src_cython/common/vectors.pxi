"""Vectors on the host: checks of the arguments of products, the same for every compiled module."""

from cpython.buffer cimport PyBUF_STRIDES, PyBuffer_Release, PyObject_GetBuffer

cdef object _Array = np.ndarray
cdef object _FLOAT64 = np.dtype(np.float64)


cdef inline bint _is_plain(array, tuple shape):
    """Whether it is an aligned C-contiguous float64 array of that shape, asked without a call into Python."""
    if type(array) is not _Array or array.dtype is not _FLOAT64 or array.shape != shape:
        return False
    flags = array.flags
    return flags.c_contiguous and flags.aligned


cdef _input(value, tuple shape, str name):
    """Return `value` as an aligned C-contiguous float64 array of that shape, copied only if it is not one."""
    if _is_plain(value, shape):
        return value
    array = np.require(value, dtype=np.float64, requirements=("C", "A"))
    if array.shape != shape:
        raise ParameterError(f"{name}: found shape {array.shape}, expected {shape}")
    return array


cdef inline _output(out, tuple shape):
    """Return `out` if it can be written in place, a new array if it is None."""
    if out is None:
        return np.empty(shape)
    if _is_plain(out, shape) and out.flags.writeable:
        return out
    if not isinstance(out, np.ndarray) or out.dtype != np.float64 or out.shape != shape:
        raise ParameterError(f"out: expected a float64 array of shape {shape}")
    if not (out.flags.c_contiguous and out.flags.aligned and out.flags.writeable):
        raise ParameterError("out: expected a writeable, aligned, C-contiguous array")
    return out


cdef void* _address(array) except? NULL:
    """Return where the numbers of an array begin. (`ctypes.data` takes as long as a small product.)"""
    cdef Py_buffer view
    cdef void* found
    PyObject_GetBuffer(array, &view, PyBUF_STRIDES)
    found = view.buf
    PyBuffer_Release(&view)
    return found
