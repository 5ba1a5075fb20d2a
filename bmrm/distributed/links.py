"""Sums and vectors over the GPUs of several ranks: by NCCL from GPU to GPU, or by MPI through main memory."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import numpy as np
from mpi4py import MPI
from numpy.typing import DTypeLike, NDArray

from bmrm.base.vectors import Indices, Vector
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
    device : int
        CUDA number of this rank's GPU.

    Attributes
    ----------
    alike : bool
        Whether all GPUs are of one kind, so that the same computation gives identical bits.
    nccl : bmrm.matrix._cuda.Nccl or None
        None if vectors go through main memory.
    """

    def __init__(self, group: Group, device: int) -> None:
        self.group, self.device = group, device
        cuda = import_cuda()
        found = cuda.device_info(device)
        everyones = group.everyones((found["name"], found["multiprocessors"]))
        self.alike = len(set(everyones)) == 1
        places = group.everyones(cuda.device_uuid(device))
        apart = len(set(places)) == group.size and group.area is not None
        self.nccl = self._joined(self.alike and apart)
        if group.rank == 0 and group.size > 1:
            way = "vectors go from GPU to GPU by NCCL"
            if self.nccl is None:
                way = "vectors go through main memory by MPI"
            if not self.alike:
                way += "; the GPUs are of different kinds"
            log.info("%d ranks: %s", group.size, way)

    def _joined(self, apart: bool) -> _cuda.Nccl | None:
        """Return a communicator if every rank has its own GPU and finds the library, else None."""
        group, cuda = self.group, import_cuda()
        if not (apart and all(group.everyones(has_nccl()))):
            return None
        name = group.comm.bcast(cuda.nccl_id() if group.rank == 0 else None)
        with group.guarded():
            joined: _cuda.Nccl = cuda.Nccl(self.device, name, group.rank, group.size)
        return joined

    def ranks(self, dtype: DTypeLike) -> _cuda.Ranks:
        """Return what sums over the ranks and exchanges vectors of a type need."""
        group = self.group

        def total(numbers: Vector) -> None:
            numbers[:] = group.total(numbers)

        def gather(whole: NDArray[np.uint8], bounds: Indices) -> None:
            own = whole[bounds[group.rank] : bounds[group.rank + 1]].copy()  # apart from where parts arrive
            group.gathered(own, bounds, whole)

        made: _cuda.Ranks = import_cuda().Ranks(
            group.rank,
            group.size,
            dtype,
            total,
            group.add_up,
            gather,
            self.nccl,
        )
        return made


_LINKS_KEY = MPI.Comm.Create_keyval()


def links_of(group: Group, device: int) -> Links:
    """Return the connections of a communicator's GPUs, which are made once; all ranks must call this.

    They last as long as the communicator. NCCL frees its part on all ranks together, or waits for the others;
    ranks collect garbage at different times.
    """
    found: dict[int, Links] | None = group.comm.Get_attr(_LINKS_KEY)
    if found is None:
        found = {}
        group.comm.Set_attr(_LINKS_KEY, found)
    if device not in found:
        found[device] = Links(group, device)
    return found[device]
