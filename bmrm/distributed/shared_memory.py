"""Memory that the ranks of one host share, for vectors.

A long MPI message progresses only while both sides call MPI, and a rank that releases its core to others
does that seldom. Shared memory needs no help from the other side. Short sums do not come here: an all-gather
of MPI takes them as quickly (`docs/scaling.md`).
"""

from __future__ import annotations

import numpy as np
from mpi4py import MPI

from bmrm.base.vectors import Vector

MAX_SHARED_DOUBLES = 1 << 19
"""Maximum length of a vector in shared memory, of which containers have little."""

_AREA_KEY = MPI.Comm.Create_keyval()


class Area:
    """Shared memory with two places per rank for a vector, which are used alternately.

    A rank writes to its place, all ranks meet, and each reads the places of the others. Before a rank writes
    to the same place again all have met once more, so nobody is still reading.
    """

    def __init__(self, comm: MPI.Intracomm) -> None:
        self.comm, self.capacity, self.calls = comm, 0, 0
        self._window: MPI.Win | None = None

    @classmethod
    def of(cls, comm: MPI.Intracomm) -> Area | None:
        """Return the area of a communicator, the same for all groups; None for one rank, or several hosts."""
        found: Area | None = comm.Get_attr(_AREA_KEY)
        if found is None and comm.Get_size() > 1:
            here = comm.Split_type(MPI.COMM_TYPE_SHARED)
            if here.Get_size() == comm.Get_size():
                found = cls(comm)
                comm.Set_attr(_AREA_KEY, found)
            here.Free()
        return found

    def places(self, length: int) -> list[Vector]:
        """Return the places of all ranks for a vector; all ranks must ask for the same length."""
        if length > self.capacity:
            self.capacity = max(length, 2 * self.capacity)
            if self._window is not None:
                self._window.Free()  # collective: all ranks have read the old places by then
            self._window = MPI.Win.Allocate_shared(16 * self.capacity, comm=self.comm)
        assert self._window is not None
        self.calls += 1
        mine = slice((self.calls % 2) * self.capacity, (self.calls % 2) * self.capacity + length)
        return [
            np.frombuffer(self._window.Shared_query(rank)[0], np.float64)[mine]
            for rank in range(self.comm.Get_size())
        ]
