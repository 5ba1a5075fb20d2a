"""Numbers of pairs in main memory, as compiled loops take them; after ``common/vectors.pxi``."""

cdef extern from "pairs/pair_values.h" namespace "bmrm" nogil:
    cdef struct PairValues:
        const void* values
        int bytes
        bint square


cdef PairValues _pair_values(values) except *:
    """Take a square matrix or its upper triangle row by row; None for all 1."""
    cdef PairValues found
    found.values = NULL
    found.bytes = 8
    found.square = True
    if values is not None:
        if values.dtype not in (np.float32, np.float64) or not values.flags.c_contiguous:
            raise ParameterError(f"pairs: expected contiguous float32 or float64, found {values.dtype}")
        found.values = _address(values)
        found.bytes = values.itemsize
        found.square = values.ndim == 2
    return found
