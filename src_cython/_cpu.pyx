"""The matrix resident in main memory and its products, with OpenMP (C++ in ``cpu/``)."""

from libc.stdint cimport int64_t, uint32_t, uint64_t
from libc.string cimport memcpy
from libcpp cimport bool as cbool
from libcpp.memory cimport unique_ptr
from libcpp.vector cimport vector

from ranks.shared_sums cimport SharedSums as CSharedSums

import numpy as np

from bmrm.errors import BmrmError, DataError, ParameterError


cdef extern from "<omp.h>" nogil:
    int omp_get_max_threads()


cdef extern from "common/team.h" namespace "bmrm" nogil:
    int team_of(int)


cdef extern from "cpu/build.h" namespace "bmrm" nogil:
    cdef enum class TransposePolicy:
        never
        automatic
        always

    cdef enum class ColumnOrder:
        automatic
        as_given
        by_popularity

    cdef cppclass Sources "bmrm::Vectors<const double>":
        Sources(double**, int64_t)

    cdef cppclass Targets "bmrm::Vectors<double>":
        Targets(double**, int64_t)

    cdef cppclass CMatrix "bmrm::Matrix":
        void matvec(const double*, double*) except +
        void rmatvec_blocks(const double*, const int64_t*, int64_t, double*) except +
        void matmat(Sources, int64_t, Targets) except +
        void rmatmat(Sources, int64_t, Targets) except +
        void rmatmat_blocks(Sources, int64_t, const int64_t*, int64_t, Targets) except +
        void weighted_gram(const double*, double*) except +
        double weighted_gram_work()
        void column_squares(double*) except +
        unique_ptr[CMatrix] reordered(const int64_t*, int64_t*, void*) except +
        uint64_t sum_of_entries(uint64_t, const uint64_t*) except +
        void build_transpose() except +
        int64_t bytes()
        cbool has_transpose()
        int index_bytes()
        cbool ones()
        cbool owns_values()
        const uint32_t* places()

    unique_ptr[CMatrix] make_sparse(const int64_t*, const void*, int, const void*, int,
                                    int64_t, int64_t, int64_t, int, TransposePolicy, ColumnOrder) except +
    unique_ptr[CMatrix] make_dense(const void*, int, int64_t, int64_t, int) except +
    int64_t predict_sparse_bytes(int64_t, int64_t, int64_t, int64_t, TransposePolicy)
    void keys_of_columns(const int64_t*, int64_t, uint64_t*)
    const char* isa_name()


def instruction_set():
    """Instruction set that the kernels run with.

    The environment variable ``BMRM_CPU_ISA`` may name a lower one than the processor offers; it
    is read once, at the first use.

    Returns
    -------
    str
        ``"avx512"``, ``"avx2"`` or ``"baseline"``.

    Examples
    --------
    >>> instruction_set() in ("avx512", "avx2", "baseline")
    True
    """
    return isa_name().decode()


def most_threads(int threads):
    """Threads that loops run on where so many are allowed: as many, but one in a child of fork().

    Parameters
    ----------
    threads : int

    Returns
    -------
    int

    Examples
    --------
    >>> most_threads(4)
    4
    """
    return team_of(threads)


include "common/vectors.pxi"
include "common/products.pxi"
include "ranks/shared_sums.pxi"
include "cpu/arguments.pxi"
include "cpu/matrix.pxi"
include "cpu/bundle.pxi"
include "dual/ascent.pxi"
