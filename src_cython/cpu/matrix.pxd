"""The matrix in main memory as C++ has it, ``cpu/matrix.h``."""

from libc.stdint cimport int64_t, uint32_t, uint64_t
from libcpp cimport bool as cbool
from libcpp.memory cimport unique_ptr


cdef extern from "cpu/matrix.h" namespace "bmrm" nogil:
    cdef cppclass Sources "bmrm::Vectors<const double>":
        Sources(double**, int64_t)

    cdef cppclass Targets "bmrm::Vectors<double>":
        Targets(double**, int64_t)

    cdef struct Centring:
        const double* weights
        const double* mean

    cdef cppclass CMatrix "bmrm::Matrix":
        void matvec(const double*, double*) except +
        void rmatvec_blocks(const double*, const int64_t*, int64_t, double*) except +
        void matmat(Sources, int64_t, Targets) except +
        void rmatmat(Sources, int64_t, Targets) except +
        void rmatmat_blocks(Sources, int64_t, const int64_t*, int64_t, Targets) except +
        void gram_product(const double*, int64_t, int64_t, int64_t, const Centring&, double*) except +
        void weighted_gram(const double*, double*) except +
        void centred_gram(const double*, const double*, double*, double*) except +
        double weighted_gram_work()
        void column_squares(double*) except +
        unique_ptr[CMatrix] reordered(const int64_t*, int64_t*, void*) except +
        uint64_t sum_of_entries(uint64_t, const uint64_t*) except +
        void copy_entries(int64_t, int64_t*, void*) except +
        void build_transpose() except +
        int64_t bytes()
        cbool has_transpose()
        int index_bytes()
        cbool ones()
        cbool owns_values()
        const uint32_t* places()
