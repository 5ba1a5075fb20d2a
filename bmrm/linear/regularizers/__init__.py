"""Penalties ``lam * Omega(w)``: functions that the solver and the bundle share.

A penalty knows nothing of losses, cuts or runs.  It gives its value, its derivative along a line as a
function of the step alone (so that a line search needs no vector work), its proximal step, and the minimiser
of itself plus a linear function:

    l2            lam s_j / 2 (w_j - w0_j)^2, summed over the features
    l1            lam s_j |w_j - w0_j|
    elastic_net   lam s_j (rho |w_j - w0_j| + (1 - rho) / 2 (w_j - w0_j)^2),  rho = l1_ratio

By default s = 1 and w0 = 0; ``positive`` adds w >= 0.  A feature with s_j = 0 is not penalised.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from bmrm.base.arguments import check_finite, flag, number, numbers
from bmrm.base.units import number_text
from bmrm.base.vectors import Vector
from bmrm.errors import DataError, ParameterError
from bmrm.linear.regularizers.base import RADIUS, LineDerivative, Reach, Regularizer, strength
from bmrm.linear.regularizers.l2 import L2
from bmrm.linear.regularizers.separable import Separable
from bmrm.linear.regularizers.separable_penalty import SeparablePenalty

__all__ = [
    "L1_RATIO",
    "L2",
    "NAMES",
    "RADIUS",
    "LineDerivative",
    "Reach",
    "Regularizer",
    "SeparablePenalty",
    "get",
]

NAMES = ("l2", "l1", "elastic_net")

DEFAULT_LAM = 1e-4
"""Strength if neither lam nor C is given."""

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
    """Make a penalty from its name and options.

    Parameters
    ----------
    name : str
        One of `NAMES`.
    lam : float
        Strength, positive.
    n_features : int
    l1_ratio : float, optional
        Share of the l1 norm in the elastic net, in [0, 1]; default `L1_RATIO`.
    positive : bool, default False
        Keep weights at least 0.
    feature_lambda : array_like of shape (n_features,), optional
        Factors of lam, at least 0; a feature with 0 has no penalty.
    prior : array_like of shape (n_features,), (n_features, columns) or all weights, optional
        Weights to regularise towards.
    columns : int, default 1
        Weights of each feature, one per class.
    intercepts : int, default 0
        Number of weights at the end that are intercepts: with strength 1 and of either sign.

    Raises
    ------
    ParameterError
        If the name is unknown, or a strength or share is out of range.
    DataError
        If the strengths or the prior mean do not fit.

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
    share = _share_of_l1(name, l1_ratio)
    if name == "l2" and not positive and feature_lambda is None and prior is None:
        return L2(lam)
    strengths = _vector("feature_lambda", feature_lambda, n_features, columns, intercepts, 1.0)
    if not (strengths >= 0.0).all():
        raise DataError(
            f"feature_lambda: found {number_text(strengths.min())}, expected numbers of at least 0"
        )
    if not strengths.any():
        raise DataError("feature_lambda: all are 0, expected a penalty on one feature at least")
    mean = _vector("prior", prior, n_features, columns, intercepts, 0.0)
    vectors = {"feature_lambda": strengths} if feature_lambda is not None else {}
    if prior is not None:
        vectors["prior"] = mean
    all_params = {
        "l1_ratio": share if name == "elastic_net" else None,
        "positive": positive or None,
        "unpenalised": int(np.count_nonzero(strengths == 0.0)) or None,
        "feature_lambda": feature_lambda is not None or None,
        "prior": prior is not None or None,
    }
    params = {key: x for key, x in all_params.items() if x is not None}
    if name == "l2" and not positive and strengths.all():
        return L2(lam, vectors.get("feature_lambda"), vectors.get("prior"), params)
    low = np.full(len(strengths), -np.inf)
    if positive:
        low[: n_features * columns] = 0.0
    terms = Separable(
        l1=lam * share * strengths,
        l2=lam * (1.0 - share) * strengths,
        prior=mean,
        low=low,
        high=np.full(len(strengths), np.inf),
    )
    return SeparablePenalty(name, lam, terms, params, vectors)


def _share_of_l1(name: str, l1_ratio: float | None) -> float:
    if l1_ratio is not None and name != "elastic_net":
        raise ParameterError(f"l1_ratio: needs reg elastic_net, found {name}")
    ratio = L1_RATIO if l1_ratio is None else number("l1_ratio", l1_ratio)
    share = {"l2": 0.0, "l1": 1.0, "elastic_net": ratio}[name]
    if not 0.0 <= share <= 1.0:
        raise ParameterError(f"l1_ratio: found {number_text(share)}, expected 0 to 1")
    return share


def _vector(what: str, given: Any, n_features: int, columns: int, intercepts: int, fill: float) -> Vector:
    """Return one number per weight, row after row, then those of the intercepts; ``fill`` if not given."""
    found = np.full(n_features * columns + intercepts, fill)
    if given is not None:
        values = numbers(what, given, each="feature")
        shape = values.shape
        if shape not in ((n_features,), (n_features, columns), found.shape):
            raise DataError(f"{what}: found shape {shape}, expected {n_features} numbers, one per feature")
        check_finite(what, values, each="feature")
        if shape != found.shape and values.ndim == 1:
            values = np.repeat(values, columns)
        values = values.ravel()
        found[: len(values)] = values
    return found
