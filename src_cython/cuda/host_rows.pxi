"""Rows that stay in main memory, whose products the CPU computes (``src_cuda/matrix/host_rows.h``)."""

from cpython.memoryview cimport PyMemoryView_FromMemory
from cpython.buffer cimport PyBUF_READ

cdef extern from "cpu/consecutive_rows.h" namespace "bmrm" nogil:
    cdef cppclass _ConsecutiveRows "bmrm::ConsecutiveRows":
        _ConsecutiveRows(int64_t)
        void add(CMatrix*, int64_t) except +

    int32_t multiply_rows(void*, bint, int64_t, const int64_t*, int64_t, const double*, double*) noexcept


cdef int32_t _multiply_rows(
    void* rows, bb_operator op, int32_t columns, const int64_t* starts, int32_t blocks, const double* x, double* y
) noexcept nogil:
    return multiply_rows(rows, op == BB_TRANSPOSED, columns, starts, blocks, x, y)
