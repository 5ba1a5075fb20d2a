"""PETSc matrices whose products run on the resident X: X itself and X'X.

PETSc calls the methods of a context object for the products of a matrix of type ``python``. So KSP, TAO and
everything built on them run on it unchanged, whether X is on the CPU or on a GPU.

Each of several ranks has some rows of X. PETSc distributes vectors of length d over the ranks, so a product
with X first gathers w on every rank, and a product with X' adds up the results of all ranks. PETSc's scatter
does both.

References
----------
PETSc/TAO users manual, "Application specific custom matrices" (MATPYTHON, MATSHELL).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt
from petsc4py import PETSc

from bmrm.base.vectors import Vector
from bmrm.distributed.petsc_rows import fail_together
from bmrm.errors import ParameterError
from bmrm.io.csr import Csr
from bmrm.matrix.petsc_rows import check_scalars, copy_rows
from bmrm.matrix.resident import Matrix, place_matrix, validate_matrix
from bmrm.petsc.bridge import multiply, share_stream, unlocking

if TYPE_CHECKING:
    from scipy.sparse import sparray, spmatrix

CHUNK_VALUES = 1 << 22
"""Number of stored values that are summed at a time."""


def resident_mat(
    X: Csr | spmatrix | sparray | PETSc.Mat | npt.NDArray[np.floating],
    *,
    device: str = "auto",
    threads: int | None = None,
    comm: PETSc.Comm | None = None,
) -> PETSc.Mat:
    r"""Make a PETSc matrix of type ``python`` that multiplies by the resident X and its transpose.

    Parameters
    ----------
    X : Csr, scipy sparse matrix, ndarray or PETSc.Mat, of shape (m, d)
        Values of type float32 or float64, stored unchanged. The CPU accumulates every product in float64, a
        GPU in the type of the values: convert them to float64 for a solver that needs more than about six
        digits. With several ranks, the rows of this rank, with the same d on all; a PETSc matrix (AIJ,
        dense) is already distributed over its ranks.
    device : {"auto", "cpu", "cuda", "cuda:N"}, default "auto"
        Where X is stored, as for `bmrm.Dataset`. If it is a GPU and PETSc has CUDA, ``createVecs`` makes
        vectors on that GPU, and products move nothing to the host.
    threads : int, optional
        CPU threads of a product; default: the cores that this process may use, or one if X is small.
    comm : PETSc.Comm, optional
        Default: PETSc.COMM_SELF, or the communicator of a PETSc.Mat.

    Returns
    -------
    PETSc.Mat
        Shape (rows of all ranks, d), with ``mult``, ``multTranspose``, ``multAdd``, ``multTransposeAdd``,
        ``norm`` (1, Frobenius, infinity), ``duplicate`` (shares X, which never changes), ``createVecs`` and
        ``view``. X'X with its diagonal, for preconditioners, is `normal_mat`.

    Raises
    ------
    ParameterError
        For an unknown device, or if the ranks do not agree on d.
    DataError
        If X has no rows or no columns, or a value that is not finite.
    BmrmError
        If PETSc was built with complex scalars, or if ``device="cuda"`` and the package was built without
        CUDA, or there is no driver or no GPU.
    DeviceMemoryError
        If ``device="cuda"`` and X does not fit.

    Examples
    --------
    The ridge regression :math:`\min_w |Xw - y|^2 + \lambda |w|^2` by conjugate gradients on its
    normal equations:

    >>> import numpy as np
    >>> from petsc4py import PETSc
    >>> from bmrm.petsc import normal_mat, resident_mat
    >>> X = np.array([[1.0, 0.0], [1.0, 1.0], [0.0, 2.0]])
    >>> A = resident_mat(X)
    >>> w, y = A.createVecs()
    >>> y.setArray([1.0, 2.0, 2.0])
    >>> rhs = w.duplicate()
    >>> A.multTranspose(y, rhs)
    >>> ksp = PETSc.KSP().create(PETSc.COMM_SELF)
    >>> ksp.setType("cg")
    >>> ksp.setOperators(normal_mat(A, shift=0.5))
    >>> ksp.getPC().setType("jacobi")
    >>> ksp.solve(rhs, w)
    >>> np.allclose(w.getArray(), np.linalg.solve(X.T @ X + 0.5 * np.eye(2), X.T @ [1.0, 2.0, 2.0]))
    True
    """
    check_scalars()
    columns = None
    if isinstance(X, PETSc.Mat):
        comm = X.getComm() if comm is None else comm
        columns = X.getLocalSize()[1] if X.getComm().getSize() == comm.getSize() else None
        X = copy_rows(X)
    comm = PETSc.COMM_SELF if comm is None else comm
    with fail_together(comm):
        rows = validate_matrix(X)
        placed = place_matrix(rows, device=device, threads=threads)
    share_stream(placed.matrix)
    m, d = rows.shape
    layout = _layout(comm, m, d, columns)
    mat = PETSc.Mat().createPython(layout.sizes, comm=comm)
    sums = _sums(rows, placed.matrix, layout)
    mat.setPythonContext(_ResidentMat(placed.matrix, placed.device, layout, sums))
    mat.setUp()
    return mat


def normal_mat(A: PETSc.Mat, *, shift: float = 0.0) -> PETSc.Mat:
    """Make the PETSc matrix ``X'X + shift I`` of a resident X, with its diagonal.

    PETSc's own ``createNormal`` works on a resident matrix as well, but it reads the diagonal from the rows
    of a stored matrix. So preconditioners that need the diagonal (Jacobi, those of LSQR) need this function.

    Parameters
    ----------
    A : PETSc.Mat
        A matrix made by `resident_mat`.
    shift : float, default 0
        Multiple of the identity to add, such as the strength of a ridge penalty.

    Returns
    -------
    PETSc.Mat
        Shape (d, d), symmetric, with ``mult``, ``multTranspose``, ``getDiagonal``,
        ``duplicate`` and ``view``.

    Raises
    ------
    ParameterError
        If A is another kind of matrix.

    Examples
    --------
    >>> import numpy as np
    >>> from bmrm.petsc import normal_mat, resident_mat
    >>> N = normal_mat(resident_mat(np.array([[1.0, 2.0], [3.0, 0.0]])), shift=1.0)
    >>> N.getDiagonal().getArray()
    array([11.,  5.])
    """
    context = A.getPythonContext() if A.getType() == "python" else None
    if not isinstance(context, _ResidentMat):
        raise ParameterError(f"A: found a matrix of type {A.getType()}, expected one of resident_mat")
    (_, columns) = context.layout.sizes
    mat = PETSc.Mat().createPython((columns, columns), _NormalMat(context, shift), comm=A.getComm())
    mat.setOption(PETSc.Mat.Option.SYMMETRIC, True)
    mat.setUp()
    return mat


class RankLayout(NamedTuple):
    """How rows and columns are distributed over the ranks."""

    sizes: tuple[tuple[int, int], tuple[int, int]]
    # The scatter that gathers a vector of length d on every rank, and its target; None with one rank
    """Numbers of rows of this rank and of all ranks, and numbers of columns of this rank and of all."""
    scatter: PETSc.Scatter | None
    everywhere: PETSc.Vec | None


def _layout(comm: PETSc.Comm, m: int, d: int, columns: int | None) -> RankLayout:
    """Distribute d columns over the ranks: ``columns`` to this rank, or if None as PETSc chooses."""
    if comm.getSize() == 1:
        return RankLayout(((m, m), (d, d)), None, None)
    counts = PETSc.Vec().createMPI((1, None), comm=comm)
    counts.set(float(d))
    fewest, largest = int(counts.min()[1]), int(counts.max()[1])
    if fewest != largest:
        raise ParameterError(
            f"X: found {fewest} columns on one rank and {largest} on another, expected the same number"
        )
    right = PETSc.Vec().createMPI((columns, d), comm=comm)
    counts.set(float(m))
    rows = int(counts.sum())
    scatter, everywhere = PETSc.Scatter.toAll(right)
    return RankLayout(((m, rows), right.getSizes()), scatter, everywhere)


class _Sums(NamedTuple):
    """Sums of the values of X, from which norms and diagonals are computed later."""

    squares: PETSc.Vec  # diagonal of X'X: the sum of squares of each column, over the rows of all ranks
    # Largest sum of absolute values of a column and of a row
    largest_column: float
    largest_row: float


def _sums(X: Csr | npt.NDArray[Any], resident: Matrix, layout: RankLayout) -> _Sums:
    m, d = X.shape
    columns, row = np.zeros(d), 0.0
    if isinstance(X, np.ndarray):
        step = max(1, CHUNK_VALUES // d)
        for start in range(0, m, step):
            part = np.abs(X[start : start + step]).astype(np.float64)
            columns += part.sum(axis=0)
            row = max(row, float(part.sum(axis=1).max()))
    else:
        for start in range(0, X.nnz, CHUNK_VALUES):
            indices = X.indices[start : start + CHUNK_VALUES]
            values = np.ones(len(indices)) if X.data is None else X.data[start : start + CHUNK_VALUES]
            columns += np.bincount(indices, np.abs(values).astype(np.float64), d)
        row = _largest_row(X)
    summed = [_over_ranks(part, layout) for part in (m * resident.mean_squares, columns)]
    return _Sums(summed[0], float(summed[1].max()[1]), _largest_over_ranks(row, summed[0].comm))


def _largest_row(X: Csr) -> float:
    if not X.nnz:
        return 0.0
    if X.data is None:
        return float(np.diff(X.indptr).max())
    sizes = np.concatenate([[0.0], np.cumsum(np.abs(X.data), dtype=np.float64)])
    return float((sizes[X.indptr[1:]] - sizes[X.indptr[:-1]]).max())


def _over_ranks(values: Vector, layout: RankLayout) -> PETSc.Vec:
    """Sum a vector of length d over the ranks; return it in PETSc's distribution."""
    if layout.scatter is None or layout.everywhere is None:
        vec = PETSc.Vec().createSeq(len(values), comm=PETSc.COMM_SELF)
        vec.setArray(values)
        return vec
    vec = PETSc.Vec().createMPI(layout.sizes[1], comm=layout.scatter.getComm())
    layout.everywhere.setArray(values)
    layout.scatter.scatter(layout.everywhere, vec, addv=True, mode="reverse")
    return vec


def _largest_over_ranks(value: float, comm: PETSc.Comm) -> float:
    one = PETSc.Vec().createMPI((1, None), comm=comm)
    one.set(value)
    return float(one.max()[1])


class _ResidentMat:
    """Context of the matrix X; PETSc prescribes the names of its methods."""

    def __init__(self, matrix: Matrix, device: str, layout: RankLayout, sums: _Sums) -> None:
        self.matrix, self.device, self.layout, self.sums = matrix, device, layout, sums

    def mult(self, mat: PETSc.Mat, x: PETSc.Vec, y: PETSc.Vec) -> None:
        with unlocking(x):
            multiply(self.matrix, "normal", self._gathered(x), y)

    def multTranspose(self, mat: PETSc.Mat, x: PETSc.Vec, y: PETSc.Vec) -> None:  # noqa: N802
        scatter, everywhere = self.layout.scatter, self.layout.everywhere
        with unlocking(x):
            multiply(self.matrix, "transposed", x, y if scatter is None else everywhere)
        if scatter is not None:
            y.set(0.0)
            scatter.scatter(everywhere, y, addv=True, mode="reverse")

    def _gathered(self, x: PETSc.Vec) -> PETSc.Vec:
        scatter, everywhere = self.layout.scatter, self.layout.everywhere
        if scatter is None:
            return x
        scatter.scatter(x, everywhere, addv=False, mode="forward")
        return everywhere

    def norm(self, mat: PETSc.Mat, kind: int) -> float:
        types = PETSc.NormType
        if kind == types.NORM_FROBENIUS:
            return float(np.sqrt(self.sums.squares.sum()))
        if kind == types.NORM_1:
            return self.sums.largest_column
        if kind == types.NORM_INFINITY:
            return self.sums.largest_row
        raise ParameterError(
            f"norm: found type {kind}, expected the 1-norm, the Frobenius norm or the infinity norm"
        )

    def duplicate(self, mat: PETSc.Mat, op: int) -> PETSc.Mat:
        twin = PETSc.Mat().createPython(self.layout.sizes, self, comm=mat.getComm())
        twin.setUp()
        return twin

    def createVecs(self, mat: PETSc.Mat) -> tuple[PETSc.Vec, PETSc.Vec]:  # noqa: N802
        rows, columns = self.layout.sizes
        return self.vec(columns, mat.getComm()), self.vec(rows, mat.getComm())

    def vec(self, sizes: tuple[int, int], comm: PETSc.Comm) -> PETSc.Vec:
        """Make a vector on the device of X, or on the host if PETSc has no CUDA."""
        vec = PETSc.Vec().create(comm=comm)
        vec.setSizes(sizes)
        on_gpu = self.device != "cpu" and PETSc.Sys.hasExternalPackage("cuda")
        vec.setType(PETSc.Vec.Type.CUDA if on_gpu else PETSc.Vec.Type.STANDARD)
        return vec

    def view(self, mat: PETSc.Mat, viewer: PETSc.Viewer) -> None:
        _print(
            viewer, f"  resident on {self.device}: {self.matrix.nnz} values, {self.matrix.nbytes} bytes here"
        )


class _NormalMat:
    """Context of ``X'X + shift I``."""

    def __init__(self, resident: _ResidentMat, shift: float) -> None:
        self.resident, self.shift = resident, shift
        rows, _ = resident.layout.sizes
        self._margins = resident.vec((rows[0], rows[0]), PETSc.COMM_SELF)

    def mult(self, mat: PETSc.Mat, x: PETSc.Vec, y: PETSc.Vec) -> None:
        with unlocking(x):
            self.resident.mult(mat, x, self._margins)
            self.resident.multTranspose(mat, self._margins, y)
        if self.shift:
            y.axpy(self.shift, x)

    multTranspose = mult  # noqa: N815

    def getDiagonal(self, mat: PETSc.Mat, diagonal: PETSc.Vec) -> None:  # noqa: N802
        self.resident.sums.squares.copy(diagonal)
        diagonal.shift(self.shift)

    def duplicate(self, mat: PETSc.Mat, op: int) -> PETSc.Mat:
        twin = PETSc.Mat().createPython(mat.getSizes(), self, comm=mat.getComm())
        twin.setUp()
        return twin

    def createVecs(self, mat: PETSc.Mat) -> tuple[PETSc.Vec, PETSc.Vec]:  # noqa: N802
        _, columns = self.resident.layout.sizes
        return self.resident.vec(columns, mat.getComm()), self.resident.vec(columns, mat.getComm())

    def view(self, mat: PETSc.Mat, viewer: PETSc.Viewer) -> None:
        _print(viewer, f"  X'X + {self.shift:g} I of X resident on {self.resident.device}")


def _print(viewer: PETSc.Viewer, line: str) -> None:
    if viewer.getType() == PETSc.Viewer.Type.ASCII:
        viewer.printfASCII(line + "\n")
