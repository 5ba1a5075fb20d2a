"""Binding of the SVMlight reader, from a text in memory or a file to CSR or dense arrays, and of the checksum of the cache."""

from cpython.pycapsule cimport PyCapsule_GetPointer
from cpython.unicode cimport PyUnicode_DecodeUTF8
from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t
from libcpp cimport bool as cbool
from libcpp.vector cimport vector

from bmrm.io._text cimport Bytes, Text, kPadding
from svmlight.block_consumer cimport *

import numpy as np

include "text/reading.pxi"


cdef extern from "svmlight/block.h" namespace "svmlight" nogil:
    const int64_t kMaxIndex

    cdef enum class CFault "svmlight::Fault"(int):
        kNone

    cdef cppclass Options:
        int64_t smallest
        int64_t largest
        int32_t base
        cbool text_labels
        cbool query_id
        cbool sum_duplicates

    cdef cppclass Arrays[Value]:
        int64_t* row_ends
        int32_t* indices
        Value* values
        double* labels
        int64_t* queries
        Value* dense
        int64_t columns

cdef extern from "svmlight/extent.h" namespace "svmlight" nogil:
    cdef struct Extent:
        int64_t max_index
        cbool has_zero

cdef extern from "text/names.h" namespace "text" nogil:
    cdef cppclass Names:
        int64_t size()
        void gather(const char** bytes, int64_t* sizes)


cdef extern from "svmlight/reader.h" namespace "svmlight" nogil:
    cdef cppclass Reader:
        Reader(
            const Bytes& text, size_t start, size_t stop, size_t block_bytes, int threads, Poll poll
        ) except +raise_python
        cbool starts_dense(double least_share) except +raise_python
        cbool count_all(cbool finds_extent) except +raise_python
        cbool parse_all[Value](
            const Options& options, const Arrays[Value]& arrays, const svmlight_block_consumer* consumer
        ) except +raise_python
        cbool find_zero() except +raise_python
        Names names
        int64_t label_count()
        void gather_labels(const double* single, double* labels, int64_t* starts)
        int64_t rows
        int64_t nonzeros
        int64_t lines
        int64_t most_pairs
        int64_t max_index
        int32_t index_shift
        cbool consumer_failed
        cbool has_zero
        cbool ones
        cbool rounded
        cbool negative
        cbool misfit
        Extent extent
        cbool has_lists
        CFault fault
        Place fault_at
        Place no_label_at
        Place largest_at

cdef extern from "svmlight/entries.h" namespace "svmlight" nogil:
    cdef struct Entries:
        int64_t count
        int64_t row_count
        int64_t column_count
        int64_t* rows
        int64_t* columns
        double* values

    int64_t c_read_entries "svmlight::read_entries"(
        const char* text, int64_t start, int64_t length, const Entries& entries
    )

cdef extern from "svmlight/rows.h" namespace "svmlight" nogil:
    cdef struct RowSource:
        const int64_t* indptr
        const void* columns
        const void* values
        int column_bytes, value_bytes

    cbool take_rows_of(
        const RowSource& source, const int64_t* rows, int64_t count, const int64_t* indptr, void* columns,
        void* values, int threads, Poll poll) except +raise_python

cdef extern from "svmlight/columns.h" namespace "svmlight" nogil:
    cbool column_sums_of(
        const RowSource& source, int64_t rows, const double* weights, cbool squares, int64_t columns,
        double* sums, int threads, Poll poll) except +


cdef extern from "svmlight/checksum.h" namespace "svmlight" nogil:
    uint64_t c_checksum "svmlight::checksum"(
        const unsigned char* p, size_t size, int threads, cbool indices, uint32_t columns, cbool* in_range
    ) except +raise_python
    uint64_t c_read_checked "svmlight::read_checked"(
        int descriptor, size_t offset, unsigned char* p, size_t size, int threads, cbool indices,
        uint32_t columns, cbool* in_range
    ) except +raise_python


MAX_INDEX = kMaxIndex
cdef tuple FAULTS = (
    "", "label", "text", "no_label", "pair", "index", "value", "range", "repeated", "query", "changed"
)


class Parsed:
    """The result of `parse`; see the stub for the fields."""

    __slots__ = (
        "dense", "has_lists", "has_zero", "indices", "indptr", "labels", "label_names", "label_starts", "lines",
        "largest_at", "max_index", "negative", "no_label_at", "query", "rounded", "rows", "values",
    )


def parse(
    text,
    Py_ssize_t start,
    Py_ssize_t stop,
    *,
    zero_based,
    int64_t largest,
    dtype,
    bint text_labels,
    bint query_id,
    bint sum_duplicates,
    int threads,
    size_t block_bytes,
    land=None,
    choose=None,
    double least_share=0.0,
    n_features=None,
):
    """Parse whole lines ``text[start:stop]``; see the stub for the arguments."""
    cdef Text held = Text.of(text)
    held.check_range(start, stop)
    if block_bytes < 1:
        raise ValueError("block_bytes must be positive")
    cdef Options options
    options.smallest = 1 if zero_based is False else 0
    options.largest = largest
    options.text_labels = text_labels
    options.query_id = query_id
    options.sum_duplicates = sum_duplicates

    # What the first pass has seen of the columns is wrong for few texts. A parse that finds this tells the
    # truth. A text that still does not fit has changed, or has a fault that sparse rows let the caller report.
    cdef Extent extent
    cdef bint single = np.dtype(dtype) == np.float32, exact = False, dense = choose is not None
    cdef Reader* reader
    while True:
        reader = new Reader(held.bytes[0], start, stop, block_bytes, threads, poll)
        try:
            with nogil:
                dense = dense and reader.starts_dense(least_share)
                complete = reader.count_all(dense and not exact)
            if not complete:
                raise_pending()
            if not exact:
                extent = reader.extent
            zero = extent.has_zero if zero_based == "auto" else zero_based
            columns = max(0, extent.max_index + zero) if n_features is None else n_features
            dense = dense and columns > 0 and choose(reader.rows, reader.nonzeros, columns)
            options.base = 0 if (zero if dense else zero_based is True) else 1
            sink = None if dense or land is None else land(reader.rows, reader.nonzeros, reader.most_pairs)
            parsed = fill(reader, options, single, sink, columns if dense else 0)
            found = max(0, reader.max_index + zero) if n_features is None else n_features
            other_base = zero_based == "auto" and zero != reader.has_zero
            if not dense or not (reader.misfit or other_base or found != columns):
                return parsed
            dense, exact = not exact, True
            extent.max_index, extent.has_zero = reader.max_index, reader.has_zero
        finally:
            del reader


cdef fill(Reader* reader, Options& options, bint single, sink, int64_t columns):
    """Allocate arrays according to the counts, and parse into them: dense rows of so many columns, or sparse.

    Sparse rows may go to a sink instead.
    """
    cdef cbool complete
    cdef const svmlight_block_consumer* into = NULL
    cdef Arrays[float] floats
    cdef Arrays[double] doubles
    indptr = None if columns else np.empty(reader.rows + 1, np.int64)
    labels = np.empty(reader.rows, np.float64)
    query = np.empty(reader.rows, np.int64) if options.query_id else None
    kind = np.float32 if single else np.float64
    indices = values = dense = None
    if columns:
        dense = np.empty(reader.rows * columns, kind)
    elif sink is None:
        indices = np.empty(reader.nonzeros, np.int32)
        values = np.empty(reader.nonzeros, kind)
    else:
        into = <const svmlight_block_consumer*>PyCapsule_GetPointer(sink.capsule, SVMLIGHT_BLOCK_CONSUMER)

    doubles.row_ends = NULL
    if indptr is not None:
        indptr[0] = 0
        doubles.row_ends = <int64_t*>address(indptr) + 1
    doubles.indices = <int32_t*>address(indices)
    doubles.labels = <double*>address(labels)
    doubles.queries = <int64_t*>address(query)
    doubles.columns = columns
    if single:
        floats.row_ends = doubles.row_ends
        floats.indices = doubles.indices
        floats.labels = doubles.labels
        floats.queries = doubles.queries
        floats.columns = columns
        floats.values = <float*>address(values)
        floats.dense = <float*>address(dense)
        with nogil:
            complete = reader.parse_all[float](options, floats, into)
    else:
        doubles.values = <double*>address(values)
        doubles.dense = <double*>address(dense)
        with nogil:
            complete = reader.parse_all[double](options, doubles, into)
    if not complete:
        raise_pending()
    if reader.consumer_failed:
        raise sink.failure
    no_label = fault("no_label", reader.no_label_at)
    if <int>reader.fault != 0:
        if no_label is not None and not reader.has_lists and no_label.line < reader.fault_at.line:
            raise no_label
        raise fault(FAULTS[<int>reader.fault], reader.fault_at)

    parsed = Parsed()
    parsed.rows = reader.rows
    parsed.indptr = parsed.indices = parsed.values = parsed.dense = None
    if indptr is not None:
        parsed.indptr = shrunk(indptr, reader.rows + 1)
    if columns:
        parsed.dense = shrunk(dense, reader.rows * columns).reshape(reader.rows, columns)
    elif sink is None:
        parsed.indices = shrunk(indices, reader.nonzeros)
        parsed.values = None if reader.ones else shrunk(values, reader.nonzeros)
    else:
        parsed.indices, values = sink.settle(reader.nonzeros, reader.index_shift)
        parsed.values = None if reader.ones else values
    parsed.labels = shrunk(labels, reader.rows)
    parsed.label_starts = None
    parsed.label_names = gathered(reader.names) if options.text_labels else None
    if reader.has_lists:
        single_labels = parsed.labels
        parsed.labels = np.empty(reader.label_count(), np.float64)
        parsed.label_starts = np.empty(reader.rows + 1, np.int64)
        reader.gather_labels(
            <double*>address(single_labels),
            <double*>address(parsed.labels),
            <int64_t*>address(parsed.label_starts),
        )
    parsed.query = None if query is None else shrunk(query, reader.rows)
    parsed.lines = reader.lines
    parsed.max_index = reader.max_index
    parsed.rounded = reader.rounded
    parsed.negative = reader.negative
    parsed.has_zero = reader.has_zero
    parsed.has_lists = reader.has_lists
    parsed.no_label_at = no_label
    parsed.largest_at = fault("range", reader.largest_at)
    return parsed


cdef gathered(Names& names):
    """Return the names as strings, by their numbers."""
    cdef vector[const char*] bytes
    cdef vector[int64_t] sizes
    bytes.resize(names.size())
    sizes.resize(names.size())
    names.gather(bytes.data(), sizes.data())
    return [PyUnicode_DecodeUTF8(bytes[i], sizes[i], NULL) for i in range(<Py_ssize_t>names.size())]


def read_entries(
    const unsigned char[::1] text,
    Py_ssize_t start,
    Py_ssize_t length,
    *,
    shape,
    int64_t[::1] rows,
    int64_t[::1] columns,
    double[::1] values,
):
    """Fill the arrays from Matrix Market entries; see the stub for the arguments."""
    if not 0 <= start <= length <= text.shape[0] - kPadding:
        raise ValueError("text lacks its padding")
    cdef Entries entries
    entries.row_count, entries.column_count = shape
    entries.rows = entries.columns = NULL
    entries.values = NULL
    entries.count = 0
    if values is not None and values.shape[0]:
        entries.count = values.shape[0]
        entries.values = &values[0]
    if rows is not None and rows.shape[0]:
        if columns.shape[0] != rows.shape[0] or (values is not None and values.shape[0] != rows.shape[0]):
            raise ValueError("arrays of different lengths")
        entries.count = rows.shape[0]
        entries.rows, entries.columns = &rows[0], &columns[0]
    cdef int64_t fault
    with nogil:
        fault = c_read_entries(<const char*>&text[0], start, length, entries)
    return fault


def take_rows(const int64_t[::1] indptr, columns, values, const int64_t[::1] rows, *, int threads):
    """Copy rows of a CSR matrix, each with its columns ascending; see the stub for the arguments."""
    lengths = np.diff(indptr)[rows]
    to_indptr = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    total = int(lengths.sum())
    to_columns = np.empty(total, columns.dtype)
    to_values = None if values is None else np.empty(total, values.dtype)
    cdef const int64_t[::1] starts = to_indptr
    cdef RowSource source
    source.indptr, source.columns, source.column_bytes = &indptr[0], address(columns), columns.dtype.itemsize
    source.values = address(values)
    source.value_bytes = 0 if values is None else values.dtype.itemsize
    cdef void* columns_there = address(to_columns)
    cdef void* values_there = address(to_values)
    cdef const int64_t* which = &rows[0] if rows.shape[0] else NULL
    cdef int64_t count = rows.shape[0]
    cdef cbool complete
    with nogil:
        complete = take_rows_of(source, which, count, &starts[0], columns_there, values_there, threads, poll)
    if not complete:
        raise_pending()
    return to_indptr, to_columns, to_values


def column_sums(
    const int64_t[::1] indptr,
    columns,
    values,
    const double[::1] weights,
    int64_t n_columns,
    *,
    bint squares,
    int threads,
):
    """Add up the absolute values of each column, or their squares; see the stub for the arguments."""
    sums = np.zeros(n_columns)
    cdef RowSource source
    source.indptr, source.columns, source.column_bytes = &indptr[0], address(columns), columns.dtype.itemsize
    source.values, source.value_bytes = address(values), values.dtype.itemsize
    cdef int64_t rows = indptr.shape[0] - 1
    cdef const double* each = &weights[0] if rows else NULL
    cdef double* into = <double*>address(sums)
    cdef cbool complete
    with nogil:
        complete = column_sums_of(source, rows, each, squares, n_columns, into, threads, poll)
    if not complete:
        raise_pending()
    return sums


def has_zero_index(text, Py_ssize_t length, *, int threads, size_t block_bytes):
    """Return whether an index 0 occurs in ``text[:length]``, in a fraction of the time of parsing."""
    cdef Text held = Text.of(text)
    held.check_range(0, length)
    cdef cbool found
    cdef Reader* reader = new Reader(held.bytes[0], 0, length, block_bytes, threads, poll)
    try:
        with nogil:
            found = reader.find_zero()
        return found
    finally:
        del reader


def line_count(text, Py_ssize_t length, *, int threads, size_t block_bytes):
    """Return the number of lines in ``text[:length]``, which ends with a line."""
    cdef Text held = Text.of(text)
    held.check_range(0, length)
    cdef cbool complete
    cdef Reader* reader = new Reader(held.bytes[0], 0, length, block_bytes, threads, poll)
    try:
        with nogil:
            complete = reader.count_all(False)
        if not complete:
            raise_pending()
        return reader.lines
    finally:
        del reader


def checksum(const unsigned char[::1] data, *, int threads=1):
    """Return the checksum of bytes; see ``svmlight/checksum.h``."""
    cdef uint64_t result
    cdef cbool in_range
    cdef const unsigned char* p = &data[0] if data.shape[0] else NULL
    cdef size_t size = data.shape[0]
    with nogil:
        result = c_checksum(p, size, threads, False, 0, &in_range)
    return result


def read_checked(int descriptor, unsigned char[::1] to, size_t offset, *, columns, int threads=1):
    """Read the bytes of a file from an offset on; see the stub."""
    cdef uint64_t result
    cdef cbool in_range
    cdef unsigned char* p = &to[0] if to.shape[0] else NULL
    cdef size_t size = to.shape[0]
    cdef cbool indices = columns is not None
    cdef uint32_t limit = columns if indices else 0
    with nogil:
        result = c_read_checked(descriptor, offset, p, size, threads, indices, limit, &in_range)
    return result, in_range
