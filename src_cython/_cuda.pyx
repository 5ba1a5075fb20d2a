"""The matrix resident on a GPU and its products: binding of the blackbox (``src_cuda/api/blackbox.h``).

Every call goes through `check`, and none holds the interpreter's lock while it works. Importing the module
does not touch the driver; the first call that needs a device does.

What frees something on a device may need other objects for that: their stream, their memory. So the collector
must not clear attributes of these classes when it breaks a cycle (``no_gc_clear``).
"""

from typing import NamedTuple

cimport cython
from cpu.matrix cimport CMatrix
from bmrm.matrix._cpu cimport Matrix as _CpuMatrix
from cpython.pycapsule cimport PyCapsule_New
from device_api cimport *
from svmlight.block_consumer cimport *
from libc.stdint cimport int32_t, int64_t, uint32_t
from libc.string cimport memset
from libcpp.memory cimport unique_ptr

import itertools
import math

import numpy as np

from bmrm.base.threads import usable_cores
from bmrm.errors import BmrmError, DataError, DeviceCodeError, DeviceMemoryError, ParameterError
from bmrm.matrix import _cpu
from bmrm.matrix.row_blocks import dense_blocks, sparse_blocks, steady_room

cdef extern from "formats/sliced.h" namespace "bmrm" nogil:
    cdef struct Cut:
        int64_t tile
        int32_t shared, gathered, by_count, index_bytes

    Cut cut_of(const bb_plan& plan, int64_t cols)


cdef int check(bb_status status) except -1 nogil:
    """Raise for a status other than BB_OK; the lock is taken only for that."""
    if status == BB_OK:
        return 0
    with gil:
        return raise_failure(status, ParameterError)


cdef int check_data(bb_status status) except -1 nogil:
    """As `check` for calls that pass the user's data: an invalid argument is a DataError."""
    if status == BB_OK:
        return 0
    with gil:
        return raise_failure(status, DataError)


cdef int raise_failure(bb_status status, invalid) except -1:
    """Raise the error of a status, with the message of the call that failed.

    BB_INVALID raises `invalid`, unless the message says that the caller's plan does not suit.
    """
    text = bb_last_error().decode("utf-8", "replace")
    if status == BB_INVALID:
        raise ParameterError(text) if text.startswith("plan:") else invalid(text)
    if status == BB_MEMORY:
        raise DeviceMemoryError(text)
    if status == BB_NO_CODE:
        raise DeviceCodeError(text)
    if status == BB_NO_DEVICE and "device='cpu'" not in text:
        text += "; use device='cpu'"
    raise BmrmError(text)


include "common/vectors.pxi"
include "common/found_arrays.pxi"
include "common/products.pxi"
include "cuda/arguments.pxi"
include "cuda/structures.pxi"
include "cuda/choice.pxi"
include "cuda/host_rows.pxi"
include "cuda/products.pxi"
include "cuda/report.pxi"
include "cuda/matrix.pxi"
include "cuda/upload_stream.pxi"
include "cuda/ranks.pxi"
include "cuda/training.pxi"
include "cuda/python_loss.pxi"
include "cuda/joint.pxi"
include "cuda/edges.pxi"
include "cuda/graph.pxi"
include "cuda/pair_values.pxi"
include "cuda/pairs.pxi"
include "cuda/densities.pxi"
include "cuda/scaling.pxi"
include "cuda/clusters.pxi"
include "cuda/dense_rows.pxi"
include "cuda/neighbours.pxi"
