"""The ranks that share a problem or a graph: binding of ``src_cuda/api/ranks.h``."""


def device_uuid(device=0):
    """Return the unique name of a device, which does not depend on the number that a process gives it."""
    cdef char[BB_UUID_BYTES] found
    check(bb_device_uuid(_device(device), found))
    return found[:BB_UUID_BYTES]


def load_nccl(str library):
    """Load NCCL by name or path.

    Raises
    ------
    BmrmError
        If there is no such library.
    """
    check(bb_nccl_load(library.encode()))


def nccl_id():
    """Return a name for a communicator, to be passed to all of its ranks."""
    cdef char[BB_NCCL_ID_BYTES] name
    check(bb_nccl_id(name))
    return name[:BB_NCCL_ID_BYTES]


@cython.no_gc_clear
cdef class Nccl:
    """A communicator of NCCL. All ranks make theirs at the same time, each with a device of its own.

    Parameters
    ----------
    device : int
    name : bytes
        From `nccl_id`.
    rank, size : int
    """

    cdef bb_nccl* handle

    def __cinit__(self, device, bytes name, int32_t rank, int32_t size):
        if len(name) != BB_NCCL_ID_BYTES:
            raise ParameterError(f"name: found {len(name)} bytes, expected {BB_NCCL_ID_BYTES}")
        cdef int32_t number = _device(device)
        cdef const char* letters = name
        with nogil:
            check(bb_nccl_join(number, letters, rank, size, &self.handle))

    def __dealloc__(self):
        if self.handle != NULL:
            bb_nccl_leave(self.handle)


cdef class Ranks:
    """How the ranks that share a `Problem` or the nodes of a graph add up and exchange vectors.

    Parameters
    ----------
    rank, size : int
    dtype : dtype
        Of the matrix.
    total, add_up : callable
        Replace an array by its sum over the ranks: `total` one of float64, `add_up` one of the type of the
        matrix, if there is no NCCL.
    gather : callable
        Completes an array of bytes, of which rank r has those from ``bounds[r]`` to ``bounds[r + 1]``; takes it
        and the bounds. If there is no NCCL.
    nccl : Nccl or None
    """

    cdef bb_ranks calls
    cdef object total, add_up, gather, dtype, error
    cdef Nccl nccl

    def __cinit__(self, int32_t rank, int32_t size, dtype, total, add_up, gather, Nccl nccl=None):
        self.nccl = nccl
        self.total, self.add_up, self.gather, self.dtype = total, add_up, gather, np.dtype(dtype)
        self.calls.rank, self.calls.size, self.calls.context = rank, size, <void*>self
        self.calls.total, self.calls.add_up, self.calls.gather = _total_of_ranks, _sum_of_ranks, _parts_of_ranks

    cdef int32_t run(self, what, void* numbers, int64_t count, dtype) noexcept:
        """Let ``what`` change numbers in place; keep the exception that it raises."""
        cdef int64_t size = count * dtype.itemsize
        try:
            what(np.frombuffer(<char[:size]><char*>numbers, dtype))
        except BaseException as error:
            self.error = error
            return 1
        return 0

    cdef int32_t complete(self, void* whole, const int64_t* bounds) noexcept:
        """Let `gather` complete an array; keep the exception that it raises."""
        cdef int32_t rank, size = self.calls.size
        cdef int64_t count = bounds[size]
        try:
            edges = np.array([bounds[rank] for rank in range(size + 1)], np.int64)
            if count:
                self.gather(np.frombuffer(<char[:count]><char*>whole, np.uint8), edges)
        except BaseException as error:
            self.error = error
            return 1
        return 0

    cdef int settle(self, bb_status status) except -1:
        """Raise if a call has failed, with the exception of a sum over the ranks if there was one."""
        error, self.error = self.error, None
        if error is not None:
            raise error
        return check(status)


cdef int32_t _total_of_ranks(void* context, double* numbers, int64_t count) noexcept nogil:
    with gil:
        return (<Ranks>context).run((<Ranks>context).total, numbers, count, np.dtype(np.float64))


cdef int32_t _sum_of_ranks(void* context, void* numbers, int64_t count) noexcept nogil:
    with gil:
        return (<Ranks>context).run((<Ranks>context).add_up, numbers, count, (<Ranks>context).dtype)


cdef int32_t _parts_of_ranks(void* context, void* whole, const int64_t* bounds) noexcept nogil:
    with gil:
        return (<Ranks>context).complete(whole, bounds)
