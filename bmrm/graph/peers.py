"""The processes that hold a graph together: what an algorithm asks of them, and the answers of one alone.

Each process has some of the nodes: a run of places in memory, with the edges that end there. Sums and joined
arrays are the same, to the bit, on every process. Everything that decides how a run goes on comes from them.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from bmrm.base import interrupts
from bmrm.base.vectors import Vector

if TYPE_CHECKING:
    from bmrm.distributed.group import Group

Numbers = TypeVar("Numbers", bound=NDArray[Any])


class Peers(Protocol):
    """Processes that work on one graph; all must call each method, in the same order."""

    size: int
    """Number of processes."""

    everywhere: bool
    """Whether every process has a node."""

    signal_mode: str
    """What a signal does during a run; see `bmrm.base.interrupts`."""

    @property
    def group(self) -> Group | None:
        """The ranks; None for one process."""

    def total(self, part: Vector) -> Vector:
        """Return the sum of arrays of one shape, in the order of the processes."""

    def largest(self, part: Vector) -> Vector:
        """Return the largest numbers of arrays of one shape."""

    def joined(self, part: Numbers) -> Numbers:
        """Return the arrays of all processes one after another."""

    def whole(self, rows: Numbers) -> Numbers:
        """Return the rows of all nodes, given one per own node; valid until the next call."""

    def on_gpus(self, device: int) -> Any:
        """Return what GPUs need to exchange vectors, a `bmrm.matrix._cuda.GraphRanks`; None for one.

        ``device`` is the CUDA number of this process's GPU.
        """

    def agree(self, status: str | None) -> str | None:
        """Return why a run ends now, if any process has a reason."""

    def together(self) -> AbstractContextManager[None]:
        """Raise on all processes what the block, which calls no method, raises on any."""

    def guarded(self) -> AbstractContextManager[None]:
        """End the job if the block fails on this process and not on all: the others would wait for it."""

    def check_alike(self, options: Mapping[str, Any]) -> None:
        """Raise `ParameterError` if some process was given other options."""


class Alone:
    """The only process of a graph.

    Examples
    --------
    >>> Alone().total(np.ones(2)), Alone().agree("max_time")
    (array([1., 1.]), 'max_time')
    """

    group = None
    size = 1
    everywhere = True
    signal_mode = interrupts.AWAITED

    def total(self, part: Vector) -> Vector:
        return part

    def largest(self, part: Vector) -> Vector:
        return part

    def joined(self, part: Numbers) -> Numbers:
        return part

    def whole(self, rows: Numbers) -> Numbers:
        return rows

    def on_gpus(self, device: int) -> Any:
        return None

    def agree(self, status: str | None) -> str | None:
        return status

    def together(self) -> AbstractContextManager[None]:
        return contextlib.nullcontext()

    def guarded(self) -> AbstractContextManager[None]:
        return contextlib.nullcontext()

    def check_alike(self, options: Mapping[str, Any]) -> None:
        pass


ALONE = Alone()


def total_of(peers: Peers, number: float) -> float:
    """Return the sum of one number per process."""
    return float(peers.total(np.array([number]))[0])
