"""Attributes and methods of the class in ``products.pxi``, for the .pxd of a module that includes it."""

from libc.stdint cimport int64_t


cdef class _Products:
    cdef int64_t _m, _d, _nnz
    cdef object _squares

    cdef int _of_vector(self, bint transposed, x, out) except -1
    cdef int _of_columns(self, bint transposed, x, out) except -1
    cdef int _of_blocks(self, r, starts, out) except -1
    cdef int _column_squares(self, out) except -1
