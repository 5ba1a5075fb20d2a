"""The ranks of a graph: sums in rank order, one exchange of vectors, endings that all share."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from bmrm.base import interrupts
from bmrm.base.vectors import Indices, Vector, empty_by_lines
from bmrm.distributed.group import Group
from bmrm.distributed.options import check_alike
from bmrm.graph.peers import Numbers
from bmrm.matrix.gpu.devices import import_cuda

ENDINGS = (None, "max_iter", "max_time", "interrupted", "precision", "converged")
"""Reasons to end a run, in ascending order of precedence."""


class Ranks:
    """The ranks of a group, of which each owns a run of places.

    Parameters
    ----------
    group : Group
    bounds : ndarray of int64, shape (size + 1,)
        Rank r owns the places ``bounds[r]`` to ``bounds[r + 1]``.

    Attributes
    ----------
    linked_by : {None, "MPI", "NCCL"}
        How vectors go from GPU to GPU, if they do.
    """

    windows = True
    """Whether GPUs may write messages to each other's memory instead of sending them by NCCL's kernels."""

    signal_mode = interrupts.HELD  # an exception would leave the other ranks waiting

    def __init__(self, group: Group, bounds: Indices) -> None:
        self.group, self.bounds, self.size = group, bounds, group.size
        self.everywhere = bool((np.diff(bounds) > 0).all())
        self._wholes: dict[tuple[int, str], NDArray[Any]] = {}  # the last one that was used
        self._on_gpus: dict[tuple[int, bool], Any] = {}  # by device and windows
        self.linked_by: str | None = None

    def total(self, part: Vector) -> Vector:
        return self.group.total(part)

    def largest(self, part: Vector) -> Vector:
        flat = np.ascontiguousarray(part, np.float64).reshape(-1)
        return np.asarray(self.group.parts(flat).max(axis=0).reshape(part.shape))

    def joined(self, part: Numbers) -> Numbers:
        return cast("Numbers", np.concatenate(self.group.everyones(part)))

    def whole(self, rows: Numbers) -> Numbers:
        columns = 1 if rows.ndim == 1 else rows.shape[1]
        key = columns, rows.dtype.str
        if key not in self._wholes:
            self._wholes = {key: empty_by_lines((int(self.bounds[-1]) * columns,), rows.dtype.type)}
        found = self.group.gathered(rows.reshape(-1), self.bounds * columns, self._wholes[key])
        return cast("Numbers", found.reshape(int(self.bounds[-1]), *rows.shape[1:]))

    def on_gpus(self, device: int) -> Any:
        key = device, self.windows
        if self.size > 1 and key not in self._on_gpus:
            from bmrm.distributed.links import links_of

            links = links_of(self.group, device)
            self.linked_by = "MPI" if links.nccl is None else "NCCL"
            ranks = links.ranks(np.float64)
            self._on_gpus[key] = import_cuda().GraphRanks(ranks, self.bounds, self.windows)
        return self._on_gpus.get(key)

    def agree(self, status: str | None) -> str | None:
        wishes = self.group.parts(np.array([float(ENDINGS.index(status))]))
        return ENDINGS[int(wishes.max())]

    def together(self) -> AbstractContextManager[None]:
        return self.group.together()

    def guarded(self) -> AbstractContextManager[None]:
        return self.group.guarded()

    def check_alike(self, options: Mapping[str, Any]) -> None:
        check_alike(self.group, options)
