"""The board of the ranks of a host, ``board.h``."""

from libc.stdint cimport int64_t


cdef extern from "board.h" namespace "bmrm" nogil:
    cdef cppclass Board:
        @staticmethod
        int64_t doubles(int, int64_t)
        Board(double*, int, int, int64_t, bint)
        int size()
        int64_t room()
        void post(const double*, int64_t)
        bint wait(int64_t)
        const double* numbers_of(int)
        void total(double*, int64_t)
