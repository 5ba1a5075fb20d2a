"""What a solve reports while it runs, and what it returns."""

from __future__ import annotations

import os
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bmrm.base.vectors import make_arrays_read_only
from bmrm.linear.backends.host.cuts import HostCuts
from bmrm.linear.bundle.bundle import Bundle
from bmrm.linear.models.model import Model
from bmrm.linear.solvers.progress import Status
from bmrm.losses import Loss, Structured

Vector = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Result:
    """A trained model and its certificate, whose arrays are read-only: copy what is to be changed.

    It can be pickled and copied deeply. What comes of that predicts, reports and is saved as the one it came
    from; but its bundle is empty, for cuts serve the data that are resident here.

    Attributes
    ----------
    w : ndarray of float64, shape (n_features,), or (n_features, K) with a column for each of K classes
    intercept : float, or ndarray of shape (K,)
        Added to every margin; 0 without one.
    objective : float
        J at ``w`` (and at the intercept), in float64 from fresh margins.
    lower_bound : float
        No w whatever has a smaller J.
    gap : float
        ``objective - lower_bound``: how far from optimal the model can be.
    status : {"converged", "max_iter", "max_time", "interrupted", "precision", "max_cuts"}
        Why the solve ended; "precision" when rounding hides what is left of the gap, "max_cuts" when so few
        cuts get no further.
    n_iter : int
        Passes over the data, each a product with X and one with its transpose.
    history : list of dict
        One entry an iteration: iteration, objective, lower_bound, gap, cuts, step, seconds (by part),
        elapsed.
    timings : dict
        Seconds by part: products, loss (on a GPU with the products of cuts), search, bundle, qp, newton
        (where there were Newton's or interior-point steps), and total.
    bundle : Bundle
        The cuts, for a warm start at another lam.
    loss : Loss
    classes : ndarray of shape (2,) or (K,), or None
        For a binary loss the labels of negative and positive margins; for several classes those of the
        columns of ``w``; for an ordinal loss the labels in order.
    thresholds : ndarray or None
        For an ordinal loss the margins at which one class ends and the next begins.
    lam, tol : float
    reg : str
    reg_params : dict
        Beside lam: ``l1_ratio``, ``positive``, ``feature_lambda``, ``unpenalised`` (their number), ``prior``,
        each where it was given.
    tol_kind : str
    n_samples, n_features, nnz : int
    device : str
        Where the products ran: "cpu", or "cuda" and the name of the GPU.
    zero_based : bool or None
        Whether features were numbered from 0 in the text that it was trained on; see `Dataset`.
    origin : object
        What the bound is of, for a warm start from it.
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
    classes: NDArray[np.float64] | None
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
    origin: Any = field(default=None, repr=False)

    def __post_init__(self) -> None:
        make_arrays_read_only(self, "w", "intercept", "classes", "thresholds")

    def __copy__(self) -> Result:
        return replace(self)

    def __getstate__(self) -> dict[str, Any]:
        here = ("bundle", "origin")
        return {name: value for name, value in vars(self).items() if name not in here}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, bundle=Bundle(HostCuts(len(state["w"]), 1)), origin=None)
        self.__post_init__()

    @property
    def n_nonzero(self) -> int:
        """Number of weights that are not 0."""
        return int(np.count_nonzero(self.w))

    def decision_function(self, X: Any) -> Vector:
        """Margins ``X w + intercept``; see `Model.decision_function`."""
        return Model.from_result(self).decision_function(X)

    def predict(self, X: Any) -> Any:
        """Predict a class, labels, a value, a count, a score, or +1 and -1; see `Model.predict`.

        With a structured loss, the outputs that the oracle gives for a sequence of inputs.
        """
        if isinstance(self.loss, Structured):
            return self.loss.predict(self.w, X)
        return Model.from_result(self).predict(X)

    def save(self, path: str | os.PathLike[str], *, zero_based: bool | None = None) -> None:
        """Write the model and its certificate to a file, whole or not at all; see `Model.save`.

        Parameters
        ----------
        path : str or path-like
        zero_based : bool, optional
            Whether features are numbered from 0 in text; `bmrm-predict` reads it so. Default: as the result
            knows from its data.
        """
        Model.from_result(self, zero_based=zero_based).save(path)
