"""A solve whose rows are on the GPUs of several ranks, the whole of each iteration on them.

Each rank keeps its rows' margins and derivatives on its GPU, and all the weights and cuts: the cuts are
replicated, since a pass reads them in less time than their pieces would take to go round. So a rank needs of
the others a few numbers a step, summed through memory that the ranks of a host share or by MPI, and the
gradient, summed on the devices by NCCL where every rank has a GPU of its own and all are on one host, else
through main memory by MPI (``src_cuda/collective.h``). What the host decides, it decides from the same
numbers on every rank; what a GPU computes from cuts and weights is the same on equal GPUs, which is what the
ranks must have.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from bmrm.device import backend
from bmrm.device_libraries import has_nccl
from bmrm.device_steps import DeviceCuts, DeviceSteps
from bmrm.distributed.group import Group
from bmrm.errors import DeviceMemoryError

if TYPE_CHECKING:
    from bmrm import _cuda

Vector = NDArray[np.float64]

log = logging.getLogger("bmrm")


class Links:
    """What the GPUs of a group's ranks sum by; every rank makes its own at the same time.

    Parameters
    ----------
    group : Group
    matrix : bmrm._cuda.Matrix

    Attributes
    ----------
    alike : bool
        The GPUs are of one kind, so that equal work gives equal bits.
    nccl : bmrm._cuda.Nccl or None
        None where gradients go through main memory.
    """

    def __init__(self, group: Group, matrix: _cuda.Matrix) -> None:
        self.group, self.matrix = group, matrix
        cuda = backend()
        found = cuda.device_info(matrix.device)
        everyones = group.everyones((found["name"], found["multiprocessors"]))
        self.alike = len(set(everyones)) == 1
        places = group.everyones(cuda.device_uuid(matrix.device))
        apart = len(set(places)) == group.size and group.board is not None
        self.nccl = self._joined(self.alike and apart)
        if group.rank == 0 and group.size > 1:
            way = "gradients go from GPU to GPU by NCCL"
            if not self.alike:
                way = "the GPUs differ and make the products alone"
            elif self.nccl is None:
                way = "gradients go through main memory by MPI"
            log.info("%d ranks: %s", group.size, way)

    def _joined(self, apart: bool) -> _cuda.Nccl | None:
        """Make a communicator, where every rank has a GPU of its own and finds the library."""
        group, cuda = self.group, backend()
        if not (apart and all(group.everyones(has_nccl()))):
            return None
        name = group.comm.bcast(cuda.nccl_id() if group.rank == 0 else None)
        with group.guarded():
            joined: _cuda.Nccl = cuda.Nccl(self.matrix.device, name, group.rank, group.size)
        return joined

    def ranks(self) -> _cuda.Ranks:
        """Tell a `Problem` how to add up."""
        group = self.group

        def total(numbers: Vector) -> None:
            numbers[:] = group.total(numbers)

        made: _cuda.Ranks = backend().Ranks(
            group.rank,
            group.size,
            self.matrix.vector_dtype,
            total,
            group.add_up,
            0 if group.board is None else group.board.address,
            self.nccl,
        )
        return made


class SharedCuts(DeviceCuts):
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


def shared_steps(links: Links, own: DeviceSteps) -> DeviceSteps:
    """Make the steps of all ranks from those of this rank's rows, which are of no use any more."""
    own.problem.share(links.ranks())
    return DeviceSteps(SharedCuts(own.problem, links.group), own.ahead)
