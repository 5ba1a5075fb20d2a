"""Numbers of pairs of points on the device: binding of ``src_cuda/api/pair_values.h``."""


cdef bb_pair_values _values_of_pairs(array) except *:
    """Describe what `_array` returned: a square matrix or its upper triangle; None for none."""
    cdef bb_pair_values found
    memset(&found, 0, sizeof(found))
    if array is None:
        return found
    if array.dtype not in (np.float32, np.float64) or array.ndim not in (1, 2):
        raise ParameterError(f"pairs: found {array.ndim} dimensions of {array.dtype}, expected float32 or float64")
    if isinstance(array, np.ndarray) and not array.flags.c_contiguous:
        raise ParameterError("pairs: expected a C-contiguous array")
    found.values = _part(array, 0)
    found.type, found.square = _type_of(array.dtype), array.ndim == 2
    found.in_place = isinstance(array, _DeviceArray)
    return found


def inspect_resident_pairs(values, int64_t n, *, bint nan_allowed, double diagonal, double asymmetry, device=0):
    """Look for what makes dissimilarities or weights on a device invalid.

    Parameters
    ----------
    values : array on the device, float32 or float64, shape (n, n) or (n (n - 1) / 2,)
    n : int
    nan_allowed : bool
    diagonal : float
        Maximum absolute value on the diagonal, as a share of the largest entry; negative: it is not looked at.
    asymmetry : float
        Maximum difference of the two entries of a pair, as a share of the largest entry.
    device : int, default 0

    Returns
    -------
    kind : int
        Place of the defect in `bmrm.pairs._pairs.DEFECTS`.
    row, column : int
    value, other : float
        The two entries of the pair.
    largest : float
    missing : bool
        Whether some are NaN.
    """
    cdef int32_t number = _device(device)
    array = _DeviceArray(values, "pairs")
    cdef bb_pair_values given = _values_of_pairs(array)
    cdef bb_pair_defect found
    memset(&found, 0, sizeof(found))
    with nogil:
        check(bb_pairs_inspect(number, n, &given, nan_allowed, diagonal, asymmetry, &found))
    return found.kind, found.row, found.column, found.value, found.other, found.largest, bool(found.missing)
