"""Memory that the ranks of one host share: a board for a few numbers, places for vectors.

A message of MPI moves only while both sides look after it, and a rank that leaves its core to others does so
seldom. What lies in shared memory needs nobody's help.
"""

from __future__ import annotations

import numpy as np
from mpi4py import MPI

from bmrm.base.vectors import Vector
from bmrm.matrix._cpu import Board

MAX_SHARED_DOUBLES = 1 << 19
"""Doubles up to which a rank leaves a vector in shared memory: containers have little of it."""


class Area:
    """Memory of the ranks of a host: for each, two places for a vector, used in turns.

    A rank writes to its place, all meet, and each reads the others'. By the time that it writes there again
    all have met once more, so that nobody reads any longer.
    """

    def __init__(self, comm: MPI.Intracomm) -> None:
        self.comm, self.capacity, self.turn = comm, 0, 0
        self._window: MPI.Win | None = None

    def places(self, length: int) -> list[Vector]:
        """Return the places of all ranks for a vector; every rank asks for as many numbers."""
        if length > self.capacity:
            self.capacity = max(length, 2 * self.capacity)
            if self._window is not None:
                self._window.Free()  # once all have come here, and so have read what is there
            self._window = MPI.Win.Allocate_shared(16 * self.capacity, comm=self.comm)
        assert self._window is not None
        self.turn += 1
        mine = slice((self.turn % 2) * self.capacity, (self.turn % 2) * self.capacity + length)
        return [
            np.frombuffer(self._window.Shared_query(rank)[0], np.float64)[mine]
            for rank in range(self.comm.Get_size())
        ]


_SHARED_KEY = MPI.Comm.Create_keyval()


def shared_memory(comm: MPI.Intracomm, crowded: bool) -> tuple[Board | None, Area | None]:
    """Return what a communicator's ranks share, one for all groups; nothing where hosts are several."""
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
        window = MPI.Win.Allocate_shared(Board.nbytes(size) if rank == 0 else 0, comm=comm)
        memory = window.Shared_query(0)[0]
        if rank == 0:
            np.frombuffer(memory, np.uint8)[:] = 0
        comm.Barrier()
        found = Board(memory, rank, size, crowded=crowded), Area(comm), window
        comm.Set_attr(_SHARED_KEY, found)
    board: Board
    area: Area
    board, area, _ = found
    return board, area
