"""Neighbours of points in main memory, by the compiled loops of ``src_cython/pairs``."""

from __future__ import annotations

import numpy as np

from bmrm.pairs._pairs import NeighbourSearch
from bmrm.pairs.sides import SQUARES, Sides

MAX_PRODUCT_POINTS = 2.0
"""Points up to which products leave out more than boxes do, over 4 to the power of the number of axes."""

MIN_PRODUCT_ROWS = 16
"""Rows from which products pay: a panel of them takes the time of 64."""

MAX_NEAR_SHARE = 1 / 64
"""Share of the pairs that are near up to which products pay for lists: near pairs are decided one by one."""

SAMPLE_ROWS, SAMPLE_POINTS = 64, 512
"""What that share is estimated from."""


class HostNeighbours:
    """Rows and points in main memory.

    There are two ways: leaves, in float64, of a tree if there are few axes; and products in low precision,
    with a proven bound of their errors, whose candidates are decided in float64.
    """

    def __init__(self, sides: Sides, threads: int) -> None:
        self._threads = threads
        self._rows, points, self._box = sides.measured()
        self._metric, self._one_set = sides.metric, points is None
        self._points = self._rows if points is None else points

    def search(self, first: int, last: int, radius: float) -> NeighbourSearch:
        rows = self._rows if (first, last) == (0, len(self._rows)) else self._rows[first:last]
        return NeighbourSearch(
            rows,
            self._points,
            self._box,
            self._metric,
            products=self._products_pay(len(rows), radius),
            own=first if self._one_set else -1,
            threads=self._threads,
        )

    def _products_pay(self, rows: int, radius: float) -> bool:
        points, axes = self._points.shape
        return (
            self._metric in SQUARES
            and not self._box.any()
            and rows >= MIN_PRODUCT_ROWS
            and points <= MAX_PRODUCT_POINTS * 4.0 ** min(axes, 500)
            and self._near_share(radius) <= MAX_NEAR_SHARE
        )

    def _near_share(self, radius: float) -> float:
        """Estimate the share of the pairs within a radius, from some of them."""
        if radius == 0.0:
            return 0.0
        some = self._rows[:: 1 + len(self._rows) // SAMPLE_ROWS]
        others = self._points[:: 1 + len(self._points) // SAMPLE_POINTS]
        reach = {"euclidean": radius * radius, "cosine": 2.0 * radius}.get(self._metric, radius)
        with np.errstate(over="ignore"):
            near = [(np.square(others - row).sum(axis=1) <= reach).mean() for row in some]
        return float(np.mean(near))
