"""Whose neighbours are sought, and among which points: as given, and as the searches read them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from bmrm.base import arguments
from bmrm.base.suggestions import check_choice
from bmrm.base.vectors import Vector
from bmrm.errors import DataError, ParameterError
from bmrm.matrix.gpu.devices import parse_device
from bmrm.pairs._pairs import METRICS
from bmrm.pairs.points import KeptRows, Points, read_box, read_points

SQUARES = ("euclidean", "sqeuclidean", "cosine")
"""Metrics that are made of squares."""

Side: TypeAlias = Points | KeptRows
"""Points, or rows in main memory, which are read where they are."""


@dataclass(frozen=True)
class Sides:
    """Rows whose neighbours are sought, and the points among which they are.

    Attributes
    ----------
    rows : Points or KeptRows
    points : Points or KeptRows, or None
        None: the rows, none of which is its own neighbour.
    box : ndarray, shape (d,)
        Lengths of the axes; 0 for an open one.
    metric : str
    device : str
        That was asked for.
    """

    rows: Side
    points: Side | None
    box: Vector
    metric: str
    device: str

    @property
    def shape(self) -> tuple[int, int]:
        """Number of rows and of points."""
        return len(self.rows), len(self.rows if self.points is None else self.points)

    @property
    def axes(self) -> int:
        """Number of axes."""
        return self.rows.shape[1]

    @property
    def others(self) -> int:
        """Number of points that may be neighbours of a row."""
        return self.shape[1] - (self.points is None)

    @property
    def gpu(self) -> int | None:
        """Number of the GPU that has some of them; None if all are in main memory."""
        found = [each.gpu for each in (self.rows, self.points) if each is not None]
        return next((number for number in found if number is not None), None)

    def measured(self) -> tuple[Vector, Vector | None, Vector]:
        """Return rows and points in main memory as loops measure them, and the box."""
        points = None if self.points is None else self.points.on_host()
        rows, points = _measured(self.rows.on_host(), points, self.metric)
        return rows, points, np.resize(self.box, rows.shape[1])


def read_sides(x: Any, y: Any, metric: str, box: Any, device: str | None, threads: int | None) -> Sides:
    """Validate the points of a call."""
    check_choice("metric", metric, METRICS)
    if any(isinstance(each, Points) or arguments.is_on_device(each) for each in (x, y)):
        found = _sides_of_points(x, y, metric, box, device, threads)
    else:
        parse_device("auto" if device is None else device)
        rows, points = read_rows("x", x), None if y is None else read_rows("y", y)
        if points is not None and points.shape[1] != rows.shape[1]:
            raise DataError(f"y: found {points.shape[1]} columns, expected {rows.shape[1]} as in x")
        found = Sides(rows, points, read_box(box, rows.shape[1]), metric, device or "auto")
    if not found.axes:
        raise DataError("x: found 0 columns, expected at least 1")
    if metric in ("cosine", "jaccard") and found.box.any():
        raise ParameterError(f"box: found with the metric {metric}, which has no periodic axes")
    return found


def _sides_of_points(x: Any, y: Any, metric: str, box: Any, device: str | None, threads: int | None) -> Sides:
    if box is not None:
        if isinstance(x, Points):
            raise ParameterError("box: found with Points, expected it as an argument of Points alone")
        x = Points(x, box=box)
    a, b = read_points(x, y, device, threads, None)
    if a.group is not None:
        raise ParameterError("comm: found points of several ranks, expected those of one process")
    parse_device(device or a.device)
    return Sides(a, b, a.box, metric, device or a.device)


def read_rows(what: str, given: Any) -> KeptRows:
    """Return finite rows in float32 or float64, in place if they are; kept ones as they are."""
    if isinstance(given, KeptRows):
        return given
    found = np.ascontiguousarray(arguments.matrix(what, given))
    arguments.check_finite(what, found)
    return KeptRows(found)


def _measured(x: Vector, y: Vector | None, metric: str) -> tuple[Vector, Vector | None]:
    """Return the rows that compiled code measures."""
    if metric == "jaccard":
        return (x != 0.0).astype(np.float64), None if y is None else (y != 0.0).astype(np.float64)
    if metric != "cosine":
        return x, y
    units = [_units(each) for each in (x, y) if each is not None]
    zeros = [~unit.any(axis=1) for unit in units]
    if any(zero.any() for zero in zeros):  # on an axis of their own
        units = [np.column_stack([unit, zero]) for unit, zero in zip(units, zeros, strict=True)]
    return units[0], None if y is None else units[1]


def _units(rows: Vector) -> Vector:
    """Return rows divided by their lengths."""
    _, powers = np.frexp(np.abs(rows).max(axis=1, initial=0.0))
    found: Vector = np.ldexp(rows, -powers[:, None])  # so that no square overflows
    squares = np.zeros(len(rows))
    for axis in found.T:
        squares += axis * axis
    found /= np.sqrt(np.where(squares > 0.0, squares, 1.0))[:, None]
    return found
