"""The type in which ``bmrm-train`` stores values, and certificates that hold for the numbers of the file.

``--dtype auto`` stores the values of large data as float32 first, for less memory and time. The reader
reports whether this has rounded any value; if so, `bmrm.linear.stored_rounding` bounds the effect on the
certificate. If it is too large for the tolerance, the data are read again as float64, and training continues
from its weights. Float64 is used from the start for data that cannot be read twice, and for losses without
such a bound. For a cross validation without a grid it is used as soon as float32 rounds a value.
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

AUTO = "auto"
SINGLE = "float32"
DOUBLE = "float64"

MAX_FLOAT64_FILE_BYTES = 1 << 24
"""Files up to this size are stored as float64, because float32 would save too little."""

SELECTION_TOL_SHARE = 0.95
"""Share of the tolerance that solves of a selection use; the rest is left for rounding."""

MAX_ROUNDING_SHARE = 0.5
"""Maximum share of the tolerance used up by rounding with which training continues on float32 values."""

log = logging.getLogger("bmrm")

Loaded = TypeVar("Loaded")
Callback = Callable[["Progress"], object]


def first_type(options: TrainOptions, group: Group | None = None, resumed: object = None) -> str:
    """Return the type in which values are stored first.

    ``resumed`` is the start of training: the cuts of a checkpoint belong to values of one type.

    Raise `ParameterError` if the options request another type than the checkpoint's.
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
    """Return whether data are in regular files, which can be read twice, and large enough for float32.

    Errors are reported later by the reader.
    """
    with contextlib.suppress(OSError):
        found = [os.stat(name) for name in _files(path)]
        regular = bool(found) and all(stat.S_ISREG(each.st_mode) for each in found)
        return regular and sum(each.st_size for each in found) > MAX_FLOAT64_FILE_BYTES
    return False


def _files(path: str) -> list[str]:
    """Return the files that match a pattern, or the one file with that name."""
    if path == "-":
        return []
    return [path] if os.path.exists(path) else sorted(glob.glob(path))


def _is_cached_in_full(options: TrainOptions) -> bool:
    """Return whether the cache has float64 values, which an earlier training needed."""
    if not options.cache:
        return False
    from bmrm.io.cache import read_cached_dtype

    return read_cached_dtype(options.data) == np.float64


def loaded(how: Callable[[TrainOptions], Loaded], options: TrainOptions, dtype: str) -> tuple[Loaded, str]:
    """Load data with values of a type, or of float64 if float32 cannot hold them; return also the type."""
    try:
        return how(dataclasses.replace(options, dtype=dtype)), dtype
    except Float32Error:
        if options.dtype != AUTO:
            raise
    return how(dataclasses.replace(options, dtype=DOUBLE)), DOUBLE


def loaded_exactly(
    how: Callable[[TrainOptions], Loaded], data_of: Callable[[Loaded], Data], options: TrainOptions
) -> tuple[Loaded, str]:
    """Load data with the exact values of the file, unless the options request float32."""
    found, dtype = loaded(how, options, first_type(options))
    if options.dtype == AUTO and data_of(found).rounded:
        del found
        return how(dataclasses.replace(options, dtype=DOUBLE)), DOUBLE
    return found, dtype


def _states(path: str) -> list[tuple[int, int]]:
    states = []
    for name in _files(path):
        with contextlib.suppress(OSError):
            status = os.stat(name)
            states.append((status.st_size, status.st_mtime_ns))
    return states


class Stored:
    """Stored data, and certificates for the numbers of the file.

    The methods are collective over the ranks of ``group``.
    """

    def __init__(
        self, options: TrainOptions, data: Data, dataset: Dataset, dtype: str, group: Group | None = None
    ) -> None:
        self.options, self.data, self.dataset, self.dtype, self.group = options, data, dataset, dtype, group
        self.zero_based, self.checksum = data.zero_based, data.checksum
        self.feature_names = data.feature_names
        self.files: list[tuple[int, int]] = []
        self._penalty: Regularizer | None = None

    @classmethod
    def load(cls, options: TrainOptions, dtype: str, group: Group | None) -> Stored:
        """Read the data and make the resident data set."""
        files = _states(options.data)
        (data, dataset), dtype = loaded(lambda given: load(given, group), options, dtype)
        if data.rounded and hasattr(dataset, "wanted_by"):
            dataset.wanted_by = "all"  # training in float64 would continue from the weights on all ranks
        found = cls(options, data, dataset, dtype, group)
        found.files = files
        return found

    @cached_property
    def _known(self) -> tuple[Rounding, float]:
        """The effect of rounding on certificates, and a lower bound of the risk."""
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
        """Return the certificate for the numbers of the file, from that for the stored ones."""
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
        """Return a result with the certificate for the numbers of the file."""
        bounds = self.bounds(result.objective, result.lower_bound, result.w)
        return Trained(self, _certified(self.options, result, bounds), bounds.rounding)

    def snapshot(self, model: Model) -> Model:
        """Return a model with the certificate for the numbers of the file, not for the stored ones."""
        found = model.certificate
        assert found is not None
        objective, lower_bound, rounding = self.bounds(found.objective, found.lower_bound, model.w)
        held = dataclasses.replace(
            found, objective=objective, lower_bound=lower_bound, dtype=self.dtype, rounding=rounding
        )
        return dataclasses.replace(model, certificate=held)


class Trained(NamedTuple):
    """A result certified for the numbers of the file, and the effect of rounding on the certificate."""

    stored: Stored
    result: Result
    rounding: float

    @property
    def note(self) -> dict[str, Any]:
        """The additional keys of the JSON object."""
        return {"dtype": self.stored.dtype, "rounding": finite_or_none(self.rounding)}

    def write(self, path: str, calibration: Calibration | None = None) -> None:
        """Write the model in the format that the options ask for."""
        model = self.model(calibration)
        (model.export_liblinear if self.stored.options.export == "liblinear" else model.save)(path)

    def model(self, calibration: Calibration | None = None, status: str | None = None) -> Model:
        """Return the model; its certificate has the stored type, and ``status`` if given."""
        model = Model.from_result(self.result, calibration=calibration, zero_based=self.stored.zero_based)
        assert model.certificate is not None
        assert model.training is not None
        noted = dataclasses.replace(
            model.certificate,
            status=status or model.certificate.status,
            dtype=self.stored.dtype,
            rounding=self.rounding,
        )
        training = dataclasses.replace(model.training, text_checksum=self.stored.checksum)
        return dataclasses.replace(
            model, certificate=noted, training=training, feature_names=self.stored.feature_names
        )


def _certified(options: TrainOptions, result: Result, bounds: Bounds) -> Result:
    """Return a result with other bounds; it is not converged if these are too wide for the tolerance."""
    objective, lower_bound, rounding = bounds
    gap, status = objective - lower_bound, result.status
    if status == "converged" and rounding and gap > tolerance(options, objective):
        status = "precision"
    return dataclasses.replace(
        result, objective=objective, lower_bound=lower_bound, gap=gap, status=status, tol=options.tol
    )


def certified_selection(
    options: TrainOptions, data: Data, dtype: str, selection: Selection[Any]
) -> tuple[Selection[Any], Trained | None]:
    """Return a selection with certificates for the numbers of the file, and its final model if it has one."""
    from bmrm.base.groups import number_groups
    from bmrm.io.svmlight import resolve_thread_count
    from bmrm.linear.stored_rounding import Rounding, column_sums, slopes_of

    stored, last = Stored(options, data, cast("Dataset", None), dtype), selection.result
    if not data.rounded:
        return selection, None if last is None else Trained(stored, last, 0.0)
    rows, threads = data.X.shape[0], resolve_thread_count(options.threads)
    loss, labels = make_loss(options).grouped(number_groups(data.qid, rows)), selection.labels

    def certified(fold: int, results: list[Result]) -> list[Trained]:
        """Certify results of training on all rows except a fold."""
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
    """Return the requested gap."""
    return options.tol * abs(objective) if options.tol_kind == "rel" else options.tol


class Training:
    """Training that switches to float64 values if float32 rounds too much.

    - ``keep``: called with the current state and its status before its data are released
    - ``follow``: called with the stored data whenever they change, and with None when they are released
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
        self._reached: Trained  # the only reference to the current state, and through it to the matrix

    def run(self, warm: Any) -> Trained:
        """Train from a model, a checkpoint or None until the problem of the file is solved."""
        self._solve(warm)
        if self._options.dtype == AUTO and (self._hopeless or self._is_short):
            self._retrain_in_float64()
        return self._reached

    @property
    def _is_short(self) -> bool:
        """Whether rounding makes the gap larger than the tolerance."""
        return self._reached.rounding > 0.0 and self._reached.result.status == "precision"

    def _solve(self, warm: Any) -> None:
        """Train on the stored values, to a gap that leaves room for their rounding."""
        stored, options = self._stored, self._options
        observer = self._watch if stored.data.rounded else self._observer
        found = fit(options, stored.dataset, warm=warm, callback=observer)
        self._reached = reached = stored.certified(found)
        room = tolerance(options, reached.result.objective)
        if found.status == "converged" and self._is_short and reached.rounding <= MAX_ROUNDING_SHARE * room:
            tol = 0.999 * (room - reached.rounding)
            tol /= abs(found.objective) if options.tol_kind == "rel" else 1.0
            remaining = self._remaining(found, tol=max(tol, SMALLEST_TOL))
            if remaining is not None:
                try:
                    more = fit(remaining, stored.dataset, warm=found, callback=self._counted(found.n_iter))
                except KeyboardInterrupt:  # before there is another result
                    self._end("interrupted")
                    return
                self._reached = stored.certified(_with_work_of(found, more))

    def _watch(self, state: Progress) -> bool:
        """Observe an iteration; return whether to stop, because rounding alone is too large."""
        self._observer(state)
        if self._options.dtype == AUTO and state.iteration & (state.iteration - 1) == 0:
            moved = self._stored.bounds(state.objective, state.lower_bound, state.best()[0]).objective
            room = MAX_ROUNDING_SHARE * tolerance(self._options, state.objective)
            self._hopeless = moved - state.objective > room
        return self._hopeless

    def _remaining(self, done: Result, **changes: Any) -> TrainOptions | None:
        """Return the options with the remaining limits; if none remain, set the status and return None."""
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

    def _retrain_in_float64(self) -> None:
        """Read the data again as float64, and continue from the current weights."""
        options, remaining = self._options, self._remaining(self._reached.result)
        if remaining is None:
            return
        log.info("float32 rounds the values too much for the tolerance: they are read again as float64")
        start, began = self._release(), time.perf_counter()
        # An interrupted rank would leave the others waiting; with several ranks, the solve handles signals.
        alone = self._stored.group is None
        try:
            with self._interrupts.opened() if alone else contextlib.nullcontext():
                again = self._read_again()
        except (BmrmError, MemoryError) as error:
            why = str(error) or "out of memory"
            print_notice(f"the model is that of values rounded to float32: {why}", quiet=options.quiet)
            return
        except KeyboardInterrupt:
            self._end("interrupted")
            return
        self._stored, held = again, self._reached.result
        self._follow(again)
        seconds = time.perf_counter() - began
        try:
            found = fit(remaining, again.dataset, warm=start, callback=self._counted(held.n_iter))
        except KeyboardInterrupt:  # before there is another result
            self._end("interrupted")
            return
        reached = again.certified(_with_work_of(held, found))
        reached.result.timings["reload"] = seconds
        self._reached = reached._replace(result=self._with_bound(reached.result, held.lower_bound))

    def _release(self) -> Model:
        """Release the values and the cuts to make room for other values; return the model."""
        stored, result = self._stored, self._reached.result
        self._keep(self._reached, "running")
        self._follow(None)
        result = dataclasses.replace(result, bundle=cast("Bundle", None), origin=None, status="precision")
        self._reached = self._reached._replace(result=result)
        start = Model.from_result(result)
        self._shape = stored.data.X.shape
        del stored.data, stored.dataset
        return start

    def _read_again(self) -> Stored:
        """Read the data again as float64; raise if they have changed."""
        before = self._stored
        found = Stored.load(self._options, DOUBLE, before.group)
        if found.files != before.files or found.data.X.shape != self._shape:
            raise DataError(f"{escape_unprintable(self._options.data)}: has changed since it was first read")
        return found

    def _with_bound(self, result: Result, bound: float) -> Result:
        """Return a result with an earlier bound of the same problem, if that bound is better."""
        if bound <= result.lower_bound:
            return result
        gap, status = result.objective - bound, result.status
        if status == "precision" and gap <= tolerance(self._options, result.objective):
            status = "converged"
        return dataclasses.replace(result, lower_bound=bound, gap=gap, status=status)

    def _counted(self, before: int) -> Callback:
        """Return an observer that counts iterations from ``before``."""
        return lambda state: self._observer(dataclasses.replace(state, iteration=before + state.iteration))


def _with_work_of(first: Result, second: Result) -> Result:
    """Return the second of two results, with the iterations and timings of both."""
    timings = Counter(first.timings)
    timings.update(second.timings)
    return dataclasses.replace(second, n_iter=first.n_iter + second.n_iter, timings=dict(timings))
