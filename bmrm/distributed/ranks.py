"""Ranks that share some work, or one process that does it alone: methods need not know which."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

import numpy as np

from bmrm.base.arguments import random_generator
from bmrm.base.interrupts import check_signals, requested
from bmrm.base.vectors import Vector

if TYPE_CHECKING:
    from bmrm.distributed.group import Group

UNGUARDED: AbstractContextManager[None] = nullcontext()
"""What one process needs around a block that ranks enter together."""


class AllRanks:
    """What ranks agree on, and sums in their order.

    Attributes
    ----------
    group : bmrm.distributed.group.Group or None
        The ranks; None if there is one process.
    """

    group: Group | None

    def __init__(self, group: Group | None = None) -> None:
        self.group = group

    def together(self) -> AbstractContextManager[None]:
        """Raise on every rank what a block raises on any; see `Group.together`."""
        return self.group.together() if self.group else UNGUARDED

    def guarded(self) -> AbstractContextManager[None]:
        """End the job if a block fails on this rank alone; see `Group.guarded`."""
        return self.group.guarded() if self.group else UNGUARDED

    @property
    def ranks(self) -> int:
        """Number of ranks."""
        return self.group.size if self.group else 1

    @property
    def rank(self) -> int:
        """Number of this rank."""
        return self.group.rank if self.group else 0

    def check_alike(self, options: Mapping[str, Any]) -> None:
        """Raise `ParameterError` on all ranks if some rank was given another option than rank 0."""
        if self.group is not None:
            from bmrm.distributed.options import check_alike

            compared = {n: v for n, v in options.items() if n != "random_state" and not callable(v)}
            check_alike(self.group, compared)

    def first_of(self, random_state: Any) -> np.random.Generator:
        """Return the generator of the first rank on all ranks."""
        generator: np.random.Generator = self.everyones(random_generator(random_state))[0]
        return generator

    def everyones(self, value: Any) -> list[Any]:
        """Return the values of all ranks, in rank order."""
        return self.group.everyones(value) if self.group else [value]

    def total(self, number: float) -> float:
        """Return the sum of a number over the ranks, in rank order."""
        return float(sum(self.everyones(number)))

    def total_array(self, part: Vector) -> Vector:
        """Return the sum of an array over the ranks, in rank order."""
        return self.group.total(part) if self.group else part

    def agree(self, status: str) -> str:
        """Return a status that some rank has, the same on all; empty if none has one."""
        return next(filter(None, self.everyones(status)), "")

    def check_signals(self) -> None:
        """Raise `KeyboardInterrupt` on all ranks if a signal has asked one of them to stop."""
        if self.group is None:
            check_signals()
        elif any(self.everyones(requested())):
            raise KeyboardInterrupt

    def in_turn(self, length: int, step: Callable[[Vector | None], Vector]) -> Vector:
        """Let each rank in turn make a vector of that of the rank before; see `Group.in_turn`."""
        return self.group.in_turn(length, step) if self.group else step(None)

    def add_in_turn(self, parts: Vector) -> Vector:
        """Return the sum of the parts of all ranks, added in their order; shape of those here: (parts, m)."""

        def step(before: Vector | None) -> Vector:
            total = np.zeros(parts.shape[1]) if before is None else before
            for part in parts:
                total += part
            return total

        return self.in_turn(parts.shape[1], step)


ALONE = AllRanks()
"""One process."""


def ranks_of(comm: Any) -> AllRanks:
    """Return the ranks of a communicator of mpi4py or petsc4py, or of a group; None: this process alone."""
    if comm is None:
        return ALONE
    from bmrm.distributed.group import group_of

    return AllRanks(group_of(comm))
