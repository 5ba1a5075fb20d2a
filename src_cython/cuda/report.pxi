"""Properties of a matrix on a GPU, and the choice of its kernels."""

cdef int MAX_CANDIDATES = 256  # plans that the arrays of the C interface hold


def load_blas(str library):
    """Load cuBLAS by name or path; `Matrix.weighted_gram` needs it.

    Raises
    ------
    BmrmError
        If there is no such library.
    """
    check(bb_blas_load(library.encode()))


@cython.no_gc_clear
cdef class _Described(_OnDevice):
    """A matrix on a device, with its properties and its report."""

    cdef object _n_threads
    cdef int32_t _device
    cdef bint _transpose

    @property
    def dtype(self):
        """Data type of the values; None for implicit ones."""
        return None if self.coding == "ones" else self._dtype

    @property
    def vector_dtype(self):
        """Data type of vectors and sums on the device."""
        return self._dtype

    @property
    def threads(self):
        """CPU threads for what the caller does on the host."""
        return self._n_threads

    @property
    def location(self):
        """Where the matrix is kept, "host" or "gpu": here "gpu", though blocks of rows may be in host memory."""
        return "gpu"

    @property
    def device(self):
        """Number of the device."""
        return self._device

    cdef bb_info _info(self) except *:
        cdef bb_matrix* X = self._get()
        cdef bb_info info
        check(bb_get_info(X, &info))
        return info

    @property
    def nbytes(self):
        """Bytes of device memory held, including those of problems on the matrix."""
        return self._info().device_bytes

    @property
    def host_bytes(self):
        """Bytes of host memory for blocks of rows: pinned ones that stream, and those of the CPU."""
        # The CPU reads dense rows where they would stream from.
        rows = [] if self._dense else self._host_matrices or []
        return self._info().host_bytes + sum(each.nbytes for each in rows)

    @property
    def bytes_left(self):
        """Bytes of device memory that problems on the matrix may still take: of `memory_limit`, or of free memory."""
        return self._info().left_bytes

    @property
    def coding(self):
        """How values are kept: "plain", "ones" or "dictionary"; "plain" if blocks of rows differ."""
        return CODINGS[self._info().coding]

    @property
    def index_bytes(self):
        """Size of a stored column index of X in bytes: 1, 2 or 4; 0 for a dense matrix."""
        if self._dense:
            return 0
        cdef bb_candidate chosen
        self._candidates(BB_NORMAL, &chosen)
        cdef Cut cut = cut_of(chosen.plan, self._d)
        return cut.index_bytes if cut.shared else 4

    cdef int _column_squares(self, out) except -1:
        if not self._transpose:
            raise ParameterError("matrix: built without its transpose")
        cdef bb_matrix* X = self._get()
        cdef double* target = <double*>_address(out)
        with nogil:
            check(bb_get_squares(X, target))
        return 0

    @property
    def is_dense(self):
        """Whether all values are stored, without indices."""
        return self._dense

    @property
    def has_transpose(self):
        """Whether X^T is stored; a dense matrix does not need it."""
        return self._transpose and not self._dense

    cdef _candidates(self, bb_operator op, bb_candidate* chosen):
        """Return the candidates of an operator, and the position of the one in use."""
        cdef bb_matrix* X = self._get()
        cdef bb_candidate found[256]
        cdef int32_t count = 0, position = 0
        check(bb_get_candidates(X, op, found, MAX_CANDIDATES, &count, &position))
        if chosen != NULL:
            chosen[0] = found[position]
        listed = [
            {
                "plan": _plan_to(found[k].plan)._asdict(),
                "predicted": found[k].predicted,
                "measured": found[k].measured,
                "bytes": found[k].bytes,
            }
            for k in range(min(count, MAX_CANDIDATES))
        ]
        return listed, position

    cdef dict _operator_report(self, bb_operator op):
        cdef bb_stats stats
        check(bb_get_stats(self._get(), op, &stats))
        listed, position = self._candidates(op, NULL)
        return {"statistics": _stats_to(&stats), "candidates": listed, "chosen": position}

    cdef vector[bb_block] _blocks(self) except *:
        """Return the blocks of rows."""
        cdef vector[bb_block] found
        found.resize(self._info().blocks)
        check(bb_get_blocks(self._get(), found.data(), found.size()))
        return found

    @property
    def row_blocks(self):
        """The blocks of rows, as `report` has them."""
        cdef vector[bb_block] found = self._blocks()
        return [_block_to(&found[k], self._transpose) for k in range(found.size())]

    def report(self):
        """Return the properties of the matrix, and how its kernels were chosen.

        Returns
        -------
        dict
            ``shape``, ``nnz``, ``dtype`` (of the vectors), ``coding``, ``bytes`` (of device memory), ``peak_bytes``
            (maximum held at a time), ``host_bytes`` (pinned), ``prepare_seconds``, ``device`` (from
            `device_info`), ``constants``, ``blocks``, and for ``normal`` and ``transposed`` (None if X^T is
            not kept) ``statistics``, ``candidates`` and ``chosen``, the position of the one in use. A candidate has
            its ``plan``, ``predicted`` and ``measured`` seconds (0: not timed) and ``bytes`` that a product reads of
            its format (0: not built). With several blocks of rows these are the first block's, whose plans the others
            use if they suit; each of ``blocks`` has ``first`` (row), ``rows``, ``nnz``, ``bytes`` of its formats,
            ``streams`` (whether it is in host memory), ``on_host`` (whether the CPU computes its products),
            ``copied`` (bytes that each product copies from host memory), and the plans ``normal`` and
            ``transposed``.
        """
        cdef bb_info info = self._info()
        return {
            "shape": self.shape,
            "nnz": self._nnz,
            "dtype": self._dtype.name,
            "coding": CODINGS[info.coding],
            "bytes": info.device_bytes,
            "peak_bytes": info.peak_bytes,
            "host_bytes": info.host_bytes,
            "prepare_seconds": info.prepare_seconds,
            "device": device_info(self._device),
            "constants": constants(self._device),
            "blocks": self.row_blocks,
            "normal": self._operator_report(BB_NORMAL),
            "transposed": self._operator_report(BB_TRANSPOSED) if self._transpose else None,
        }

    def explain(self):
        """Return the report as text: statistics, candidates with predicted and measured times, and the choice.

        Returns
        -------
        str
        """
        from bmrm.matrix.gpu.explain import explain

        return explain(self.report())
