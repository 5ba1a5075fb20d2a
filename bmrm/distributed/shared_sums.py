"""Memory that the ranks of one host share, for short sums and for vectors.

An MPI message progresses only while both sides call MPI, and a rank that releases its core to others does
that seldom. Shared memory needs no help from the other side.
"""

from __future__ import annotations

import numpy as np
from mpi4py import MPI

from bmrm.base.vectors import Vector
from bmrm.distributed._shared_sums import SharedSums

MAX_SHARED_DOUBLES = 1 << 19
"""Maximum length of a vector in shared memory, of which containers have little."""


class Area:
    """Shared memory with two places per rank for a vector, which are used alternately.

    A rank writes to its place, all ranks meet, and each reads the places of the others. Before a rank writes
    to the same place again all have met once more, so nobody is still reading.
    """

    def __init__(self, comm: MPI.Intracomm) -> None:
        self.comm, self.capacity, self.turn = comm, 0, 0
        self._window: MPI.Win | None = None

    def places(self, length: int) -> list[Vector]:
        """Return the places of all ranks for a vector; all ranks must ask for the same length."""
        if length > self.capacity:
            self.capacity = max(length, 2 * self.capacity)
            if self._window is not None:
                self._window.Free()  # collective: all ranks have read the old places by then
            self._window = MPI.Win.Allocate_shared(16 * self.capacity, comm=self.comm)
        assert self._window is not None
        self.turn += 1
        mine = slice((self.turn % 2) * self.capacity, (self.turn % 2) * self.capacity + length)
        return [
            np.frombuffer(self._window.Shared_query(rank)[0], np.float64)[mine]
            for rank in range(self.comm.Get_size())
        ]


_SHARED_KEY = MPI.Comm.Create_keyval()


def shared_memory(comm: MPI.Intracomm, crowded: bool) -> tuple[SharedSums | None, Area | None]:
    """Return the shared memory of a communicator, the same for all groups; None if hosts differ."""
    rank, size = comm.Get_rank(), comm.Get_size()
    if size == 1:
        return None, None
    found = comm.Get_attr(_SHARED_KEY)
    if found is None:
        here = comm.Split_type(MPI.COMM_TYPE_SHARED)
        together = here.Get_size() == size
        here.Free()
        if not together:
            return None, None
        window = MPI.Win.Allocate_shared(SharedSums.nbytes(size) if rank == 0 else 0, comm=comm)
        memory = window.Shared_query(0)[0]
        if rank == 0:
            np.frombuffer(memory, np.uint8)[:] = 0
        comm.Barrier()
        found = SharedSums(memory, rank, size, crowded=crowded), Area(comm), window
        comm.Set_attr(_SHARED_KEY, found)
    sums: SharedSums
    area: Area
    sums, area, _ = found
    return sums, area
