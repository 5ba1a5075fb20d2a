"""The columns that the rows of a rank touch: fetched from the ranks that own them, and sums added up there.

PETSc distributes a vector over the columns over the ranks. A rank needs the columns that its rows touch, and
no others; its X has no others either. PETSc's scatter fetches them, as for the off-diagonal part of MPIAIJ.
If every rank touches all columns, it is an all-gather. From GPU to GPU it packs on the device, and sends from
there if MPI can (``-use_gpu_aware_mpi 1``, PETSc's default), else from host memory.

References
----------
PETSc/TAO users manual, "Communication of vectors" (VecScatter).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from petsc4py import PETSc

from bmrm.petsc.bridge import is_on_gpu, make_vec


class TouchedColumns:
    """The columns that this rank's rows touch, of a vector that is distributed over the ranks.

    Parameters
    ----------
    touched : ndarray of integers
        Numbers of these columns, increasing.
    sizes : tuple of int
        Numbers of columns that this rank owns, and of all.
    comm : PETSc.Comm
    """

    def __init__(self, touched: npt.NDArray[np.integer], sizes: tuple[int, int], comm: PETSc.Comm) -> None:
        self._count = len(touched)
        self._local: dict[bool, PETSc.Vec] = {}  # by whether it is on a GPU
        if self._count == sizes[1]:
            chosen = PETSc.IS().createStride(self._count, comm=PETSc.COMM_SELF)
        else:
            chosen = PETSc.IS().createGeneral(touched.astype(PETSc.IntType), comm=PETSc.COMM_SELF)
        owned = make_vec(sizes, comm, on_gpu=False)
        self._scatter = PETSc.Scatter().create(owned, chosen, self.local(owned), None)

    def local(self, like: PETSc.Vec) -> PETSc.Vec:
        """Return this rank's vector over the touched columns, on the GPU if another vector is there."""
        on_gpu = is_on_gpu(like)
        if on_gpu not in self._local:
            self._local[on_gpu] = make_vec((self._count, self._count), PETSc.COMM_SELF, on_gpu=on_gpu)
        return self._local[on_gpu]

    def fetch(self, x: PETSc.Vec) -> PETSc.Vec:
        """Return the touched columns of a distributed vector."""
        local = self.local(x)
        self._scatter.scatter(x, local, addv=False, mode="forward")
        return local

    def add_up(self, local: PETSc.Vec, y: PETSc.Vec) -> None:
        """Sum the touched columns of all ranks, each column at its owner."""
        y.set(0.0)
        self._scatter.scatter(local, y, addv=True, mode="reverse")
