"""PETSc on the resident matrix: a ``Mat`` whose products run on the matrix that the solver trains with.

PETSc asks a matrix of type ``python`` for its products by the methods of a context object. The context
here lends the arrays of PETSc's vectors to the matrix that `bmrm.Dataset` holds: nothing is copied on the
host, and the arrays go back to their vectors when a product fails too. So KSP, TAO and what builds on them
run on it unchanged, be the matrix on the CPU or on a GPU.

The module needs petsc4py (the extra ``petsc``) and is not imported by ``import bmrm``.

References
----------
PETSc/TAO users manual, "Application specific custom matrices" (MATPYTHON, MATSHELL).
"""

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import numpy.typing as npt

from bmrm.errors import BmrmError, ParameterError
from bmrm.io.csr import Csr
from bmrm.resident import Matrix, resident

try:
    from petsc4py import PETSc
except ImportError as error:
    raise ImportError(f"bmrm.petsc needs petsc4py, which cannot be imported: {error}") from error

if TYPE_CHECKING:
    from scipy.sparse import sparray, spmatrix

__all__ = ["resident_mat"]

_Array: TypeAlias = npt.NDArray[np.float64]


def resident_mat(
    X: "Csr | spmatrix | sparray | npt.NDArray[np.floating]",
    *,
    device: str = "auto",
    threads: int | None = None,
    comm: "PETSc.Comm | None" = None,
) -> "PETSc.Mat":
    r"""Make a PETSc matrix of type ``python`` that multiplies by the resident X and its transpose.

    Parameters
    ----------
    X : Csr, scipy sparse matrix, or ndarray of shape (m, d)
        Values of type float32 or float64; they are stored as they are. The CPU accumulates every product in
        float64, a GPU in the type of the values: convert them to float64 for a solver that asks for more
        than about six digits.
    device : {"auto", "cpu", "cuda"}, default "auto"
        Where X lives, as for `bmrm.Dataset`. The vectors stay PETSc's, on the host.
    threads : int, optional
        CPU threads of a product; default: the cores that this process may use, or one where X is small.
    comm : PETSc.Comm, default PETSc.COMM_SELF
        A communicator of one rank: the matrix lives in one process.

    Returns
    -------
    PETSc.Mat
        Shape (m, d), with ``mult``, ``multTranspose``, ``multAdd`` and ``multTransposeAdd``.

    Raises
    ------
    ParameterError
        If `comm` has more than one rank, or for an unknown device.
    DataError
        If X has no rows or no columns, or a value that is not finite.
    BmrmError
        If PETSc was built with scalars other than real double precision ones, or for ``device="cuda"`` where
        the package was built without CUDA, or there is no driver or no GPU.
    DeviceMemoryError
        For ``device="cuda"`` where X does not fit.

    Examples
    --------
    The ridge regression :math:`\min_w |Xw - y|^2 + \lambda |w|^2` by conjugate gradients on its
    normal equations:

    >>> import numpy as np
    >>> from petsc4py import PETSc
    >>> from bmrm.petsc import resident_mat
    >>> X = np.array([[1.0, 0.0], [1.0, 1.0], [0.0, 2.0]])
    >>> A = resident_mat(X)
    >>> w, y = A.createVecs()
    >>> y.setArray([1.0, 2.0, 2.0])
    >>> rhs = w.duplicate()
    >>> A.multTranspose(y, rhs)
    >>> normal = PETSc.Mat().createNormal(A)
    >>> normal.shift(0.5)
    >>> ksp = PETSc.KSP().create(PETSc.COMM_SELF)
    >>> ksp.setType("cg")
    >>> ksp.setOperators(normal)
    >>> ksp.getPC().setType("none")
    >>> ksp.solve(rhs, w)
    >>> np.allclose(w.getArray(), np.linalg.solve(X.T @ X + 0.5 * np.eye(2), X.T @ [1.0, 2.0, 2.0]))
    True
    """
    if np.dtype(PETSc.ScalarType) != np.float64:
        raise BmrmError(
            f"this PETSc was built with scalars of type {np.dtype(PETSc.ScalarType).name}: bmrm.petsc needs "
            "real double precision (configure it with --with-scalar-type=real --with-precision=double)"
        )
    comm = PETSc.COMM_SELF if comm is None else comm
    if comm.getSize() != 1:
        raise ParameterError(f"comm: found {comm.getSize()} ranks, expected one; pass PETSc.COMM_SELF")
    context = _ResidentMat(resident(X, device=device, threads=threads).matrix)
    mat = PETSc.Mat().createPython(context.matrix.shape, context, comm=comm)
    mat.setUp()
    return mat


class _ResidentMat:
    """Context of the PETSc matrix; the names of its methods are PETSc's."""

    def __init__(self, matrix: Matrix) -> None:
        self.matrix = matrix

    def mult(self, mat: "PETSc.Mat", x: "PETSc.Vec", y: "PETSc.Vec") -> None:
        with _arrays(x, y) as (w, margins):
            self.matrix.matvec(w, margins)

    def multTranspose(self, mat: "PETSc.Mat", x: "PETSc.Vec", y: "PETSc.Vec") -> None:  # noqa: N802
        with _arrays(x, y) as (r, gradient):
            self.matrix.rmatvec(r, gradient)


@contextmanager
def _arrays(x: "PETSc.Vec", y: "PETSc.Vec") -> Iterator[tuple[_Array, _Array]]:
    """Lend the array of x for reading and that of y for writing, and give them back whatever happens.

    An array held by a local variable alone would stay out for as long as a traceback keeps the frame.
    """
    try:
        with x.buffer_r as source, y.buffer_w as target:
            yield source, target
    except BaseException:
        _unlock(x)
        raise


def _unlock(x: "PETSc.Vec") -> None:
    """Take back the read locks of x.

    MatMult and its kin lock x round the product, and like all of PETSc return from an error without
    undoing what they did; petsc4py has no call for it.
    """
    library = ctypes.CDLL(PETSc.__file__)
    vec, locks = ctypes.c_void_p(x.handle), ctypes.c_int64()
    library.VecLockGet(vec, ctypes.byref(locks))
    for _ in range(locks.value):
        library.VecLockReadPop(vec)
