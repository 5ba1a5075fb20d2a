"""The context of a PETSc matrix of type ``python``, whose methods are what the matrix can do.

PETSc prescribes the names of the methods, and documents what they do. It makes the context itself if its
options name the class, and hands values over as the program sets them (``assembly.py``). So KSP, TAO and
everything built on them run on the resident X unchanged, whether it is on the CPU or on a GPU.

Each of several ranks has some rows of X. PETSc distributes vectors of length d over the ranks, so a product
with X first fetches the columns that the rows touch, and a product with X' adds up those of all ranks.

References
----------
PETSc/TAO users manual, "Application specific custom matrices" (MATPYTHON, MATSHELL).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from petsc4py import PETSc

from bmrm.errors import BmrmError, ParameterError
from bmrm.matrix.petsc_rows import check_scalars
from bmrm.petsc.assembly import Assembly
from bmrm.petsc.bridge import make_vec, multiply, unlocking
from bmrm.petsc.options import mat_options
from bmrm.petsc.placed import PlacedRows, place_rows


class Resident:
    """The context of a PETSc matrix that keeps its values on a CPU or a GPU in formats that suit them.

    PETSc's options name it, for any program with petsc4py that calls ``setFromOptions``:

        -mat_type python -mat_python_type bmrm.petsc.Resident [-mat_python_device cuda]

    Such a program sets, preallocates and assembles values as those of an AIJ matrix, or loads them from a
    file. With the final assembly X goes to its device, by the options ``-mat_python_device``, ``_dtype``,
    ``_threads``, ``_gpu_mem`` and ``_tune``, which are arguments of `resident_mat`; a prefix of the matrix
    goes before ``mat``.

    The matrix has ``mult``, ``multTranspose``, ``multAdd``, ``multTransposeAdd``, ``getDiagonal`` (if X is
    square), ``norm`` (1, Frobenius, infinity), ``duplicate`` (shares X), ``createVecs`` and ``view``. Its
    values do not change, except by ``zeroEntries``, after which all are set again.

    Parameters
    ----------
    placed : PlacedRows, optional
        What `resident_mat` has placed; by default values are set later.
    options : dict, optional
        Its keywords, for values that are set again; by default those of PETSc's options.

    Examples
    --------
    >>> from petsc4py import PETSc
    >>> database = PETSc.Options()
    >>> database["fine_mat_type"], database["fine_mat_python_type"] = "python", "bmrm.petsc.Resident"
    >>> A = PETSc.Mat().create(PETSc.COMM_SELF)
    >>> A.setOptionsPrefix("fine_")
    >>> A.setSizes((2, 3))
    >>> A.setFromOptions()
    >>> A.setValues([0, 1], [0, 2], [1.0, 2.0, 3.0, 4.0])
    >>> A.assemble()
    >>> x, y = A.createVecs()
    >>> x.set(1.0)
    >>> A.mult(x, y)
    >>> y.getArray(), type(A.getPythonContext()).__name__
    (array([3., 7.]), 'Resident')
    """

    def __init__(self, placed: PlacedRows | None = None, options: dict[str, Any] | None = None) -> None:
        self._placed = placed
        self._assembly: Assembly | None = None
        self._options = {} if options is None else options

    def make_mat(self, comm: PETSc.Comm) -> PETSc.Mat:
        """Make a matrix of X, which has been placed."""
        mat = PETSc.Mat().createPython(self.placed.sizes, self, comm=comm)
        mat.setUp()
        return mat

    @property
    def placed(self) -> PlacedRows:
        """X on its device; collective if values have come without an assembly, as with preallocation."""
        return self._take_values() if self._placed is None else self._placed

    def _take_values(self) -> PlacedRows:
        """Place the values that the program has set."""
        if self._assembly is None or not self._assembly.is_complete:
            raise BmrmError("A: found no values, expected an assembled matrix")
        stored = self._assembly.stored
        self._placed = place_rows(stored, stored.getComm(), stored.getLocalSize()[1], self._options)
        self._assembly.end()
        self._assembly = None
        return self._placed

    def create(self, mat: PETSc.Mat) -> None:
        if self._placed is None:
            check_scalars()
            self._options = mat_options(mat.getOptionsPrefix() or "")
            self._assembly = Assembly(mat)

    def setOption(self, mat: PETSc.Mat, option: int, flag: bool) -> None:
        if self._assembly is not None:
            self._assembly.stored.setOption(option, flag)

    def assemblyBegin(self, mat: PETSc.Mat, kind: int) -> None:
        if self._assembly is not None:
            self._assembly.stored.assemblyBegin(kind)

    def assemblyEnd(self, mat: PETSc.Mat, kind: int) -> None:
        if self._assembly is not None:
            self._assembly.stored.assemblyEnd(kind)
            if kind == PETSc.Mat.AssemblyType.FINAL:
                self._take_values()

    def zeroEntries(self, mat: PETSc.Mat) -> None:
        if self._assembly is not None:
            self._assembly.end()
        self._placed, self._assembly = None, Assembly(mat)

    def mult(self, mat: PETSc.Mat, x: PETSc.Vec, y: PETSc.Vec) -> None:
        with unlocking(x):
            product(self.placed, x, y)

    def multTranspose(self, mat: PETSc.Mat, x: PETSc.Vec, y: PETSc.Vec) -> None:
        with unlocking(x):
            transposed_product(self.placed, x, y)

    def getDiagonal(self, mat: PETSc.Mat, diagonal: PETSc.Vec) -> None:
        placed = self.placed
        if placed.diagonal is None:
            (_, rows), (_, columns) = placed.sizes
            raise ParameterError(
                f"diagonal: found {rows} rows and {columns} columns, expected a square matrix"
            )
        diagonal.setArray(placed.diagonal)

    def norm(self, mat: PETSc.Mat, kind: int) -> float:
        types, sums = PETSc.NormType, self.placed.sums
        if kind == types.NORM_FROBENIUS:
            return float(np.sqrt(sums.squares.sum()))
        if kind == types.NORM_1:
            return sums.largest_column
        if kind == types.NORM_INFINITY:
            return sums.largest_row
        raise ParameterError(
            f"norm: found type {kind}, expected the 1-norm, the Frobenius norm or the infinity norm"
        )

    def duplicate(self, mat: PETSc.Mat, option: int) -> PETSc.Mat:
        return Resident(self.placed, self._options).make_mat(mat.getComm())

    def createVecs(self, mat: PETSc.Mat) -> tuple[PETSc.Vec, PETSc.Vec]:
        rows, columns = mat.getSizes()
        # Before the assembly, where X will be is known only if the options name a GPU.
        device = self._options.get("device", "cpu") if self._placed is None else self._placed.device
        on_gpu, comm = device.startswith("cuda"), mat.getComm()
        return make_vec(columns, comm, on_gpu=on_gpu), make_vec(rows, comm, on_gpu=on_gpu)

    def view(self, mat: PETSc.Mat, viewer: PETSc.Viewer) -> None:
        if self._placed is None:
            return
        X = self._placed.matrix
        show(viewer, f"resident on {self._placed.device}: {X.nnz} values, {X.nbytes} bytes here")


class NormalContext:
    """The context of ``X'X + shift I``."""

    def __init__(self, placed: PlacedRows, shift: float) -> None:
        self.placed, self.shift = placed, shift
        rows, _ = placed.sizes
        self._margins = placed.vec((rows[0], rows[0]), PETSc.COMM_SELF)

    def mult(self, mat: PETSc.Mat, x: PETSc.Vec, y: PETSc.Vec) -> None:
        with unlocking(x):
            product(self.placed, x, self._margins)
            transposed_product(self.placed, self._margins, y)
        if self.shift:
            y.axpy(self.shift, x)

    multTranspose = mult

    def getDiagonal(self, mat: PETSc.Mat, diagonal: PETSc.Vec) -> None:
        self.placed.sums.squares.copy(diagonal)
        diagonal.shift(self.shift)

    def duplicate(self, mat: PETSc.Mat, option: int) -> PETSc.Mat:
        twin = PETSc.Mat().createPython(mat.getSizes(), self, comm=mat.getComm())
        twin.setUp()
        return twin

    def createVecs(self, mat: PETSc.Mat) -> tuple[PETSc.Vec, PETSc.Vec]:
        _, columns = self.placed.sizes
        return self.placed.vec(columns, mat.getComm()), self.placed.vec(columns, mat.getComm())

    def view(self, mat: PETSc.Mat, viewer: PETSc.Viewer) -> None:
        show(viewer, f"X'X + {self.shift:g} I of X resident on {self.placed.device}")


def product(placed: PlacedRows, x: PETSc.Vec, y: PETSc.Vec) -> None:
    """Compute y = X x."""
    multiply(placed.matrix, "normal", x if placed.columns is None else placed.columns.fetch(x), y)


def transposed_product(placed: PlacedRows, x: PETSc.Vec, y: PETSc.Vec) -> None:
    """Compute y = X' x."""
    if placed.columns is None:
        multiply(placed.matrix, "transposed", x, y)
    else:
        local = placed.columns.local(y)
        multiply(placed.matrix, "transposed", x, local)
        placed.columns.add_up(local, y)


def show(viewer: PETSc.Viewer, line: str) -> None:
    """Print an indented line if the viewer is one of text."""
    if viewer.getType() == PETSc.Viewer.Type.ASCII:
        viewer.printfASCII(f"  {line}\n")
