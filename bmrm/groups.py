"""Groups of rows: the queries that ranking losses compare rows within."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from bmrm.errors import DataError


def group_numbers(groups: Any, n_samples: int) -> NDArray[np.int64] | None:
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
        For groups of the wrong number, or missing ones (NaN).

    Examples
    --------
    >>> group_numbers(["b", "a", "b"], 3)
    array([1, 0, 1])
    """
    if groups is None:
        return None
    found = np.asarray(groups)
    if found.shape != (n_samples,):
        raise DataError(f"groups: found shape {found.shape}, expected ({n_samples},), one a row of X")
    if found.dtype.kind == "f" and np.isnan(found).any():
        raise DataError(f"groups: row {int(np.argmax(np.isnan(found))) + 1} has none")
    try:
        return np.unique(found, return_inverse=True)[1].astype(np.int64)
    except TypeError as error:
        raise DataError(f"groups: {error}; expected entries that can be compared") from None
