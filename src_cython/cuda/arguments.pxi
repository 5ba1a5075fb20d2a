"""Checks of arguments, and addresses of arrays on the host or on a device."""

cdef int64_t _integer(value, str name, int64_t least, int64_t most) except? -1:
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or not least <= value <= most:
        raise ParameterError(f"{name}: found {value!r}, expected an integer from {least} to {most}")
    return value


cdef int32_t _device(value) except -1:
    return <int32_t>_integer(value, "device", 0, 2**31 - 1)


cdef int _choice(value, dict names, str argument) except -1:
    if not isinstance(value, str) or value not in names:
        raise ParameterError(f"{argument}: found {value!r}, expected one of {', '.join(names)}")
    return names[value]


cdef tuple _shape(shape):
    """Return `shape` as two ints, within the range of the kernels' 32-bit row and column numbers."""
    m, d = _two_numbers(shape)
    if not (0 <= m < 2**31 and 0 <= d < 2**31):
        raise ParameterError(f"shape: found {(m, d)}, expected sizes from 0 to 2**31 - 1 on a GPU")
    return m, d


cdef int64_t _memory_limit(value) except -1:
    """Return the maximum number of bytes of device memory, 0 for no limit."""
    return 0 if value is None else _integer(value, "memory_limit", 1, 2**62)


cdef _threads(threads):
    if threads is None:
        return usable_cores()
    return _integer(threads, "threads", 1, 4096)


class _DeviceArray:
    """The ``__cuda_array_interface__`` of a C-contiguous array on a device."""

    def __init__(self, array, name):
        given = array.__cuda_array_interface__
        self.owner, self.shape, self.dtype = array, tuple(given["shape"]), np.dtype(given["typestr"])
        self.address, self.readonly = given["data"]
        self.ndim, self.size, self.itemsize = len(self.shape), math.prod(self.shape), self.dtype.itemsize
        strides, dense = given.get("strides"), self.itemsize
        if strides is not None and self.size:
            for extent, stride in zip(reversed(self.shape), reversed(strides)):
                if extent > 1 and stride != dense:
                    raise ParameterError(f"{name}: found strides {strides}, expected a C-contiguous array")
                dense *= extent


cdef _array(value, str name):
    """Return `value` as a `_DeviceArray` if it is on a device, else as a NumPy array."""
    return _DeviceArray(value, name) if hasattr(value, "__cuda_array_interface__") else np.asarray(value)


cdef void* _part(array, int64_t start) except? NULL:
    """Return the address of an element of a one-dimensional `_DeviceArray` or contiguous NumPy array."""
    if isinstance(array, _DeviceArray):
        return <void*>(<size_t>array.address + <size_t>(start * array.itemsize))
    return <void*>(<size_t>array.ctypes.data + <size_t>(start * array.itemsize))


cdef _vector(value, str name):
    """Return a one-dimensional array, on the host or on a device."""
    array = _array(value, name)
    if array.ndim != 1:
        raise DataError(f"{name}: found {array.ndim} dimensions, expected 1")
    return array


cdef _row_pointers(value, int32_t device, int64_t m, int64_t nnz):
    """Return row pointers on the host, checked against the numbers of rows and entries."""
    array = _vector(value, "indptr")
    if array.dtype.kind not in "iu" and array.size:
        raise DataError(f"indptr: found dtype {array.dtype}, expected integers")
    if isinstance(array, _DeviceArray):
        array = _from_device(array, device)
    ptr = np.require(array, dtype=np.int64, requirements=("C", "A"))
    if ptr.shape[0] != m + 1:
        raise DataError(f"indptr: found {ptr.shape[0]} entries, expected {m + 1} for {m} rows")
    if ptr[0] != 0:
        raise DataError(f"indptr: starts at {ptr[0]}, expected 0")
    descents = np.flatnonzero(ptr[1:] < ptr[:m])
    if descents.size:
        raise DataError(f"indptr: decreases at row {descents[0]}")
    if ptr[m] != nnz:
        raise DataError(f"indptr: ends at {ptr[m]}, but there are {nnz} entries")
    return ptr


cdef _from_device(array, int32_t device):
    """Copy a `_DeviceArray` to the host."""
    out = np.empty(array.shape, array.dtype)
    cdef void* to = _address(out)
    cdef const void* source = <const void*><size_t>array.address
    cdef int64_t count = out.nbytes
    with nogil:
        check(bb_copy(device, to, source, count))
    return out


cdef _stored_type(array, dtype, tuple allowed, str name, str expected, str kinds):
    """Return the type in which an array is uploaded: `dtype`, else its own if allowed, else the second allowed."""
    if array.dtype.kind not in kinds and array.size:
        raise DataError(f"{name}: found dtype {array.dtype}, expected {expected}")
    found = np.dtype(dtype) if dtype is not None else array.dtype if array.dtype in allowed else allowed[1]
    if isinstance(array, _DeviceArray) and array.dtype != found:
        raise DataError(f"{name}: found dtype {array.dtype} on the device, expected {found}")
    return found


cdef _slice(array, int64_t start, int64_t stop, dtype):
    """Return a part of an array for the upload, converted if it is on the host and of another type."""
    if isinstance(array, _DeviceArray):
        return array, start
    return np.require(array[start:stop], dtype=dtype, requirements=("C", "A")), 0


def _float_type(dtype):
    """Return `dtype` as float32 or float64, None for None."""
    if dtype is None:
        return None
    try:
        found = np.dtype(dtype)
    except TypeError:
        found = None
    if found != np.float32 and found != np.float64:
        raise ParameterError(f"dtype: found {dtype!r}, expected float32 or float64")
    return found


cdef bb_type _type_of(dtype) except *:
    return BB_FLOAT32 if dtype == np.float32 else BB_FLOAT64


cdef void* _device_memory(value, str name, dtype, int64_t size, bint written) except? NULL:
    """Return the address of an array on the device, which must have the expected type and size."""
    given = getattr(value, "__cuda_array_interface__", None)
    if given is None:
        raise ParameterError(f"{name}: found {type(value).__name__}, expected an array on the device")
    # Of a plain vector nothing more is to be found out: a small product takes less than a `_DeviceArray`.
    if given["shape"] == (size,) and given["typestr"] == dtype.str and given.get("strides") is None:
        address, readonly = given["data"]
        if not (written and readonly):
            return <void*><size_t>address
    array = _DeviceArray(value, name)
    if array.dtype != dtype or array.size != size:
        raise ParameterError(
            f"{name}: found {array.size} elements of {array.dtype}, expected {size} of {dtype}")
    if written and array.readonly:
        raise ParameterError(f"{name}: expected an array that may be written")
    return <void*><size_t>array.address

cdef class HeldArray:
    """Numbers on a device that an object holds, which stay valid until it is released.

    A `Matrix` uses them in place; a slice and `numpy.asarray` copy them to the host.

    Attributes
    ----------
    shape : tuple of int
    dtype : dtype
    device : int
    """

    cdef object owner
    cdef size_t address
    cdef readonly object shape, dtype
    cdef readonly int32_t device

    def __len__(self):
        return self.shape[0]

    @property
    def __cuda_array_interface__(self):
        return {
            "shape": self.shape,
            "typestr": self.dtype.str,
            "data": (self.address, True),
            "strides": None,
            "version": 3,
        }

    def __getitem__(self, slice part):
        """Copy a slice to the host."""
        start, stop, step = part.indices(self.shape[0])
        if step < 1:
            raise ParameterError(f"step: found {step}, expected at least 1")
        if not self.owner.is_held:
            raise ParameterError("the memory of these numbers has been released")
        out = np.empty(len(range(start, stop, step)), self.dtype)
        cdef int32_t bytes = out.itemsize
        cdef const void* source = <const void*><size_t>(self.address + start * out.itemsize)
        cdef void* target = _address(out)
        cdef int64_t each = step, count = out.size
        with nogil:
            check(bb_copy_steps(self.device, source, each, count, bytes, target))
        return out

    def __array__(self, dtype=None, copy=None):
        if copy is False:
            raise ValueError("copy: found False, but numbers on a device have to be copied to the host")
        out = self[:]
        return out if dtype is None else out.astype(dtype, copy=False)


cdef HeldArray held_array(owner, int32_t device, const void* address, int64_t count, dtype):
    """Return an array of an object that has ``is_held``."""
    cdef HeldArray out = HeldArray.__new__(HeldArray)
    out.owner, out.device, out.address, out.shape, out.dtype = owner, device, <size_t>address, (count,), dtype
    return out
