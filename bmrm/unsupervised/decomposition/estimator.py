"""Principal components and truncated singular value decompositions, with intervals."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Self

import numpy as np

from bmrm.base import arguments
from bmrm.base.answers import ShownTable, leading, with_coordinates
from bmrm.base.arguments import nonnegative_number, positive_integer, time_limit
from bmrm.base.estimator import FittedAnswer, words_for_scikit_learn
from bmrm.base.frames import RowTransformer, framed
from bmrm.base.host_memory import require_memory
from bmrm.base.interrupts import hold_signals, interruptible
from bmrm.base.suggestions import suggest
from bmrm.base.vectors import Vector
from bmrm.distributed.rows import StoredRows, stored_rows
from bmrm.errors import DataError, ParameterError
from bmrm.matrix.gpu.devices import parse_device
from bmrm.unsupervised.decomposition.decomposed_rows import DecomposedRows
from bmrm.unsupervised.decomposition.scatter import MAX_GRAM_COLUMNS, resident_matrix
from bmrm.unsupervised.decomposition.spectrum import (
    BLOCK,
    SPARSE_BLOCK,
    Spectrum,
    basis_vectors,
    largest_eigenvalues,
    lifted,
    randomized_eigenvalues,
    scale_down,
    scale_up,
    some_eigenvalues,
)
from bmrm.unsupervised.estimator import RowEstimator

SOLVERS = ("auto", "covariance_eigh", "lanczos", "randomized")

MIN_EXCESS = 1e-4
"""What a total weight must be above 1 for a variance: weights that are meant to sum to 1 sum to 1 but for
rounding, of float32 if they were stored so, and a variance would be that rounding's."""

NORMALIZERS = ("auto", "QR", "LU", "none")
"""What scikit-learn's ``power_iteration_normalizer`` may be."""

GRAM_COPIES = 4
"""Matrices d x d that there are at least: sums, covariances, eigenvectors and their residuals."""

VECTOR_COPIES = 3
"""Arrays of the size of the components that there are at least besides a basis: vectors and products."""

FEW_COMPONENTS = 0.1
"""Share of the smaller side of X below which ``iterated_power="auto"`` is the larger number, as in
scikit-learn: products with few vectors are cheap."""

MORE_POWERS, LESS_POWERS = 7, 4
"""``iterated_power="auto"``, for few components and for many."""


class _Decomposition(RowEstimator, FittedAnswer, RowTransformer):
    """What `PCA` and `TruncatedSVD` share."""

    svd_solver: str
    tol: float
    max_iter: int
    max_time: float | None
    n_oversamples: int
    iterated_power: int | str
    power_iteration_normalizer: str
    random_state: Any
    device: str
    threads: int | None
    components_: Vector
    explained_variance_: Vector
    explained_variance_ratio_: Vector
    singular_values_: Vector
    singular_value_bounds_: Vector
    mean_: Vector
    _numbers = ("status_", "bounds_proven_", "noise_variance_", "n_iter_", "placement_.device")

    def _columns(self) -> dict[str, Any]:
        self._check_fitted()
        found = {
            "component": np.arange(len(self.components_)),
            "singular_value": self.singular_values_,
            "low": self.singular_value_bounds_[:, 0],
            "high": self.singular_value_bounds_[:, 1],
            "explained_variance_ratio": self.explained_variance_ratio_,
        }
        return with_coordinates(found, self._known_columns(), self.components_)

    def _first_rows(self) -> ShownTable:
        columns = self._columns()
        width = columns.pop("high") - columns.pop("low")  # the ends differ in their last digits alone
        first = {name: columns.pop(name) for name in ("component", "singular_value")}
        return leading({**first, "width_of_interval": width, **columns})

    def _check_options(self) -> None:
        if self.svd_solver not in SOLVERS:
            raise ParameterError(
                f"svd_solver: found {self.svd_solver!r}, expected one of {', '.join(SOLVERS)}"
                f"{suggest(str(self.svd_solver), SOLVERS)}"
            )
        if self.power_iteration_normalizer not in NORMALIZERS:
            raise ParameterError(
                f"power_iteration_normalizer: found {self.power_iteration_normalizer!r}, expected one of "
                f"{', '.join(NORMALIZERS)}"
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
        rows = DecomposedRows(X, sample_weight, center, self.threads, comm, by_gram=self._by_gram)
        rows.set.check_alike(self.get_params())
        with rows.set.guarded():
            if center:
                with words_for_scikit_learn(X):
                    _check_weight(rows)
            wanted = self._count(rows.shape)
            solver = self._solver(rows, wanted)
            rows = self._prepared(rows, solver, wanted)
            self._keep(rows, self._spectrum(rows, solver, wanted))
        self._remember_columns(X)

    def _by_gram(self, columns: int) -> bool:
        """Return whether rows of so many columns are decomposed by their covariance matrix."""
        narrow = self.svd_solver == "auto" and columns <= MAX_GRAM_COLUMNS
        return narrow or self.svd_solver == "covariance_eigh"

    def _solver(self, rows: DecomposedRows, wanted: int | float) -> str:
        solver = self.svd_solver
        if solver == "auto":
            narrow = rows.side(self.device) <= MAX_GRAM_COLUMNS or not isinstance(wanted, int)
            solver = "covariance_eigh" if narrow else "lanczos"
        if solver != "covariance_eigh" and not isinstance(wanted, int):
            raise ParameterError(f"n_components: found {wanted}, expected an integer for {solver}")
        return solver

    def _prepared(self, rows: DecomposedRows, solver: str, wanted: int | float) -> DecomposedRows:
        """Put rows where they are decomposed, in another unit if squares overflow or vanish."""
        self._require_memory(solver, wanted, rows.side(self.device), rows.shape[1])
        self.placement_ = rows.put(self.device, solver)
        self.placement_.log()
        if rows.prepare(solver):
            return rows
        rows = rows.scaled()
        rows.put(self.device, solver)
        rows.prepare(solver)
        return rows

    def _spectrum(self, rows: DecomposedRows, solver: str, wanted: int | float) -> Spectrum:
        """Compute as many eigenvalues as are wanted; ``wanted`` below 1 is a share of the trace."""
        whole = rows.trace + rows.trace_error
        if rows.scatter is not None:
            side = len(rows.scatter.matrix)
            found = largest_eigenvalues(rows.scatter, wanted if isinstance(wanted, int) else side)
            p = wanted if isinstance(wanted, int) else _count_of_share(found.values, rows, wanted)
            if rows.short is not None:
                found = lifted(found, p, rows.short, whole, rows.rounding)
            known = found.bounds[0, 0] > 0.0 or found.values[0] == 0.0
            return found.first(p) if known else replace(found.first(p), status="precision")
        assert isinstance(wanted, int)
        n, d = rows.shape
        common: dict[str, Any] = {
            "trace": whole,
            "rounding": rows.rounding,
            "tol": self.tol,
            "deadline": time.monotonic() + time_limit(self.max_time),
            "rng": rows.set.first_of(self.random_state),
            "agree": rows.set.agree,
            "way": rows.short,
        }
        multiply, side = (rows.multiply, d) if rows.short is None else (rows.short.multiply, n)
        if solver == "randomized":
            power = self._powers(wanted, min(n, d))
            return randomized_eigenvalues(
                multiply, side, wanted, power=power, oversamples=self.n_oversamples, **common
            )
        block = SPARSE_BLOCK if rows.set.sparse else BLOCK
        common |= {"max_iter": self.max_iter, "block": block, "threads": self.threads}
        return some_eigenvalues(multiply, side, wanted, **common)

    def _require_memory(self, solver: str, wanted: int | float, side: int, d: int) -> None:
        """Raise `HostMemoryError` if the vectors of a decomposition do not fit."""
        if solver == "covariance_eigh":
            numbers, what = GRAM_COPIES * side**2, "the covariance matrix and its eigenvectors"
            if side < d:
                numbers += VECTOR_COPIES * max(1, int(wanted)) * d
        else:
            p = int(wanted)
            basis = p + self.n_oversamples if solver == "randomized" else basis_vectors(side, p)
            numbers = min(side, basis) * side + VECTOR_COPIES * min(d, p) * d
            what = "the vectors of the decomposition"
        require_memory(8 * numbers, what, "fewer components, or another svd_solver, need less")

    def _powers(self, wanted: int, side: int) -> int:
        """Return the number of products of the randomised method before the last one."""
        if self.iterated_power != "auto":
            return int(self.iterated_power)
        return MORE_POWERS if wanted < FEW_COMPONENTS * side else LESS_POWERS

    def _columns_out(self) -> int:
        return len(self.components_)

    def _count(self, shape: tuple[int, int]) -> int | float:
        raise NotImplementedError

    def _keep(self, rows: DecomposedRows, found: Spectrum) -> None:
        """Set what both have."""
        exponent = -rows.exponent - rows.half_weight_exponent
        self.components_ = np.ascontiguousarray(found.vectors.T)
        signs = np.sign([row[np.abs(row).argmax()] for row in self.components_])
        self.components_ = self.components_ * np.where(signs == 0.0, 1.0, signs)[:, None]
        self.singular_values_ = np.ldexp(np.sqrt(found.values), exponent)
        # sqrt and what leads to it round: a unit outwards
        ends = np.sqrt(found.bounds)
        low = scale_down(ends[:, 0] * (1.0 - 2e-16), exponent)
        self.singular_value_bounds_ = np.stack([low, scale_up(ends[:, 1] * (1.0 + 4e-16), exponent)], axis=1)
        self.bounds_proven_ = found.proven
        self.residuals_ = scale_up(found.residuals, 2 * exponent)
        self.component_angles_ = found.angles
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
    copy : bool, default True
        Taken as of scikit-learn; rows are never changed.
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
    power_iteration_normalizer : {"auto", "QR", "LU", "none"}, default "auto"
        Taken as of scikit-learn; each product is made orthonormal.
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
    components_ : ndarray, shape ``(n_components_, d)``
        Orthonormal rows by descending variance. The entry of largest absolute value is positive.
    explained_variance_, explained_variance_ratio_ : ndarray, shape ``(n_components_,)``
        Variances, with n - 1 in the denominator (the total weight less 1), and their shares of the whole.
    singular_values_ : ndarray, shape ``(n_components_,)``
        Of the centred rows, each times the root of its weight.
    singular_value_bounds_ : ndarray, shape ``(n_components_, 2)``
        An interval that contains the exact singular value of the given numbers, rounding included.
    bounds_proven_ : bool
        True: the intervals hold for the largest singular values, in this order. False (not all eigenvalues
        were computed, and much variance is left): the lower ends do; the upper ends hold for the singular
        values that the random start has found.
    component_angles_ : ndarray, shape ``(n_components_,)``
        Bound on the sine of the angle between a component and the exact one; 1 if nothing is known.
    residuals_ : ndarray, shape ``(n_components_,)``
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
    >>> from bmrm import PCA
    >>> X = np.array([[-1.0, -1], [-2, -1], [-3, -2], [1, 1], [2, 1], [3, 2]])
    >>> found = PCA(2).fit(X)
    >>> found.explained_variance_ratio_.round(4), found.singular_values_.round(4)
    (array([0.9924, 0.0076]), array([6.3006, 0.5498]))
    >>> low, high = found.singular_value_bounds_[0]
    >>> found.bounds_proven_, bool(high - low < 1e-12)
    (True, True)
    >>> found.inverse_transform(found.transform(X)).round(9)[0]
    array([-1., -1.])
    >>> found.score_samples(X).shape, round(found.score(X), 2), PCA(1).fit_transform(X).shape
    ((6,), -2.3, (6, 1))
    """

    def __init__(
        self,
        n_components: int | float | None = None,
        *,
        copy: bool = True,
        whiten: bool = False,
        svd_solver: str = "auto",
        tol: float = 1e-8,
        max_iter: int = 300,
        max_time: float | None = None,
        n_oversamples: int = 10,
        iterated_power: int | str = "auto",
        power_iteration_normalizer: str = "auto",
        random_state: Any = None,
        device: str = "auto",
        threads: int | None = None,
    ) -> None:
        self.n_components = n_components
        self.copy = copy
        self.whiten = whiten
        self.svd_solver = svd_solver
        self.tol = tol
        self.max_iter = max_iter
        self.max_time = max_time
        self.n_oversamples = n_oversamples
        self.iterated_power = iterated_power
        self.power_iteration_normalizer = power_iteration_normalizer
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

    @framed
    def transform(self, X: Any) -> Vector:
        """Return coordinates along the components, computed on the CPU.

        Parameters
        ----------
        X : array or matrix as for `fit`, shape (m, d)

        Returns
        -------
        ndarray, shape ``(m, n_components_)``
        """
        self._check_fitted()
        found = _multiply_centered(self._read_new(X), self.mean_, self.components_, self.threads)
        return found / self._spread() if self.whiten else found

    def inverse_transform(self, X: Any) -> Vector:
        """Return the rows of given coordinates.

        Parameters
        ----------
        X : array_like, shape ``(m, n_components_)``

        Returns
        -------
        ndarray of float64, shape (m, d)
        """
        self._check_fitted()
        found = arguments.numbers("X", X)
        if found.ndim != 2 or found.shape[1] != len(self.components_):
            raise DataError(f"X: found shape {found.shape}, expected {len(self.components_)} columns")
        scaled = found * self._spread() if self.whiten else found
        return np.asarray(scaled @ self.components_ + self.mean_)

    def score_samples(self, X: Any) -> Vector:
        """Return the natural logarithm of the density at each row, by probabilistic PCA.

        The model is normal, with the variances of the components, and ``noise_variance_`` in all other
        directions.

        Parameters
        ----------
        X : array or matrix as for `fit`, shape (m, d)

        Returns
        -------
        ndarray of float64, shape (m,)

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
        """Return the mean logarithm of the density of rows; see `score_samples`.

        Parameters
        ----------
        X : array or matrix as for `fit`, shape (m, d)
        y : ignored

        Returns
        -------
        float
        """
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
        least = min(float(variances.min()), np.inf if len(variances) == d else self.noise_variance_)
        if least < np.finfo(np.float64).tiny:
            raise DataError(
                "score: found a singular covariance, expected rows that vary in all directions, or fewer "
                "components"
            )
        return variances, d

    def _spread(self) -> Vector:
        """Return the standard deviations, 1 for those that are 0: such coordinates are 0 too."""
        return np.where(self._deviations > 0.0, self._deviations, 1.0)

    def _count(self, shape: tuple[int, int]) -> int | float:
        most, given = min(shape), self.n_components
        if given is None:
            return most
        if isinstance(given, (float, np.floating)) and 0.0 < given < 1.0:
            return float(given)
        return _check_count(given, most)

    def _keep(self, rows: DecomposedRows, found: Spectrum) -> None:
        super()._keep(rows, found)
        p, divisor = len(self.components_), rows.total - math.ldexp(1.0, 2 * rows.half_weight_exponent)
        kept, exponent = found.values, -2 * rows.exponent
        with np.errstate(over="ignore"):
            self.explained_variance_ = np.ldexp(kept / divisor, exponent)
        if not np.isfinite(self.explained_variance_).all():
            raise DataError("X: found a variance above 1.8e308, expected rows that are multiplied by 2^-50")
        self.mean_ = np.ldexp(rows.mean, -rows.exponent)
        self.n_components_ = p
        self.explained_variance_ratio_ = _shares(kept, rows)
        left = min(rows.shape) - p
        rest = max(0.0, rows.trace - float(kept.sum())) / left / divisor if left > 0 else 0.0
        self.noise_variance_ = math.ldexp(rest, exponent)
        # of variances that float64 does not hold, it holds the roots
        self._deviations = np.ldexp(np.sqrt(kept / divisor), -rows.exponent)


class TruncatedSVD(_Decomposition):
    """The largest singular values and vectors of X as it is, without centring, with an interval for each.

    For sparse rows this is latent semantic analysis. Parameters, methods and attributes have scikit-learn's
    names.

    Parameters
    ----------
    n_components : int, default 2
    svd_solver, tol, max_iter, max_time, n_oversamples, iterated_power, power_iteration_normalizer
        As for `PCA`.
    random_state, device, threads
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
    >>> from bmrm import TruncatedSVD
    >>> X = sp.csr_array(np.array([[3.0, 0, 0], [0, 0, 2], [0, 1, 0], [3, 0, 0]]))
    >>> TruncatedSVD(2).fit(X).singular_values_.round(6)
    array([4.242641, 2.      ])
    >>> places = TruncatedSVD(2).fit_transform(X)
    >>> found = TruncatedSVD(2).fit(X)
    >>> bool(abs(found.transform(X) - places).max() < 1e-9), found.inverse_transform(places).shape
    (True, (4, 3))
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
        power_iteration_normalizer: str = "auto",
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
        self.power_iteration_normalizer = power_iteration_normalizer
        self.random_state = random_state
        self.device = device
        self.threads = threads

    @interruptible
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None, *, comm: Any = None) -> Self:
        """Find singular values and vectors.

        Parameters
        ----------
        X, y, sample_weight, comm : as for `PCA.fit`

        Returns
        -------
        TruncatedSVD
            The estimator itself.

        Raises
        ------
        DataError, ParameterError, Interrupted
            As `PCA.fit`.
        """
        with hold_signals():
            self._check_options()
            self._decompose(X, sample_weight, comm, center=False)
        return self

    @framed
    def transform(self, X: Any) -> Vector:
        """Return the products of rows with the components.

        Parameters
        ----------
        X : array or matrix as for `fit`, shape (m, d)

        Returns
        -------
        ndarray, shape (m, n_components)
        """
        rows = self._read_new(X)
        if not rows.in_place:
            return _multiply_centered(rows, np.zeros(rows.shape[1]), self.components_, self.threads)
        return resident_matrix(rows, self.threads).matmat(self.components_.T)

    def inverse_transform(self, X: Any) -> Vector:
        """Return the rows of given coordinates.

        Parameters
        ----------
        X : array_like, shape (m, n_components)

        Returns
        -------
        ndarray of float64, shape (m, d)
        """
        self._check_fitted()
        found = arguments.numbers("X", X)
        if found.ndim != 2 or found.shape[1] != len(self.components_):
            raise DataError(f"X: found shape {found.shape}, expected {len(self.components_)} columns")
        return np.asarray(found @ self.components_)

    def _count(self, shape: tuple[int, int]) -> int | float:
        return _check_count(self.n_components, min(shape))

    def _keep(self, rows: DecomposedRows, found: Spectrum) -> None:
        super()._keep(rows, found)
        spread, whole = rows.variances(self.components_, found.values)
        with np.errstate(over="ignore"):
            self.explained_variance_ = np.ldexp(spread, -2 * rows.exponent)
        shares = spread / whole if whole > 0.0 else np.zeros(len(spread))
        self.explained_variance_ratio_ = np.minimum(shares, 1.0)


def _distances_to_plane(X: StoredRows, mean: Vector, components: Vector, places: Vector) -> Vector:
    """Return the squared distances of rows to the plane of the components; dense ones by differences."""
    if X.sparse:
        rows = X[:].to_scipy(np.float64)
        sizes = np.asarray(rows.multiply(rows).sum(axis=1)).ravel()
        squares = sizes - 2.0 * (rows @ mean) + mean @ mean - (places**2).sum(axis=1)
        return np.asarray(np.maximum(squares, 0.0))
    out = np.empty(len(X))
    for rows, centered in _centered_blocks(X, mean):
        left = centered - places[rows] @ components
        out[rows] = np.einsum("if,if->i", left, left)
    return out


def _check_weight(rows: DecomposedRows) -> None:
    """Raise `DataError` for a total weight that is no more than 1, but for rounding."""
    total = float(np.ldexp(rows.total, -2 * rows.half_weight_exponent))
    if total <= 1.0 + MIN_EXCESS:
        least = "1" if total <= 1.0 and rows.set.weights is None else f"{1.0 + MIN_EXCESS:g}"
        raise DataError(f"X: found a total weight of {total:g}, expected more than {least} for a variance")


def _shares(values: Vector, rows: DecomposedRows) -> Vector:
    """Return the shares of the trace, 0 if that may be all rounding."""
    if rows.trace <= rows.trace_error:
        return np.zeros(len(values))
    return np.minimum(values / rows.trace, 1.0)


def _count_of_share(values: Vector, rows: DecomposedRows, wanted: float) -> int:
    """Return how many values have more than a share of the trace; 1 if that may be all rounding."""
    if rows.trace <= rows.trace_error:
        return 1
    shares = np.cumsum(_shares(values, rows))  # the sums of what the user sees
    return min(int(np.searchsorted(shares, wanted, "right")) + 1, len(shares), rows.rank)


def _check_count(given: Any, most: int) -> int:
    found = positive_integer("n_components", given)
    if found > most:
        raise ParameterError(f"n_components: found {found}, expected at most {most}, the smaller side of X")
    return found


def _multiply_centered(X: StoredRows, mean: Vector, components: Vector, threads: int | None) -> Vector:
    """Return (X - mean) components'; dense rows are centred first, which keeps their digits."""
    if X.sparse:
        return resident_matrix(X, threads).matmat(components.T) - components @ mean
    out = np.empty((X.shape[0], len(components)))
    for rows, centered in _centered_blocks(X, mean):
        out[rows] = resident_matrix(stored_rows(centered), threads).matmat(components.T)
    return out


def _centered_blocks(X: StoredRows, mean: Vector) -> Iterator[tuple[slice, Vector]]:
    """Yield dense rows minus their mean, some at a time, and which they are."""
    size = max(64, (1 << 21) // X.shape[1])
    for first in range(0, len(X), size):
        rows = slice(first, first + size)
        yield rows, X[rows] - mean
