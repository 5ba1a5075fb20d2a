"""Mixtures of normal distributions by expectation and maximisation."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from bmrm.base import arguments
from bmrm.base.answers import with_coordinates
from bmrm.base.arguments import nonnegative_number, positive_integer, random_generator, time_limit
from bmrm.base.blas import small_matrices
from bmrm.base.estimator import FittedAnswer
from bmrm.base.host_memory import require_memory
from bmrm.base.interrupts import hold_signals, interruptible
from bmrm.base.limits import limit_reached
from bmrm.base.progress import ProgressStep, progress_line
from bmrm.base.vectors import UNIT, Vector
from bmrm.distributed.reading import read_row_set
from bmrm.distributed.row_set import RowSet
from bmrm.errors import DataError, ParameterError
from bmrm.matrix.gpu.devices import parse_device
from bmrm.matrix.gpu.placement import place
from bmrm.unsupervised.clusters.estimator import KMeans
from bmrm.unsupervised.clusters.seeding import choose_plus_plus, choose_random
from bmrm.unsupervised.mixtures.gpu import open_mixture
from bmrm.unsupervised.mixtures.passes import MixturePasses
from bmrm.unsupervised.mixtures.work import mixture_work
from bmrm.unsupervised.scales import Scales, with_safe_weights

COVARIANCE_TYPES = ("full", "tied", "diag", "spherical")
STARTS = ("kmeans", "k-means++", "random_from_data")

COVARIANCE_COPIES = 4
"""Arrays of the size of the covariances that a step has at least: covariances, their roots, and sums."""

MAX_ROOT = 1e150
"""Reciprocal of a standard deviation whose square is far from overflow; NaN is not below it either."""

COLLAPSED_RATIO = 1.01
"""A component has collapsed if its least variance is at most this multiple of ``reg_covar``."""


@dataclass(frozen=True)
class _Parameters:
    """Weights, means and covariances; full covariances, or diagonals, one per component."""

    weights: Vector
    means: Vector
    covariances: Vector

    @property
    def full(self) -> bool:
        return self.covariances.ndim == 3

    def roots(self) -> tuple[Vector, Vector]:
        """Return L^-1 for each covariance L L', and the constants of the log densities.

        Raise `DataError` if a covariance is singular.
        """
        d = self.means.shape[1]
        if self.full:
            try:
                roots = np.tril(np.linalg.inv(np.linalg.cholesky(self.covariances)))
            except np.linalg.LinAlgError:
                raise _singular(self._first_singular()) from None
            logs = np.log(np.einsum("jff->jf", roots)).sum(axis=1)
        else:
            if not (self.covariances > 0.0).all():
                raise _singular(int(np.argmin(self.covariances.min(axis=1))))
            roots = 1.0 / np.sqrt(self.covariances)
            logs = np.log(roots).sum(axis=1)
        with np.errstate(divide="ignore"):  # a component of weight 0 has the log density -inf
            constants = np.log(self.weights) + logs - 0.5 * d * math.log(2.0 * math.pi)
        if not (np.abs(roots).max() < MAX_ROOT and np.isfinite(logs).all()):
            largest = np.abs(roots).reshape(len(roots), -1).max(axis=1)
            raise _singular(int(np.argmin(np.isfinite(logs) & (largest < MAX_ROOT))))
        return roots, np.maximum(constants, -1e300)

    def _first_singular(self) -> int:
        for j, covariance in enumerate(self.covariances):
            try:
                np.linalg.inv(np.linalg.cholesky(covariance))
            except np.linalg.LinAlgError:
                return j
        raise AssertionError("a covariance was singular")


def _singular(component: int) -> DataError:
    return DataError(
        f"component {component}: found a singular covariance, expected a larger reg_covar or fewer components"
    )


class FittedMixture(FittedAnswer):
    """What a mixture says of rows and makes of random numbers once it is fitted."""

    weights_: Vector
    means_: Vector
    covariances_: Vector
    n_features_in_: int
    random_state: Any
    device: str
    threads: int | None
    _fitted_type: str

    def predict(self, X: Any) -> NDArray[np.int64]:
        """Return the component of largest share for each row.

        Parameters
        ----------
        X : array, shape (m, d)

        Returns
        -------
        ndarray of int64, shape (m,)
        """
        return np.asarray(self.predict_proba(X).argmax(axis=1))

    def predict_proba(self, X: Any) -> Vector:
        """Return the shares of the components in each row.

        Parameters
        ----------
        X : array, shape (m, d)

        Returns
        -------
        ndarray of float64, shape (m, n_components)
            Each row has the sum 1.
        """
        return self._densities(self._read_new_rows(X))[1]

    def score_samples(self, X: Any) -> Vector:
        """Return the natural logarithm of the density at each row.

        Parameters
        ----------
        X : array, shape (m, d)

        Returns
        -------
        ndarray of float64, shape (m,)
        """
        return self._densities(self._read_new_rows(X))[0]

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Return the mean logarithm of the density.

        Parameters
        ----------
        X, sample_weight : as for `fit`
        y : ignored

        Returns
        -------
        float
            The natural logarithm, per row of weight 1.
        """
        return self._log_likelihood(X, sample_weight)[0]

    def sample(self, n_samples: int = 1) -> tuple[Vector, NDArray[np.int64]]:
        """Return random rows of the mixture, and their components, in the order of the components.

        Parameters
        ----------
        n_samples : int, default 1

        Returns
        -------
        rows : ndarray of float64, shape (n_samples, d)
        components : ndarray of int64, shape (n_samples,)
        """
        self._check_fitted()
        rng = random_generator(self.random_state)
        shares = self.weights_ / self.weights_.sum()
        counts = rng.multinomial(positive_integer("n_samples", n_samples), shares)
        parameters = self._parameters()
        parts = []
        for j, count in enumerate(counts.tolist()):
            normal = rng.standard_normal((count, self.n_features_in_))
            spread = parameters.covariances[j]
            offsets = normal @ np.linalg.cholesky(spread).T if parameters.full else normal * np.sqrt(spread)
            parts.append(self.means_[j] + offsets)
        return np.concatenate(parts), np.repeat(np.arange(len(counts)), counts)

    def bic(self, X: Any, sample_weight: Any = None) -> float:
        """Return the Bayesian information criterion of rows; smaller is better.

        Parameters
        ----------
        X, sample_weight : as for `fit`
            The number of rows is the sum of the weights: a row of weight 2 counts like two rows.

        Returns
        -------
        float
            ``-2 L + p log n`` for the log-likelihood L, p parameters and n rows.
        """
        _, total, count = self._log_likelihood(X, sample_weight)
        return _finite(-2.0 * total + self._n_parameters() * math.log(count))

    def aic(self, X: Any, sample_weight: Any = None) -> float:
        """Return Akaike's information criterion of rows; smaller is better.

        Parameters
        ----------
        X, sample_weight : as for `fit`
            A row of weight 2 counts like two rows.

        Returns
        -------
        float
            ``-2 L + 2 p`` for the log-likelihood L and p parameters.
        """
        return _finite(-2.0 * self._log_likelihood(X, sample_weight)[1] + 2.0 * self._n_parameters())

    def _log_likelihood(self, X: Any, sample_weight: Any) -> tuple[float, float, float]:
        """Return the mean logarithm of the density, the sum, and the number of rows, all by the weights."""
        rows = self._read_new_rows(X, sample_weight)
        densities = self._densities(rows)[0]
        if rows.weights is None:
            return float(densities.mean()), float(densities.sum()), float(len(densities))
        safe, scales = with_safe_weights(rows)
        assert safe.weights is not None
        counted = safe.weights > 0.0
        weights = safe.weights[counted]
        mean = float((weights * densities[counted]).sum() / weights.sum())
        count = float(scales.of_weights(np.array(weights.sum())))
        return mean, mean * count, count

    def _parameters(self) -> _Parameters:
        """Return the fitted parameters with a covariance or a diagonal per component."""
        k, d = self.means_.shape
        each = _of_each(self._fitted_type, self.covariances_, k, d)
        return _Parameters(self.weights_, self.means_, each)

    def _read_new_rows(self, X: Any, sample_weight: Any = None) -> RowSet:
        """Validate rows that the model is applied to."""
        self._check_fitted()
        rows = _dense_rows(X, sample_weight, self.threads)
        self._check_columns(X, rows.shape[1])
        return rows

    def _densities(self, rows: RowSet) -> tuple[Vector, Vector]:
        """Return the logarithm of the density at each row, and the shares of the components."""
        parameters = self._parameters()
        k = len(parameters.means)
        require_memory(8 * rows.here * k, "the shares of the components", "fewer rows at a time need less")
        found = place(self.device, rows.gpu, group=rows.group)
        passes, _ = open_mixture(rows, found, k, full=parameters.full)
        with small_matrices(rows.shape[1]):
            roots = parameters.roots()
        return passes.shares(parameters.means, *roots)

    def _n_parameters(self) -> int:
        k, d = self.means_.shape
        triangle = d * (d + 1) // 2
        free = {"full": k * triangle, "tied": triangle, "diag": k * d, "spherical": k}
        return int(free[self._fitted_type] + k * d + k - 1)


class GaussianMixture(FittedMixture):
    """A mixture of normal distributions, fitted by EM.

    A step reads the rows once and stores no responsibilities. All sums are in float64, of moments about the
    current means, and have the same bits for any number of threads. Parameters, methods and attributes have
    scikit-learn's names.

    Parameters
    ----------
    n_components : int, default 1
    covariance_type : {"full", "tied", "diag", "spherical"}, default "full"
        A covariance per component; one of all; a variance per component and column; one per component.
    tol : float, default 1e-3
        EM has converged if the mean log likelihood of a row rises by less than this.
    reg_covar : float, default 1e-6
        Added to all variances.
    max_iter : int, default 100
        Maximum number of steps; 0 returns the start.
    n_init : int, default 1
        Number of starts, of which the one with the largest likelihood is kept.
    init_params : {"kmeans", "k-means++", "random_from_data"}, default "kmeans"
        First components: the clusters of `KMeans`; or rows as means, chosen by k-means++ or at random, with
        the covariance of all rows and equal weights.
    weights_init, means_init, precisions_init : array_like, optional
        Weights, means and inverse covariances of the first components, of the shapes of ``weights_``,
        ``means_`` and ``precisions_``; they take the place of those of ``init_params``. ``reg_covar`` is not
        added.
    warm_start : bool, default False
        Whether `fit` starts from the components of the last fit, once.
    max_time : float, optional
        Limit in seconds; the state reached by then is kept.
    random_state : int, Generator or RandomState, optional
    device : {"auto", "cpu", "cuda", "cuda:N"}, default "auto"
        "auto" is the GPU that has X, or for X in main memory the CPU or the first GPU, whichever is predicted
        to be faster. On a GPU a row has at most 448 columns (H100; as shared memory allows).
    threads : int, optional
        Maximum number of threads; default: the cores that this process may use.
    verbose : int, default 0
        1 shows a progress line on a terminal, 2 a line per step.
    verbose_interval : int, default 10
        Changes nothing; scikit-learn's estimator has it.

    Attributes
    ----------
    weights_ : ndarray, shape (n_components,)
    means_ : ndarray, shape (n_components, d)
    covariances_ : ndarray
        Of shape (n_components, d, d), (d, d), (n_components, d) or (n_components,) for the four types.
    precisions_, precisions_cholesky_ : ndarray
        Inverse covariances, and their factors U of U U', upper triangular or roots; of the same shape.
    lower_bound_ : float
        Mean log likelihood of a row for the returned parameters.
    log_likelihood_ : float
        Weighted sum over the rows.
    lower_bounds_ : list of float
        Mean log likelihood at each step; it rises.
    collapsed_ : list of int
        Components whose least variance is ``reg_covar``, practically: their likelihood says nothing.
    status_ : {"converged", "precision", "max_iter", "max_time", "interrupted"}
        "precision": the likelihood no longer rises, because of rounding or of ``reg_covar``; the best
        parameters are returned.
    converged_ : bool
    n_iter_, n_features_in_ : int
    feature_names_in_ : ndarray of str
        Names of the columns, if X is a frame that has them.
    placement_ : Placement
        Where it ran, and why: ``placement_.device`` and ``placement_.reason``.

    References
    ----------
    A. P. Dempster, N. M. Laird and D. B. Rubin, Maximum likelihood from incomplete data via the EM algorithm,
    J. Royal Statistical Society B 39 (1977).

    Examples
    --------
    >>> import numpy as np
    >>> from bmrm import GaussianMixture
    >>> rng = np.random.default_rng(0)
    >>> X = np.concatenate([rng.normal(0, 1, (300, 1)), rng.normal(10, 2, (100, 1))])
    >>> found = GaussianMixture(2, random_state=0).fit(X)
    >>> np.sort(found.weights_).round(2), found.status_
    (array([0.25, 0.75]), 'converged')
    >>> found.predict([[0.0], [10.0]]) == found.means_.ravel().argsort()
    array([ True,  True])
    >>> found.predict_proba([[0.0], [10.0]]).max(axis=1).round(2), found.score_samples([[10.0]]).round(1)
    (array([1., 1.]), array([-2.8]))
    >>> bool(found.bic(X) > found.aic(X) > -2 * 400 * found.score(X)), found.fit_predict(X).shape
    (True, (400,))
    """

    _estimator_type = "density_estimator"
    _reads_sparse = False
    _numbers = ("status_", "log_likelihood_", "lower_bound_", "collapsed_", "n_iter_", "placement_.device")

    def __init__(
        self,
        n_components: int = 1,
        *,
        covariance_type: str = "full",
        tol: float = 1e-3,
        reg_covar: float = 1e-6,
        max_iter: int = 100,
        n_init: int = 1,
        init_params: str = "kmeans",
        weights_init: Any = None,
        means_init: Any = None,
        precisions_init: Any = None,
        warm_start: bool = False,
        max_time: float | None = None,
        random_state: Any = None,
        device: str = "auto",
        threads: int | None = None,
        verbose: int = 0,
        verbose_interval: int = 10,
    ) -> None:
        self.n_components = n_components
        self.covariance_type = covariance_type
        self.tol = tol
        self.reg_covar = reg_covar
        self.max_iter = max_iter
        self.n_init = n_init
        self.init_params = init_params
        self.weights_init = weights_init
        self.means_init = means_init
        self.precisions_init = precisions_init
        self.warm_start = warm_start
        self.max_time = max_time
        self.random_state = random_state
        self.device = device
        self.threads = threads
        self.verbose = verbose
        self.verbose_interval = verbose_interval

    def _columns(self) -> dict[str, Any]:
        self._check_fitted()
        found = {"component": np.arange(len(self.weights_)), "share": self.weights_}
        return with_coordinates(found, self._known_columns(), self.means_)

    @interruptible
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None, *, comm: Any = None) -> Self:
        """Find the components.

        Parameters
        ----------
        X : ndarray, array on a GPU, or dense Dataset, shape (n, d)
            An array of CuPy, PyTorch, JAX or Numba on a GPU, of float32 or float64 and in C order, is used in
            place, as is a Dataset there.
        y : ignored
        sample_weight : array_like, shape (n,), optional
            At least 0. A row of weight 2 counts like two rows.
        comm : mpi4py.MPI.Comm or PETSc.Comm, optional
            X and the weights are the rows of this rank; see `KMeans.fit`.

        Returns
        -------
        GaussianMixture
            The estimator itself.

        Raises
        ------
        DataError
            If X is not a dense matrix of finite numbers, has fewer rows of positive weight than components,
            the weights do not fit, or a covariance is singular.
        ParameterError
            For a parameter out of range.
        Interrupted
            After Ctrl-C; its ``result`` is this estimator with the parameters so far.
        """
        with hold_signals():
            started = time.monotonic()
            self._check_parameters()
            rows = _dense_rows(X, sample_weight, self.threads, comm)
            rows.check_alike(self.get_params())
            counted = rows.count_positive()
            if self.n_components > counted:
                raise DataError(
                    f"n_components: found {self.n_components}, expected at most {counted}, "
                    "the number of rows of positive weight"
                )
            full = self.covariance_type in ("full", "tied")
            numbers = self.n_components * rows.shape[1] * (rows.shape[1] if full else 1)
            require_memory(
                COVARIANCE_COPIES * 8 * numbers, "the covariances", "'diag', or fewer components, need less"
            )
            work = mixture_work(
                rows.most_here,
                rows.shape[1],
                self.n_components,
                rows.X.dtype.itemsize,
                full=full,
                steps=self.max_iter,
                starts=self.n_init,
                threads=rows.threads,
            )
            with rows.guarded(), small_matrices(rows.shape[1]):
                rows, scales = with_safe_weights(rows)
                found = place(self.device, rows.gpu, work, group=rows.group)
                passes, self.placement_ = open_mixture(rows, found, self.n_components, full=full)
                self.placement_.log()
                self._fit(passes, rows.first_of(self.random_state), started, scales)
            self._remember_columns(X)
        return self

    def _fit(self, passes: MixturePasses, rng: np.random.Generator, started: float, scales: Scales) -> None:
        """Run all starts and keep the best."""
        deadline = started + time_limit(self.max_time)
        best: tuple[_Parameters, list[float], str, int] | None = None
        line = progress_line(self.verbose)
        known = self._known(passes.shape[1])
        for number in range(1 if known else self.n_init):

            def show(step: int, value: float, start: int = number) -> None:
                words = (f"log likelihood {value:.6f}", f"step {step}")
                line.update(
                    lambda: ProgressStep(words if self.n_init == 1 else (f"start {start + 1}", *words))
                )

            run = self._run(passes, known or self._first(passes, rng), deadline, show)
            if best is None or max(run[1]) > max(best[1]):
                best = run
            if run[2] in ("max_time", "interrupted"):
                break
        line.clear()
        assert best is not None
        self._keep(passes, *best)
        total = float(scales.of_weights(np.array(passes.total_weight)))
        self.log_likelihood_ = _finite(self.lower_bound_ * total)

    def _known(self, d: int) -> _Parameters | None:
        """Return the start, if nothing about it is to be found out."""
        if self.warm_start and self.__sklearn_is_fitted__():
            if self.means_.shape != (self.n_components, d):
                raise DataError(
                    f"warm_start: found {self.means_.shape[0]} components of {self.means_.shape[1]} columns, "
                    f"expected {self.n_components} of {d}"
                )
            if self._fitted_type != self.covariance_type:
                raise DataError(
                    f"warm_start: found components of covariance_type {self._fitted_type!r}, "
                    f"expected {self.covariance_type!r}"
                )
            return self._parameters()
        if any(each is None for each in (self.weights_init, self.means_init, self.precisions_init)):
            return None
        k = self.n_components
        return self._with_given(_Parameters(np.empty(k), np.empty((k, d)), np.empty((k, d))))

    def _with_given(self, start: _Parameters) -> _Parameters:
        """Put what the user has given into a start."""
        k, d = start.means.shape
        weights, means, covariances = start.weights, start.means, start.covariances
        if self.weights_init is not None:
            weights = _given("weights_init", self.weights_init, (k,))
            if weights.min() < 0.0 or not np.isclose(weights.sum(), 1.0):
                raise ParameterError(
                    f"weights_init: found a sum of {weights.sum():g}, expected numbers of at least 0 that "
                    "sum up to 1"
                )
        if self.means_init is not None:
            means = _given("means_init", self.means_init, (k, d))
        if self.precisions_init is not None:
            shapes = {"full": (k, d, d), "tied": (d, d), "diag": (k, d), "spherical": (k,)}
            given = _given("precisions_init", self.precisions_init, shapes[self.covariance_type])
            full = self.covariance_type in ("full", "tied")
            inverse = _inverses(given) if full else _reciprocals(given)
            covariances = _of_each(self.covariance_type, inverse, k, d)
        return _Parameters(weights, means, covariances)

    def fit_predict(self, X: Any, y: Any = None, sample_weight: Any = None) -> NDArray[np.int64]:
        """Find the components and return the component of each row.

        Parameters
        ----------
        X, y, sample_weight : as for `fit`

        Returns
        -------
        ndarray of int64, shape (n,)
        """
        return self.fit(X, sample_weight=sample_weight).predict(X)

    def _check_parameters(self) -> None:
        parse_device(self.device)
        positive_integer("n_components", self.n_components)
        if arguments.integer("max_iter", self.max_iter) < 0:
            raise ParameterError(f"max_iter: found {self.max_iter}, expected at least 0")
        positive_integer("n_init", self.n_init)
        nonnegative_number("tol", self.tol)
        nonnegative_number("reg_covar", self.reg_covar)
        time_limit(self.max_time)
        progress_line(self.verbose)
        arguments.flag("warm_start", self.warm_start)
        for name, known in (("covariance_type", COVARIANCE_TYPES), ("init_params", STARTS)):
            found = getattr(self, name)
            if found not in known:
                raise ParameterError(f"{name}: found {found!r}, expected one of {', '.join(known)}")

    def _first(self, passes: MixturePasses, rng: np.random.Generator) -> _Parameters:
        k = self.n_components
        full = self.covariance_type in ("full", "tied")
        clusters = passes.clusters()
        if self.init_params != "kmeans":
            scatter = passes.scatter()
            covariance = scatter.matrix / scatter.weight
            spread = covariance if full else np.diag(covariance).copy()
            choose = choose_plus_plus if self.init_params == "k-means++" else choose_random
            means = clusters.take(choose(clusters, k, rng))
            return self._with_given(self._regularised(np.full(k, 1.0 / k), means, np.stack([spread] * k)))
        found = KMeans(k, max_time=self.max_time)
        centers = found._cluster(clusters, None, rng, time.monotonic()).cluster_centers_
        sums = passes.cluster_moments(centers, full=full)
        return self._with_given(self._maximised(sums.weights, centers, sums.first, sums.second))

    def _maximised(self, weights: Vector, means: Vector, first: Vector, second: Vector) -> _Parameters:
        """Return the parameters of an M step from moments about ``means``."""
        safe = np.where(weights > 0.0, weights, 1.0)
        move = first / safe[:, None]
        if second.ndim == 3:
            second = np.tril(second)
            second = second + np.swapaxes(np.tril(second, -1), 1, 2)
            scatter = second - weights[:, None, None] * move[:, :, None] * move[:, None, :]
            if self.covariance_type == "tied":
                covariances = np.stack([scatter.sum(axis=0) / weights.sum()] * len(weights))
            else:
                covariances = scatter / safe[:, None, None]
        else:
            covariances = np.maximum(second - weights[:, None] * move**2, 0.0) / safe[:, None]
        return self._regularised(weights / weights.sum(), means + move, covariances)

    def _regularised(self, weights: Vector, means: Vector, covariances: Vector) -> _Parameters:
        """Return parameters with ``reg_covar``; spherical covariances are averages over the columns."""
        if self.covariance_type == "spherical":
            covariances = np.repeat(covariances.mean(axis=1, keepdims=True), means.shape[1], axis=1)
        added = self.reg_covar * (np.eye(means.shape[1]) if covariances.ndim == 3 else 1.0)
        return _Parameters(weights, means, covariances + added)

    def _run(
        self,
        passes: MixturePasses,
        start: _Parameters,
        deadline: float,
        show: Callable[[int, float], object] = lambda step, value: None,
    ) -> tuple[_Parameters, list[float], str, int]:
        """Run EM; return the best parameters, the likelihoods, the status and the number of M steps."""
        present = kept = start
        history: list[float] = []
        n_iter = 0
        while True:
            roots, constants = present.roots()
            sums = passes.step(present.means, roots, constants)
            value = sums.log_likelihood / passes.total_weight
            show(n_iter, value)
            if history and value <= history[-1]:
                return kept, history, "converged" if value > history[-1] - self.tol else "precision", n_iter
            history.append(value)
            kept = present
            if len(history) > 1 and value - history[-2] < self.tol:
                return kept, history, "converged", n_iter
            status = passes.agree(limit_reached(n_iter, self.max_iter, deadline))
            if status:
                return kept, history, status, n_iter
            present = self._maximised(sums.weights, present.means, sums.first, sums.second)
            n_iter += 1

    def _keep(
        self,
        passes: MixturePasses,
        found: _Parameters,
        history: list[float],
        status: str,
        n_iter: int,
    ) -> None:
        self.weights_, self.means_ = found.weights, found.means
        covariances = np.array(found.covariances)
        least = np.linalg.eigvalsh(covariances)[:, 0] if found.full else covariances.min(axis=1)
        floor = COLLAPSED_RATIO * self.reg_covar + 4.0 * UNIT * float(np.abs(covariances).max())
        self.collapsed_: list[int] = np.flatnonzero(least <= floor).tolist()
        roots = found.roots()[0]  # inverses of factors L of L L', so that no inverse is a singular matrix
        upper = np.swapaxes(roots, 1, 2) if found.full else roots
        inverse = upper @ roots if found.full else roots**2
        if self.covariance_type == "tied":
            covariances, inverse, upper = covariances[0], inverse[0], upper[0]
        elif self.covariance_type == "spherical":
            covariances, inverse, upper = covariances[:, 0], inverse[:, 0], upper[:, 0]
        self.covariances_, self.precisions_, self.precisions_cholesky_ = covariances, inverse, upper.copy()
        self.lower_bounds_ = history
        self.lower_bound_ = history[-1]
        self.status_ = status
        self.converged_ = status == "converged"
        self.n_iter_ = n_iter
        self.n_features_in_ = passes.shape[1]
        self._fitted_type = self.covariance_type  # parameters may be set after a fit


def _of_each(covariance_type: str, covariances: Vector, k: int, d: int) -> Vector:
    """Return a covariance, or a diagonal, of each component from those of the user."""
    if covariance_type == "tied":
        covariances = np.broadcast_to(covariances, (k, d, d))
    elif covariance_type == "spherical":
        covariances = np.broadcast_to(covariances[:, None], (k, d))
    return np.ascontiguousarray(covariances)


def _finite(value: float) -> float:
    """Return a sum over the rows; raise `DataError` if it is too large for float64."""
    if not math.isfinite(value):
        raise DataError("sample_weight: found a sum that float64 does not hold, expected smaller weights")
    return value


def _given(name: str, value: Any, shape: tuple[int, ...]) -> Vector:
    found = arguments.numbers(name, value, ParameterError)
    if found.shape != shape:
        raise ParameterError(f"{name}: found shape {found.shape}, expected {shape}")
    arguments.check_finite(name, found, ParameterError)
    return np.array(found, np.float64)


def _inverses(precisions: Vector) -> Vector:
    """Return the inverses of matrices of the user."""
    other = np.swapaxes(precisions, -1, -2)
    try:
        if not np.allclose(precisions, other):
            raise np.linalg.LinAlgError
        roots = np.linalg.inv(np.linalg.cholesky(precisions))
    except np.linalg.LinAlgError:
        raise ParameterError(
            "precisions_init: found another matrix, expected symmetric and positive definite ones"
        ) from None
    return np.asarray(np.swapaxes(roots, -1, -2) @ roots)


def _reciprocals(precisions: Vector) -> Vector:
    """Return the reciprocals of precisions of the user."""
    if not precisions.min() > 0.0:
        raise ParameterError(f"precisions_init: found {precisions.min():g}, expected positive numbers")
    return np.asarray(1.0 / precisions)


def _dense_rows(X: Any, sample_weight: Any = None, threads: int | None = None, comm: Any = None) -> RowSet:
    rows = read_row_set(X, sample_weight, threads=threads, comm=comm)
    if rows.sparse:
        raise DataError("X: found sparse rows, expected a dense matrix: covariances of sparse rows are dense")
    return rows
