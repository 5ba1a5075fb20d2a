"""Principal components and truncated singular value decompositions, with intervals."""

from __future__ import annotations

import functools
import time
from collections.abc import Iterator
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from bmrm.base import arguments
from bmrm.base.host_memory import require_memory
from bmrm.base.interrupts import hold_signals, interruptible
from bmrm.base.vectors import Vector, dot
from bmrm.errors import DataError, ParameterError
from bmrm.io.csr import Csr
from bmrm.matrix.dataset import Dataset
from bmrm.matrix.gpu.devices import parse_device
from bmrm.reductions.device.choose import Placement
from bmrm.reductions.device.gram import DeviceGram
from bmrm.reductions.device.work import gram_work
from bmrm.reductions.estimator import (
    Estimator,
    nonnegative_number,
    positive_integer,
    read_weights,
    time_limit,
    words_for_scikit_learn,
)
from bmrm.reductions.frames import Transformer, framed
from bmrm.reductions.placing import open_gram, place_rows
from bmrm.reductions.row_set import RowSet, read_row_set
from bmrm.reductions.scatter import (
    MAX_GRAM_COLUMNS,
    Scatter,
    resident_matrix,
    rounding_bound,
    scatter_matrix,
    scatter_of_matrix,
)
from bmrm.reductions.spectrum import (
    BLOCK,
    SPARSE_BLOCK,
    Spectrum,
    all_eigenvalues,
    basis_vectors,
    randomized_eigenvalues,
    some_eigenvalues,
)

SHORT_ROW = 64
"""Average number of stored values up to which products visit rows by length: if each row has another one
than that before it, the ends of loops are mispredicted. With 10 values, 1.2 ms instead of 1.7."""

SOLVERS = ("auto", "covariance_eigh", "lanczos", "randomized")

GRAM_COPIES = 4
"""Matrices d x d that there are at least: sums, covariances, eigenvectors and their residuals."""

VECTOR_COPIES = 3
"""Arrays of the size of the components that there are at least besides a basis: vectors and products."""

FEW_COMPONENTS = 0.1
"""Share of the smaller side of X below which ``iterated_power="auto"`` is the larger number, as in
scikit-learn: products with few vectors are cheap."""

MORE_POWERS, LESS_POWERS = 7, 4
"""``iterated_power="auto"``, for few components and for many."""


class _Decomposition(Estimator, Transformer):
    """What `PCA` and `TruncatedSVD` share."""

    svd_solver: str
    tol: float
    max_iter: int
    max_time: float | None
    n_oversamples: int
    iterated_power: int | str
    random_state: Any
    device: str
    threads: int | None
    components_: Vector
    explained_variance_: Vector
    explained_variance_ratio_: Vector
    singular_values_: Vector
    singular_value_bounds_: Vector
    mean_: Vector

    def _check_options(self) -> None:
        if self.svd_solver not in SOLVERS:
            raise ParameterError(
                f"svd_solver: found {self.svd_solver!r}, expected one of {', '.join(SOLVERS)}"
            )
        parse_device(self.device)
        nonnegative_number("tol", self.tol)
        positive_integer("max_iter", self.max_iter)
        time_limit(self.max_time)
        for name in ("n_oversamples", "iterated_power"):
            given = getattr(self, name)
            if (name, given) != ("iterated_power", "auto") and arguments.integer(name, given) < 0:
                raise ParameterError(f"{name}: found {given}, expected at least 0")

    def _decompose(self, X: Any, sample_weight: Any, comm: Any, *, center: bool) -> None:
        rows = _Rows(X, sample_weight, center, self.threads, comm, self.svd_solver)
        rows.set.check_alike(self.get_params())
        with rows.set.guarded():
            self._decompose_rows(rows, X, center=center)
        self._remember_columns(X)

    def _decompose_rows(self, rows: _Rows, X: Any, *, center: bool) -> None:
        n, d = rows.shape
        if center and rows.total <= 1.0:
            with words_for_scikit_learn(X):
                raise DataError(
                    f"X: found a total weight of {rows.total:g}, expected more than 1 for a variance"
                )
        wanted = self._count(rows)
        solver = self.svd_solver
        if solver == "auto":
            narrow = d <= MAX_GRAM_COLUMNS or not isinstance(wanted, int)
            solver = "covariance_eigh" if narrow else "lanczos"
        self._require_memory(solver, wanted, n, d)
        self.placement_ = rows.put(self.device, solver)
        self.placement_.log()
        if solver == "covariance_eigh":
            scatter = rows.scatter()
            found = all_eigenvalues(scatter)
            rows.mean, rows.trace = scatter.mean, float(np.trace(scatter.matrix))
        elif isinstance(wanted, int):
            rows.prepare_products()
            common: dict[str, Any] = {
                "trace": rows.trace * (1.0 + rounding_bound(n + d)) + rows.rounding,
                "rounding": rows.rounding,
                "tol": self.tol,
                "deadline": time.monotonic() + time_limit(self.max_time),
                "rng": rows.set.first_of(self.random_state),
                "agree": rows.set.agree,
            }
            if solver == "randomized":
                power = self._powers(wanted, min(n, d))
                found = randomized_eigenvalues(
                    rows.multiply, d, wanted, power=power, oversamples=self.n_oversamples, **common
                )
            else:
                block = SPARSE_BLOCK if isinstance(rows.set.X, Csr) else BLOCK
                found = some_eigenvalues(
                    rows.multiply,
                    d,
                    wanted,
                    max_iter=self.max_iter,
                    block=block,
                    threads=self.threads,
                    **common,
                )
        else:
            raise ParameterError(f"n_components: found {wanted}, expected a whole number for {solver}")
        self._keep(rows, found, wanted)

    def _require_memory(self, solver: str, wanted: int | float, n: int, d: int) -> None:
        """Raise `HostMemoryError` if the vectors of a decomposition do not fit."""
        if solver == "covariance_eigh":
            count, what = GRAM_COPIES * d, "the covariance matrix and its eigenvectors"
        else:
            p = int(wanted)
            basis = p + self.n_oversamples if solver == "randomized" else basis_vectors(d, p)
            count, what = min(d, basis) + VECTOR_COPIES * min(d, p), "the vectors of the decomposition"
        require_memory(8 * d * count, what, "fewer components, or another svd_solver, need less")

    def _powers(self, wanted: int, side: int) -> int:
        """Return the number of products of the randomised method before the last one."""
        if self.iterated_power != "auto":
            return int(self.iterated_power)
        return MORE_POWERS if wanted < FEW_COMPONENTS * side else LESS_POWERS

    def _columns_out(self) -> int:
        return len(self.components_)

    def _count(self, rows: _Rows) -> int | float:
        raise NotImplementedError

    def _keep(self, rows: _Rows, found: Spectrum, wanted: int | float) -> None:
        """Set what both have; ``wanted`` below 1 is a share of the trace."""
        if isinstance(wanted, int):
            p = min(wanted, len(found.values))  # an interrupted process may have found fewer
        else:
            shares = np.cumsum(found.values) / rows.trace if rows.trace > 0.0 else np.ones(len(found.values))
            p = min(int(np.searchsorted(shares, wanted, "right")) + 1, len(shares), rows.rank)
        vectors = found.vectors[:, :p]
        signs = np.sign(vectors[np.abs(vectors).argmax(axis=0), np.arange(p)])
        self.components_ = np.ascontiguousarray((vectors * np.where(signs == 0.0, 1.0, signs)).T)
        self.singular_values_ = np.sqrt(found.values[:p])
        # sqrt and what leads to it round: a unit outwards
        ends = np.sqrt(found.bounds[:p])
        self.singular_value_bounds_ = np.stack(
            [ends[:, 0] * (1.0 - 2e-16), ends[:, 1] * (1.0 + 4e-16)], axis=1
        )
        self.bounds_proven_ = found.proven
        self.residuals_ = found.residuals[:p]
        self.component_angles_ = found.angles[:p]
        self.status_ = found.status
        self.n_iter_ = found.n_iter
        self.n_samples_ = rows.shape[0]
        self.n_features_in_ = rows.shape[1]


class PCA(_Decomposition):
    """Principal component analysis, with an interval for each singular value.

    Dense rows are centred in float64 before they are multiplied; sparse rows stay sparse, and are centred
    inside the products. Parameters, methods and attributes have scikit-learn's names.

    Parameters
    ----------
    n_components : int, float or None, default None
        Number of components; a number between 0 and 1: as many as explain more than this share of the
        variance; None: min(n, d).
    whiten : bool, default False
        Whether `transform` divides each coordinate by its standard deviation.
    svd_solver : {"auto", "covariance_eigh", "lanczos", "randomized"}, default "auto"
        All eigenvalues of the covariance matrix; the largest by block Lanczos from products with X; or
        approximations of these by randomised subspace iteration, from few products. "auto" is the first up to
        1024 columns, and else the second.
    tol : float, default 1e-8
        Lanczos, or the randomised method, ends if the residuals of X'X v - s^2 v are at most this share of
        the largest s^2.
    max_iter : int, default 300
        Maximum number of products of Lanczos, each with some vectors at once.
    max_time : float, optional
        Limit of either in seconds.
    n_oversamples : int, default 10
        Vectors of the randomised method besides ``n_components``.
    iterated_power : int or "auto", default "auto"
        Powers of X'X that the randomised method applies before the product that it ends with. "auto" is 7 if
        ``n_components`` is less than a tenth of the smaller side of X, and else 4.
    random_state : int, Generator or RandomState, optional
        For the first vectors of Lanczos and of the randomised method.
    device : {"auto", "cpu", "cuda", "cuda:N"}, default "auto"
        Where the covariance matrix of dense rows is computed. "auto" is the GPU that has X, or for X in main
        memory the CPU or the first GPU, whichever is predicted to be faster. Lanczos, and sparse rows, are on
        the CPU, or on the device of a `bmrm.Dataset`.
    threads : int, optional
        Maximum number of threads of products with X; default: the cores that this process may use.

    Attributes
    ----------
    components_ : ndarray, shape (n_components_, d)
        Orthonormal rows by descending variance. The entry of largest absolute value is positive.
    explained_variance_, explained_variance_ratio_ : ndarray, shape (n_components_,)
        Variances, with n - 1 in the denominator (the total weight less 1), and their shares of the whole.
    singular_values_ : ndarray, shape (n_components_,)
        Of the centred rows, each times the root of its weight.
    singular_value_bounds_ : ndarray, shape (n_components_, 2)
        An interval that contains the exact singular value of the given numbers, rounding included.
    bounds_proven_ : bool
        True: the intervals hold for the largest singular values, in this order. False (not all eigenvalues
        were computed, and much variance is left): the lower ends do; the upper ends hold for the singular
        values that the random start has found.
    component_angles_ : ndarray, shape (n_components_,)
        Bound on the sine of the angle between a component and the exact one; 1 if nothing is known.
    residuals_ : ndarray, shape (n_components_,)
        Bounds on the norms of A'A v - s^2 v, A being the centred and weighted rows.
    mean_ : ndarray, shape (d,)
    noise_variance_ : float
        Average variance of the remaining directions.
    n_components_, n_samples_, n_features_in_, n_iter_ : int
    feature_names_in_ : ndarray of str
        Names of the columns, if X is a frame that has them.
    status_ : {"converged", "precision", "max_iter", "max_time", "interrupted"}
        "max_iter" is the usual end of the randomised method: all its products were used.
    placement_ : Placement
        Where it ran, and why: ``placement_.device`` and ``placement_.reason``.

    References
    ----------
    B. N. Parlett, The Symmetric Eigenvalue Problem, SIAM 1998, chapters 10, 11 and 13.
    N. Halko, P.-G. Martinsson and J. Tropp, Finding structure with randomness, SIAM Review 53 (2011).

    Examples
    --------
    >>> import numpy as np
    >>> from bmrm.reductions import PCA
    >>> X = np.array([[-1.0, -1], [-2, -1], [-3, -2], [1, 1], [2, 1], [3, 2]])
    >>> found = PCA(2).fit(X)
    >>> found.explained_variance_ratio_.round(4), found.singular_values_.round(4)
    (array([0.9924, 0.0076]), array([6.3006, 0.5498]))
    >>> low, high = found.singular_value_bounds_[0]
    >>> found.bounds_proven_, bool(high - low < 1e-12)
    (True, True)
    """

    def __init__(
        self,
        n_components: int | float | None = None,
        *,
        whiten: bool = False,
        svd_solver: str = "auto",
        tol: float = 1e-8,
        max_iter: int = 300,
        max_time: float | None = None,
        n_oversamples: int = 10,
        iterated_power: int | str = "auto",
        random_state: Any = None,
        device: str = "auto",
        threads: int | None = None,
    ) -> None:
        self.n_components = n_components
        self.whiten = whiten
        self.svd_solver = svd_solver
        self.tol = tol
        self.max_iter = max_iter
        self.max_time = max_time
        self.n_oversamples = n_oversamples
        self.iterated_power = iterated_power
        self.random_state = random_state
        self.device = device
        self.threads = threads

    @interruptible
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None, *, comm: Any = None) -> Self:
        """Find the components.

        Parameters
        ----------
        X : ndarray, array on a GPU, SciPy sparse matrix, Csr or Dataset, shape (n, d)
            A dense array of CuPy, PyTorch, JAX or Numba on a GPU, of float32 or float64 and in C order, is
            used in place. Of a `bmrm.Dataset` its weights count, unless others are given; for Lanczos on a
            GPU it must be float64.
        y : ignored
        sample_weight : array_like, shape (n,), optional
            At least 0. A row of weight 2 counts like two rows.
        comm : mpi4py.MPI.Comm or PETSc.Comm, optional
            X and the weights are the rows of this rank; see `KMeans.fit`. From sparse rows, and by Lanczos,
            the bits are those of the given ranks and their rows.

        Returns
        -------
        PCA
            The estimator itself.

        Raises
        ------
        DataError
            If X is not a matrix of finite numbers, or the weights do not fit.
        ParameterError
            For a parameter out of range.
        Interrupted
            After Ctrl-C; its ``result`` is this estimator with what has been found, and its bounds.
        """
        with hold_signals():
            self._check_options()
            self._decompose(X, sample_weight, comm, center=True)
        return self

    def fit_transform(self, X: Any, y: Any = None, sample_weight: Any = None) -> Any:
        """Find the components and return the coordinates of the rows."""
        return self.fit(X, sample_weight=sample_weight).transform(X)

    @framed
    def transform(self, X: Any) -> Vector:
        """Return coordinates along the components, shape (n, n_components_), computed on the CPU."""
        self._check_fitted()
        found = _multiply_centered(self._read_new(X), self.mean_, self.components_, self.threads)
        return found / np.sqrt(self._spread()) if self.whiten else found

    def inverse_transform(self, X: Any) -> Vector:
        """Return the rows of given coordinates, shape (n, d)."""
        self._check_fitted()
        found = arguments.numbers("X", X)
        if found.ndim != 2 or found.shape[1] != len(self.components_):
            raise DataError(f"X: found shape {found.shape}, expected {len(self.components_)} columns")
        scaled = found * np.sqrt(self._spread()) if self.whiten else found
        return np.asarray(scaled @ self.components_ + self.mean_)

    def score_samples(self, X: Any) -> Vector:
        """Return the logarithm of the density at each row, shape (n,), by probabilistic PCA.

        The model is normal, with the variances of the components, and ``noise_variance_`` in all other
        directions.

        Raises
        ------
        DataError
            If the covariance of the model is singular.

        References
        ----------
        M. Tipping and C. Bishop, Probabilistic principal component analysis, J. Royal Statistical Society B
        61 (1999).
        """
        rows = self._read_new(X)
        variances, d = self._model_variances()
        left = d - len(variances)
        places = _multiply_centered(rows, self.mean_, self.components_, self.threads)
        squares = (places**2 / variances).sum(axis=1)
        if left:
            squares += _distances_to_plane(rows, self.mean_, self.components_, places) / self.noise_variance_
        logs = np.log(variances).sum() + (left * np.log(self.noise_variance_) if left else 0.0)
        return np.asarray(-0.5 * (squares + logs + d * np.log(2.0 * np.pi)))

    def score(self, X: Any, y: Any = None) -> float:
        """Return the mean logarithm of the density of rows; see `score_samples`."""
        return float(self.score_samples(X).mean())

    def get_covariance(self) -> Vector:
        """Return the covariance matrix of the model of `score_samples`, shape (d, d)."""
        self._check_fitted()
        C, noise = self.components_, self.noise_variance_
        found = (C.T * np.maximum(self.explained_variance_ - noise, 0.0)) @ C
        return np.asarray(found + noise * np.eye(C.shape[1]))

    def get_precision(self) -> Vector:
        """Return the inverse of `get_covariance`, shape (d, d).

        Raises
        ------
        DataError
            If the covariance of the model is singular.
        """
        self._check_fitted()
        variances, d = self._model_variances()
        C = self.components_
        if len(variances) == d:
            return np.asarray((C.T / variances) @ C)
        unit = 1.0 / self.noise_variance_
        return np.asarray((C.T * (1.0 / variances - unit)) @ C + unit * np.eye(d))

    def _model_variances(self) -> tuple[Vector, int]:
        """Return the variances of the components in the model of `score_samples`, and the columns of X."""
        d = self.components_.shape[1]
        variances = np.maximum(self.explained_variance_, self.noise_variance_)
        if not ((variances > 0.0).all() and (len(variances) == d or self.noise_variance_ > 0.0)):
            raise DataError(
                "score: found a singular covariance, expected rows that vary in all directions, or fewer "
                "components"
            )
        return variances, d

    def _spread(self) -> Vector:
        """Return the variances, 1 for those that are 0: such coordinates are 0 too."""
        return np.where(self.explained_variance_ > 0.0, self.explained_variance_, 1.0)

    def _count(self, rows: _Rows) -> int | float:
        most = min(rows.shape)
        if self.n_components is None:
            return most
        if isinstance(self.n_components, float) and 0.0 < self.n_components < 1.0:
            return self.n_components
        return _check_count(self.n_components, most)

    def _keep(self, rows: _Rows, found: Spectrum, wanted: int | float) -> None:
        super()._keep(rows, found, wanted)
        p, divisor = len(self.components_), rows.total - 1.0
        kept = found.values[:p]
        self.mean_ = rows.mean
        self.n_components_ = p
        self.explained_variance_ = kept / divisor
        self.explained_variance_ratio_ = kept / rows.trace if rows.trace > 0.0 else np.zeros(p)
        left = min(rows.shape) - p
        self.noise_variance_ = max(0.0, rows.trace - float(kept.sum())) / left / divisor if left > 0 else 0.0


class TruncatedSVD(_Decomposition):
    """The largest singular values and vectors of X as it is, without centring, with an interval for each.

    For sparse rows this is latent semantic analysis. Parameters, methods and attributes have scikit-learn's
    names.

    Parameters
    ----------
    n_components : int, default 2
    svd_solver, tol, max_iter, max_time, n_oversamples, iterated_power, random_state, device, threads
        As for `PCA`.

    Attributes
    ----------
    components_ : ndarray, shape (n_components, d)
    explained_variance_, explained_variance_ratio_ : ndarray, shape (n_components,)
        Variance of each coordinate of the transformed rows, and its share of the variance of X.
    singular_values_, singular_value_bounds_, bounds_proven_, component_angles_, residuals_
        As for `PCA`, of the rows themselves.
    n_features_in_, n_samples_, n_iter_ : int
    feature_names_in_ : ndarray of str
    status_ : str
    placement_ : Placement

    References
    ----------
    B. N. Parlett, The Symmetric Eigenvalue Problem, SIAM 1998, chapters 10, 11 and 13.

    Examples
    --------
    >>> import numpy as np, scipy.sparse as sp
    >>> from bmrm.reductions import TruncatedSVD
    >>> X = sp.csr_array(np.array([[3.0, 0, 0], [0, 0, 2], [0, 1, 0], [3, 0, 0]]))
    >>> TruncatedSVD(2).fit(X).singular_values_.round(6)
    array([4.242641, 2.      ])
    """

    def __init__(
        self,
        n_components: int = 2,
        *,
        svd_solver: str = "auto",
        tol: float = 1e-8,
        max_iter: int = 300,
        max_time: float | None = None,
        n_oversamples: int = 10,
        iterated_power: int | str = "auto",
        random_state: Any = None,
        device: str = "auto",
        threads: int | None = None,
    ) -> None:
        self.n_components = n_components
        self.svd_solver = svd_solver
        self.tol = tol
        self.max_iter = max_iter
        self.max_time = max_time
        self.n_oversamples = n_oversamples
        self.iterated_power = iterated_power
        self.random_state = random_state
        self.device = device
        self.threads = threads

    @interruptible
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None, *, comm: Any = None) -> Self:
        """Find singular values and vectors; see `PCA.fit`."""
        with hold_signals():
            self._check_options()
            self._decompose(X, sample_weight, comm, center=False)
        return self

    def fit_transform(self, X: Any, y: Any = None, sample_weight: Any = None) -> Any:
        """Find singular vectors and return the coordinates of the rows."""
        return self.fit(X, sample_weight=sample_weight).transform(X)

    @framed
    def transform(self, X: Any) -> Vector:
        """Return the products of rows with the components, shape (n, n_components)."""
        return resident_matrix(self._read_new(X), self.threads).matmat(self.components_.T)

    def inverse_transform(self, X: Any) -> Vector:
        """Return the rows of given coordinates, shape (n, d)."""
        self._check_fitted()
        found = arguments.numbers("X", X)
        if found.ndim != 2 or found.shape[1] != len(self.components_):
            raise DataError(f"X: found shape {found.shape}, expected {len(self.components_)} columns")
        return np.asarray(found @ self.components_)

    def _count(self, rows: _Rows) -> int | float:
        return _check_count(self.n_components, min(rows.shape))

    def _keep(self, rows: _Rows, found: Spectrum, wanted: int | float) -> None:
        super()._keep(rows, found, wanted)
        center = rows.center_of_mass()
        kept = found.values[: len(self.components_)]
        spread = np.maximum(kept / rows.total - (self.components_ @ center) ** 2, 0.0)
        whole = rows.trace / rows.total - float(center @ center)
        self.explained_variance_ = spread
        self.explained_variance_ratio_ = spread / whole if whole > 0.0 else np.zeros(len(spread))


class _Rows:
    """Rows to decompose, and products with A'A, A = diag(sqrt w) (X - 1 m')."""

    def __init__(
        self,
        X: Any,
        sample_weight: Any,
        center: bool,
        threads: int | None,
        comm: Any = None,
        solver: str = "auto",
    ) -> None:
        self._by_rows = comm is not None or not isinstance(X, Dataset) or _has_gram_on_gpu(X, solver)
        self._there: int | None = None  # the GPU of a Dataset
        if self._by_rows:
            self.set = read_row_set(X, sample_weight, threads=threads, comm=comm)
        else:
            self._there = None if X.device == "cpu" else X.matrix.device
            self._matrix = _resident_rows(X)
            given = X.weights if sample_weight is None else sample_weight
            self.set = RowSet(self._matrix, read_weights(given, X.shape[0]), threads)
        self.shape = self.set.shape
        self._center = center
        self.total = self.set.total_weight
        self.rank = min(self.shape)
        self.trace = self.rounding = 0.0
        self.mean = np.zeros(self.shape[1])
        self._gram: DeviceGram | None = None

    def put(self, device: str, solver: str) -> Placement:
        """Put rows where they are decomposed."""
        if not self._by_rows:
            found = Placement(self._there, "the Dataset is on it")
            if device not in ("auto", found.device, *(["cuda"] if found.gpu == 0 else [])):
                raise ParameterError(
                    f"device: found {device!r}, expected {found.device}, where the Dataset is"
                )
            return found
        by_gram = solver == "covariance_eigh" and not isinstance(self.set.X, Csr)
        work = None
        if by_gram:
            work = gram_work(self.set.most_here, self.shape[1], self.set.X.dtype.itemsize)
        found = place_rows(self.set, device, work)
        if found.gpu is not None and solver != "covariance_eigh" and not isinstance(self.set.X, Csr):
            raise ParameterError(
                f"svd_solver: found {solver!r} on {found.device}, expected 'covariance_eigh', rows and "
                "device on the CPU, or a bmrm.Dataset of float64 on the GPU"
            )
        self._gram, found = open_gram(self.set, found, device, center=self._center)
        return found

    @functools.cached_property
    def _matrix(self) -> Any:
        return resident_matrix(self.set.X, self.set.threads)

    @functools.cached_property
    def _by_length(self) -> tuple[Any, Vector | None]:
        """The matrix and the weights, rows by length if they are short: A'A has no order."""
        X, weights = self.set.X, self.set.weights
        if not isinstance(X, Csr) or X.nnz > SHORT_ROW * X.shape[0]:
            return self._matrix, weights
        order = np.argsort(np.diff(X.indptr), kind="stable")
        return self._matrix.reordered(order), None if weights is None else weights[order]

    def prepare_products(self) -> None:
        """Set mean and trace of A'A, and a bound on the error of `multiply` for a vector of length 1."""
        n, _ = self.shape
        if self._center:
            self.mean = self.center_of_mass()
        size = self.set.total(self._sum_of_squares())
        square = dot(self.mean, self.mean)
        self.trace = max(0.0, size - self.total * square)
        # |sqrt(w) X| + sqrt(W) |m| bounds the terms of both products
        terms = (np.sqrt(size) + np.sqrt(self.total * square)) ** 2
        self.rounding = 1.1 * (rounding_bound(self.shape[1] + 6) + rounding_bound(n + 6)) * float(terms)

    def center_of_mass(self) -> Vector:
        if self._gram is not None:
            return self._gram.mean
        w = np.ones(self.set.here) if self.set.weights is None else self.set.weights
        return self.set.total_array(np.asarray(self._matrix.rmatvec(w))) / self.total

    def scatter(self) -> Scatter:
        if self._gram is not None:
            return self._gram.scatter()
        if self._by_rows:
            return scatter_matrix(self.set, center=self._center)
        return scatter_of_matrix(self._matrix, self.set, center=self._center)

    def multiply(self, V: Vector) -> Vector:
        """Return A'A V."""
        if self._there is None:
            mean = self.mean if self._center else None
            matrix, weights = self._by_length
            return self.set.total_array(matrix.gram_product(V, weights=weights, mean=mean))
        U = self._matrix.matmat(V)
        if self._center:
            U -= self.mean @ V
        if self.set.weights is not None:
            U *= self.set.weights[:, None]
        found = np.asarray(self._matrix.rmatmat(U))
        if self._center:
            found -= np.outer(self.mean, np.ones(len(U)) @ U)  # a product adds columns faster than a sum
        return self.set.total_array(found)

    def _sum_of_squares(self) -> float:
        """Return the sum of w |x|^2 of the rows here."""
        X, weights = self.set.X, self.set.weights
        if weights is None:
            return float(self._matrix.mean_squares.sum()) * self.set.here
        if not self._by_rows:
            raise DataError(
                "X: found a Dataset with row weights, expected the matrix itself and sample_weight"
            )
        if isinstance(X, Csr):
            w = np.repeat(weights, np.diff(X.indptr))
            values = np.ones(1) if X.data is None else X.data.astype(np.float64)
            return float((w * values**2).sum())
        return float(weights @ np.einsum("if,if->i", X, X, dtype=np.float64))


def _has_gram_on_gpu(X: Dataset, solver: str) -> bool:
    """Return whether the covariance matrix of a data set on a GPU is computed there, from its rows."""
    if X.device == "cpu" or X.group is not None:
        return False
    by_gram = solver == "covariance_eigh" or (solver == "auto" and X.shape[1] <= MAX_GRAM_COLUMNS)
    matrix: Any = X.matrix
    return by_gram and bool(matrix.is_dense)


def _resident_rows(X: Dataset) -> Any:
    """Return the matrix of a data set, whose products are in float64."""
    if X.group is not None:
        raise DataError("X: found rows on several ranks, expected a Dataset of all rows, or comm")
    if X.device != "cpu" and X.stored == "float32":
        raise DataError("X: found float32 rows on a GPU, which sums them in float32; expected float64")
    return X.matrix


def _distances_to_plane(X: Csr | NDArray[Any], mean: Vector, components: Vector, places: Vector) -> Vector:
    """Return the squared distances of rows to the plane of the components; dense ones by differences."""
    if isinstance(X, Csr):
        rows = X.to_scipy(np.float64)
        sizes = np.asarray(rows.multiply(rows).sum(axis=1)).ravel()
        squares = sizes - 2.0 * (rows @ mean) + mean @ mean - (places**2).sum(axis=1)
        return np.asarray(np.maximum(squares, 0.0))
    out = np.empty(len(X))
    for rows, centered in _centered_blocks(X, mean):
        left = centered - places[rows] @ components
        out[rows] = np.einsum("if,if->i", left, left)
    return out


def _check_count(given: Any, most: int) -> int:
    found = positive_integer("n_components", given)
    if found > most:
        raise ParameterError(f"n_components: found {found}, expected at most {most}, the smaller side of X")
    return found


def _multiply_centered(
    X: Csr | NDArray[Any], mean: Vector, components: Vector, threads: int | None
) -> Vector:
    """Return (X - mean) components'; dense rows are centred first, which keeps their digits."""
    if isinstance(X, Csr):
        return resident_matrix(X, threads).matmat(components.T) - components @ mean
    out = np.empty((X.shape[0], len(components)))
    for rows, centered in _centered_blocks(X, mean):
        out[rows] = resident_matrix(centered, threads).matmat(components.T)
    return out


def _centered_blocks(X: NDArray[Any], mean: Vector) -> Iterator[tuple[slice, Vector]]:
    """Yield dense rows minus their mean, some at a time, and which they are."""
    size = max(64, (1 << 21) // X.shape[1])
    for first in range(0, len(X), size):
        rows = slice(first, first + size)
        yield rows, X[rows] - mean
