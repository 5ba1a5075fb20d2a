"""The matrix resident in main memory and its products (C++ in ``cpu/``)."""

from libc.stdint cimport int64_t, uint32_t, uint64_t
from libcpp.memory cimport unique_ptr
from libcpp.vector cimport vector

from cpu.matrix cimport Centring, CMatrix, Sources, Targets

import numpy as np

from bmrm.errors import BmrmError, DataError, ParameterError


cdef extern from "cpu/build.h" namespace "bmrm" nogil:
    cdef enum class TransposePolicy:
        never
        automatic
        always

    cdef enum class ColumnOrder:
        automatic
        as_given
        by_popularity

    unique_ptr[CMatrix] make_sparse(const int64_t*, const void*, int, const void*, int,
                                    int64_t, int64_t, int64_t, int, TransposePolicy, ColumnOrder) except +
    unique_ptr[CMatrix] make_dense(const void*, int, int64_t, int64_t, int) except +
    int64_t predict_sparse_bytes(int64_t, int64_t, int64_t, int64_t, TransposePolicy)
    cdef struct RowAdditions:
        double most, per_entry
    RowAdditions count_additions "bmrm::row_additions"(int64_t)
    void keys_of_columns(const int64_t*, int64_t, uint64_t*)
    const char* isa_name()

cdef extern from "device_limits.h" namespace "bmrm" nogil:
    const int kSplitNonzeros "bmrm::tuning::kSplitNonzeros"
    const double kFreeShare "bmrm::tuning::kFreeShare"
    const int64_t kClimbedRows "bmrm::tuning::kClimbedRows"
    const int kPieceNonzeros, kPartialThreads, kMaxUploadThreads
    const int64_t kPinnedPiece, kMinPinnedBytes

# Limits of products on a GPU, and of uploads; see the header.
SPLIT_NONZEROS, PIECE_NONZEROS, PARTIAL_THREADS = kSplitNonzeros, kPieceNonzeros, kPartialThreads
FREE_SHARE, MAX_ASCENT_ROWS_PER_COLUMN = kFreeShare, kClimbedRows
PINNED_PIECE_BYTES, MIN_PINNED_BYTES = kPinnedPiece, kMinPinnedBytes
MAX_UPLOAD_THREADS = kMaxUploadThreads


def instruction_set():
    """Return the instruction set of the kernels.

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


def row_additions(columns):
    """Return bounds of the additions that a term goes through in a product of sparse rows.

    Parameters
    ----------
    columns : int
        Number of vectors.

    Returns
    -------
    most, per_entry : float
        In a row with L entries a term goes through at most L additions, and at most ``most + per_entry * L``.

    Examples
    --------
    >>> row_additions(1), row_additions(8)
    ((32.0, 0.125), (32.0, 0.25))
    """
    cdef RowAdditions found = count_additions(columns)
    return found.most, found.per_entry


include "common/vectors.pxi"
include "common/threads.pxi"
include "common/products.pxi"
include "cpu/arguments.pxi"
include "cpu/matrix.pxi"
