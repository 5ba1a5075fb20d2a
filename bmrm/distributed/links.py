"""Sum over the GPUs of several ranks: by NCCL from GPU to GPU, or by MPI through main memory."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from bmrm.base.vectors import Vector
from bmrm.distributed.group import Group
from bmrm.matrix.gpu.devices import import_cuda
from bmrm.matrix.gpu.libraries import has_nccl

if TYPE_CHECKING:
    from bmrm.matrix import _cuda

log = logging.getLogger("bmrm")


class Links:
    """The connections between the GPUs of a group; all ranks must build theirs at the same time.

    Parameters
    ----------
    group : Group
    matrix : bmrm.matrix._cuda.Matrix

    Attributes
    ----------
    alike : bool
        Whether all GPUs are of one kind, so that the same computation gives identical bits.
    nccl : bmrm.matrix._cuda.Nccl or None
        None if gradients go through main memory.
    """

    def __init__(self, group: Group, matrix: _cuda.Matrix) -> None:
        self.group, self.matrix = group, matrix
        cuda = import_cuda()
        found = cuda.device_info(matrix.device)
        everyones = group.everyones((found["name"], found["multiprocessors"]))
        self.alike = len(set(everyones)) == 1
        places = group.everyones(cuda.device_uuid(matrix.device))
        apart = len(set(places)) == group.size and group.area is not None
        self.nccl = self._joined(self.alike and apart)
        if group.rank == 0 and group.size > 1:
            way = "gradients go from GPU to GPU by NCCL"
            if not self.alike:
                way = "the GPUs are of different kinds, so they compute only the products"
            elif self.nccl is None:
                way = "gradients go through main memory by MPI"
            log.info("%d ranks: %s", group.size, way)

    def _joined(self, apart: bool) -> _cuda.Nccl | None:
        """Return a communicator if every rank has its own GPU and finds the library, else None."""
        group, cuda = self.group, import_cuda()
        if not (apart and all(group.everyones(has_nccl()))):
            return None
        name = group.comm.bcast(cuda.nccl_id() if group.rank == 0 else None)
        with group.guarded():
            joined: _cuda.Nccl = cuda.Nccl(self.matrix.device, name, group.rank, group.size)
        return joined

    def ranks(self) -> _cuda.Ranks:
        """Return what a `Problem` needs to sum over the ranks."""
        group = self.group

        def total(numbers: Vector) -> None:
            numbers[:] = group.total(numbers)

        made: _cuda.Ranks = import_cuda().Ranks(
            group.rank,
            group.size,
            self.matrix.vector_dtype,
            total,
            group.add_up,
            self.nccl,
        )
        return made
