"""The result of a solve."""

from __future__ import annotations

import os
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from bmrm.base.answers import MAX_ROWS, STOPS, Answer, ShownTable, fact_lines, leading
from bmrm.base.units import time_text
from bmrm.base.vectors import Vector, make_arrays_read_only
from bmrm.errors import ParameterError
from bmrm.linear.backends.host.cuts import HostCuts
from bmrm.linear.bundle.bundle import Bundle
from bmrm.linear.models.model import Model
from bmrm.linear.models.weights import largest_weights, weight_columns
from bmrm.linear.solvers.progress import Status
from bmrm.losses import Loss, Structured


@dataclass(frozen=True, eq=False, repr=False)
class Result(Answer):
    """A trained model and its certificate. Its arrays are read-only; copy an array to change it.

    A result can be pickled and deep-copied. The copy predicts, reports and saves like the original, but its
    bundle is empty, because cuts belong to the data that are resident in this process.

    Attributes
    ----------
    w : ndarray of float64, shape (n_features,), or (n_features, K) with one column for each of K classes
    intercept : float, or ndarray of shape (K,)
        Added to every margin; 0 if there is none.
    objective : float
        J at ``w`` (and at the intercept), in float64 from fresh margins.
    lower_bound : float
        No w has a smaller J.
    gap : float
        ``objective - lower_bound``: the maximum distance of J at ``w`` from the optimum.
    status : {"converged", "max_iter", "max_time", "interrupted", "precision", "max_cuts"}
        Why the solve ended: "precision" if rounding hides the rest of the gap, "max_cuts" if this number of
        cuts does not suffice for further progress.
    n_iter : int
        Number of passes over the data, each a product with X and one with its transpose.
    history : list of dict
        One entry per iteration: iteration, objective, lower_bound, gap, cuts, step, seconds (by part),
        elapsed.
    timings : dict
        Seconds by part: products, loss (on a GPU including the products of cuts), search, bundle, qp, newton
        (if there were Newton or interior-point steps), and total.
    bundle : Bundle
        The cuts, for a warm start at another lam.
    loss : Loss
    classes : ndarray of shape (2,) or (K,), or None
        For a binary loss, the labels of negative and positive margins; for several classes, the labels of
        the columns of ``w``; for an ordinal loss, the labels in order. They have the type of the labels in
        ``y``.
    thresholds : ndarray or None
        For an ordinal loss, the margins at which one class ends and the next begins.
    lam, tol : float
    reg : str
    reg_params : dict
        The parameters besides lam that were given: ``l1_ratio``, ``positive``, ``feature_lambda``,
        ``unpenalised`` (the number of such features), ``prior``.
    tol_kind : str
    n_samples, n_features, nnz : int
    device : str
        Where the products ran: "cpu", or "cuda" and the name of the GPU.
    zero_based : bool or None
        Whether feature numbers in the training text start at 0; see `Dataset`.
    feature_names : tuple of str or None
        The names of the columns of X, if it was a frame; see `Dataset`.
    has_offset : bool
        Whether the margins had offsets in training; see `Model`.
    stored : {"float32", "float64"}, or None
        The type in which the values of a file were read; None if X was not read from a file.
    storage : {"sparse", "dense"}, or None
        How the rows of a text were stored; None if X was not read from text.
    split : str
        Which rows the CPU computed while the GPU worked on the others; empty if it had none.
    rounding : float
        How far ``objective`` and ``lower_bound`` have been moved apart, so that they hold for the numbers of
        the file, of which ``stored`` has rounded some; see `bmrm.solve`.
    text_checksum : str or None
        That of `bmrm.io.Data`, if X was read from a file.
    origin : object
        The problem of the bound, for a warm start from it.

    Examples
    --------
    >>> import numpy as np, bmrm
    >>> result = bmrm.solve(np.array([[1.0], [-1.0]]), [1, -1], lam=0.1)
    >>> result.status, result.gap <= 1e-3 * result.objective
    ('converged', True)
    >>> X = np.array([[2.0], [-2.0]])
    >>> result.predict(X), result.decision_function(X).round(2)
    (array([ 1, -1]), array([ 2., -2.]))
    """

    w: Vector = field(repr=False)
    intercept: float | Vector
    objective: float
    lower_bound: float
    gap: float
    status: Status
    n_iter: int
    history: list[dict[str, Any]] = field(repr=False)
    timings: dict[str, float] = field(repr=False)
    bundle: Bundle = field(repr=False)
    loss: Loss
    classes: Any  # NDArray[Any] | None; which of the two, the loss says
    thresholds: Vector | None
    lam: float
    reg: str
    reg_params: dict[str, float | bool]
    tol: float
    tol_kind: str
    n_samples: int
    n_features: int
    nnz: int
    device: str
    zero_based: bool | None = None
    feature_names: tuple[str, ...] | None = None
    has_offset: bool = False
    stored: str | None = None
    rounding: float = 0.0
    text_checksum: str | None = None
    storage: str | None = None
    split: str = ""
    origin: Any = field(default=None, repr=False)

    def __post_init__(self) -> None:
        make_arrays_read_only(self, "w", "intercept", "classes", "thresholds")

    def __copy__(self) -> Result:
        return replace(self)

    def __getstate__(self) -> dict[str, Any]:
        of_process = ("bundle", "origin")
        return {name: value for name, value in vars(self).items() if name not in of_process}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, bundle=Bundle(HostCuts(len(state["w"]), 1)), origin=None)
        self.__post_init__()

    _numbers = (
        *("status", "objective", "lower_bound", "gap", "n_iter", "intercept"),
        *("loss.name", "reg", "lam", "tol", "tol_kind", "n_samples", "n_features", "nnz", "device"),
    )

    def _title(self) -> str:
        return _ending(self, self.timings["total"])

    def _facts(self) -> dict[str, str]:
        return {
            **_certificate(self),
            "nonzero": f"{self.n_nonzero} of {self.w.size} weights",
            "loss": repr(self.loss),
            "penalty": f"{self.reg}, lam {self.lam:g}",
            "data": f"{self.n_samples} rows, {self.n_features} features, {self.nnz} values",
        }

    def _columns(self) -> dict[str, Any]:
        return weight_columns(self.w, self.feature_names, self.classes)

    def _tables(self) -> list[ShownTable]:
        places = largest_weights(self.w, MAX_ROWS)
        found = leading(weight_columns(self.w, self.feature_names, self.classes, places))
        return [found._replace(more=self.n_nonzero - len(places))]

    @property
    def n_nonzero(self) -> int:
        """Number of weights that are not 0."""
        return int(np.count_nonzero(self.w))

    def decision_function(self, X: Any, *, offset: Any = None) -> Vector:
        """Return the margins ``X w + intercept + offset``; see `Model.decision_function`.

        Parameters
        ----------
        X : Csr, scipy sparse matrix or ndarray, shape (m, n_features)
        offset : array_like of shape (m,), or (m, K), or 0, optional
            Needed if the model was trained with offsets; 0 adds nothing.

        Returns
        -------
        ndarray of float64, shape (m,), or (m, K)
        """
        return Model.from_result(self).decision_function(X, offset=offset)

    def predict(self, X: Any, *, offset: Any = None) -> Any:
        """Predict a class, labels, a value, a count, a score, or +1 and -1; see `Model.predict`.

        Parameters
        ----------
        X : Csr, scipy sparse matrix or ndarray, shape (m, n_features)
            With a structured loss, a sequence of inputs.
        offset : array_like of shape (m,), or (m, K), or 0, optional
            Needed if the model was trained with offsets; 0 adds nothing.

        Returns
        -------
        ndarray of shape (m,), or list
            With a structured loss, the oracle's predictions.
        """
        if isinstance(self.loss, Structured):
            if offset is not None:
                raise ParameterError("loss structured: takes no offset")
            return self.loss.predict(self.w, X)
        return Model.from_result(self).predict(X, offset=offset)

    def save(self, path: str | os.PathLike[str], *, zero_based: bool | None = None) -> None:
        """Write the model and its certificate to a file, whole or not at all; see `Model.save`.

        Parameters
        ----------
        path : str or path-like
        zero_based : bool, optional
            Whether feature numbers in text start at 0, for `bmrm-predict`. Default: as in the training text.
        """
        Model.from_result(self, zero_based=zero_based).save(path)


def certificate_lines(result: Result, seconds: float, advice: str = "") -> str:
    """Return the certificate as lines of text; ``advice``, whole lines, follows the gap."""
    lines = [_ending(result, seconds), *fact_lines(_certificate(result))]
    more = "" if result.reg == "l2" else f"\nnonzero      {result.n_nonzero} of {result.w.size} weights"
    return "\n".join(lines) + advice + more


def _ending(result: Result, seconds: float) -> str:
    place = "" if result.device == "cpu" else f" on {result.device}"
    return f"{STOPS[result.status]} after {result.n_iter} iterations, {time_text(seconds)}{place}"


def _certificate(result: Result) -> dict[str, str]:
    return {
        "objective": f"{result.objective:.10g}",
        "lower bound": f"{result.lower_bound:.10g}",
        "gap": f"{result.gap:.3g}: {_known_of_optimum(result)}",
    }


def _known_of_optimum(result: Result) -> str:
    """Say how far above the optimum the objective can be; the optimum is at least the lower bound."""
    if result.lower_bound > 0:
        return f"at most {100 * result.gap / result.lower_bound:.2g} % above the optimum"
    if result.gap == float("inf"):
        return "nothing is known of the optimum"
    return f"at most {result.gap:.3g} above the optimum"
