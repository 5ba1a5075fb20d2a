"""K-fold cross validation on one resident data set, for one lam or many.

The matrix is uploaded once and never split: a fold is held out by giving its rows weight 0, which leaves the
risk of the others exactly what it would be without them.

If X is narrow and the penalty is plain l2, whose inner problem is a QP in the cuts' Gram matrix, the solves
of all folds and all lam share their cuts, and the Hessians of their Newton steps (``folds``).  Otherwise, and
for losses with several margins per row, each fold has its own cuts, which serve all lam.  With many features
the solutions of the folds lie far apart: a cut near one bounds another only weakly, and the entries of its
Gram matrix cost more than the pass that it might save.  Such folds are solved in lockstep, so that their
products become products with several columns (``lockstep.py``).
"""

from __future__ import annotations

import contextlib
import copy
import inspect
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, cast

import numpy as np
import numpy.typing as npt

from bmrm import losses
from bmrm.base.arguments import refuse
from bmrm.base.distinct import distinct_values
from bmrm.base.interrupts import interruptible
from bmrm.base.labels import Labels
from bmrm.base.offsets import add_offset
from bmrm.base.suggestions import suggest
from bmrm.base.vectors import Indices, Vector
from bmrm.base.weighting import fill_idle_labels, scale_weights
from bmrm.errors import BmrmError, DataError, Interrupted, ParameterError
from bmrm.io.data import Data
from bmrm.linear import regularizers
from bmrm.linear.backends.choose import backend_of
from bmrm.linear.backends.facts import facts_of
from bmrm.linear.inputs import OF_DATA
from bmrm.linear.intercept import intercept_of, operator_of
from bmrm.linear.models import metrics
from bmrm.linear.models.model import Model
from bmrm.linear.objective.error_bounds import extent_of, watch
from bmrm.linear.plan import PlanOptions, make_plan, shared_cuts_pay
from bmrm.linear.precision import RoundedRows, check_bounded
from bmrm.linear.regularizers import DEFAULT_LAM, L2
from bmrm.linear.result import Result
from bmrm.linear.selection.folds import (
    CachedProducts,
    FoldBundle,
    FoldObjective,
    FoldParts,
    FoldPoint,
    Folds,
    RowsByFold,
    by_fold,
    deal,
)
from bmrm.linear.selection.lockstep import Lockstep
from bmrm.linear.solve import result_of, solve
from bmrm.linear.solvers.bundle_method import BundleMethod
from bmrm.linear.solvers.settings import SMALLEST_TOL, Settings
from bmrm.linear.solvers.state import UNKNOWN_GRADIENTS
from bmrm.linear.solvers.steps import FirstStep
from bmrm.losses import Loss
from bmrm.losses.labels import encode, row_labels
from bmrm.losses.offset import margin_offsets, with_offset
from bmrm.matrix import _cpu
from bmrm.matrix.dataset import Dataset
from bmrm.matrix.overflow import explain_overflow
from bmrm.matrix.row_weights import lam_from_c

if TYPE_CHECKING:
    from bmrm.matrix.resident import Matrix


MAX_COPIED_BYTES = 1 << 30
"""Maximum size of a resident X that is copied with its rows in the order of the folds."""

TOL_SHARE_OF_FOLDS = 0.95
"""Share of the tolerance that solves on rounded values use; the rest is left for rounding."""

MAX_LOCKSTEP_FOLDS = 8
"""Maximum number of folds in lockstep: a product reads this number of columns from one cache line."""

_SET_HERE = {"X", "y", "loss", *OF_DATA, "comm", "warm_start", "verbose", "loss_params"}
_DEFAULTS: dict[str, Any] = {
    name: parameter.default
    for name, parameter in inspect.signature(solve).parameters.items()
    if name not in _SET_HERE
}


@dataclass(frozen=True, eq=False)
class CrossValidation:
    """The results of cross validation for one strength of the regulariser.

    Attributes
    ----------
    results : list of Result
        One per fold.
    values : ndarray of float64, shape (n_samples,), or (n_samples, K) for K classes
        The decision values of all rows, each by the model that has not seen it.
    scored : ndarray
        What metrics are taken of: the decision values, or for ordinal regression the labels predicted.
    targets : ndarray, shape (n_samples,), or list of tuples
        The labels, of their own type if they are classes; zeros for novelty detection.
    groups : ndarray of int64, shape (n_samples,), or None
    weights : ndarray of float64, shape (n_samples,), or None
        Those of the rows in the metrics; a row of weight 0 takes no part.
    """

    results: list[Result] = field(repr=False)
    values: Vector = field(repr=False)
    scored: Vector = field(repr=False)
    targets: Any = field(repr=False)
    groups: Indices | None = field(repr=False, default=None)
    weights: Vector | None = field(repr=False, default=None)

    def __repr__(self) -> str:
        return f"CrossValidation(folds={len(self.results)}, lam={self.results[0].lam:g})"

    @cached_property
    def metrics(self) -> dict[str, float | int | None]:
        """Metrics of all rows; see `bmrm.linear.models.metrics`."""
        return self.metrics_of(np.arange(len(self.values)))

    def metrics_of(self, rows: npt.NDArray[np.intp]) -> dict[str, float | int | None]:
        """Metrics of some rows."""
        loss, classes = self.results[0].loss, self.results[0].classes
        groups = None if self.groups is None else self.groups[rows]
        scores = metrics.for_task(
            loss.task,
            classes,
            loss.params,
            groups,
            probabilities=loss.name == "softmax",
            at_positives=loss.name == "recall_at_k",
        )
        several = isinstance(self.targets, list)
        targets = [self.targets[i] for i in rows.tolist()] if several else self.targets[rows]
        weights = None if self.weights is None else scale_weights(self.weights[rows])
        scores.update(self.scored[rows], targets, weights)
        return scores.report()


class FoldDone(NamedTuple):
    """One solve of a cross validation, as a progress function sees it."""

    done: int
    total: int
    fold: int
    result: Result


Progressed = Callable[[FoldDone], object]


@interruptible
def cross_validate(
    data: Dataset, folds: int, *, loss: str | Loss = "hinge", seed: int = 0, **options: Any
) -> CrossValidation:
    """Train on all folds but one, predict that one, for each fold.

    Parameters
    ----------
    data : Dataset
    folds : int
        At least 2, at most the number of rows. Each fold has the classes in the proportions of the data. If
        the data have groups, each fold has whole groups, and there are at most as many folds as groups. Rows
        of weight 0 are left out when rows are assigned to folds, so the other rows get the folds that they
        would get without them.
    loss : str or Loss, default "hinge"
    seed : int, default 0
        Of the shuffle that deals rows to folds.
    **options
        Of `bmrm.solve`; ``max_time`` is for all folds together.

    Returns
    -------
    CrossValidation

    Raises
    ------
    ParameterError
        If ``folds`` or an option is out of its range.
    DataError
        If labels or weights cannot be used; see `Dataset`.
    Interrupted
        On Ctrl-C, or if the callback ended a solve. It carries no result.

    See Also
    --------
    bmrm.select : for many lam at once, far cheaper than one after the other.

    Examples
    --------
    >>> import numpy as np
    >>> from bmrm import Dataset
    >>> X = np.array([[1.0], [2.0], [3.0], [-1.0], [-2.0], [-3.0]])
    >>> cross_validate(Dataset(X, [1, 1, 1, 0, 0, 0]), 3, lam=0.1).metrics["accuracy"]
    1.0
    """
    if not isinstance(data, Dataset):
        refuse("data", data, "a Dataset")
    asked = options.get("tol", _DEFAULTS["tol"])
    if data.rounded:
        options["tol"] = tol_of_folds(asked)
    problem = FoldProblem(data, folds, loss, seed, options)
    try:
        found = problem.validate(problem.options["lam"])
    except Interrupted:
        raise Interrupted from None
    if not data.rounded:
        return found
    assert data.source is not None
    return FoldCertificates(
        problem, data.source, problem.labels, problem.weights, problem.folds, asked
    ).validated(found)


def tol_of_folds(tol: float) -> float:
    """Return the tolerance of solves whose values reading has rounded, which leaves room for that."""
    return max(TOL_SHARE_OF_FOLDS * tol, SMALLEST_TOL)


class FoldCertificates:
    """Certificates of a cross validation for the numbers of the file, of which values were rounded.

    - ``source``, ``labels``, ``weights``, ``folds``: rows and what is known of them, in one order, whatever
      that of the problem
    - ``tol``: that of the certificates
    """

    def __init__(
        self, problem: FoldProblem, source: Data, labels: Vector, weights: Vector, folds: Folds, tol: float
    ) -> None:
        check_bounded(problem.loss, alone=True)
        self._problem, self._source, self._tol = problem, source, tol
        self._labels, self._weights, self._folds = labels, weights, folds
        self._rows: dict[int, RoundedRows] = {}

    def validated(self, found: CrossValidation) -> CrossValidation:
        """Return a cross validation with certificates for the numbers of the file."""
        results = [self.certified(result, fold) for fold, result in enumerate(found.results)]
        return replace(found, results=results)

    def certified(self, result: Result, fold: int) -> Result:
        """Return the result of all rows but those of a fold with its certificate."""
        given, columns = self._problem.options, result.w.shape[1] if result.w.ndim == 2 else 1
        penalty = regularizers.get(
            given["reg"],
            result.lam,
            result.n_features,
            l1_ratio=given["l1_ratio"],
            positive=given["positive"],
            feature_lambda=given["feature_lambda"],
            prior=getattr(given["prior"], "w", given["prior"]),
            columns=columns,
        )
        if fold not in self._rows:
            self._rows[fold] = self._rows_without(fold)
        return self._rows[fold].certified(result, penalty, self._tol)

    def _rows_without(self, fold: int) -> RoundedRows:
        weights = np.where(self._folds.fold_of == fold, 0.0, self._weights)
        data, loss = self._problem.data, self._problem.loss.grouped(self._problem.data.groups)
        floor, total = loss.floor(self._labels, weights), float(weights.sum())
        return RoundedRows(self._source, data.matrix, loss, self._labels, weights, total=total, floor=floor)


class FoldProblem:
    """A data set dealt to folds, solved again and again for other lam, strongest first.

    Parameters
    ----------
    data : Dataset
    folds : int or Folds
    loss : str or Loss
    seed : int
    options : dict
        Of `bmrm.solve`.
    progress : callable, optional
        Called with a `FoldDone` after each solve.
    solves : int, optional
        Total number of solves, for the progress function; default: one per fold.
    """

    def __init__(
        self,
        data: Dataset,
        folds: int | Folds,
        loss: str | Loss,
        seed: int,
        options: dict[str, Any],
        *,
        progress: Progressed | None = None,
        solves: int | None = None,
    ) -> None:
        parameters = {name: options[name] for name in (*losses.PARAMETERS, "costs") if name in options}
        self.loss = losses.get(loss, **parameters)
        self.options = _with_defaults({k: v for k, v in options.items() if k not in parameters})
        self.data, self.progress = data, progress
        rows = data.shape[0]
        self.labels, self.classes = encode(data.y, rows, self.loss, data.weights)
        self.folds = (
            folds
            if isinstance(folds, Folds)
            else deal_for(self.loss, self.labels, data.groups, data.weights, rows, folds, seed)
        )
        self.weights = np.ones(rows) if data.weights is None else data.weights
        self._deadline = time.perf_counter() + self.options["max_time"]
        self._solves, self._total = 0, self.folds.number if solves is None else solves
        self._engine: _Engine = (_Shared if self._may_share() else _Apart)(self)

    def validate(self, lam: float) -> CrossValidation:
        """Train for every fold held out, and score each on its own rows."""
        several, classes = self.loss.several, self.classes
        values = np.empty(
            (len(self.labels), len(classes)) if several and classes is not None else len(self.labels)
        )
        ordinal = self.loss.task == "ordinal"
        scored = np.empty_like(values) if ordinal else values
        results = []
        solved = self._solve(lam, range(self.folds.number))
        for fold, (result, margins) in enumerate(solved):
            rows = self.folds.rows(fold)
            values[rows] = margins[rows]
            if ordinal:
                scored[rows] = metrics.scored(Model.from_result(result), values[rows])
            results.append(result)
        y = fill_idle_labels(self.data.y, len(self.labels), self.data.weights)
        targets = _targets(y, self.labels, classes, self.loss)
        return CrossValidation(results, values, scored, targets, self.data.groups, self.data.weights)

    def score(self, found: CrossValidation, fold: int, metric: str) -> float | int | None:
        """Score a fold's own rows; return None if the metric is undefined on them."""
        rows = self.folds.rows(fold)
        rows = rows[self.weights[rows] > 0.0]
        if not len(rows):
            return None
        values, weights = found.values[rows], scale_weights(self.weights[rows])
        if metric == "loss":
            with np.errstate(over="ignore"):
                mean = float(np.average(self.loss.value(values, self.labels[rows]), weights=weights))
            return mean + self.loss.intercept_slope * float(found.results[fold].intercept)
        if metric == "accuracy" and self.loss.task == "binary":  # without the other metrics, which sort
            return float(np.average((values > 0.0) == (self.labels[rows] > 0.0), weights=weights))
        return found.metrics_of(rows)[metric]

    def solve(self, lam: float, fold: int) -> tuple[Result, Vector]:
        """Solve without a fold, or with all rows if ``fold`` is their number; return all margins too."""
        return next(self._solve(lam, [fold]))

    def _solve(self, lam: float, folds: Sequence[int]) -> Iterator[tuple[Result, Vector]]:
        """Solve with each of the folds held out."""
        given = self.options["C"]
        wanted = {f: lam if given is None else lam_from_c(given, float(self._rest(f).sum())) for f in folds}
        for fold, solved in self._engine.solve(wanted, lambda: self._deadline - time.perf_counter()):
            if solved[0].status == "interrupted":
                raise Interrupted(solved[0])
            self._solves += 1
            if self.progress is not None:
                self.progress(FoldDone(self._solves, self._total, fold, solved[0]))
            yield solved

    @contextlib.contextmanager
    def naming(self, fold: int) -> Iterator[None]:
        """Add to an error in the data which fold was held out."""
        try:
            yield
        except DataError as error:
            if fold == self.folds.number:
                raise
            raise DataError(f"fold {fold + 1} of {self.folds.number} held out: {error}") from None

    def without(self, fold: int, matrix: Any) -> Dataset:
        """Return the data with a fold's weights set to 0, and with another matrix."""
        rest = copy.copy(self.data)
        rest.coded = self.labels, self.classes
        if rest.source is not None:  # `FoldCertificates` knows what was rounded
            rest.source = replace(rest.source, rounded=False)
        if rest.device == "cpu":
            rest.matrix = cast("Matrix", CachedProducts(matrix))
        if fold < self.folds.number:
            rest.weights = self._rest(fold)
        return rest

    def _rest(self, fold: int) -> Vector:
        return np.where(self.folds.fold_of == fold, 0.0, self.weights)

    def _may_share(self) -> bool:
        """Whether cuts hold for all folds, and cost less than the passes over the data that they save."""
        given, (_, d) = self.options, self.data.shape
        free_intercept = (given["fit_intercept"] or self.loss.needs_intercept) and not given[
            "penalize_intercept"
        ]
        plain = (
            self.data.device == "cpu"
            and given["solver"] == "ocas"
            and given["reg"] == "l2"
            and not given["positive"]
            and all(given[name] is None for name in ("l1_ratio", "feature_lambda", "prior"))
            and given["cuts_per_pass"] == "auto"
        )
        pays = shared_cuts_pay(self.loss, self.folds.number, d, self.data.nnz)
        return plain and pays and not free_intercept


def deal_for(
    loss: Loss,
    labels: Vector,
    groups: Indices | None,
    weights: Vector | None,
    rows: int,
    folds: int,
    seed: int,
) -> Folds:
    """Deal rows to folds: whole groups if there are any, else evenly by class if rows have classes.

    Rows of weight 0, and groups of such rows alone, are left out: the folds of the others do not depend on
    them.  Afterwards they are put into some fold, whose model predicts them.

    Raises
    ------
    ParameterError
        If ``folds`` is below 2 or above the number of rows or groups.
    """
    counted = np.arange(rows) if weights is None else np.flatnonzero(weights)
    units = counted if groups is None else distinct_values(groups[counted])
    what, most = "rows" if groups is None else "groups", len(units)
    if not isinstance(folds, (int, np.integer)) or not 2 <= folds <= most:
        which = "" if len(counted) == rows else " of positive weight"
        refuse("folds", folds, f"2 to the number of {what}{which}, {most}")
    by_class = groups is None and loss.task in ("binary", "multiclass", "ordinal")
    dealt = deal(labels[counted] if by_class else None, most, folds, seed)
    if groups is None and most == rows:
        return dealt
    fold_of = np.arange(rows if groups is None else int(groups.max()) + 1) % folds
    fold_of[units] = dealt.fold_of
    return by_fold(fold_of if groups is None else fold_of[groups], folds)


def _targets(y: Any, labels: Vector, classes: Labels | None, loss: Loss) -> Any:
    """Return the labels in the form that metrics use."""
    if loss.task == "novelty":
        return np.zeros(len(labels))
    if labels.ndim == 2 and classes is not None:
        return [tuple(classes[row > 0.0].tolist()) for row in labels]
    return row_labels(y, len(labels), loss)


def _with_defaults(options: dict[str, Any]) -> dict[str, Any]:
    """Complete the options of `bmrm.solve` that a cross validation takes."""
    for name, value in options.items():
        if name in ("y", "comm", *OF_DATA):
            if value is not None:
                raise ParameterError(f"{name}: give it to the Dataset, not to a cross validation")
        elif name not in _DEFAULTS:
            hint = suggest(name, [*_DEFAULTS, *OF_DATA, *losses.PARAMETERS])
            raise ParameterError(f"{name}: no option of a cross validation{hint}")
    if options.get("lam") is not None and options.get("C") is not None:
        raise ParameterError("lam, C: found both, expected one of them")
    lam = options.get("lam")
    taken = {name: value for name, value in options.items() if name in _DEFAULTS}
    return {**_DEFAULTS, **taken, "lam": DEFAULT_LAM if lam is None else lam}


Solved = tuple[Result, Vector]


class _Engine(Protocol):
    """How the solves of a cross validation are done."""

    def solve(self, lams: dict[int, float], left: Callable[[], float]) -> Iterator[tuple[int, Solved]]:
        """Solve with each of some folds held out, for its lam, within the seconds that are left.

        Yield each fold with its result and the margins of all rows, intercept and offset included.
        """


class _Apart:
    """Each fold has its own cuts, which serve all its lam; on the CPU all folds run in lockstep."""

    def __init__(self, problem: FoldProblem) -> None:
        self._problem = problem
        self._parts: dict[int, Dataset] = {}
        self._last: dict[int, Result] = {}
        data, folds = problem.data, problem.folds.number
        matrix = data.matrix
        self._passes = Lockstep[Solved](matrix, folds) if isinstance(matrix, _cpu.Matrix) else None

    def solve(self, lams: dict[int, float], left: Callable[[], float]) -> Iterator[tuple[int, Solved]]:
        if self._passes is None or len(lams) == 1:
            for fold, lam in lams.items():
                yield fold, self._solved(lam, fold, max(left(), 1e-9))
            return
        for first in range(0, len(lams), MAX_LOCKSTEP_FOLDS):
            some, seconds = list(lams.items())[first : first + MAX_LOCKSTEP_FOLDS], max(left(), 1e-9)
            tasks = {fold: partial(self._solved, lam, fold, seconds) for fold, lam in some}
            yield from self._passes.run(tasks).items()

    def _solved(self, lam: float, fold: int, max_time: float) -> Solved:
        with self._problem.naming(fold):
            return self._solve(lam, fold, max_time)

    def _solve(self, lam: float, fold: int, max_time: float) -> Solved:
        problem = self._problem
        if fold not in self._parts:
            matrix: Any = problem.data.matrix
            if self._passes is not None and fold < problem.folds.number:
                matrix = self._passes.workers[fold]
            self._parts[fold] = problem.without(fold, matrix)
        warm = self._last.get(fold) or next(reversed(self._last.values()), None)
        options = {**problem.options, "lam": lam, "C": None, "max_time": max_time, "warm_start": warm}
        result = solve(self._parts[fold], loss=problem.loss, **options)
        self._last[fold], result = result, replace(result, bundle=result.bundle.active())
        self._last[fold].bundle.passed_on = True
        matrix = self._parts[fold].matrix
        product = matrix.matmat if problem.loss.several else matrix.matvec
        return result, add_offset(np.asarray(product(result.w) + result.intercept), problem.data.offset)


class _Shared:
    """All folds share one bundle, whose cuts are each of one fold's part of the risk."""

    def __init__(self, problem: FoldProblem) -> None:
        given, data, folds = problem.options, problem.data, problem.folds
        self._problem = problem
        self._settings = Settings(
            given["solver"], given["tol"], given["tol_kind"], given["max_iter"], given["max_time"],
            given["callback"], data.resolution,
        )  # fmt: skip
        rows: Any = data.matrix
        self._sorted = folds.is_sorted
        if not self._sorted:
            copied = isinstance(rows, _cpu.Matrix) and rows.nbytes <= MAX_COPIED_BYTES
            rows = rows.reordered(folds.order) if copied else RowsByFold(rows, folds)
        fit, penalize = given["fit_intercept"], given["penalize_intercept"]
        intercept = intercept_of(problem.loss, fit=fit, penalize=penalize, scaling=given["intercept_scaling"])
        operator = operator_of(rows, problem.loss, 1, intercept)
        self._bundle = FoldBundle(operator.shape[1], folds.number, given["max_cuts"], data.threads)
        self._labels, self._weights = problem.labels[folds.order], problem.weights[folds.order]
        self._offset = None if data.offset is None else data.offset[folds.order]
        total = float(self._weights.sum())
        whole = problem.loss.risk(self._labels, self._weights, 1.0 / total, data.threads)
        whole = with_offset(whole, margin_offsets(self._offset, problem.loss, 1))
        floors = np.array([
            self._weights[i:j].sum() / total * problem.loss.floor(self._labels[i:j], self._weights[i:j])
            for i, j in pairwise(folds.starts)
        ])  # fmt: skip
        self._parts = FoldParts(operator, whole, folds.starts, floors)
        facts = facts_of(data, operator, problem.loss, L2(1.0), intercept)
        self._plan = make_plan(facts, PlanOptions(cuts_per_pass=1))
        self._plan.log()
        self._objectives: dict[int, FoldObjective] = {}
        self._last: dict[int, FoldPoint] = {}
        self._latest: tuple[FoldPoint | None, FoldPoint] | None = None
        m, d = operator.shape
        self._zero = self._parts.at(np.zeros(d), np.zeros(m), UNKNOWN_GRADIENTS, 0.0)
        of_rows = self._labels, self._weights, self._offset
        self._extent = extent_of(problem.loss, *of_rows, 1, 0, backend_of(data).sums)

    def solve(self, lams: dict[int, float], left: Callable[[], float]) -> Iterator[tuple[int, Solved]]:
        for fold, lam in lams.items():
            with self._problem.naming(fold):
                found = self._solve(lam, fold, max(left(), 1e-9))
            yield fold, found

    def _solve(self, lam: float, fold: int, max_time: float) -> Solved:
        problem, folds = self._problem, self._problem.folds
        if fold not in self._objectives:
            self._objectives[fold] = FoldObjective(
                self._parts,
                problem.loss,
                self._labels,
                self._weights,
                fold,
                threads=problem.data.threads,
                offset=self._offset,
            )
            self._watch(self._objectives[fold])
        objective = self._objectives[fold]
        objective.begin(lam)
        self._bundle.hold_out(fold, objective.scale)
        settings, start = replace(self._settings, max_time=max_time), self._start(fold, objective)
        first_step: FirstStep = "newton" if self._plan.step == "newton" else "cuts"
        run = BundleMethod(objective, self._bundle, settings, start.w, first_step)
        run.expect_gradients(start.gradients)
        try:
            run.minimise()
        except BmrmError as fault:
            raise explain_overflow(fault, problem.data, problem.labels) from None
        result = replace(
            result_of(run, problem.data, self._labels, problem.classes), bundle=self._bundle.active()
        )
        gradients = run.state.gradients
        assert isinstance(gradients, np.ndarray)
        found = objective.reached(run.certified(), gradients)
        self._latest = self._last.get(fold), found
        self._last[fold] = found
        margins = found.margins
        if not self._sorted:
            margins = np.empty(len(self._labels))
            margins[folds.order] = found.margins
        return result, add_offset(margins, problem.data.offset)

    def _watch(self, objective: FoldObjective) -> None:
        """Make an objective keep a running error bound; without a fold the other rows have larger weights."""
        if self._settings.resolution:
            return
        more, extent = objective.scale, self._extent
        extent = extent._replace(weight=more * extent.weight, most=more * extent.most)
        watch(objective, extent, extent.margins, -np.inf, self._problem.data.longest + 1)

    def _start(self, fold: int, objective: FoldObjective) -> FoldPoint:
        """Return the best of a few points whose margins are known, so that it takes no product.

        They are zero, the last solution of this fold, that of the fold solved last, and the former moved as
        the latter has moved since its previous one: from lam to lam the solutions of all folds move alike.
        """
        if self._latest is None:
            return self._zero
        own, (before, now) = self._last.get(fold), self._latest
        known = [now, self._zero]
        if own is not None:
            known.append(own)
            if before is not None:
                known.append(self._moved(own, before, now))
        return min(known, key=objective.value)

    def _moved(self, point: FoldPoint, before: FoldPoint, now: FoldPoint) -> FoldPoint:
        """Move a point as another one moved; its gradients move nearly as those of the other."""
        gradients = UNKNOWN_GRADIENTS
        if all(len(p.gradients) for p in (point, before, now)):
            gradients = point.gradients + (now.gradients - before.gradients)
        margins = point.margins + (now.margins - before.margins)
        size = point.size + now.size + before.size
        return self._parts.at(point.w + (now.w - before.w), margins, gradients, size)
