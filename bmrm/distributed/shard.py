"""The rows of a problem that one rank holds: a `Dataset` that knows the other ranks."""

from __future__ import annotations

import logging
import math
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import DTypeLike, NDArray

from bmrm.base.arguments import vector
from bmrm.base.columns import Names, check_names
from bmrm.base.groups import index_names, validate_groups
from bmrm.base.labels import Labels, append, label_array, label_vector
from bmrm.base.offsets import row_offsets
from bmrm.base.threads import usable_cores
from bmrm.base.vectors import Vector, freeze
from bmrm.base.weighting import balance_factors, fill_idle_labels
from bmrm.distributed.exchange import Exchange, split_columns
from bmrm.distributed.group import group_of
from bmrm.distributed.narrow import drop_untouched_columns
from bmrm.distributed.options import check_alike
from bmrm.distributed.weight_layout import MIN_OWNED_COLUMNS, resolve_weight_layout
from bmrm.errors import DataError, ParameterError
from bmrm.io.data import Data
from bmrm.matrix import _cpu
from bmrm.matrix.dataset import Dataset, copy_labels, numbering_and_names, unpacked
from bmrm.matrix.resident import DEFAULT_TOL, default_threads, validate_matrix, wants_gpu
from bmrm.matrix.row_weights import ClassWeight, row_weights

if TYPE_CHECKING:
    from bmrm.distributed.links import Links

log = logging.getLogger("bmrm")


class Shard(Dataset):
    """The rows of a problem that this rank holds on its device.

    All ranks of `comm` must build their shards at the same time. `bmrm.solve` accepts a shard like a
    `Dataset`; all ranks must call it at the same time, and all get the same result.

    Parameters
    ----------
    X, y, sample_weight, offset
        As for `Dataset`: the rows of this rank, with labels, weights and offsets. All ranks have the same
        number of columns, and each has at least one row. The rows of rank 0 come first, then those of rank 1,
        and so on.
    class_weight
        As for `Dataset`; "balanced" uses the weights of all ranks.
    groups
        As for `Dataset`; equal entries on different ranks form one group.
    comm : mpi4py.MPI.Comm or PETSc.Comm
    device : {"auto", "cpu", "cuda"}, default "auto"
        If ranks share a machine with several GPUs, each uses its own.
    dtype, tol
        As for `Dataset`.
    threads : int, optional
        Default: the cores that this rank does not share with other ranks.
    gpu_mem : int or str, optional
        As for `Dataset`, per rank.
    cpu_share : float, optional
        As for `Dataset`, per rank; default 0 if ranks share cores, for which no rates are measured.
    weights : {"replicated", "owned", "auto"}, default "replicated"
        Whether every rank keeps all weights, or each owns a run of columns, as in a PETSc vector. With
        "owned", the local X has only the columns that its rows touch, and no array of a solve is as long as
        all columns. This needs an l2 penalty without ``positive``, and X on CPUs. "auto" means "owned" on
        CPUs from ``bmrm.distributed.weight_layout.MIN_OWNED_COLUMNS`` columns on.

    Attributes
    ----------
    owned : bool
        Whether each rank owns a run of columns of the weights.
    bounds : ndarray of int64, shape (ranks + 1,)
        Rank r owns the columns ``bounds[r]`` to ``bounds[r + 1]`` of the weights.
    wanted_by : {"all", "first", "none"}
        Ranks that get all weights of a result if weights are owned; other ranks get their own part.

    Raises
    ------
    DataError, ParameterError, BmrmError, DeviceMemoryError
        As for `Dataset`; the same exception on every rank.

    Examples
    --------
    >>> import numpy as np
    >>> from mpi4py import MPI
    >>> import bmrm
    >>> from bmrm.distributed import Shard
    >>> shard = Shard(np.eye(3), [1, 1, -1], comm=MPI.COMM_WORLD)
    >>> bmrm.solve(shard, lam=0.1).status
    'converged'
    >>> shard.margins(np.array([1.0, 2.0, 3.0])), shard.put_together(np.ones(3))
    (array([1., 2., 3.]), array([1., 1., 1.]))
    """

    def __init__(
        self,
        X: Any,
        y: Any = None,
        *,
        comm: Any,
        sample_weight: Any = None,
        class_weight: ClassWeight | None = None,
        offset: Any = None,
        groups: Any = None,
        device: str = "auto",
        dtype: DTypeLike | None = None,
        threads: int | None = None,
        tol: float = DEFAULT_TOL,
        gpu_mem: int | str | None = None,
        cpu_share: float | None = None,
        weights: str = "replicated",
    ) -> None:
        group = self.group = group_of(comm)
        check_alike(group, {"class_weight": class_weight, "dtype": dtype, "tol": tol, "weights": weights})
        source = X if isinstance(X, Data) else None
        with group.together():
            X, y, offset, groups = unpacked(X, y, offset, groups, dtype)
            found = validate_matrix(X)
            size = found.size if isinstance(found, np.ndarray) else found.nnz
        shapes, sizes = group.everyones(found.shape), group.everyones(size)
        columns = {d for _, d in shapes}
        if len(columns) > 1:
            raise DataError(f"X: found {min(columns)} columns on one rank and {max(columns)} on another")
        self.rows = [m for m, _ in shapes]
        self._columns: int = columns.pop()
        self.bounds = split_columns(self._columns, group.size)
        self.wanted_by: Literal["all", "first", "none"] = "all"
        self._exchanges: dict[tuple[int, bool], Exchange] = {}
        self.owned = self._is_owned(weights, device, sum(sizes) // group.size)
        if self.owned:
            device = "cpu"
            with group.together():
                found, self._touched = drop_untouched_columns(found)
            max_touched = max(group.everyones(len(self._touched)))
            if group.rank == 0:
                widths = ", ".join(map(str, np.diff(self.bounds)[:3])) + (", ..." if group.size > 3 else "")
                log.info(
                    "%d ranks own %s columns of the weights; their rows touch at most %d",
                    group.size,
                    widths,
                    max_touched,
                )
        with group.together():
            threads = min(group.cores, default_threads(size)) if threads is None else threads
            where = _choose_gpu(device, sum(sizes) // group.size, group.number)
            if cpu_share is None and group.cores < usable_cores():
                cpu_share = 0
            given: dict[str, Any] = {"dtype": dtype, "threads": threads, "tol": tol}
            given |= {"gpu_mem": gpu_mem, "cpu_share": cpu_share}
            super().__init__(found, device=where, **given)
        on_gpu = group.everyones(self.device != "cpu")
        if any(on_gpu) and not all(on_gpu):  # the X of some rank did not fit: all ranks use a GPU, or none
            with group.together():
                super().__init__(found, device="cpu", **given)
        self.source = source
        base, names = numbering_and_names(source or X)
        found_bases = set(group.everyones(base))
        self.zero_based = found_bases.pop() if len(found_bases) == 1 else None
        self.feature_names = self._agreed_names(names)
        self.y = copy_labels(y)
        self._links: Links | None = None
        self.resolution, self.longest = (
            max(of) for of in zip(*group.everyones((self.resolution, self.longest)), strict=True)
        )
        self._nnz: int = sum(group.everyones(self.matrix.nnz))
        self._stored: str = min(group.everyones(super().stored))
        self.groups = freeze(self._group_numbers(groups))
        self.offset = freeze(self._offsets(offset))
        self.weights = freeze(self._weights(sample_weight, class_weight))
        own = float(self.rows[group.rank]) if self.weights is None else float(self.weights.sum())
        self._total_weight = float(group.total(np.array([own]))[0])
        if not self._total_weight > 0.0:
            raise DataError("sample weights: all are 0, expected some positive weight")

    def _agreed_names(self, names: Names | None) -> Names | None:
        """Return the names of the columns on all ranks; None if some rank has none."""
        first, *others = self.group.everyones(names)
        for names in others:
            check_names("X", first, names)
        return None if None in others else first

    def _is_owned(self, weights: str, device: str, stored: int) -> bool:
        """Decide whether each rank owns only some columns of the weights."""
        group, columns = self.group, self._columns
        with group.together():
            layout = resolve_weight_layout(weights, None, whole_cuts=False, columns=columns, device=device)
            if layout == "owned" and device not in ("auto", "cpu"):
                raise ParameterError(f"weights owned: trains on CPUs, found device {device}")
            wanted = layout == "owned" or (
                layout == "auto" and columns >= MIN_OWNED_COLUMNS and not wants_gpu(device, stored)
            )
        return all(group.everyones(wanted))  # hosts may differ in their GPUs

    def _group_numbers(self, groups: Any) -> NDArray[np.int64] | None:
        """Assign numbers, the same on all ranks, to the groups of the local rows."""
        group = self.group
        with group.together():
            own = None if groups is None else validate_groups(groups, self.rows[group.rank])
            names = None if own is None else index_names(own)[0]
        everyones = group.everyones(names)
        kinds = {"none" if found is None else found.dtype.kind for found in everyones}
        if len(kinds) > 1:
            raise DataError(
                "groups: found different kinds on different ranks, expected numbers on all or names on all"
            )
        if own is None:
            return None
        with group.together():
            places = index_names(np.concatenate([*everyones, own]))[1]
        return places[len(places) - len(own) :]

    def _offsets(self, offset: Any) -> Vector | None:
        """Return the offsets of the local rows; raise if only some ranks have any."""
        group = self.group
        with group.together():
            own = row_offsets(offset, self.rows[group.rank])
        kinds = group.everyones(None if own is None else own.shape[1:])
        if any(kind != kinds[0] for kind in kinds):
            raise DataError("offset: found different numbers per row on the ranks, expected the same on all")
        return own

    def _weights(self, sample_weight: Any, class_weight: ClassWeight | None) -> Vector | None:
        """Return the weights of the local rows; class weights depend on the labels of all ranks."""
        group, m = self.group, self.rows[self.group.rank]
        sums: dict[Any, float] = {}
        with group.together():
            if sample_weight is not None:
                sample_weight = vector("sample weights", sample_weight, m)
                row_weights(None, m + 1, np.append(sample_weight, 1.0))
            if class_weight is not None:
                labels, own = self._sums_by_class(sample_weight)
        if class_weight is not None:
            for found in group.everyones(own):
                for label, total in found.items():
                    sums[label] = sums.get(label, 0.0) + total
        if class_weight == "balanced":
            factors = balance_factors(np.array(list(sums.values())))
            class_weight = dict(zip(sums, factors.tolist(), strict=True))
        with group.together():
            # Append a row for each label of any rank, at least one: a label that is missing here, or weights
            # that are all 0 here, are no error if other ranks have that label or positive weights.
            more = max(1, len(sums))
            y = None if class_weight is None else self._with_labels(labels, list(sums))
            if sample_weight is not None:
                sample_weight = np.append(sample_weight, np.ones(more))
            found = row_weights(y, m + more, sample_weight, class_weight)
        return None if found is None else found[:m]

    def _with_labels(self, labels: Labels | None, more: list[Any]) -> Labels:
        """Return the labels of the local rows, any if these are None, and one row for each of more labels."""
        known = label_array("labels", more)
        if labels is None:  # no local row counts
            m = self.rows[self.group.rank]
            labels = np.repeat(known[:1], m) if more else np.zeros(m)
        return append(labels, known)

    def _sums_by_class(self, sample_weight: Vector | None) -> tuple[Labels | None, dict[Any, float]]:
        """Return the labels of the local rows, and the sum of weights of each label with positive weight.

        The labels are None if all weights are 0.
        """
        m = self.rows[self.group.rank]
        given = np.ones(m) if sample_weight is None else sample_weight
        if not given.any():
            return None, {}
        labels = label_vector("labels", fill_idle_labels(self.y, m, given), m)
        classes, codes = np.unique(labels[given > 0.0], return_inverse=True)
        totals = np.bincount(codes, given[given > 0.0])
        return labels, dict(zip(classes.tolist(), totals.tolist(), strict=True))

    def links(self) -> Links:
        """Return the connections between the ranks' GPUs; all ranks must call this at the same time."""
        if self._links is None:
            from bmrm.distributed.links import Links

            assert not isinstance(self.matrix, _cpu.Matrix)
            self._links = Links(self.group, self.matrix.device)
        return self._links

    def exchange(self, each: int = 1, *, constant: bool = False) -> Exchange:
        """Return the exchange of owned weights; all ranks must call this at the same time.

        Parameters
        ----------
        each : int
            Number of weights per column of X, one per class.
        constant : bool
            Whether there is one more column, owned by the last rank, in which all rows have an entry.

        Returns
        -------
        Exchange

        Examples
        --------
        >>> import numpy as np
        >>> from mpi4py import MPI
        >>> from bmrm.distributed import Shard
        >>> shard = Shard(np.eye(3), [1, 1, -1], comm=MPI.COMM_WORLD, device="cpu", weights="owned")
        >>> shard.exchange().fetch(np.ones(3))
        array([1., 1., 1.])
        """
        if (each, constant) not in self._exchanges:
            touched, bounds = self._touched, self.bounds.copy()
            if constant:
                touched = np.append(touched, self._columns)
                bounds[-1] += 1
            if each > 1:
                touched = (touched.astype(np.int64)[:, None] * each + np.arange(each)).ravel()
            self._exchanges[each, constant] = Exchange(self.group, each * bounds, touched)
        return self._exchanges[each, constant]

    def put_together(self, w: Vector) -> Vector:
        """Return all weights to the ranks that want them, and to other ranks their own part.

        Parameters
        ----------
        w : ndarray of float64, shape (own columns,), or (own columns, K)

        Returns
        -------
        ndarray of float64
        """
        if self.wanted_by == "none":
            return w
        each = w.shape[1:]
        bounds = math.prod(each) * self.bounds
        gathered = self.group.gathered if self.wanted_by == "all" else self.group.gathered_on_first
        found: Vector = gathered(w.ravel(), bounds)
        return found.reshape(-1, *each)

    def margins(self, w: Vector) -> Vector:
        """Return the margins of the local rows.

        Parameters
        ----------
        w : ndarray of float64
            All weights, or this rank's part of them.

        Returns
        -------
        ndarray of float64, shape (m,)
        """
        if not self.owned:
            return super().margins(w)
        first, last = self.bounds[self.group.rank : self.group.rank + 2]
        piece = w if len(w) == last - first else w[first:last]
        return np.asarray(self.matrix.matvec(self.exchange().fetch(piece)))

    @property
    def shape(self) -> tuple[int, int]:
        """Number of rows of all ranks, and of columns."""
        return sum(self.rows), self._columns

    @property
    def stored(self) -> str:
        """Type of the stored values: "float32" if it is that on any rank."""
        return self._stored

    @property
    def first_row(self) -> int:
        """Number of the first local row among the rows of all ranks."""
        return sum(self.rows[: self.group.rank])

    @property
    def columns(self) -> NDArray[np.integer[Any]] | None:
        """Numbers of the columns of the local matrix in the whole matrix; None if it has all columns."""
        return self._touched if self.owned else None

    @property
    def nnz(self) -> int:
        """Number of stored values of all ranks."""
        return self._nnz

    @property
    def total_weight(self) -> float:
        """Sum of the weights of all ranks."""
        return self._total_weight


def _choose_gpu(device: str, stored: int, number: int) -> str:
    """Return the device of the rank with this number on its machine; ranks take the GPUs in turn."""
    if device not in ("auto", "cuda") or not wants_gpu(device, stored):
        return "cpu" if device == "auto" else device
    from bmrm.matrix.gpu.devices import import_cuda

    return f"cuda:{number % max(1, import_cuda().device_count())}"
