"""Sums over the ranks of a host, as C++ has them in ``ranks/shared_sums.h``."""

from libc.stdint cimport int64_t


cdef extern from "ranks/shared_sums.h" namespace "bmrm" nogil:
    cdef cppclass SharedSums:
        @staticmethod
        int64_t doubles(int, int64_t)
        SharedSums(double*, int, int, int64_t, bint)
        int size()
        int64_t capacity()
        void post(const double*, int64_t)
        bint wait(int64_t)
        const double* numbers_of(int)
        void total(double*, int64_t)
