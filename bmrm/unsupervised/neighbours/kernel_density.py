"""Kernel density estimation with scikit-learn's names, by `bmrm.pairs.kde`."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from bmrm.base.arguments import nonnegative_number, positive_integer, random_generator
from bmrm.base.suggestions import check_choice
from bmrm.base.vectors import Vector
from bmrm.distributed.reading import read_new_rows, read_weights
from bmrm.errors import ParameterError
from bmrm.matrix.gpu.device_arrays import read_back
from bmrm.pairs._pairs import SHAPES
from bmrm.pairs.densities import Density, choose_bandwidth, kde
from bmrm.unsupervised.estimator import RowEstimator, require_dense

SAMPLED = ("gaussian", "tophat")
"""Kernels from which `KernelDensity.sample` draws."""


class KernelDensity(RowEstimator):
    """The density from which rows were drawn, as the mean of kernels centred at the rows.

    Densities are sums over all rows, with proven error bounds. Parameters, methods and attributes
    have scikit-learn's names.

    Parameters
    ----------
    bandwidth : float or {"scott", "silverman"}, default 1.0
        See `bmrm.pairs.kde`.
    kernel : {"gaussian", "tophat", "epanechnikov", "exponential", "linear", "cosine"}, default "gaussian"
    tol : float, optional
        Relative error that a density may have; see `bmrm.pairs.kde`.
    device : {"auto", "cpu", "cuda", "cuda:N"}, default "auto"
        Where densities are computed; "auto": where that is predicted to be faster.
    threads : int, optional
        Maximum number of threads; default: the cores that this process may use.

    Attributes
    ----------
    bandwidth_ : float
    n_features_in_ : int
    feature_names_in_ : ndarray of str
        Names of the columns, if X is a frame that has them.

    See Also
    --------
    bmrm.pairs.kde : the function.

    Examples
    --------
    >>> import numpy as np
    >>> from bmrm import KernelDensity
    >>> X = np.random.default_rng(0).normal(size=(1000, 1))
    >>> found = KernelDensity(bandwidth="scott").fit(X)
    >>> np.exp(found.score_samples([[0.0], [2.0]])).round(2)
    array([0.39, 0.05])
    >>> bool(found.density([[0.0]]).error_bound[0] < 1e-8), round(found.score([[0.0], [2.0]]), 1)
    (True, -3.9)
    """

    _estimator_type = "density_estimator"
    _reads_sparse = False

    def __init__(
        self,
        bandwidth: float | str = 1.0,
        *,
        kernel: str = "gaussian",
        tol: float | None = None,
        device: str = "auto",
        threads: int | None = None,
    ) -> None:
        self.bandwidth = bandwidth
        self.kernel = kernel
        self.tol = tol
        self.device = device
        self.threads = threads

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Store the sample.

        Parameters
        ----------
        X : ndarray, array on a GPU, or dense Dataset, shape (n, d)
        y : ignored
        sample_weight : array_like, shape (n,), optional
            At least 0. A row of weight 2 counts like two rows.

        Returns
        -------
        KernelDensity
            The estimator itself.

        Raises
        ------
        DataError
            If X is not a dense matrix of finite numbers, or the weights do not fit.
        ParameterError
            For a parameter out of range.
        """
        check_choice("kernel", self.kernel, SHAPES)
        if self.tol is not None:
            nonnegative_number("tol", self.tol)
        self._sample = np.array(require_dense(read_new_rows(X))[:])
        self._weights = read_weights(read_back(sample_weight), len(self._sample))
        count, self.n_features_in_ = self._sample.shape
        self.bandwidth_ = choose_bandwidth(self.bandwidth, count, self.n_features_in_, self._weights)
        self._remember_columns(X)
        return self

    def score_samples(self, X: Any) -> Vector:
        """Return the logarithm of the density at each row.

        Parameters
        ----------
        X : array, shape (m, d)

        Returns
        -------
        ndarray, shape (m,)
        """
        return self.density(X).values

    def density(self, X: Any) -> Density:
        """Return the logarithm of the density at each row, with error bounds.

        Parameters
        ----------
        X : array, shape (m, d)

        Returns
        -------
        bmrm.pairs.Density
        """
        rows = require_dense(self._read_new(X))
        return kde(
            self._sample,
            rows[:],
            bandwidth=self.bandwidth_,
            kernel=self.kernel,
            weights=self._weights,
            log=True,
            tol=self.tol,
            device=self.device,
            threads=self.threads,
        )

    def score(self, X: Any, y: Any = None) -> float:
        """Return the logarithm of the likelihood: the sum of `score_samples`.

        Parameters
        ----------
        X : array, shape (m, d)
        y : ignored

        Returns
        -------
        float
        """
        return float(self.score_samples(X).sum())

    def sample(self, n_samples: int = 1, random_state: Any = None) -> Vector:
        """Draw random rows of the density, of a Gaussian or tophat kernel.

        Parameters
        ----------
        n_samples : int, default 1
        random_state : int, Generator or RandomState, optional

        Returns
        -------
        ndarray, shape (n_samples, d)

        Raises
        ------
        ParameterError
            For another kernel.
        """
        self._check_fitted()
        if self.kernel not in SAMPLED:
            raise ParameterError(f"kernel: found {self.kernel!r}, expected gaussian or tophat for sample()")
        rng, count = random_generator(random_state), positive_integer("n_samples", n_samples)
        shares = None if self._weights is None else self._weights / self._weights.sum()
        chosen = self._sample[rng.choice(len(self._sample), count, p=shares)]
        steps = rng.standard_normal(chosen.shape)
        if self.kernel == "tophat":  # a direction, and the radius that leaves the ball evenly filled
            radii = rng.random((count, 1)) ** (1.0 / chosen.shape[1])
            steps *= radii / np.linalg.norm(steps, axis=1, keepdims=True)
        return np.asarray(chosen + self.bandwidth_ * steps, np.float64)
