"""A solve whose rows are on the GPUs of several ranks, the whole of each iteration on them.

Each rank keeps its rows' margins and derivatives on its GPU, and all the weights and cuts: the cuts are
replicated, since a pass reads them in less time than their pieces would take to go round. So a rank needs of
the others a few numbers a step, summed through memory that the ranks of a host share or by MPI, and the
gradient, summed on the devices by NCCL where every rank has a GPU of its own and all are on one host, else
through main memory by MPI (``src_cuda/training/collective.h``). What the host decides, it decides from the
same numbers on every rank; what a GPU computes from cuts and weights is the same on equal GPUs, which is what
the ranks must have.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from bmrm.distributed.group import Group
from bmrm.distributed.links import Links
from bmrm.errors import DeviceMemoryError
from bmrm.linear.backends.gpu.cuts import GpuCuts
from bmrm.linear.backends.gpu.passes import GpuPasses

if TYPE_CHECKING:
    from bmrm.matrix import _cuda


log = logging.getLogger("bmrm")


class SharedCuts(GpuCuts):
    """Cuts of which every rank has all, so that all have room for as many."""

    def __init__(self, problem: _cuda.Problem, group: Group) -> None:
        super().__init__(problem)
        self.group = group

    @property
    def most(self) -> int:
        """Cuts that the rank with least memory has room for."""
        least: int = min(self.group.everyones(super().most))
        return least

    def reserve(self, capacity: int) -> None:
        """Make room for so many cuts on every rank, or on none."""
        failure: DeviceMemoryError | None = None
        try:
            super().reserve(capacity)
        except DeviceMemoryError as error:
            failure = error
        failed = [text for text in self.group.everyones(failure and str(failure)) if text]
        if failed:
            raise failure or DeviceMemoryError(failed[0])


def shared_passes(links: Links, own: GpuPasses) -> GpuPasses:
    """Make the steps of all ranks from those of this rank's rows, which are of no use any more."""
    own.problem.share(links.ranks())
    return GpuPasses(SharedCuts(own.problem, links.group), own.ahead)
