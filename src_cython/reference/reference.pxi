"""The sliced format built and used on the host, and what is laid out there: what tests see without a device."""

from libcpp cimport bool as cbool
from libcpp.vector cimport vector
from libc.stdint cimport uint32_t, uint64_t


cdef extern from "reference/sliced_reference.h" namespace "bmrm" nogil:
    cdef struct HostRows:
        const int64_t* ptr
        const int32_t* col
        const double* values
        int64_t rows, cols

    cdef struct Item:
        uint32_t offset, shape, slices, dest

    cdef struct Entry:
        int64_t row, col
        double value

    cdef cppclass SlicedReference:
        Cut cut
        cbool direct
        uint64_t shared_elements
        vector[Item] items
        vector[uint32_t] dest, index, tile_item, row_slot, order
        vector[double] values

    SlicedReference build_reference(const HostRows&, const bb_plan&) except +
    void c_reference_product "bmrm::reference_product"(const SlicedReference&, const double*, double*) except +
    vector[Entry] decode(const SlicedReference&) except +


cdef extern from "formats/shares.h" namespace "bmrm" nogil:
    cdef struct ItemRun:
        uint32_t items, tile
        double cost

    cdef struct BlockShare:
        uint32_t begin, end, of_tile, tile

    vector[BlockShare] c_share_out "bmrm::share_out"(const vector[ItemRun]&, int, double, int) except +


cdef _host_arrays(indptr, indices, data, shape):
    """Compressed rows on the host, checked."""
    m, d = _shape(shape)
    idx = _vector(indices, "indices")
    _stored_type(idx, None, (np.int32, np.int64), "indices", "integers", "iu")
    idx = np.require(idx, dtype=np.int32, requirements=("C", "A"))
    ptr = _row_pointers(indptr, 0, m, idx.shape[0])
    if idx.size and not (0 <= idx.min() and idx.max() < d):
        raise DataError(f"indices: found {idx.min()} to {idx.max()}, expected 0 to {d - 1}")
    return ptr, idx, None if data is None else _input(data, idx.shape, "data")


cdef SlicedReference _build(tuple arrays, shape, plan) except *:
    cdef bb_plan by = _plan_from(plan)
    if by.kernel not in (BB_SLICED, BB_TILED, BB_HOT, BB_NARROW):
        raise ParameterError(f"plan: found {plan!r}, expected a kernel of the sliced format")
    cdef HostRows rows
    rows.ptr, rows.col = <const int64_t*>_address(arrays[0]), <const int32_t*>_address(arrays[1])
    rows.values = NULL
    if arrays[2] is not None:
        rows.values = <const double*>_address(arrays[2])
    rows.rows, rows.cols = shape
    return build_reference(rows, by)


def reference_product(indptr, indices, data, shape, plan, x):
    """Product by way of the sliced format of a plan, on the host; see the stub."""
    arrays = _host_arrays(indptr, indices, data, shape)
    x = _input(x, (shape[1],), "x")
    out = np.empty(shape[0])
    cdef SlicedReference format = _build(arrays, shape, plan)
    c_reference_product(format, <const double*>_address(x), <double*>_address(out))
    return out


def reference_format(indptr, indices, data, shape, plan):
    """Arrays of the sliced format of a plan, built on the host; see the stub."""
    arrays = _host_arrays(indptr, indices, data, shape)
    cdef SlicedReference format = _build(arrays, shape, plan)
    cdef vector[Entry] entries = decode(format)
    return {
        "tile": format.cut.tile,
        "shared": format.cut.shared,
        "gathered": bool(format.cut.gathered),
        "by_count": bool(format.cut.by_count),
        "index_bytes": format.cut.index_bytes,
        "direct": bool(format.direct),
        "shared_elements": format.shared_elements,
        "items": np.array(
            [(i.offset, i.shape, i.slices, i.dest) for i in format.items], np.uint32).reshape(-1, 4),
        "dest": np.array(format.dest, np.uint32),
        "index": np.array(format.index, np.uint32),
        "values": np.array(format.values, np.float64),
        "tile_item": np.array(format.tile_item, np.uint32),
        "row_slot": np.array(format.row_slot, np.uint32),
        "order": np.array(format.order, np.uint32),
        "entries": [(e.row, e.col, e.value) for e in entries],
    }


def share_out(runs, tiles, fill, blocks):
    """What each block takes of runs of items; see the stub."""
    cdef vector[ItemRun] of_items
    cdef ItemRun run
    for items, tile, cost in runs:
        run.items, run.tile, run.cost = items, tile, cost
        of_items.push_back(run)
    return [(s.begin, s.end, s.of_tile, s.tile) for s in c_share_out(of_items, tiles, fill, blocks)]
