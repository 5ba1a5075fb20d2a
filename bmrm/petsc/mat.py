"""PETSc matrices whose products run on the resident X: X itself and X'X."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
from numpy.typing import DTypeLike
from petsc4py import PETSc

from bmrm.errors import ParameterError
from bmrm.io.csr import Csr
from bmrm.matrix.petsc_rows import check_scalars
from bmrm.petsc.placed import place_rows
from bmrm.petsc.resident import NormalContext, Resident

if TYPE_CHECKING:
    from scipy.sparse import sparray, spmatrix


def resident_mat(
    X: Csr | spmatrix | sparray | PETSc.Mat | npt.NDArray[np.floating],
    *,
    device: str = "auto",
    dtype: DTypeLike | None = None,
    threads: int | None = None,
    gpu_mem: int | str | None = None,
    tune: str = "best",
    comm: PETSc.Comm | None = None,
) -> PETSc.Mat:
    r"""Make a PETSc matrix of type ``python`` that multiplies by the resident X and its transpose.

    Parameters
    ----------
    X : Csr, scipy sparse matrix, ndarray or PETSc.Mat, of shape (m, d)
        With several ranks, the rows of this rank, with the same d on all; a PETSc matrix (AIJ, dense),
        assembled, is already distributed over its ranks.
    device : {"auto", "cpu", "cuda", "cuda:N"}, default "auto"
        Where X is stored, as for `bmrm.Dataset`; the ranks of a machine take its GPUs in turn. If it is a
        GPU and PETSc has CUDA, ``createVecs`` makes vectors on that GPU, and products move nothing to the
        host.
    dtype : {float32, float64}, optional
        Type of the stored values; default: that of X. The CPU accumulates every product in float64, a GPU in
        this type: a solver that needs more than about six digits needs float64.
    threads : int, optional
        CPU threads of a product; default: the cores that this process may use, or one if X is small.
    gpu_mem, tune
        As for `bmrm.Operator`.
    comm : PETSc.Comm, optional
        Default: PETSc.COMM_SELF, or the communicator of a PETSc.Mat.

    Returns
    -------
    PETSc.Mat
        Shape (rows of all ranks, d), with the operations of `Resident`. X'X with its diagonal, for
        preconditioners, is `normal_mat`.

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
    comm = PETSc.COMM_SELF if comm is None else comm
    options = {"device": device, "dtype": dtype, "threads": threads, "gpu_mem": gpu_mem, "tune": tune}
    placed = place_rows(X, comm, columns, options)
    return Resident(placed, options).make_mat(comm)


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
    if not isinstance(context, Resident):
        raise ParameterError(
            f"A: found a matrix of type {A.getType()}, expected one of resident_mat or of type Resident"
        )
    placed = context.placed
    mat = PETSc.Mat().createPython(
        (placed.sizes[1], placed.sizes[1]), NormalContext(placed, shift), comm=A.getComm()
    )
    mat.setOption(PETSc.Mat.Option.SYMMETRIC, True)
    mat.setUp()
    return mat
