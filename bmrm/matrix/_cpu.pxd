"""What other compiled modules see of `_cpu`: the matrix that they work on."""

from libc.stdint cimport int64_t
from libcpp.memory cimport unique_ptr
from libcpp.vector cimport vector

from cpu.matrix cimport CMatrix

include "common/products_declaration.pxi"


cdef class Matrix(_Products):
    cdef unique_ptr[CMatrix] impl
    cdef object _owners, _dtype
    cdef int _n_threads

    cdef CMatrix* _get(self) except NULL
    cdef int _of_several(
        self, bint transposed, vector[double*] source, vector[double*] target, int64_t step
    ) except -1
    cdef int _of_vectors(self, bint transposed, vectors, outs, int64_t entries, int64_t sums) except -1
