"""Groups of rows, such as the queries within which ranking losses compare rows."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from bmrm.base.arguments import MAX_EXACT_INTEGER, array, is_missing
from bmrm.base.vectors import Indices
from bmrm.errors import DataError


def number_groups(groups: Any, n_samples: int) -> NDArray[np.int64] | None:
    """Assign numbers from 0 to the groups of rows.

    ``groups`` has one entry per row, of any type that can be compared; rows with equal entries form a group,
    in any order. Raise `DataError` if the number of entries is wrong or an entry is missing (NaN, None,
    masked).

    Examples
    --------
    >>> number_groups(["b", "a", "b"], 3)
    array([1, 0, 1])
    """
    if groups is None:
        return None
    return index_names(validate_groups(groups, n_samples))[1]


def validate_groups(groups: Any, n_samples: int) -> NDArray[Any]:
    """Validate the name or number of the group of each row; no entry may be missing.

    Entries that NumPy would merge stay different: 1 and "1", and integers that float64 cannot tell apart.
    """
    found = array("groups", groups)
    if found.shape != (n_samples,):
        raise DataError(f"groups: found shape {found.shape}, expected ({n_samples},), one per row of X")
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
            f"groups: row {int(np.argmax(none)) + 1} has no group, expected entries that can be compared"
        )
    return found


def index_names(names: NDArray[Any]) -> tuple[NDArray[Any], Indices]:
    """Return the distinct names in order, and the index of each given name among them."""
    if names.dtype != object:
        distinct, indices = np.unique(names, return_inverse=True)
        return distinct, indices.astype(np.int64)
    try:
        # Only equality matters, so a partial order, such as that of sets, does no harm.
        ordered = sorted(set(names.tolist()))
    except TypeError as error:
        raise DataError(f"groups: {error}; expected entries that can be compared") from None
    index = {name: number for number, name in enumerate(ordered)}
    found = np.empty(len(ordered), object)
    found[:] = ordered
    return found, np.array([index[name] for name in names.tolist()], np.int64)
