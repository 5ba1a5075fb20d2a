"""A solve whose rows are on the GPUs of several ranks, with each whole iteration on the GPUs.

Each rank keeps its rows' margins and derivatives on its GPU, and all the weights and cuts: the cuts are
replicated, since a pass reads them in less time than an exchange of their parts would take. So a rank needs
from the others a few numbers per step, summed by MPI, and the gradient, summed on the devices by NCCL if
every rank has its own GPU and all are on one host, else through main memory by MPI
(``src_cuda/training/collective.h``). What the host decides, it decides from the same numbers on every rank;
what a GPU computes from cuts and weights is the same on equal GPUs, which is what the ranks must have.
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
    """Cuts replicated on every rank, so that all ranks have room for the same number."""

    def __init__(self, problem: _cuda.Problem, group: Group) -> None:
        super().__init__(problem)
        self.group = group

    @property
    def most(self) -> int:
        """Number of cuts that fit on the rank with the least memory."""
        least: int = min(self.group.everyones(super().most))
        return least

    def reserve(self, capacity: int) -> None:
        """Make room for this number of cuts, on every rank or on no rank."""
        failure: DeviceMemoryError | None = None
        try:
            super().reserve(capacity)
        except DeviceMemoryError as error:
            failure = error
        failed = [text for text in self.group.everyones(failure and str(failure)) if text]
        if failed:
            raise failure or DeviceMemoryError(failed[0])


def shared_passes(links: Links, own: GpuPasses) -> GpuPasses:
    """Return the passes of all ranks, given those of this rank's rows, which must not be used afterwards."""
    own.problem.share(links.ranks(own.problem.matrix.vector_dtype))
    return GpuPasses(SharedCuts(own.problem, links.group), own.ahead)
