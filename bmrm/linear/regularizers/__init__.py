"""Regularisers: what the solver and the bundle ask of ``lam * Omega(w)``.

A regulariser knows nothing of losses.  It gives its value, its derivative on a line as a function of the
step alone (so that a line search needs no vector work), the minimiser of a quadratic model of the risk, and
that of the cutting-plane model with a lower bound on it: each kind has an inner solver of its own.

    l2            lam s_j / 2 (w_j - w0_j)^2, summed over the features
    l1            lam s_j |w_j - w0_j|
    elastic_net   lam s_j (rho |w_j - w0_j| + (1 - rho) / 2 (w_j - w0_j)^2),  rho = l1_ratio

with s = 1 and w0 = 0 where nothing else is said; ``positive`` adds w >= 0.  A feature with s_j = 0 is not
penalised.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from bmrm.base.arguments import check_finite, flag, number, numbers
from bmrm.errors import DataError, ParameterError
from bmrm.linear.regularizers.base import Regularizer, Slopes, strength
from bmrm.linear.regularizers.l2 import L2
from bmrm.linear.regularizers.penalised import RADIUS, Penalised
from bmrm.linear.regularizers.separable import Separable
from bmrm.matrix.checksums import digits, of_array

__all__ = ["L1_RATIO", "L2", "NAMES", "RADIUS", "Penalised", "Regularizer", "Slopes", "get"]

Vector = NDArray[np.float64]
NAMES = ("l2", "l1", "elastic_net")

L1_RATIO = 0.5
"""Default share of the l1 norm in the elastic net."""


def get(
    name: str,
    lam: float,
    n_features: int,
    *,
    l1_ratio: float | None = None,
    positive: bool = False,
    feature_lambda: Any = None,
    prior: Any = None,
    columns: int = 1,
    intercepts: int = 0,
) -> Regularizer:
    """Make a regulariser from its name and options.

    Parameters
    ----------
    name : str
        One of `NAMES`.
    lam : float
        Strength, positive.
    n_features : int
    l1_ratio : float, optional
        Of the elastic net, in [0, 1]; default `L1_RATIO`.
    positive : bool, default False
        Keep weights at least 0.
    feature_lambda : array_like of shape (n_features,), optional
        Factors of lam, at least 0; 0 leaves a feature without a penalty.
    prior : array_like of shape (n_features,), (n_features, columns) or all weights, optional
        Weights to regularise towards.
    columns : int, default 1
        Weights of each feature, one for each class.
    intercepts : int, default 0
        Weights at the end that are intercepts: with strength 1 and of either sign.

    Raises
    ------
    ParameterError
        For a name, a strength or a share that is none.
    DataError
        For strengths or a prior mean that do not fit.

    Examples
    --------
    >>> import numpy as np
    >>> get("l1", 0.5, 2, feature_lambda=[1.0, 0.0]).value(np.array([3.0, 4.0]))
    1.5
    """
    positive = flag("positive", positive)
    if name not in NAMES:
        raise ParameterError(f"reg: found {name!r}, expected one of {', '.join(NAMES)}")
    lam = strength(lam)
    if l1_ratio is not None and name != "elastic_net":
        raise ParameterError(f"l1_ratio: goes with reg elastic_net, found {name}")
    ratio = L1_RATIO if l1_ratio is None else number("l1_ratio", l1_ratio)
    share = {"l2": 0.0, "l1": 1.0, "elastic_net": ratio}[name]
    if not 0.0 <= share <= 1.0:
        raise ParameterError(f"l1_ratio: found {share:g}, expected 0 to 1")
    if name == "l2" and not positive and feature_lambda is None and prior is None:
        return L2(lam)
    weights = _vector("feature_lambda", feature_lambda, n_features, columns, intercepts, 1.0)
    if not (weights >= 0.0).all():
        raise DataError(f"feature_lambda: found {weights.min():g}, expected numbers of at least 0")
    if not weights.any():
        raise DataError("feature_lambda: all are 0, expected a penalty on one feature at least")
    mean = _vector("prior", prior, n_features, columns, intercepts, 0.0)
    params = {
        "l1_ratio": share if name == "elastic_net" else None,
        "positive": positive or None,
        "unpenalised": int(np.count_nonzero(weights == 0.0)) or None,
        "feature_lambda": feature_lambda is not None or None,
        "prior": prior is not None or None,
    }
    told = {key: x for key, x in params.items() if x is not None}
    given = (("feature_lambda", feature_lambda, weights), ("prior", prior, mean))
    checksums = {what: digits(of_array(vector)) for what, x, vector in given if x is not None}
    found: Regularizer
    if name == "l2" and not positive and weights.all():
        strengths = None if feature_lambda is None else weights
        found = L2(lam, strengths, None if prior is None else mean, told)
        found.checksums = checksums
        return found
    low = np.full(len(weights), -np.inf)
    if positive:
        low[: n_features * columns] = 0.0
    penalty = Separable(
        l1=lam * share * weights,
        l2=lam * (1.0 - share) * weights,
        prior=mean,
        low=low,
        high=np.full(len(weights), np.inf),
    )
    found = Penalised(name, lam, penalty, told)
    found.checksums = checksums
    return found


def _vector(what: str, given: Any, n_features: int, columns: int, intercepts: int, fill: float) -> Vector:
    """Numbers of all weights, row after row; of the intercepts behind them where they are not given."""
    found = np.full(n_features * columns + intercepts, fill)
    if given is not None:
        values = numbers(what, given, each="feature")
        shape = values.shape
        if shape not in ((n_features,), (n_features, columns), found.shape):
            raise DataError(f"{what}: found shape {shape}, expected {n_features} numbers, one a feature")
        check_finite(what, values, each="feature")
        if shape != found.shape and values.ndim == 1:
            values = np.repeat(values, columns)
        values = values.ravel()
        found[: len(values)] = values
    return found
