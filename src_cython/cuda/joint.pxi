"""Joint risks on the device: binding of ``src_cuda/api/joint.h``."""


@cython.no_gc_clear
cdef class Joint:
    """A joint risk on the rows of a problem, which has no loss of its own.

    Parameters
    ----------
    problem : Problem
    kind : int
        Position among the kinds of `bmrm.losses._joint`.
    rows, starts, level, weight, value, anchor, share, k, beta
        As for `bmrm.losses._joint.JointRisk`.

    Raises
    ------
    DeviceMemoryError
        If there is not enough memory for an evaluation.
    """

    cdef bb_joint* handle
    cdef readonly Problem problem

    def __cinit__(
        self,
        Problem problem,
        *,
        int32_t kind,
        const int64_t[::1] rows,
        const int64_t[::1] starts,
        const int64_t[::1] level,
        const double[::1] weight,
        const double[::1] value,
        const double[::1] anchor,
        const double[::1] share,
        int64_t k,
        double beta,
    ):
        cdef bb_joint_rows parts
        if np.max(rows) >= problem.matrix._m:
            raise ParameterError("joint risk: rows beyond those of the matrix")
        self.problem = problem
        parts.kind, parts.size, parts.groups = kind, rows.shape[0], share.shape[0]
        parts.rows, parts.starts, parts.level = &rows[0], &starts[0], &level[0]
        parts.weight, parts.value, parts.anchor = &weight[0], &value[0], &anchor[0]
        parts.share, parts.k, parts.beta = &share[0], k, beta
        with nogil:
            check(bb_joint_create(problem.handle, &parts, &self.handle))

    def __dealloc__(self):
        cdef bb_joint* handle = self.handle
        self.handle = NULL
        if handle != NULL:
            with nogil:
                bb_joint_destroy(handle)

    def evaluate(self, Vector z, dz, double t, double b, *, int32_t keep=-1, bint move=False):
        """Evaluate at ``z + t dz + b``; without dz, t is 0.

        Parameters
        ----------
        z : Vector
        dz : Vector or None
        t, b : float
        keep : {-1, 0, 1}, default -1
            Keep the derivatives as the first or second set of the problem; -1 keeps none.
        move : bool, default False
            Return the margins ``z + t dz``.

        Returns
        -------
        risk, along, across : float
            The risk, and its derivatives in t and in b.
        moved : Vector or None
        """
        if not -1 <= keep <= 1:
            raise ParameterError(f"keep: found {keep}, expected -1, 0 or 1")
        cdef Vector moved = self.problem._take(BB_MARGINS) if move else None
        cdef void* target = moved.address if move else NULL
        cdef void* start = self.problem._of(z, BB_MARGINS)
        cdef void* along = NULL if dz is None else self.problem._of(dz, BB_MARGINS)
        cdef double sums[3]
        with nogil:
            check(bb_joint_evaluate(self.handle, start, along, t, b, keep, target, sums))
        return sums[0], sums[1], sums[2], moved
