"""The pieces of a solve on several ranks, each a thin layer over the one that a single process uses.

Rows of X are spread over the ranks, and so are the columns of the bundle's cuts: a rank adds up what all
ranks found for its columns of a new cut, and multiplies its columns for the Gram matrix. Weights are on every
rank. So nothing that grows with rows times ranks or with cuts times columns is ever held, or computed, twice.

The risk is cut into blocks by the number of a row in the whole, not by rank: with any number of ranks the
blocks, and hence the cuts, are the same but for rounding.

Where X is so narrow that Newton steps pay, the gradients are a few hundred numbers: every rank then holds
all columns.
"""

from __future__ import annotations

import math
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from bmrm import _cpu
from bmrm.bundle import Bundle, Store
from bmrm.columns import Columns
from bmrm.dataset import Dataset, WithConstant
from bmrm.distributed.group import Group
from bmrm.errors import BmrmError, DataError, ParameterError
from bmrm.host_steps import CUT_BYTES, HostCuts, HostSteps
from bmrm.io.checkpoint import Checkpoint
from bmrm.labels import distinct, encode, extended
from bmrm.losses import Loss
from bmrm.losses.base import RowRisk
from bmrm.losses.multiclass import ClassLoss
from bmrm.newton import newton_begins
from bmrm.objective import Design, Iterate, Objective, Planes
from bmrm.regularizers import L2, Regularizer
from bmrm.resident import DEFAULT_TOL, checked, default_threads, wants_gpu
from bmrm.solver import BundleMethod
from bmrm.vectors import dot, dot_rows
from bmrm.weights import ClassWeight, row_weights

if TYPE_CHECKING:
    from bmrm.training import Placement

Vector = NDArray[np.float64]


class Shard(Dataset):
    """The rows of a problem that this rank holds, resident on its device.

    Every rank of `comm` makes its own, at the same time. `bmrm.solve` takes it as it takes a `Dataset`, on
    every rank at the same time too, and gives each the same result.

    Parameters
    ----------
    X, y, sample_weight
        As for `Dataset`: the rows of this rank, with labels and weights. All ranks have as many columns, and
        each at least one row. The rows of rank 0 come first, those of rank 1 next.
    class_weight
        As for `Dataset`; "balanced" counts the rows of all ranks.
    comm : mpi4py.MPI.Comm or PETSc.Comm
    device : {"auto", "cpu", "cuda"}, default "auto"
        Where ranks share a machine with several GPUs, each takes its own.
    dtype, tol
        As for `Dataset`.
    threads : int, optional
        Default: the cores that this rank does not share with others.
    gpu_mem : int or str, optional
        As for `Dataset`, of each rank.

    Raises
    ------
    DataError, ParameterError, BmrmError, DeviceMemoryError
        As for `Dataset`; the same on every rank.

    Examples
    --------
    >>> import numpy as np
    >>> from mpi4py import MPI
    >>> import bmrm
    >>> from bmrm.distributed import Shard
    >>> shard = Shard(np.eye(3), [1, 1, -1], comm=MPI.COMM_WORLD)
    >>> bmrm.solve(shard, lam=0.1).status
    'converged'
    """

    def __init__(
        self,
        X: Any,
        y: Any = None,
        *,
        comm: Any,
        sample_weight: Any = None,
        class_weight: ClassWeight | None = None,
        device: str = "auto",
        dtype: DTypeLike | None = None,
        threads: int | None = None,
        tol: float = DEFAULT_TOL,
        gpu_mem: int | str | None = None,
    ) -> None:
        group = self.group = comm if isinstance(comm, Group) else Group(comm)
        with group.together():
            found = checked(X)
            size = found.size if isinstance(found, np.ndarray) else found.nnz
        shapes = group.everyones(found.shape)
        columns = {d for _, d in shapes}
        if len(columns) > 1:
            raise DataError(f"X: found {min(columns)} columns on one rank and {max(columns)} on another")
        self.rows = [m for m, _ in shapes]
        with group.together():
            threads = min(group.cores, default_threads(size)) if threads is None else threads
            super().__init__(
                found,
                device=_own_gpu(device, size, group.number),
                dtype=dtype,
                threads=threads,
                tol=tol,
                gpu_mem=gpu_mem,
            )
        self.y = y
        self.resolution = max(group.everyones(self.resolution))
        self._nnz: int = sum(group.everyones(self.matrix.nnz))
        self.weights = self._weights(sample_weight, class_weight)
        own = float(self.rows[group.rank]) if self.weights is None else float(self.weights.sum())
        self._total_weight = float(group.total(np.array([own]))[0])
        if not self._total_weight > 0.0:
            raise DataError("sample weights: all are 0, expected some positive weight")

    def _weights(self, sample_weight: Any, class_weight: ClassWeight | None) -> Vector | None:
        """Weights of this rank's rows, with what only all ranks together know of the classes."""
        group, m = self.group, self.rows[self.group.rank]
        counts: dict[float, int] = {}
        if class_weight is not None:
            with group.together():
                labels = np.asarray(self.y, np.float64)
                if labels.shape != (m,):
                    raise DataError(f"labels: found shape {labels.shape}, expected ({m},), one a row of X")
                own = dict(
                    zip(*(part.tolist() for part in np.unique(labels, return_counts=True)), strict=True)
                )
            for found in group.everyones(own):
                for label, count in found.items():
                    counts[label] = counts.get(label, 0) + count
        if class_weight == "balanced":
            class_weight = {label: sum(self.rows) / (len(counts) * n) for label, n in counts.items()}
        with group.together():
            # With a row for each label that some rank has, and one at least: what is an error of this rank's
            # rows alone (a label that is not there, weights that are all 0) is none where others have it.
            more = max(1, len(counts))
            y = None if class_weight is None else np.append(labels, list(counts))
            if sample_weight is not None:
                given = np.asarray(sample_weight, np.float64)
                if given.shape != (m,):
                    raise DataError(
                        f"sample weights: found shape {given.shape}, expected ({m},), one a row of X"
                    )
                sample_weight = np.append(given, np.ones(more))
            found = row_weights(y, m + more, sample_weight, class_weight)
        return None if found is None else found[:m]

    @property
    def shape(self) -> tuple[int, int]:
        """Rows of all ranks, and columns."""
        return sum(self.rows), self.matrix.shape[1]

    @property
    def nnz(self) -> int:
        """Stored values of all ranks."""
        return self._nnz

    @property
    def total_weight(self) -> float:
        """Sum of the weights of all ranks."""
        return self._total_weight


def _own_gpu(device: str, stored: int, number: int) -> str:
    """Name the GPU of the rank that is the so-manieth of its machine."""
    if device not in ("auto", "cuda") or not wants_gpu(device, stored):
        return "cpu" if device == "auto" else device
    from bmrm.device import backend

    return f"cuda:{number % max(1, backend().device_count())}"


class ShardedParts:
    """What a solve on a shard is put together from; see `bmrm.training.Parts`."""

    def __init__(self, data: Shard) -> None:
        self.data, self.group = data, data.group

    @property
    def speaks(self) -> bool:
        """Whether this rank is the one that prints."""
        return bool(self.group.rank == 0)

    def labels(self, loss: Loss) -> tuple[Vector, NDArray[np.float64] | None]:
        """Code the labels of this rank's rows as all ranks' labels ask for."""
        if not loss.by_rows:
            raise ParameterError(
                f"loss {loss.name}: is no sum over rows, so its rows cannot be on several ranks; train on one"
            )
        group, y, m = self.group, self.data.y, self.data.matrix.shape[0]
        if loss.task in ("regression", "count", "novelty"):
            with group.together():
                return encode(y, m, loss)
        with group.together():
            found = distinct(y, m, loss)
        widths = group.everyones(y.shape[1:] if isinstance(y, np.ndarray) else ())
        if len(set(widths)) > 1:
            raise DataError(
                f"labels: found rows of {min(widths)} on one rank and of {max(widths)} on another"
            )
        everyones = sorted(set().union(*group.everyones(found)))
        with group.together():
            # A row for each class of all ranks, so that this rank knows classes that it has no row of.
            coded, classes = encode(extended(y, everyones), m + len(everyones), loss)
        return coded[:m], classes

    def spread(self, design: Design) -> Design:
        """Make the design of all rows from that of the rows here."""
        return ShardedDesign(self.group, design)

    def newton_from(self, design: ShardedDesign, loss: Loss, reg: Regularizer) -> float:
        """Take Newton steps from the start where X is narrow; refuse what needs the cuts as a whole.

        Raises
        ------
        ParameterError
            For any penalty but the plain l2: its inner solver works on whole cuts.
        """
        if not isinstance(reg, L2):
            raise ParameterError(
                "reg: on several ranks it is l2, with one strength, no prior and weights of either sign"
            )
        begins = newton_begins(design, loss, reg)
        return begins if begins == math.inf else 0.0

    def place(self, at: Placement) -> tuple[ShardedSteps, Store]:
        """Keep weights on every rank, margins where the rows are, and the cuts' columns spread.

        With Newton steps every rank has all columns: there are few.
        """
        data, group, design, loss = self.data, self.group, at.design, at.loss
        d = design.shape[1]
        starts, design.reach = _spread_blocks(at.blocks, data.rows)
        design.bounds = None if at.narrow or d < group.size else group.split(d)
        of_rows = at.labels, data.weights, 1.0 / data.total_weight, data.threads
        # A rank may have no row of the last classes.
        risk = loss.bind(*of_rows, at.columns) if isinstance(loss, ClassLoss) else loss.risk(*of_rows)
        steps = ShardedSteps(design, SummedRisk(group, risk), at.columns * starts[group.rank])
        if at.known is not None:
            return steps, at.known.store
        if design.bounds is None:
            return steps, HostCuts(d, data.threads)
        return steps, SplitCuts(group, design.bounds, data.threads)

    def objective(self, *arguments: Any, **keywords: Any) -> Objective:
        """Make the objective."""
        return ShardedObjective(*arguments, **keywords)

    def restore(self, bundle: Bundle, checkpoint: Checkpoint) -> None:
        """Fill an empty bundle with the columns of this rank."""
        store = bundle.store
        first, last = store.columns if isinstance(store, SplitCuts) else (0, store.width)
        with self.group.together():
            cuts = checkpoint.cuts(first, last)
        bundle.restore(cuts)

    def method(self, *arguments: Any, **keywords: Any) -> BundleMethod:
        """Make the run."""
        return ShardedMethod(self.group, *arguments, **keywords)


class ShardedDesign:
    """The rows of this rank; a gradient is that of all rows, in the columns of this rank.

    Attributes
    ----------
    bounds : ndarray of shape (ranks + 1,), or None
        Columns of each rank; None where every rank has all.
    reach : list of (int, int)
        Blocks of rows that each rank has rows of.
    """

    def __init__(self, group: Group, inner: Design) -> None:
        self.group, self.inner = group, inner
        self.shape = inner.shape
        work = group.everyones((inner.nnz, inner.weighted_gram_work))
        self.nnz = sum(nnz for nnz, _ in work)
        self.weighted_gram_work = math.fsum(steps for _, steps in work)
        self.bounds: NDArray[np.int64] | None = None
        self.reach: list[tuple[int, int]] = []

    @property
    def width(self) -> int:
        """Columns of a gradient here."""
        if self.bounds is None:
            return self.shape[1]
        return int(self.bounds[self.group.rank + 1] - self.bounds[self.group.rank])

    def matvec(self, w: Vector, out: Vector) -> None:
        """Margins of this rank's rows."""
        self.inner.matvec(w, out)

    def rmatvec_blocks(self, r: Vector, starts: NDArray[np.int64], out: Vector) -> None:
        """Gradients of all ranks' rows, a block of them each, in the columns of this rank."""
        group = self.group
        reach = [(0, 1)] * group.size if len(starts) == 2 else self.reach
        first, last = reach[group.rank]
        own = np.empty((last - first, self.shape[1]))
        self.inner.rmatvec_blocks(r, starts[first : last + 1], own)
        if self.bounds is None:
            out[:] = 0.0
            out[first:last] = own
            out[:] = group.total(out)
        else:
            group.total_by_columns(own, reach, self.bounds, out)

    def weighted_gram(self, s: Vector, out: Vector) -> None:
        """``out = X' diag(s) X`` over all rows."""
        self.inner.weighted_gram(s, out)
        out[:] = self.group.total(out)


class SummedRisk:
    """The risk of all rows from that of each rank's."""

    def __init__(self, group: Group, own: RowRisk) -> None:
        self.group, self.own = group, own

    def slope(self, z: Vector, dz: Vector, t: float, b: float) -> tuple[float, float]:
        """Slopes of the risk of all rows."""
        in_t, in_b = self.group.total(np.array(self.own.slope(z, dz, t, b)))
        return float(in_t), float(in_b)

    def cut(
        self, z: Vector, dz: Vector, t: float, b: float, starts: NDArray[np.int64], r: Vector
    ) -> tuple[Vector, Vector]:
        """Risk and slope of all rows, by block; ``r`` is of this rank's rows."""
        values, slopes = self.group.total(np.stack(self.own.cut(z, dz, t, b, starts, r)))
        return values, slopes

    def curvature(self, z: Vector, b: float, r: Vector) -> float:
        """Sum of the second derivatives of all rows."""
        return float(self.group.total(np.array([self.own.curvature(z, b, r)]))[0])


def _spread_blocks(blocks: int, rows: list[int]) -> tuple[list[NDArray[np.int64]], list[tuple[int, int]]]:
    """Cut all rows into blocks: where they begin in the rows of each rank, and which it has some of."""
    cuts = np.linspace(0, sum(rows), blocks + 1).astype(np.int64)
    firsts = np.cumsum([0, *rows[:-1]])
    starts = [np.clip(cuts - first, 0, m) for first, m in zip(firsts, rows, strict=True)]
    reach = [
        (int(np.searchsorted(own, 0, "right")) - 1, int(np.searchsorted(own, m)))
        for own, m in zip(starts, rows, strict=True)
    ]
    return starts, reach


class ShardedSteps(HostSteps):
    """The steps on this rank's rows, with sums over all rows."""

    design: ShardedDesign

    def __init__(self, design: ShardedDesign, risk: RowRisk, starts: NDArray[np.int64]) -> None:
        super().__init__(design, risk)
        self.starts = starts

    def _planes(self, starts: NDArray[np.int64], w: Vector, risk: Vector, slope: Vector) -> Planes:
        design, bounds, group = self.design, self.design.bounds, self.design.group
        gradients = np.empty((len(starts) - 1, design.width))
        start = time.perf_counter()
        design.rmatvec_blocks(self._derivatives[0], starts, gradients)
        self.seconds += time.perf_counter() - start
        if bounds is None:
            at_point = dot_rows(gradients, w)
        else:
            own = slice(bounds[group.rank], bounds[group.rank + 1])
            at_point = group.total(dot_rows(gradients, w[own]))
        if not np.isfinite(at_point).all():  # what is no number on one rank is none on all
            gradients[:] = np.nan
        return Planes(gradients, None, at_point, risk, slope)


class ShardedObjective(Objective):
    """The objective of all rows, seen from the rank that has some."""

    design: ShardedDesign
    steps: ShardedSteps

    def __init__(self, *arguments: Any, **keywords: Any) -> None:
        super().__init__(*arguments, **keywords)
        self.starts = self.steps.starts

    def model(self, point: Iterate) -> tuple[Vector, float | Vector]:
        """Weights and intercept as the user sees them."""
        inner = self.design.inner
        if isinstance(inner, (WithConstant, Columns)):
            return inner.split(point.w)
        return point.w, point.intercept


class SplitCuts(HostCuts):
    """Cuts of which each rank has some columns."""

    def __init__(self, group: Group, bounds: NDArray[np.int64], threads: int) -> None:
        self.group, self.bounds = group, bounds
        self.columns = int(bounds[group.rank]), int(bounds[group.rank + 1])
        super().__init__(self.columns[1] - self.columns[0], threads)

    @property
    def most(self) -> int:
        """Cuts that the rank with most columns has memory for."""
        return CUT_BYTES // (8 * int(np.diff(self.bounds).max()))

    def append(self, planes: Planes) -> Vector:
        """Put new cuts behind those in use; return their products with all, over all columns."""
        return self.group.total(super().append(planes))

    def minimise(self, reg: Regularizer, alpha: Vector, near: Vector) -> tuple[Vector, float]:
        """Minimise ``lam Omega(w) + <sum_k alpha_k a_k, w>`` over all columns; return w and the minimum."""
        piece = np.empty(self.width)
        _cpu.combine(self._rows[: len(alpha)], alpha, piece, threads=self.threads)
        a = self.group.gathered(piece, self.bounds)
        w = reg.minimiser(a)
        return w, reg.value(w) + dot(w, a)

    def only(self, kept: NDArray[np.intp]) -> SplitCuts:
        """Return a store of its own with copies of some of the cuts."""
        cuts = SplitCuts(self.group, self.bounds, self.threads)
        cuts._rows, cuts.size = self._rows[kept], len(kept)
        return cuts

    def taken(self, numbers: NDArray[np.intp]) -> Vector:
        """Copy some cuts: all their columns on rank 0, none elsewhere."""
        n, widths, group = len(numbers), np.diff(self.bounds), self.group
        counts = (n * widths).tolist()
        received = np.empty(sum(counts) if group.rank == 0 else 0)
        group.comm.Gatherv(self._rows[numbers], (received, counts))
        if group.rank != 0:
            return np.empty((n, 0))
        return np.hstack([part.reshape(n, -1) for part in np.split(received, np.cumsum(counts)[:-1])])


class ShardedMethod(BundleMethod):
    """The outer loop on all ranks: what ends it on one ends it on all, after the same iteration."""

    def __init__(self, group: Group, *arguments: Any, **keywords: Any) -> None:
        self.group = group
        self._interrupted = False
        with group.guarded():
            super().__init__(*arguments, **keywords)

    def minimise(self) -> None:
        """Run until converged or stopped; the first Ctrl-C on any rank ends the iteration on all."""
        with self.group.guarded(), self._interrupts():
            self._loop_quietly()

    def certified(self) -> Iterate:
        """Return the best iterate, with J from a new product."""
        with self.group.guarded():
            return super().certified()

    def _agreed(self, stop: bool, late: bool) -> tuple[bool, bool]:
        found = self.group.parts(
            np.array([stop or self._interrupted, late, self.best.objective, self.bound], np.float64)
        )
        if (found[:, 2:] != found[0, 2:]).any():
            raise BmrmError("the ranks do not agree on the objective: their processors round differently")
        return bool(found[:, 0].any()), bool(found[:, 1].any())

    @contextmanager
    def _interrupts(self) -> Iterator[None]:
        """Let the first Ctrl-C set a mark: an exception here would leave the other ranks waiting."""

        def handle(number: int, frame: FrameType | None) -> None:
            if self._interrupted:
                raise KeyboardInterrupt
            self._interrupted = True

        ours = (
            threading.current_thread() is threading.main_thread()
            and signal.getsignal(signal.SIGINT) is signal.default_int_handler
        )
        if ours:
            signal.signal(signal.SIGINT, handle)
        try:
            yield
        finally:
            if ours:
                signal.signal(signal.SIGINT, signal.default_int_handler)
