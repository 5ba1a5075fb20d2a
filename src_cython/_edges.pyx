"""Binding of the reader of edges, from a text in memory or a file to arrays, and of the numbering of nodes."""

from cpython.unicode cimport PyUnicode_DecodeUTF8
from libc.stdint cimport INT64_MAX, int32_t, int64_t, uint64_t
from libcpp cimport bool as cbool
from libcpp.vector cimport vector

from bmrm.io._text cimport Bytes, Text

import numpy as np

include "text/reading.pxi"


cdef extern from "text/names.h" namespace "text" nogil:
    cdef cppclass CNames "text::Names":
        CNames() except +
        int64_t size()
        void gather(const char** bytes, int64_t* sizes)

cdef extern from "edges/integers.h" namespace "edges" nogil:
    const int64_t kMaxNodes

    cdef cppclass CNumbering "edges::Numbering":
        CNumbering(int64_t low, int64_t high, int64_t count, int threads, Poll poll) except +
        cbool add[Id](const Id* ids, int64_t count) except +
        cbool finish() except +
        int64_t size()
        void labels(int64_t* to)
        cbool number[Id](const Id* ids, int64_t count, int32_t* to) except +

    cbool extend[Id](const Id*, int64_t, int, Poll, int64_t&, int64_t&) except +
    cbool c_narrow "edges::narrow"(const int64_t*, int64_t, int, Poll, int32_t*) except +

cdef extern from "edges/block.h" namespace "edges" nogil:
    cdef enum class CFault "edges::Fault"(int):
        kNone

    cdef cppclass Options:
        cbool weights
        cbool names
        char separator
        int columns
        int source
        int target
        int weight
        int direction
        cbool undirected
        cbool attributes

    cdef cppclass Arrays:
        int64_t* source_ids
        int64_t* target_ids
        int32_t* source_numbers
        int32_t* target_numbers
        double* weights

cdef extern from "edges/reader.h" namespace "edges" nogil:
    cdef cppclass Reader:
        Reader(
            const Bytes& text, size_t start, size_t stop, size_t block_bytes, int threads, Poll poll
        ) except +
        cbool count_all() except +raise_python
        cbool parse_all(const Options& options, const Arrays& arrays, CNames& names) except +raise_python
        int64_t lines
        int64_t edges
        int64_t low
        int64_t high
        CFault fault
        Place fault_at

    cdef cppclass Opening:
        int64_t found
        size_t begin[2]
        size_t end[2]
        int64_t lines

    Opening c_open_text "edges::open_text"(const Bytes& text, size_t start, size_t stop) except +raise_python


MAX_NODES = kMaxNodes
cdef tuple FAULTS = (
    "", "integer", "large", "name", "encoding", "target", "weight", "no_weight", "columns", "quote", "comment",
    "attributes", "direction", "return", "nul", "nodes", "changed",
)


class NodesError(Exception):
    """There are more than ``MAX_NODES`` nodes."""


cdef class Names:
    """The names of nodes, numbered by first appearance; see the stub."""

    cdef CNames impl

    def __len__(self):
        return self.impl.size()

    def strings(self):
        """Return the names, in the order of their numbers."""
        cdef Py_ssize_t count = self.impl.size()
        cdef vector[const char*] bytes
        cdef vector[int64_t] sizes
        bytes.resize(count)
        sizes.resize(count)
        self.impl.gather(bytes.data(), sizes.data())
        found = np.empty(count, object)
        cdef object[::1] strings = found
        cdef Py_ssize_t i
        for i in range(count):
            strings[i] = PyUnicode_DecodeUTF8(bytes[i], sizes[i], NULL)
        return found


class Parsed:
    """The result of `parse`; see the stub for the fields."""

    __slots__ = ("high", "lines", "low", "sources", "targets", "weights")


def parse(
    text,
    Py_ssize_t start,
    Py_ssize_t stop,
    *,
    Names names,
    bint weights,
    layout,
    int threads,
    size_t block_bytes,
    reserve,
):
    """Parse whole lines ``text[start:stop]``; see the stub for the arguments."""
    cdef Text held = Text.of(text)
    held.check_range(start, stop)
    if block_bytes < 1:
        raise ValueError("block_bytes must be positive")
    cdef Options options
    options.weights = weights
    options.names = names is not None
    options.separator = ord(layout.separator) if layout.separator else 0
    options.columns = layout.columns
    options.source = layout.source
    options.target = layout.target
    options.weight = -1 if layout.weight is None or not weights else layout.weight
    options.direction = -1 if layout.direction is None else layout.direction
    options.undirected = layout.directed is False
    options.attributes = layout.attributes
    cdef Reader* reader = new Reader(held.bytes[0], start, stop, block_bytes, threads, poll)
    try:
        with nogil:
            complete = reader.count_all()
        if not complete:
            raise_pending()
        reserve(reader.edges)
        return fill(reader, options, names)
    finally:
        del reader


cdef fill(Reader* reader, Options& options, Names names):
    """Allocate arrays according to the counts, and parse into them."""
    cdef CNames* known
    cdef CNames none
    cdef Arrays arrays
    cdef cbool complete
    kind = np.int32 if options.names else np.int64
    sources = np.empty(reader.edges, kind)
    targets = np.empty(reader.edges, kind)
    weights = np.empty(reader.edges, np.float64) if options.weights else None
    arrays.source_ids = arrays.target_ids = NULL
    arrays.source_numbers = arrays.target_numbers = NULL
    if options.names:
        arrays.source_numbers = <int32_t*>address(sources)
        arrays.target_numbers = <int32_t*>address(targets)
        known = &names.impl
    else:
        arrays.source_ids = <int64_t*>address(sources)
        arrays.target_ids = <int64_t*>address(targets)
        known = &none
    arrays.weights = <double*>address(weights)
    with nogil:
        complete = reader.parse_all(options, arrays, known[0])
    if not complete:
        raise_pending()
    name = FAULTS[<int>reader.fault]
    if name == "nodes":
        raise NodesError
    if name:
        raise fault(name, reader.fault_at)
    parsed = Parsed()
    parsed.sources = shrunk(sources, reader.edges)
    parsed.targets = shrunk(targets, reader.edges)
    parsed.weights = None if weights is None else shrunk(weights, reader.edges)
    parsed.lines = reader.lines
    parsed.low = reader.low
    parsed.high = reader.high
    return parsed


def open_text(text, Py_ssize_t start, Py_ssize_t stop):
    """Return where the first two lines of a text are that hold something; see the stub."""
    cdef Text held = Text.of(text)
    held.check_range(start, stop)
    cdef Opening opening
    with nogil:
        opening = c_open_text(held.bytes[0], start, stop)
    return [(opening.begin[i], opening.end[i]) for i in range(opening.found)], opening.lines


def number(arrays, *, int64_t low, int64_t high, int threads):
    """Number the ids of some arrays; see the stub."""
    cdef int64_t count = sum(len(array) for array in arrays)
    cdef CNumbering* numbering = new CNumbering(low, high, count, threads, poll)
    cdef cbool complete, short
    cdef const void* p
    cdef int32_t* to
    try:
        for ids in arrays:
            p, count, short = address(ids), len(ids), ids.dtype == np.int32
            with nogil:
                if short:
                    complete = numbering.add(<const int32_t*>p, count)
                else:
                    complete = numbering.add(<const int64_t*>p, count)
            if not complete:
                raise_pending()
        with nogil:
            complete = numbering.finish()
        if not complete:
            raise_pending()
        if numbering.size() > kMaxNodes:
            raise NodesError
        labels = np.empty(numbering.size(), np.int64)
        numbering.labels(<int64_t*>address(labels))
        numbers = []
        while arrays:
            ids = arrays[0]
            found = np.empty(len(ids), np.int32)
            p, count, short, to = address(ids), len(ids), ids.dtype == np.int32, <int32_t*>address(found)
            with nogil:
                if short:
                    complete = numbering.number(<const int32_t*>p, count, to)
                else:
                    complete = numbering.number(<const int64_t*>p, count, to)
            if not complete:
                raise_pending()
            numbers.append(found)
            ids = None
            del arrays[0]
        return numbers, labels
    finally:
        del numbering


def extent(arrays, int threads):
    """Return the least and the largest of the ids; see the stub."""
    cdef int64_t low = INT64_MAX, high = -INT64_MAX - 1, count
    cdef cbool complete, short
    cdef const void* p
    for ids in arrays:
        p, count, short = address(ids), len(ids), ids.dtype == np.int32
        with nogil:
            if short:
                complete = extend(<const int32_t*>p, count, threads, poll, low, high)
            else:
                complete = extend(<const int64_t*>p, count, threads, poll, low, high)
        if not complete:
            raise_pending()
    return low, high


def narrow(ids, int threads):
    """Return ids of int64 as int32; see the stub."""
    found = np.empty(len(ids), np.int32)
    cdef int64_t count = len(ids)
    cdef const int64_t* p = <const int64_t*>address(ids)
    cdef int32_t* to = <int32_t*>address(found)
    cdef cbool complete
    with nogil:
        complete = c_narrow(p, count, threads, poll, to)
    if not complete:
        raise_pending()
    return found
