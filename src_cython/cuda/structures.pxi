"""Conversions between structures of the C interface and Python objects."""

def _kernel_names():
    cdef int32_t number = 0
    while bb_kernel_name(number) != NULL:
        yield bb_kernel_name(number).decode()
        number += 1


KERNELS = tuple(_kernel_names())
CODINGS = ("plain", "ones", "dictionary")


class Plan(NamedTuple):
    """A kernel and its parameters; those that the kernel does not have are 0.

    Attributes
    ----------
    kernel : str
        One of `KERNELS`.
    lanes : int
        Threads per row ("subwarp").
    cap : int
        Maximum number of nonzeros of a fragment, which one thread processes (sliced kinds).
    tiles : int
        Number of tiles whose inputs are in shared memory ("hot").
    tile : int
        Columns per tile ("tiled", "hot", "binned").
    """

    kernel: str
    lanes: int = 0
    cap: int = 0
    tiles: int = 0
    tile: int = 0


cdef bb_plan _plan_from(value) except *:
    """Convert a `Plan`, the name of a kernel, or a dictionary of a report to a plan."""
    if isinstance(value, str):
        value = (value,)
    found = Plan(**value) if isinstance(value, dict) else Plan(*value)
    if found.kernel not in KERNELS:
        raise ParameterError(f"plan: found kernel {found.kernel!r}, expected one of {', '.join(KERNELS)}")
    if found.kernel == "subwarp" and found.lanes not in (2, 4, 8, 16, 32):
        raise ParameterError(f"plan: found {found.lanes} lanes, expected 2, 4, 8, 16 or 32")
    cdef bb_plan plan
    plan.kernel = KERNELS.index(found.kernel)
    plan.lanes, plan.cap, plan.tiles, plan.tile = found.lanes, found.cap, found.tiles, found.tile
    return plan


cdef _plan_to(const bb_plan& plan):
    return Plan(KERNELS[plan.kernel], plan.lanes, plan.cap, plan.tiles, plan.tile)


cdef dict _block_to(const bb_block* block, bint transpose):
    return {
        "first": block.first,
        "rows": block.rows,
        "nnz": block.nnz,
        "bytes": block.bytes,
        "streams": bool(block.streams),
        "on_host": bool(block.on_host),
        "copied": {"normal": block.copied[0], "transposed": block.copied[1]},
        "normal": _plan_to(block.plan[0])._asdict(),
        "transposed": _plan_to(block.plan[1])._asdict() if transpose else None,
    }


cdef dict _constants_to(const bb_constants& c):
    return {
        "launch": c.launch,
        "copy": c.copy,
        "read": c.read,
        "gather_shared": c.gather_shared,
        "gather_l2": c.gather_l2,
        "gather_memory": c.gather_memory,
        "fill_shared": c.fill_shared,
    }


cdef bb_constants _constants_from(value) except *:
    cdef bb_constants c
    c.launch, c.copy, c.read = value["launch"], value["copy"], value["read"]
    c.gather_shared, c.gather_l2 = value["gather_shared"], value["gather_l2"]
    c.gather_memory, c.fill_shared = value["gather_memory"], value["fill_shared"]
    return c


cdef bb_device _device_from(value) except *:
    cdef bb_device device
    memset(&device, 0, sizeof(device))
    device.id, device.major, device.minor = value["id"], value["major"], value["minor"]
    device.multiprocessors = value["multiprocessors"]
    device.shared_per_block = value["shared_per_block"]
    device.shared_per_multiprocessor = value["shared_per_multiprocessor"]
    device.l2_bytes, device.total_bytes = value["l2_bytes"], value["total_bytes"]
    device.free_bytes = value["free_bytes"]
    return device


cdef list _integers_to(const int64_t* values, int count):
    return [values[k] for k in range(count)]


cdef dict _stats_to(const bb_stats* s):
    return {
        "rows": s.rows,
        "cols": s.cols,
        "nnz": s.nnz,
        "empty_rows": s.empty_rows,
        "longest": s.longest,
        "value_bytes": s.value_bytes,
        "vector_bytes": s.vector_bytes,
        "repeated": bool(s.repeated),
        "length_rows": _integers_to(s.length_rows, BB_LENGTH_BINS),
        "length_nnz": _integers_to(s.length_nnz, BB_LENGTH_BINS),
        "fragments": _integers_to(s.fragments, BB_SPREADS),
        "top_nnz": _integers_to(s.top_nnz, BB_TOPS),
    }


cdef int _integers_from(value, int64_t* out, int count) except -1:
    if len(value) != count:
        raise ParameterError(f"statistics: found {len(value)} numbers, expected {count}")
    for k in range(count):
        out[k] = value[k]
    return 0


cdef int _stats_from(value, bb_stats* s) except -1:
    memset(s, 0, sizeof(bb_stats))
    s.rows, s.cols, s.nnz = value["rows"], value["cols"], value["nnz"]
    s.empty_rows, s.longest = value["empty_rows"], value["longest"]
    s.value_bytes, s.vector_bytes, s.repeated = value["value_bytes"], value["vector_bytes"], value["repeated"]
    _integers_from(value["length_rows"], s.length_rows, BB_LENGTH_BINS)
    _integers_from(value["length_nnz"], s.length_nnz, BB_LENGTH_BINS)
    _integers_from(value["fragments"], s.fragments, BB_SPREADS)
    _integers_from(value["top_nnz"], s.top_nnz, BB_TOPS)
    return 0
