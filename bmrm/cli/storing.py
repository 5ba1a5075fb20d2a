"""In which type ``bmrm-train`` stores values, and certificates that hold for the numbers of the file.

``--dtype auto`` stores values of large data as float32 first, for less memory and time. The reader tells
whether that has rounded any; if it has, `bmrm.linear.stored_rounding` bounds what it makes of the
certificate. Where that is too much for the tolerance, the data are read again as float64, and training goes
on from the weights that it has. What cannot be read twice is float64 from the start, and so are values for
losses that rounding may move by anything; and values that float32 rounds for a cross validation without a
grid.
"""

from __future__ import annotations

import contextlib
import dataclasses
import glob
import logging
import os
import stat
import time
from collections import Counter
from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, cast

import numpy as np

from bmrm.base.progress import print_notice
from bmrm.base.units import finite_or_none
from bmrm.cli.fitting import fit, make_loss, penalty_of
from bmrm.cli.loading import load
from bmrm.errors import BmrmError, DataError, Float32Error, ParameterError, escape_unprintable
from bmrm.linear.models.checkpoint import Checkpoint
from bmrm.linear.models.model import Model
from bmrm.linear.solvers.settings import SMALLEST_TOL
from bmrm.losses import LOSSES, JointLoss

if TYPE_CHECKING:
    from bmrm.cli.options import TrainOptions
    from bmrm.cli.signals import Interrupts
    from bmrm.distributed import Group
    from bmrm.io import Data
    from bmrm.linear.bundle.bundle import Bundle
    from bmrm.linear.models.calibration import Calibration
    from bmrm.linear.regularizers import Regularizer
    from bmrm.linear.result import Result
    from bmrm.linear.selection.select import Selection
    from bmrm.linear.solvers.progress import Progress, Status
    from bmrm.linear.stored_rounding import Bounds, Rounding
    from bmrm.matrix.dataset import Dataset

AUTO, SINGLE, DOUBLE = "auto", "float32", "float64"

SMALL = 1 << 24
"""Bytes of data up to which they are stored as float64: float32 would save nothing worth having."""

ROOM = 0.95
"""Share of the tolerance that solves of a selection go to where rounding is to have the rest."""

AFFORDABLE = 0.5
"""Share of the tolerance that rounding may take where training goes on with the values as they are stored."""

log = logging.getLogger("bmrm")

Loaded = TypeVar("Loaded")
Callback = Callable[["Progress"], object]


def first_type(options: TrainOptions, group: Group | None = None, resumed: object = None) -> str:
    """Return the type to store values in at first.

    Parameters
    ----------
    options : TrainOptions
    group : Group or None
    resumed : Checkpoint or else
        What training starts from: the cuts of a checkpoint are of values of one type.

    Raises
    ------
    ParameterError
        The options ask for another type than the checkpoint's.
    """
    if isinstance(resumed, Checkpoint) and resumed.model.certificate is not None:
        found = resumed.model.certificate.dtype
        if found is not None and options.dtype not in (AUTO, found):
            raise ParameterError(
                f"--dtype: found {options.dtype}, expected {found} as in {escape_unprintable(resumed.path)}"
            )
        if found is not None:
            return found
    if options.dtype != AUTO:
        return options.dtype
    loss = LOSSES[options.loss]
    from bmrm.linear.stored_rounding import bounded

    holds = bounded(loss) and (group is None or not issubclass(loss, JointLoss))
    return SINGLE if holds and _pays(options.data) and not _is_cached_in_full(options) else DOUBLE


def _pays(path: str) -> bool:
    """Whether data are in regular files, which can be read twice, and large enough for float32 to matter.

    What is wrong with them is told by who reads them.
    """
    with contextlib.suppress(OSError):
        found = [os.stat(name) for name in _files(path)]
        regular = bool(found) and all(stat.S_ISREG(each.st_mode) for each in found)
        return regular and sum(each.st_size for each in found) > SMALL
    return False


def _files(path: str) -> list[str]:
    """Return the files of a pattern, or the one file of that name."""
    if path == "-":
        return []
    return [path] if os.path.exists(path) else sorted(glob.glob(path))


def _is_cached_in_full(options: TrainOptions) -> bool:
    """Whether float64 is what there is in the cache, which an earlier training found that it needs."""
    if not options.cache:
        return False
    from bmrm.io.cache import read_cached_dtype

    return read_cached_dtype(options.data) == np.float64


def loaded(how: Callable[[TrainOptions], Loaded], options: TrainOptions, dtype: str) -> tuple[Loaded, str]:
    """Load data with values of a type, or of float64 where float32 cannot hold them; return also the type."""
    try:
        return how(dataclasses.replace(options, dtype=dtype)), dtype
    except Float32Error:
        if options.dtype != AUTO:
            raise
    return how(dataclasses.replace(options, dtype=DOUBLE)), DOUBLE


def loaded_exactly(
    how: Callable[[TrainOptions], Loaded], data_of: Callable[[Loaded], Data], options: TrainOptions
) -> tuple[Loaded, str]:
    """Load data with values that are those of the file, unless the options want them rounded."""
    found, dtype = loaded(how, options, first_type(options))
    if options.dtype == AUTO and data_of(found).rounded:
        del found
        return how(dataclasses.replace(options, dtype=DOUBLE)), DOUBLE
    return found, dtype


def _states(path: str) -> list[tuple[int, int]]:
    """Tell size and time of change of the files."""
    states = []
    for name in _files(path):
        with contextlib.suppress(OSError):
            status = os.stat(name)
            states.append((status.st_size, status.st_mtime_ns))
    return states


class Stored:
    """Data as they are stored, and what is known of the problem of the file's numbers.

    Parameters
    ----------
    options : TrainOptions
    data : Data
    dataset : Dataset
    dtype : str
        Of the values.
    group : Group or None
        The ranks; all of them ask the same things at the same time.
    """

    def __init__(
        self, options: TrainOptions, data: Data, dataset: Dataset, dtype: str, group: Group | None = None
    ) -> None:
        self.options, self.data, self.dataset, self.dtype, self.group = options, data, dataset, dtype, group
        self.zero_based = data.zero_based
        self.files: list[tuple[int, int]] = []
        self._penalty: Regularizer | None = None

    @classmethod
    def load(cls, options: TrainOptions, dtype: str, group: Group | None) -> Stored:
        """Read the data and make them resident."""
        files = _states(options.data)
        (data, dataset), dtype = loaded(lambda given: load(given, group), options, dtype)
        if data.rounded and hasattr(dataset, "wanted_by"):
            dataset.wanted_by = "all"  # float64 would go on from them on all ranks
        found = cls(options, data, dataset, dtype, group)
        found.files = files
        return found

    @cached_property
    def _known(self) -> tuple[Rounding, float]:
        """What rounding makes of certificates, and a number that no risk is below."""
        from bmrm.linear.backends.choose import backend_of
        from bmrm.linear.stored_rounding import Rounding, column_sums, matrix_sums, slopes_of

        data, dataset = self.data, self.dataset
        loss, backend = make_loss(self.options).grouped(dataset.groups), backend_of(dataset)
        labels, _ = backend.labels(loss)
        slopes = slopes_of(loss, labels, dataset.weights, dataset.total_weight)
        squares, X, threads = slopes.square > 0.0, data.X, dataset.threads
        if isinstance(getattr(X, "data", None), np.ndarray) or isinstance(X, np.ndarray):
            sums = column_sums(X, slopes.rows, squares=squares, threads=threads)
        else:
            sums = matrix_sums(dataset.matrix, slopes.rows, squares=squares, negative=data.negative)
        weight = float(slopes.rows.sum())
        if self.group is not None:
            sums, weight = self.group.total(sums), float(self.group.total(np.array([weight]))[0])
        return Rounding(sums, weight, slopes.square, loss.name), backend.floor(loss, labels)

    def bounds(self, objective: float, lower_bound: float, w: Any) -> Bounds:
        """Return what is known of the file's numbers, from the certificate for those stored."""
        from bmrm.linear.stored_rounding import Bounds

        if not self.data.rounded:
            return Bounds(objective, lower_bound)
        rounding, floor = self._known
        columns = w.shape[1] if w.ndim == 2 else 1
        if self._penalty is None:
            self._penalty = penalty_of(self.options, self.dataset, columns)
        found = rounding.bounds(objective, lower_bound, w, self._penalty, floor)
        return found if self.group is None else Bounds(*self.group.everyones(tuple(found))[0])

    def certified(self, result: Result) -> Trained:
        """Return a result with the certificate of the file's numbers."""
        bounds = self.bounds(result.objective, result.lower_bound, result.w)
        return Trained(self, _certified(self.options, result, bounds), bounds.rounding)

    def snapshot(self, model: Model) -> Model:
        """Return a model with the certificate of the file's numbers in the place of that of those stored."""
        found = model.certificate
        assert found is not None
        objective, lower_bound, rounding = self.bounds(found.objective, found.lower_bound, model.w)
        held = dataclasses.replace(
            found, objective=objective, lower_bound=lower_bound, dtype=self.dtype, rounding=rounding
        )
        return dataclasses.replace(model, certificate=held)


class Trained(NamedTuple):
    """What training ends with: a result certified for the file's numbers, and how far rounding goes."""

    stored: Stored
    result: Result
    rounding: float

    @property
    def note(self) -> dict[str, Any]:
        """What ``--json`` says of it."""
        return {"dtype": self.stored.dtype, "rounding": finite_or_none(self.rounding)}

    def model(self, calibration: Calibration | None = None, status: str | None = None) -> Model:
        """Return the model, with what was stored in its certificate, and the result's status or another."""
        model = Model.from_result(self.result, calibration=calibration, zero_based=self.stored.zero_based)
        assert model.certificate is not None
        noted = dataclasses.replace(
            model.certificate,
            status=status or model.certificate.status,
            dtype=self.stored.dtype,
            rounding=self.rounding,
        )
        return dataclasses.replace(model, certificate=noted)


def _certified(options: TrainOptions, result: Result, bounds: Bounds) -> Result:
    """Return a result with other bounds; it has not converged if these are too wide for what was asked."""
    objective, lower_bound, rounding = bounds
    gap, status = objective - lower_bound, result.status
    if status == "converged" and rounding and gap > tolerance(options, objective):
        status = "precision"
    return dataclasses.replace(
        result, objective=objective, lower_bound=lower_bound, gap=gap, status=status, tol=options.tol
    )


def certified_selection(
    options: TrainOptions, data: Data, dtype: str, selection: Selection
) -> tuple[Selection, Trained | None]:
    """Return a selection with certificates of the file's numbers, and the model that it leads to."""
    from bmrm.base.groups import number_groups
    from bmrm.io.svmlight import resolve_thread_count
    from bmrm.linear.stored_rounding import Rounding, column_sums, slopes_of

    stored, last = Stored(options, data, cast("Dataset", None), dtype), selection.result
    if not data.rounded:
        return selection, None if last is None else Trained(stored, last, 0.0)
    rows, threads = data.X.shape[0], resolve_thread_count(options.threads)
    loss, labels = make_loss(options).grouped(number_groups(data.qid, rows)), selection.labels

    def certified(fold: int, results: list[Result]) -> list[Trained]:
        """Certify results of all rows but a fold's."""
        weights = np.where(selection.folds.fold_of == fold, 0.0, selection.weights)
        slopes = slopes_of(loss, labels, weights, float(weights.sum()))
        sums = column_sums(data.X, slopes.rows, squares=slopes.square > 0.0, threads=threads)
        rounding = Rounding(sums, float(slopes.rows.sum()), slopes.square, loss.name)
        floor, found = loss.floor(labels, weights), []
        for result in results:
            given = dataclasses.replace(options, lam=result.lam, cost=None)
            penalty = penalty_of(given, data.X, result.w.shape[1] if result.w.ndim == 2 else 1)
            bounds = rounding.bounds(result.objective, result.lower_bound, result.w, penalty, floor)
            found.append(Trained(stored, _certified(options, result, bounds), bounds.rounding))
        return found

    number = selection.folds.number
    folds = [certified(fold, [v.results[fold] for v in selection.validations]) for fold in range(number)]
    validations = [
        dataclasses.replace(v, results=[folds[fold][k].result for fold in range(number)])
        for k, v in enumerate(selection.validations)
    ]
    model = None if last is None else certified(number, [last])[0]
    result = None if model is None else model.result
    return dataclasses.replace(selection, validations=validations, result=result), model


def tolerance(options: TrainOptions, objective: float) -> float:
    """Return the gap that the options ask for."""
    return options.tol * abs(objective) if options.tol_kind == "rel" else options.tol


class Training:
    """A training, on values that become float64 where float32 rounds too much.

    Parameters
    ----------
    stored : Stored
    observer : callable
        Called with each `Progress`.
    interrupts : Interrupts
    follow : callable
        Called with what is stored whenever that changes, and with None where that is let go.
    keep : callable
        Called with the state that is reached and its status, before the data that it rests on are given up.
    """

    def __init__(
        self,
        stored: Stored,
        observer: Callback,
        interrupts: Interrupts,
        *,
        keep: Callable[[Trained, str], object],
        follow: Callable[[Stored | None], object],
    ) -> None:
        self._stored, self._options = stored, stored.options
        self._observer, self._interrupts, self._keep, self._follow = observer, interrupts, keep, follow
        self._began = time.perf_counter()
        self._hopeless = False
        self._reached: Trained  # the one place that holds what training has come to, and with it the matrix

    def run(self, warm: Any) -> Trained:
        """Train from a model, a checkpoint or nothing until the file's problem is solved."""
        self._solve(warm)
        if self._options.dtype == AUTO and (self._hopeless or self._is_short):
            self._in_full()
        return self._reached

    @property
    def _is_short(self) -> bool:
        """Whether rounding leaves more of a gap than was asked for."""
        return self._reached.rounding > 0.0 and self._reached.result.status == "precision"

    def _solve(self, warm: Any) -> None:
        """Train on the values as they are stored, to a gap that leaves room for their rounding."""
        stored, options = self._stored, self._options
        observer = self._watch if stored.data.rounded else self._observer
        found = fit(options, stored.dataset, warm=warm, callback=observer)
        self._reached = reached = stored.certified(found)
        room = tolerance(options, reached.result.objective)
        if found.status == "converged" and self._is_short and reached.rounding <= AFFORDABLE * room:
            tol = 0.999 * (room - reached.rounding)
            tol /= abs(found.objective) if options.tol_kind == "rel" else 1.0
            left = self._left(found, tol=max(tol, SMALLEST_TOL))
            if left is not None:
                try:
                    more = fit(left, stored.dataset, warm=found, callback=self._counted(found.n_iter))
                except KeyboardInterrupt:  # before there was more
                    self._end("interrupted")
                    return
                self._reached = stored.certified(_behind(found, more))

    def _watch(self, state: Progress) -> bool:
        """Observe an iteration; stop where rounding alone is more than the tolerance has room for."""
        self._observer(state)
        if self._options.dtype == AUTO and state.iteration & (state.iteration - 1) == 0:
            moved = self._stored.bounds(state.objective, state.lower_bound, state.best()[0]).objective
            room = AFFORDABLE * tolerance(self._options, state.objective)
            self._hopeless = moved - state.objective > room
        return self._hopeless

    def _left(self, done: Result, **changes: Any) -> TrainOptions | None:
        """Return the options for what is left of the limits; None, and what ended training, for nothing."""
        passes, limit = self._options.max_iter - done.n_iter, self._options.max_time
        status: Status | None = None if passes > 0 else "max_iter"
        if limit is not None:
            changes["max_time"] = limit - (time.perf_counter() - self._began)
            status = status if changes["max_time"] > 0.0 else "max_time"
        if status is None:
            return dataclasses.replace(self._options, max_iter=passes, **changes)
        self._end(status)
        return None

    def _end(self, status: Status) -> None:
        result = dataclasses.replace(self._reached.result, status=status)
        self._reached = self._reached._replace(result=result)

    def _in_full(self) -> None:
        """Read the data again as float64, and go on from the weights that there are."""
        options, left = self._options, self._left(self._reached.result)
        if left is None:
            return
        log.info("float32 rounds the values too much for the tolerance: they are read again as float64")
        start, began = self._give_up(), time.perf_counter()
        # A rank that is struck would leave the others waiting. There the solve finds what has come meanwhile.
        alone = self._stored.group is None
        try:
            with self._interrupts.opened() if alone else contextlib.nullcontext():
                again = self._again()
        except (BmrmError, MemoryError) as error:
            why = str(error) or "there is too little memory"
            print_notice(f"the model is that of values rounded to float32: {why}", quiet=options.quiet)
            return
        except KeyboardInterrupt:
            self._end("interrupted")
            return
        self._stored, held = again, self._reached.result
        self._follow(again)
        seconds = time.perf_counter() - began
        try:
            found = fit(left, again.dataset, warm=start, callback=self._counted(held.n_iter))
        except KeyboardInterrupt:  # before there was more
            self._end("interrupted")
            return
        reached = again.certified(_behind(held, found))
        reached.result.timings["reload"] = seconds
        self._reached = reached._replace(result=self._with_bound(reached.result, held.lower_bound))

    def _give_up(self) -> Model:
        """Let the values go, and the cuts: memory for them and for others may not be there."""
        stored, result = self._stored, self._reached.result
        self._keep(self._reached, "running")
        self._follow(None)
        result = dataclasses.replace(result, bundle=cast("Bundle", None), origin=None, status="precision")
        self._reached = self._reached._replace(result=result)
        start = Model.from_result(result)
        self._shape = stored.data.X.shape
        del stored.data, stored.dataset
        return start

    def _again(self) -> Stored:
        """Read the data again; raise where they are others now."""
        before = self._stored
        found = Stored.load(self._options, DOUBLE, before.group)
        if found.files != before.files or found.data.X.shape != self._shape:
            raise DataError(f"{escape_unprintable(self._options.data)}: has changed since it was read first")
        return found

    def _with_bound(self, result: Result, bound: float) -> Result:
        """Return a result with a bound of the same problem that was known before, if it is the better one."""
        if bound <= result.lower_bound:
            return result
        gap, status = result.objective - bound, result.status
        if status == "precision" and gap <= tolerance(self._options, result.objective):
            status = "converged"
        return dataclasses.replace(result, lower_bound=bound, gap=gap, status=status)

    def _counted(self, before: int) -> Callback:
        """Return an observer of iterations that others went before."""
        return lambda state: self._observer(dataclasses.replace(state, iteration=before + state.iteration))


def _behind(first: Result, then: Result) -> Result:
    """Return the second of two results, with the work of both."""
    timings = Counter(first.timings)
    timings.update(then.timings)
    return dataclasses.replace(then, n_iter=first.n_iter + then.n_iter, timings=dict(timings))
