"""Offsets of rows: known numbers that are added to the margins, such as the log of the exposure of a rate."""

from __future__ import annotations

from typing import Any

import numpy as np

from bmrm.base.arguments import check_finite, numbers
from bmrm.base.vectors import Vector
from bmrm.errors import DataError


def row_offsets(given: Any, rows: int) -> Vector | None:
    """Validate and copy the offsets of rows: one per row, or one per row and class; None if there are none.

    Examples
    --------
    >>> row_offsets([1, 0], 2)
    array([1., 0.])
    >>> row_offsets([1, float("nan")], 2)
    Traceback (most recent call last):
    bmrm.errors.DataError: offset: row 2 has nan, expected a finite number
    """
    if given is None:
        return None
    found = numbers("offset", given)
    if found.ndim not in (1, 2) or len(found) != rows:
        raise DataError(f"offset: found shape {found.shape}, expected ({rows},), one per row of X")
    check_finite("offset", found)
    return np.array(found, order="C")


def offsets_of_margins(offset: Vector, columns: int | None, *, alike: bool) -> Vector:
    """Return offsets in the shape of margins, to which they can be added; raise if there are other margins.

    - ``offset``, shape (m,), or (m, K)
    - ``columns``: K, the number of margins of a row; None if it has one
    - ``alike``: whether one number may be added to all margins of a row

    Examples
    --------
    >>> offsets_of_margins(np.array([1.0, 2.0]), 2, alike=True)
    array([[1., 1.],
           [2., 2.]])
    """
    rows = len(offset)
    if columns is None:
        if offset.ndim == 1:
            return offset
        raise DataError(f"offset: found shape {offset.shape}, expected ({rows},), one per row of X")
    if offset.ndim == 1 and alike:
        return np.repeat(offset[:, None], columns, axis=1)
    if offset.shape != (rows, columns):
        why = ": one number per row shifts all classes alike" if offset.ndim == 1 else ""
        raise DataError(f"offset: found shape {offset.shape}, expected ({rows}, {columns}){why}")
    return offset


def add_offset(values: Vector, offset: Vector | None) -> Vector:
    """Return margins with offsets added, for all margins of a row alike if it has one offset.

    Examples
    --------
    >>> add_offset(np.zeros((2, 2)), np.array([1.0, 2.0]))
    array([[1., 1.],
           [2., 2.]])
    """
    if offset is None:
        return values
    return values + (offset if offset.ndim == values.ndim else offset[:, None])
