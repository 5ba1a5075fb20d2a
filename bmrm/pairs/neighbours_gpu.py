"""Neighbours of points on a GPU, by the kernels of ``src_cuda/pairs``."""

from __future__ import annotations

from bmrm.matrix.gpu.devices import import_cuda
from bmrm.pairs.gpu import DevicePairs
from bmrm.pairs.passes import NeighbourTasks
from bmrm.pairs.sides import Sides
from bmrm.pairs.work import neighbour_device_bytes


class DeviceNeighbours:
    """Rows and points on a GPU.

    - ``number``: its CUDA number
    - ``k``: the most neighbours of a row that are sought
    """

    def __init__(self, sides: Sides, number: int, k: int) -> None:
        needed = neighbour_device_bytes(*sides.shape, sides.axes, k, sides.metric == "cosine")
        DevicePairs(number).require(needed, f"a search for the neighbours of {sides.shape[0]} points")
        self._number, self._metric = number, sides.metric
        self._box, points = sides.box, sides.points
        self._rows, self._one_set = sides.rows.rows_on(number), points is None
        self._points = self._rows if points is None else points.rows_on(number)

    def search(self, first: int, last: int, radius: float) -> NeighbourTasks:
        found: NeighbourTasks = import_cuda().NeighbourSearch(
            self._rows,
            self._points,
            self._box,
            self._metric,
            first,
            last,
            one_set=self._one_set,
            device=self._number,
        )
        return found
