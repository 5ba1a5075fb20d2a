"""X as an operator that iterative solvers multiply by: resident on a device, with its kernels chosen once.

The matrix is that of a `bmrm.Dataset`, placed by the same rules. Here it has SciPy's interface of linear
operators, so that solvers of other libraries take it. SciPy's own class does the algebra (`A.T @ A + D`);
what it does to vectors on the way, conversions to NumPy and copies of conjugates, is left out.

References
----------
SciPy's reference, "scipy.sparse.linalg.LinearOperator".
"""

from __future__ import annotations

import inspect
import os
from typing import Any, NamedTuple, NoReturn

import numpy as np
from numpy.typing import DTypeLike
from scipy.sparse.linalg import LinearOperator

from bmrm.base import arguments
from bmrm.base.foreign_arrays import detach, from_host
from bmrm.errors import BmrmError, DataError, ParameterError
from bmrm.io.csr import Csr
from bmrm.matrix import _cpu
from bmrm.matrix.dataset import Dataset
from bmrm.matrix.gpu import array_products
from bmrm.matrix.gpu.devices import import_cuda
from bmrm.matrix.gpu.explain import complete_report, explain
from bmrm.matrix.gpu.kernel_choice import KernelChoice, choice_in_use, read_choice
from bmrm.matrix.resident import KernelRequest, Matrix, place_matrix, read_matrix


class _Resident(NamedTuple):
    """A matrix on its device, which an operator and its transposes share."""

    matrix: Matrix
    device: str
    dtype: np.dtype[Any]
    fingerprint: str


class Operator(LinearOperator):  # type: ignore[misc]
    """X and its transpose as a SciPy LinearOperator, resident on a CPU or a GPU in formats that suit X.

    Solvers that only multiply accept it in place of X: `lsqr`, `lsmr`, `svds` and `cg` of SciPy, PyLops,
    and those of CuPy if X is on a GPU. X is copied to the device and prepared once. On a GPU the format and
    the kernel of each of the two products are chosen by a model of the device, and by timing.

    Vectors and matrices of NumPy give results of NumPy. Arrays of CuPy, PyTorch or JAX on the GPU of X are
    used in place, on the stream of their library, and give results there; arrays of PyTorch or JAX in main
    memory give results of their library. The type of a result is that which NumPy gives to the types of X and
    of the vector. Vectors may have values that are not finite.

    Parameters
    ----------
    X : Csr, scipy sparse matrix, ndarray or Dataset, of shape (m, d)
        Or a dense or sparse array of CuPy or PyTorch, or a dense one of JAX; on a GPU it is used there.
        Values are real and finite. On the CPU arrays are shared if types and order allow, and must not
        change. A `bmrm.Dataset` lends its matrix; all other arguments must have their defaults then.
    device : {"auto", "cpu", "cuda", "cuda:N"}, default "auto"
        As for `bmrm.Dataset`.
    dtype : {float32, float64}, optional
        Type of stored values, and on a GPU of vectors and sums; default: that of X, float64 for integers. On
        the CPU all sums are in float64.
    tune : {"best", "predict", "all", "cold"}, default "best"
        How a GPU's kernels are chosen. "best" times those with the best predictions, "cold" does so with cold
        caches, for products between which much other work is done. Both remember the choice for the next time
        (docs/blackbox.md). "predict" times nothing. "all" times all, each time. Without effect on a CPU, for
        dense X, and if there is a ``choice``.
    choice : KernelChoice or path, optional
        The `choice` of an operator of the same X on the same kind of GPU, or the name of a file of
        `save_choice`: the same kernels, and so the same bits, without timing.
    gpu_mem : int or str, optional
        Device memory for X and vectors: bytes, or a size like "8G"; default: what is free. What does not fit
        streams from pinned host memory during each product.
    threads : int, optional
        CPU threads; default: the cores that this process may use, or one if X is small. Results do not depend
        on their number.

    Attributes
    ----------
    shape : tuple of int
    dtype : dtype
        Type of the values of X.

    Raises
    ------
    DataError
        If X has no rows, no columns or values that are not finite, or a file holds no choice.
    ParameterError
        For a choice of another matrix or device, or an argument that is none of the above.
    BmrmError
        For ``device="cuda"`` if the package was built without CUDA, or there is no driver or no GPU.
    DeviceMemoryError
        For ``device="cuda"`` if there is too little memory.

    See Also
    --------
    bmrm.petsc.resident_mat : X as a matrix of PETSc.

    Notes
    -----
    The same X on the same device gives the same bits, for any number of threads. Gradients of PyTorch and JAX
    do not pass through a product by themselves; docs/operator-recipes.md shows how to state them.

    Examples
    --------
    >>> import numpy as np
    >>> from scipy.sparse.linalg import lsqr
    >>> from bmrm import Operator
    >>> A = Operator(np.array([[1.0, 0.0], [1.0, 1.0], [0.0, 2.0]]))
    >>> A @ np.array([1.0, 2.0])
    array([1., 3., 4.])
    >>> A.T @ np.array([1.0, 1.0, 1.0])
    array([2., 3.])
    >>> lsqr(A, np.array([1.0, 3.0, 4.0]))[0].round(6)
    array([1., 2.])
    """

    def __init__(
        self,
        X: Any,
        *,
        device: str = "auto",
        dtype: DTypeLike | None = None,
        tune: str = "best",
        choice: Any = None,
        gpu_mem: int | str | None = None,
        threads: int | None = None,
    ) -> None:
        given = {"device": device, "dtype": dtype, "tune": tune, "choice": choice}
        given |= {"gpu_mem": gpu_mem, "threads": threads}
        self._hold(_borrow(X, given) if isinstance(X, Dataset) else _place(X, **given), transposed=False)

    def _hold(self, resident: _Resident, transposed: bool) -> None:
        self._resident, self._transposed = resident, transposed
        rows, columns = resident.matrix.shape
        super().__init__(resident.dtype, (columns, rows) if transposed else (rows, columns))

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        raise BmrmError(
            "Operator: X lives in this process, so it can be neither pickled nor copied; "
            "send X and the operator's choice, and build another one there"
        )

    def __repr__(self) -> str:
        of = " transposed" if self._transposed else ""
        size = "{} x {}".format(*self.shape)
        return f"<Operator{of}: {size}, {self.nnz} stored values, {self.dtype}, {self.device}>"

    @property
    def nnz(self) -> int:
        """Number of stored values."""
        return self._resident.matrix.nnz

    @property
    def device(self) -> str:
        """Where X is: "cpu", or "cuda" and the name of the GPU."""
        return self._resident.device

    @property
    def threads(self) -> int:
        """Number of CPU threads."""
        return self._resident.matrix.threads

    @property
    def nbytes(self) -> int:
        """Bytes of device memory of the matrix."""
        return self._resident.matrix.nbytes

    @property
    def choice(self) -> KernelChoice | None:
        """The kernels in use on a GPU, for the argument ``choice`` of the next operator; None on a CPU.

        Examples
        --------
        >>> import numpy as np
        >>> A = Operator(np.eye(3), device="cpu")
        >>> Operator(np.eye(3), device="cpu", choice=A.choice) @ np.ones(3)
        array([1., 1., 1.])
        """
        matrix = self._resident.matrix
        if isinstance(matrix, _cpu.Matrix):
            return None
        return choice_in_use(matrix.report(), self._resident.fingerprint)

    def save_choice(self, path: str | os.PathLike[str]) -> None:
        """Save the kernels in use on a GPU to a small file (JSON), whole or not at all.

        Parameters
        ----------
        path : str or path
            Later the argument ``choice``.

        Raises
        ------
        ParameterError
            If X is on a CPU, where there is nothing to choose.
        OSError
            If the file cannot be written.
        """
        choice = self.choice
        if choice is None:
            raise ParameterError(
                "save_choice: found X on the CPU, expected it on a GPU, where kernels are chosen"
            )
        choice.save(path)

    def explain(self) -> str:
        """Return how X is stored; on a GPU also the candidates for each product, with their times.

        A line per candidate has its predicted and measured time; ``*`` marks the one in use. With kernels
        that were remembered or given, only these are listed.

        Returns
        -------
        str

        Examples
        --------
        >>> import numpy as np
        >>> print(Operator(np.eye(3), device="cpu").explain().splitlines()[0])
        3 x 3, 9 values, float64, dense
        """
        matrix = self._resident.matrix
        if isinstance(matrix, _cpu.Matrix):
            return _explain_on_cpu(matrix)
        return explain(complete_report(import_cuda(), matrix))

    def matvec(self, x: Any) -> Any:
        """Multiply by a vector.

        Parameters
        ----------
        x : array_like of shape (d,) or (d, 1)

        Returns
        -------
        array of shape (m,) or (m, 1)

        Raises
        ------
        ParameterError
            If the shape differs.
        DataError
            If x does not hold real numbers, or is on another device than X.

        Examples
        --------
        >>> Operator([[1.0, 2.0]]).matvec([3.0, 4.0])
        array([11.])
        """
        return self._multiply(x, self._transposed, is_vector=True)

    def rmatvec(self, x: Any) -> Any:
        """Multiply the transpose by a vector.

        Parameters
        ----------
        x : array_like of shape (m,) or (m, 1)

        Returns
        -------
        array of shape (d,) or (d, 1)

        Raises
        ------
        ParameterError, DataError
            As for `matvec`.

        Examples
        --------
        >>> Operator([[1.0, 2.0]]).rmatvec([3.0])
        array([3., 6.])
        """
        return self._multiply(x, not self._transposed, is_vector=True)

    def matmat(self, X: Any) -> Any:
        """Multiply by several columns; X of the operator is read once for up to 32 of them.

        Parameters
        ----------
        X : array_like of shape (d, K)

        Returns
        -------
        array of shape (m, K)

        Raises
        ------
        ParameterError, DataError
            As for `matvec`.

        Examples
        --------
        >>> Operator([[1.0, 2.0]]).matmat([[3.0, 0.0], [4.0, 1.0]])
        array([[11.,  2.]])
        """
        return self._multiply(X, self._transposed, is_vector=False)

    def rmatmat(self, X: Any) -> Any:
        """Multiply the transpose by several columns.

        Parameters
        ----------
        X : array_like of shape (m, K)

        Returns
        -------
        array of shape (d, K)

        Raises
        ------
        ParameterError, DataError
            As for `matvec`.

        Examples
        --------
        >>> Operator([[1.0, 2.0]]).rmatmat([[3.0, 1.0]])
        array([[3., 1.],
               [6., 2.]])
        """
        return self._multiply(X, not self._transposed, is_vector=False)

    # What SciPy's algebra calls.
    _matvec, _rmatvec, _matmat, _rmatmat = matvec, rmatvec, matmat, rmatmat

    def _adjoint(self) -> Operator:
        transposed = Operator.__new__(Operator)
        transposed._hold(self._resident, not self._transposed)
        return transposed

    _transpose = _adjoint

    def dot(self, x: Any) -> Any:
        """Multiply by a vector or several columns, or return the product with an operator or a number.

        Parameters
        ----------
        x : array_like, LinearOperator or float

        Returns
        -------
        array or LinearOperator

        Examples
        --------
        >>> A = Operator([[1.0, 2.0]])
        >>> A.dot([3.0, 4.0]), (A @ A.T).shape
        (array([11.]), (1, 1))
        """
        if isinstance(x, LinearOperator) or np.isscalar(x):
            return super().dot(x)
        return self.matvec(x) if _count_dimensions(x) == 1 else self.matmat(x)

    def __matmul__(self, x: Any) -> Any:
        return super().__matmul__(x) if np.isscalar(x) else self.dot(x)

    def __rmatmul__(self, x: Any) -> Any:
        return super().__rmatmul__(x) if np.isscalar(x) else self.__rmul__(x)

    def __rmul__(self, x: Any) -> Any:
        if isinstance(x, LinearOperator) or np.isscalar(x):
            return super().__rmul__(x)
        if _count_dimensions(x) == 1:
            return self.rmatvec(x)
        return self.rmatmat(x.T if hasattr(x, "T") else np.asarray(x).T).T

    def _multiply(self, x: Any, transposed: bool, is_vector: bool) -> Any:
        """Return ``X x``, or ``X' x``, as an array of x's library."""
        matrix, library = self._resident.matrix, "numpy"
        length = matrix.shape[0 if transposed else 1]
        if type(x) is not np.ndarray:
            if arguments.is_on_device(x):
                return self._multiply_there(x, transposed, length, is_vector)
            name = type(x).__module__.partition(".")[0]
            library = {"torch": "torch", "jax": "jax", "jaxlib": "jax"}.get(name, library)
            x = arguments.array("x", detach(x))
        _check_shape(x.shape, length, is_vector)
        values = arguments.numbers("x", x)
        kind = np.result_type(self.dtype, np.float64 if x.dtype == object else x.dtype)
        if is_vector:
            found = (matrix.rmatvec if transposed else matrix.matvec)(values.reshape(length))
            found = found.reshape(-1, *x.shape[1:])
        else:
            found = (matrix.rmatmat if transposed else matrix.matmat)(values)
        found = found.astype(kind, copy=False)
        return found if library == "numpy" else from_host(library, found)

    def _multiply_there(self, x: Any, transposed: bool, length: int, is_vector: bool) -> Any:
        """Do the same with an array on a GPU, without a copy."""
        matrix = self._resident.matrix
        if isinstance(matrix, _cpu.Matrix):
            raise DataError("x: found an array on a GPU, expected one in main memory, where X is")
        _check_shape(tuple(x.shape), length, is_vector)
        name = str(x.dtype).rpartition(".")[2]
        try:
            kind = np.result_type(self.dtype, name)
        except TypeError:
            kind = None
        if kind not in (np.float32, np.float64):
            raise DataError(f"x: found values of type {name}, expected real numbers")
        return array_products.multiply(matrix, transposed, x, kind)


def _place(
    X: Any, *, device: str, dtype: Any, tune: str, choice: Any, gpu_mem: Any, threads: Any
) -> _Resident:
    """Put X on a device, in its own type unless another one is given."""
    kernels = KernelRequest(tune, read_choice(choice))
    found = read_matrix(X)
    if dtype is None:
        values = found.data if isinstance(found, Csr) else found
        # If all values are 1, only the original knows its type.
        is_narrow = str(getattr(X, "dtype", "")).endswith("float32")
        dtype = values.dtype if values is not None else np.float32 if is_narrow else np.float64
    placed = place_matrix(
        found, device=device, dtype=dtype, threads=threads, gpu_mem=gpu_mem, kernels=kernels
    )
    return _Resident(placed.matrix, placed.device, np.dtype(dtype), placed.fingerprint)


def _borrow(data: Dataset, given: dict[str, Any]) -> _Resident:
    """Return the matrix of a data set; raise `ParameterError` for arguments that would change it."""
    parameters = inspect.signature(Operator).parameters
    for name, value in given.items():
        default = parameters[name].default
        if value is not default and value != default:
            shown = arguments.short_repr(value)
            raise ParameterError(f"{name}: found {shown} for a Dataset, expected the default: X is placed")
    if data.group is not None:
        raise ParameterError("X: found the rows of one of several ranks, expected all rows in this process")
    matrix = data.matrix
    stored = matrix.dtype  # None if all values are 1
    if stored is None:
        stored = np.dtype(np.float64) if isinstance(matrix, _cpu.Matrix) else matrix.vector_dtype
    return _Resident(matrix, data.device, stored, data.fingerprint)


def _check_shape(shape: tuple[int, ...], length: int, is_vector: bool) -> None:
    if is_vector and shape not in ((length,), (length, 1)):
        raise ParameterError(f"x: found shape {tuple(shape)}, expected ({length},) or ({length}, 1)")
    if not is_vector and (len(shape) != 2 or shape[0] != length):
        raise ParameterError(f"x: found shape {tuple(shape)}, expected ({length}, K)")


def _count_dimensions(x: Any) -> int:
    """Return the number of dimensions of an array, or of what a list would be as an array."""
    return int(x.ndim) if hasattr(x, "ndim") else arguments.array("x", x).ndim


def _explain_on_cpu(matrix: _cpu.Matrix) -> str:
    rows, columns = matrix.shape
    kind = "dense" if matrix.index_bytes == 0 else f"columns in {matrix.index_bytes} bytes"
    values = "all values 1" if matrix.dtype is None else str(matrix.dtype)
    order = ", columns by popularity" if matrix.by_popularity else ""
    copy = "has been built" if matrix.has_transpose else "has not been built, products read the rows of X"
    lines = [
        f"{rows} x {columns}, {matrix.nnz} values, {values}, {kind}{order}",
        f"main memory: {matrix.nbytes / 1e6:.1f} MB, {_cpu.instruction_set()}, threads: {matrix.threads}",
        f"X^T: {copy}",
    ]
    return "\n".join(lines)
