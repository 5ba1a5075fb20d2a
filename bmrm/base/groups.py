"""Groups of rows: the queries that ranking losses compare rows within."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from bmrm.base.arguments import MAX_EXACT_INTEGER, array, is_missing
from bmrm.base.vectors import Indices
from bmrm.errors import DataError


def number_groups(groups: Any, n_samples: int) -> NDArray[np.int64] | None:
    """Give the groups of rows numbers from 0 on.

    Parameters
    ----------
    groups : array_like of shape (n_samples,), or None
        Anything that can be compared, one a row; rows with equal entries belong together, wherever they are.
    n_samples : int

    Returns
    -------
    ndarray of int64, shape (n_samples,), or None

    Raises
    ------
    DataError
        For groups of the wrong number, or missing ones (NaN, None, masked).

    Examples
    --------
    >>> group_numbers(["b", "a", "b"], 3)
    array([1, 0, 1])
    """
    if groups is None:
        return None
    return index_names(validate_groups(groups, n_samples))[1]


def validate_groups(groups: Any, n_samples: int) -> NDArray[Any]:
    """Take in the name or number of each row's group, none of them missing.

    What NumPy would make one of is kept apart: 1 and "1", and integers that float64 cannot tell apart.
    """
    found = array("groups", groups)
    if found.shape != (n_samples,):
        raise DataError(f"groups: found shape {found.shape}, expected ({n_samples},), one a row of X")
    lossy = found.dtype.kind in "US" or (
        found.dtype.kind == "f" and np.abs(found).max(initial=0.0) >= MAX_EXACT_INTEGER
    )
    if found.dtype.kind not in "biuUSmMfc" or (lossy and not isinstance(groups, np.ndarray)):
        listed = isinstance(groups, (list, tuple))
        found = np.fromiter(groups, object, n_samples) if listed else np.array(groups, object)
        none = [is_missing(name) for name in found]
    else:
        none = found != found
    if np.any(none):
        raise DataError(
            f"groups: row {int(np.argmax(none)) + 1} has none, expected entries that can be compared"
        )
    return found


def index_names(names: NDArray[Any]) -> tuple[NDArray[Any], Indices]:
    """Return the names that occur, in order, and the place of each among them."""
    if names.dtype != object:
        known, places = np.unique(names, return_inverse=True)
        return known, places.astype(np.int64)
    try:
        # Equal or not is all that counts: an order that is none, as that of sets, splits no group.
        ordered = sorted(set(names.tolist()))
    except TypeError as error:
        raise DataError(f"groups: {error}; expected entries that can be compared") from None
    place = {name: number for number, name in enumerate(ordered)}
    found = np.empty(len(ordered), object)
    found[:] = ordered
    return found, np.array([place[name] for name in names.tolist()], np.int64)
