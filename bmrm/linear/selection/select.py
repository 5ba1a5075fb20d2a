"""Choose lam by cross validation over a grid, and train with it on all rows.

Folds share cuts and products (``cross_validation.py``). The lam are solved from the strongest down, so that
each starts from the solutions and cuts of the last one.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bmrm import losses
from bmrm.base.answers import Answer, ShownTable
from bmrm.base.arguments import flag, is_sparse, matrix, numbers
from bmrm.base.groups import number_groups
from bmrm.base.interrupts import HELD, check_signals, interruptible, set_signal_mode
from bmrm.base.offsets import row_offsets
from bmrm.base.sparse_tensors import as_scipy
from bmrm.base.units import number_text
from bmrm.base.vectors import Vector
from bmrm.base.weighting import fill_idle_labels
from bmrm.errors import DataError, Interrupted, ParameterError
from bmrm.io.csr import Csr
from bmrm.io.data import Data
from bmrm.linear.inputs import OF_DATA
from bmrm.linear.models.calibration import Calibration, calibrate
from bmrm.linear.plan import shared_cuts_pay
from bmrm.linear.result import Result
from bmrm.linear.selection.cross_validation import (
    CrossValidation,
    FoldCertificates,
    FoldProblem,
    Progressed,
    deal_for,
    tol_of_folds,
)
from bmrm.linear.selection.folds import Folds
from bmrm.losses import Loss
from bmrm.losses.labels import encode, row_labels
from bmrm.matrix.dataset import Dataset, numbering_and_names, unpacked
from bmrm.matrix.resident import DEFAULT_TOL
from bmrm.matrix.row_weights import row_weights

if TYPE_CHECKING:
    from matplotlib.axes import Axes


LAMS = tuple(float(lam) for lam in np.logspace(-1.5, -6.0, 10))
"""Default grid: half a power of ten apart."""


RULES = ("best", "1se")

METRICS: dict[str, tuple[str, ...]] = {
    "binary": ("accuracy", "auc", "loss"),
    "regression": ("mse", "mae", "loss"),
    "count": ("deviance", "loss"),
    "novelty": ("loss",),
    "multiclass": ("accuracy", "macro_f1"),
    "multilabel": ("micro_f1", "macro_f1", "hamming_loss"),
    "label_ranking": ("average_precision", "ranking_loss", "one_error"),
    "ranking": ("ndcg", "mrr", "pairwise_error"),
    "ordinal": ("accuracy", "mae"),
}
"""Metrics for each task; the first is the default."""

DEFAULTS = {"quantile": "loss", "roc_area": "auc", "prbep": "auc"}
"""Default metrics of losses that do not estimate a mean, or whose values have no threshold at 0."""

HIGHER_IS_BETTER = ("accuracy", "auc", "micro_f1", "macro_f1", "average_precision", "ndcg", "mrr")


R_co = TypeVar("R_co", bound="Result | None", covariant=True)


@dataclass(frozen=True, eq=False, repr=False)
class Selection(Answer, Generic[R_co]):
    """A grid of lam, scored by cross validation.

    Attributes
    ----------
    lams : ndarray of shape (n_lams,)
        As given.
    validations : list of CrossValidation
        One per lam: results (certificates), scores and decision values of its folds.
    scores : ndarray of shape (n_lams, folds)
        The metric on each fold's own rows, with their weights, by the model that has not seen them.
    metric, rule : str
    mean, standard_error : ndarray of shape (n_lams,)
        Of the scores over the folds.
    best : int
        Index of the lam of the best mean; the strongest of equals.
    one_standard_error : int
        Index of the strongest lam whose mean is within one standard error of the best.
    chosen : int
        The one of the two that ``rule`` asked for.
    folds : Folds
        Which rows were held out together.
    labels : ndarray of shape (n_samples,)
        As the loss takes them: -1 and +1 for two classes. Those of rows of weight 0 mean nothing.
    weights : ndarray of shape (n_samples,)
    result : Result or None
        The model of the chosen lam, trained on all rows; None if ``refit`` is false.

    References
    ----------
    Breiman, Friedman, Olshen, Stone, Classification and Regression Trees (1984), section 3.4.3: the rule of
    one standard error.

    Examples
    --------
    >>> import numpy as np, bmrm
    >>> X = np.random.default_rng(0).standard_normal((60, 3))
    >>> found = bmrm.select(X, np.sign(X[:, 0]), [1e-1, 1e-3], folds=3)
    >>> found.scores.shape, found.lam in found.lams
    ((2, 3), True)
    """

    _numbers = ("metric", "rule", "lam")

    lams: Vector
    validations: list[CrossValidation]
    scores: Vector
    metric: str
    rule: str
    folds: Folds
    labels: Vector
    weights: Vector
    result: R_co

    @property
    def mean(self) -> Vector:
        """Mean score of each lam."""
        return np.asarray(self.scores.mean(axis=1))

    @property
    def standard_error(self) -> Vector:
        """Standard error of each mean."""
        return np.asarray(self.scores.std(axis=1, ddof=1) / np.sqrt(self.folds.number))

    @property
    def _gains(self) -> Vector:
        """Mean scores with the sign that makes larger ones better."""
        return self.mean if self.metric in HIGHER_IS_BETTER else -self.mean

    def _strongest(self, among: NDArray[np.bool_]) -> int:
        return int(np.argmax(np.where(among, self.lams, -np.inf)))

    @property
    def best(self) -> int:
        """Index of the best lam."""
        return self._strongest(self._gains == self._gains.max())

    @property
    def one_standard_error(self) -> int:
        """Index of the strongest lam that is as good as the best, to within one standard error."""
        best = self.best
        return self._strongest(self._gains >= self._gains[best] - self.standard_error[best])

    @property
    def chosen(self) -> int:
        """Index of the lam that the rule picks."""
        return self.best if self.rule == "best" else self.one_standard_error

    @property
    def lam(self) -> float:
        """The lam that the rule selects."""
        return float(self.lams[self.chosen])

    @property
    def values(self) -> Vector:
        """Decision value of each row under the chosen lam, by the model that was trained without the row."""
        return self.validations[self.chosen].values

    @property
    def statuses(self) -> list[str]:
        """Status of every solve, lam by lam; that of the final one last, if there is one."""
        found: list[str] = [r.status for v in self.validations for r in v.results]
        return found if self.result is None else [*found, self.result.status]

    def calibrate(self, method: str = "platt") -> Calibration:
        """Fit a map from decision values to probabilities, on the held-out values of the chosen lam.

        Parameters
        ----------
        method : {"platt", "isotonic"}, default "platt"
            See `bmrm.calibrate`.

        Returns
        -------
        Calibration
            For ``bmrm.linear.models.model.Model.from_result(selection.result, calibration=...)``.

        Raises
        ------
        ParameterError
            The method is unknown.
        DataError
            The labels are not of two classes.
        """
        if self.values.ndim > 1:
            raise DataError("calibration: found several values per row, expected a loss for two classes")
        return calibrate(self.values, self.labels, method, sample_weight=self.weights)

    def _title(self) -> str:
        return ""

    def _facts(self) -> dict[str, Any]:
        return {}  # all is in the table

    def _columns(self) -> dict[str, Any]:
        scores = {f"fold{k}": column for k, column in enumerate(self.scores.T)}
        return {"lam": self.lams, "mean": self.mean, "standard_error": self.standard_error, **scores}

    def _tables(self) -> list[ShownTable]:
        """Return a line per lam: score, standard error, certificates, choice of the rules."""
        marks = {self.one_standard_error: "within one s.e.", self.best: "best"}
        rows = []
        for k in np.argsort(-self.lams):
            results = self.validations[k].results
            gap = max(r.gap / abs(r.objective) if r.objective else r.gap for r in results)
            rows.append(
                [
                    f"{self.lams[k]:.4g}",
                    f"{self.mean[k]:.6g}",
                    f"{self.standard_error[k]:.2g}",
                    f"{np.mean([r.objective for r in results]):.6g}",
                    f"{gap:.1e}",
                    sum(r.n_iter for r in results),
                    ", ".join(sorted({r.status for r in results})),
                    marks.get(int(k), ""),
                ]
            )
        head = ["lam", self.metric, "s.e.", "objective", "worst gap", "passes", "status", ""]
        return [ShownTable(dict(zip(head, zip(*rows, strict=True), strict=True)))]

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the mean score and its standard error over lam; see `bmrm.plots.plot_selection`.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; default: the axes of a new figure.

        Returns
        -------
        Axes
        """
        from bmrm.linear.plots import plot_selection

        return plot_selection(self, ax)


@overload
def select(
    X: Any,
    y: Any = ...,
    lams: ArrayLike = ...,
    folds: int = ...,
    *,
    loss: str | Loss = ...,
    metric: str | None = ...,
    rule: str = ...,
    refit: Literal[True] = ...,
    seed: int = ...,
    progress: Progressed | None = ...,
    **options: Any,
) -> Selection[Result]: ...


@overload
def select(
    X: Any,
    y: Any = ...,
    lams: ArrayLike = ...,
    folds: int = ...,
    *,
    loss: str | Loss = ...,
    metric: str | None = ...,
    rule: str = ...,
    refit: bool,
    seed: int = ...,
    progress: Progressed | None = ...,
    **options: Any,
) -> Selection[Result | None]: ...


@interruptible
def select(
    X: Any,
    y: Any = None,
    lams: ArrayLike = LAMS,
    folds: int = 5,
    *,
    loss: str | Loss = "hinge",
    metric: str | None = None,
    rule: str = "best",
    refit: bool = True,
    seed: int = 0,
    progress: Progressed | None = None,
    **options: Any,
) -> Selection[Result | None]:
    """Choose lam by K-fold cross validation over a grid, and train with it on all rows.

    Parameters
    ----------
    X : Dataset, bmrm.io.Data, Csr, scipy sparse matrix or ndarray of shape (n_samples, n_features)
        If folds share their cuts, a pass is cheaper with rows in the order of the folds. X is put in that
        order before it becomes resident; a `Dataset` of up to 1 GiB is copied in that order.
    y : array_like of shape (n_samples,), optional
        Labels; not with a `Dataset`.
    lams : sequence of float, default LAMS
        The grid, in any order: from 10^-1.5 down to 10^-6, half a power of ten apart.
    folds : int, default 5
        Rows of weight 0 are left out when rows are dealt to folds: they change no score.
    loss : str or Loss, default "hinge"
    metric : str, optional
        "accuracy" (the default for two classes), "auc"; "mse" (the default for real labels), "mae";
        "deviance" (for counts); "accuracy", "macro_f1" (several classes); "micro_f1", "macro_f1",
        "hamming_loss" (several labels per row); "average_precision", "ranking_loss", "one_error" (their
        ranking); "ndcg", "mrr", "pairwise_error" (queries); "accuracy", "mae" (ordered classes); or "loss",
        the training loss itself, for a loss of one margin. "loss" is the default for "quantile", "auc" for
        "roc_area" and "prbep", whose decision values have no threshold. Rows count by their weights; see
        ``bmrm.metrics``.
    rule : {"best", "1se"}, default "best"
        "1se" takes the strongest lam whose mean score is within one standard error of the best.
    refit : bool, default True
        Train on all rows with the chosen lam.
    seed : int, default 0
        Of the shuffle that deals rows to folds, classes spread evenly.
    progress : callable, optional
        Called with a ``bmrm.linear.selection.cross_validation.FoldDone`` after each solve of a fold.
    **options
        Other arguments of `bmrm.solve`, except ``lam``, ``C``, ``warm_start`` and ``verbose``; ``max_time``
        is for all solves together.

    Returns
    -------
    Selection

    Raises
    ------
    ParameterError
        If an argument is out of its range.
    DataError
        If labels or weights cannot be used; or, for "auc", if a fold does not have both classes.
    Interrupted
        On Ctrl-C, or if the callback ended a solve. Its ``result`` is a `Selection` of the lam that were
        scored by then, or None if there are none. If all were, its model is the best so far of the last
        solve.

    Examples
    --------
    >>> import numpy as np, bmrm
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((300, 10))
    >>> y = np.where(X[:, 0] + rng.standard_normal(300) > 0, 1, -1)
    >>> found = bmrm.select(X, y, lams=[1.0, 0.1, 0.01], loss="logistic")
    >>> found.result.lam == found.lam, found.result.status
    (True, 'converged')
    """
    grid = numbers("lams", lams, ParameterError, each="lam").copy()
    _check(grid, rule, options)
    refit = flag("refit", refit)
    chosen = losses.get(loss, **{k: options[k] for k in (*losses.PARAMETERS, "costs") if k in options})
    metric = _metric(chosen, metric)
    source = X.source if isinstance(X, Dataset) else X if isinstance(X, Data) else None
    tol = options.get("tol", DEFAULT_TOL)
    if source is not None and source.rounded:
        options["tol"] = tol_of_folds(tol)
    data, resident, dealt = _resident(X, y, folds, chosen, seed, options)
    if isinstance(X, Data):  # its rows may have another order there
        data.source = replace(X, rounded=False)
    solves = len(grid) * dealt.number + refit
    problem = FoldProblem(data, resident, loss, seed, options, progress=progress, solves=solves)
    labels, weights = (_unsorted(x, resident, dealt) for x in (problem.labels, problem.weights))
    certificates = None
    if source is not None and source.rounded:
        certificates = FoldCertificates(problem, source, labels, weights, dealt, tol)
    found: dict[int, CrossValidation] = {}
    scores = np.empty((len(grid), dealt.number))

    def selection(result: Result | None = None) -> Selection[Result | None]:
        known = sorted(found)
        validations = [found[k] for k in known]
        if certificates is not None:
            validations = [certificates.validated(validation) for validation in validations]
            result = None if result is None else certificates.certified(result, dealt.number)
        return Selection(
            grid[known], validations, scores[known], metric, rule, dealt, labels, weights, result
        )

    set_signal_mode(HELD)
    try:
        for k in np.argsort(-grid, kind="stable"):
            check_signals()
            validation = problem.validate(float(grid[k]))
            scores[k] = [_score(problem, validation, metric, fold) for fold in range(dealt.number)]
            if resident is not dealt:
                validation = _as_given(validation, resident, dealt)
            found[int(k)] = validation
        check_signals()
        return selection(problem.solve(selection().lam, dealt.number)[0] if refit else None)
    except KeyboardInterrupt as stop:
        reached = stop.result if isinstance(stop, Interrupted) and len(found) == len(grid) else None
        assert reached is None or isinstance(reached, Result)
        raise Interrupted(selection(reached) if found else None) from None


def _check(grid: Vector, rule: str, options: dict[str, Any]) -> None:
    if grid.ndim != 1:
        raise ParameterError(f"lams: found shape {grid.shape}, expected a list of numbers")
    if not len(grid):
        raise ParameterError("lams: found none, expected at least one")
    bad = grid[~((grid > 0.0) & (grid < np.inf))]
    if len(bad):
        raise ParameterError(f"lams: found {number_text(bad[0])}, expected positive numbers")
    if len(np.unique(grid)) < len(grid):
        raise ParameterError("lams: found one twice, expected each once")
    if rule not in RULES:
        raise ParameterError(f"rule: found {rule!r}, expected one of {', '.join(RULES)}")
    for name in ("lam", "C"):
        if name in options:
            raise ParameterError(f"{name}: a selection sets it itself; give lams")


def _metric(loss: Loss, metric: str | None) -> str:
    if loss.task not in METRICS:
        raise ParameterError(f"loss {loss.name}: has no cross validation")
    # The loss of some rows is a part of the whole loss only if that is a sum over rows.
    known = tuple(name for name in METRICS[loss.task] if name != "loss" or loss.by_rows)
    if metric is None:
        return DEFAULTS.get(loss.name, known[0])
    if metric not in known:
        raise ParameterError(f"metric: found {metric!r}, expected one of {', '.join(known)} for {loss.name}")
    return metric


def _score(problem: FoldProblem, found: CrossValidation, metric: str, fold: int) -> float:
    score = problem.score(found, fold, metric)
    if score is None:
        raise DataError(f"metric {metric}: it is undefined on fold {fold + 1}; try fewer folds")
    return float(score)


def _resident(
    X: Any, y: Any, folds: int, loss: Loss, seed: int, options: dict[str, Any]
) -> tuple[Dataset, Folds, Folds]:
    """Return resident data, the folds of its rows, and those of the rows as given.

    If folds share their cuts, rows are sorted by fold before they become resident.
    """
    if isinstance(X, Dataset):
        for name in ("y", *OF_DATA):
            if (y if name == "y" else options.get(name)) is not None:
                raise ParameterError(f"{name}: give it to the Dataset, not to select")
        labels = encode(X.y, X.shape[0], loss, X.weights)[0]
        dealt = deal_for(loss, labels, X.groups, X.weights, X.shape[0], folds, seed)
        return X, dealt, dealt
    given = {name: options.pop(name) for name in OF_DATA if name in options}
    zero_based, names = numbering_and_names(X)
    X, y, *given_rows = unpacked(X, y, given.get("offset"), given.get("groups"), given.get("dtype"))
    given["offset"], given["groups"] = given_rows
    tol = {"tol": options["tol"]} if "tol" in options else {}
    sparse = is_sparse(X) and not isinstance(X, Csr)
    if not isinstance(X, Csr):
        X = as_scipy("X", X) if sparse else matrix("X", X)
    rows = X.shape[0] if len(X.shape) else 0
    weights = row_weights(y, rows, given.pop("sample_weight", None), given.pop("class_weight", None))
    labels = encode(y, rows, loss, weights)[0]
    groups, offset = number_groups(given.get("groups"), rows), row_offsets(given.pop("offset", None), rows)
    dealt = deal_for(loss, labels, groups, weights, rows, folds, seed)
    if (
        len(X.shape) != 2
        or groups is not None
        or not shared_cuts_pay(loss, folds, X.shape[1], X.size if isinstance(X, np.ndarray) else X.nnz)
    ):
        data = Dataset(X, y, sample_weight=weights, offset=offset, **given, **tol)
        data.zero_based, data.feature_names = zero_based, names
        return data, dealt, dealt
    if sparse:
        X = Csr.from_scipy(X, dealt.order)
    else:
        X = X.take(dealt.order) if isinstance(X, Csr) else X[dealt.order]
    data = Dataset(
        X,
        None
        if loss.task == "novelty"
        else row_labels(fill_idle_labels(y, rows, weights), rows, loss)[dealt.order],
        sample_weight=None if weights is None else weights[dealt.order],
        offset=None if offset is None else offset[dealt.order],
        **given,
        **tol,
    )
    data.zero_based, data.feature_names = zero_based, names
    return data, dealt.sorted(), dealt


def _as_given(validation: CrossValidation, sorted_: Folds, dealt: Folds) -> CrossValidation:
    """Put the row-wise results of a cross validation in the order of the rows as given."""
    weights = validation.weights
    return replace(
        validation,
        values=_unsorted(validation.values, sorted_, dealt),
        scored=_unsorted(validation.scored, sorted_, dealt),
        targets=_unsorted(validation.targets, sorted_, dealt),
        weights=None if weights is None else _unsorted(weights, sorted_, dealt),
    )


def _unsorted(values: Vector, sorted_: Folds, dealt: Folds) -> Vector:
    """Put values of the resident rows in the order of the rows as given."""
    if sorted_ is dealt:
        return values
    found = np.empty_like(values)
    found[dealt.order] = values
    return found
