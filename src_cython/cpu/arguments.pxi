"""Checks of the arguments of the matrix in main memory."""

cdef vector[double*] _column_addresses(array) except *:
    """Return the address of each column of a row-major array, whose last axis counts the columns."""
    cdef vector[double*] found
    cdef int64_t c
    for c in range(array.shape[array.ndim - 1]):
        found.push_back(<double*>_address(array) + c)
    return found


cdef TransposePolicy _policy(transpose) noexcept:
    """Return the C++ value of the argument `transpose`."""
    if transpose is None:
        return TransposePolicy.automatic
    return TransposePolicy.always if transpose else TransposePolicy.never


cdef ColumnOrder _column_order(by_popularity) noexcept:
    """Return the C++ value of the argument `by_popularity`."""
    if by_popularity is None:
        return ColumnOrder.automatic
    return ColumnOrder.by_popularity if by_popularity else ColumnOrder.as_given


cdef _values(value, str name):
    """Return `value` as float32 if it is that, else as float64; complex numbers and text are refused."""
    array = np.asarray(value)
    if array.dtype.kind not in "fiub":
        raise DataError(f"{name}: found dtype {array.dtype}, expected real numbers")
    dtype = np.float32 if array.dtype == np.float32 else np.float64
    return np.require(array, dtype=dtype, requirements=("C", "A"))


cdef tuple _shape(shape):
    """Return `shape` as two ints, m >= 0 and 0 <= d <= 2**32."""
    m, d = _two_numbers(shape)
    if not (0 <= m < 2**62 and 0 <= d <= 2**32):
        raise ParameterError(f"shape: found {(m, d)}, expected m >= 0 and d from 0 to 2**32")
    return m, d
