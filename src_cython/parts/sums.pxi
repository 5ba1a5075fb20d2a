"""The sums that a pass adds to, as an argument."""


cdef double* _sums(sums, int64_t size, int64_t rows, int64_t each, c_bool* parts) except NULL:
    """Check sums to add to, or an array with those of each part."""
    parts[0] = sums.ndim == 2
    cdef tuple shape = (size,)
    if parts[0]:
        shape = ((rows + each - 1) // each, size)
    if sums.dtype != np.float64 or sums.shape != shape or not sums.flags.c_contiguous:
        raise ParameterError(f"sums: found shape {sums.shape}, expected a contiguous float64 array of shape {shape}")
    return <double*>_address(sums)
