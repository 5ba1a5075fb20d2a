"""The weights of a model as a table: features by number and name, classes, and the largest weights first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from bmrm.base.answers import ranked
from bmrm.base.vectors import Indices, Vector


def weight_columns(
    w: Vector, names: Sequence[str] | None, classes: Any, places: Indices | None = None, first: int = 0
) -> dict[str, Any]:
    """Return the columns of a table of weights, one row per feature and class.

    - ``names``: of the features, if they have any
    - ``classes``: of the columns of ``w``
    - ``places``: of the weights in ``w.ravel()``; None for all
    - ``first``: number of the first feature

    Examples
    --------
    >>> found = weight_columns(np.array([0.5, -2.0]), ("age", "height"), None)
    >>> found["name"].tolist(), found["weight"].tolist()
    (['age', 'height'], [0.5, -2.0])
    """
    if places is None:
        places = np.arange(w.size)
    features, outputs = np.divmod(places, w.shape[1] if w.ndim == 2 else 1)
    found: dict[str, Any] = {"feature": features + first}
    if names is not None:
        found["name"] = np.array(names, object)[features]
    if w.ndim == 2 and classes is not None:
        found["class"] = np.asarray(classes)[outputs]
    return {**found, "weight": w.ravel()[places]}


def largest_weights(w: Vector, count: int) -> Indices:
    """Return the places of the largest weights by size, of at most ``count`` that are not 0.

    Examples
    --------
    >>> largest_weights(np.array([0.5, 0.0, -2.0]), 3)
    array([2, 0])
    """
    sizes = np.abs(w.ravel())
    order: Indices = ranked(sizes, count)
    return order[sizes[order] > 0.0]
