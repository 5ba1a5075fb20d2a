"""Multidimensional scaling: points whose distances are near given dissimilarities."""

from __future__ import annotations

import time
from dataclasses import replace
from functools import partial
from itertools import islice
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from bmrm.base import arguments
from bmrm.base.answers import with_coordinates
from bmrm.base.arguments import (
    is_on_device,
    nonnegative_number,
    positive_integer,
    random_generator,
    time_limit,
)
from bmrm.base.estimator import FittedAnswer, words_for_scikit_learn
from bmrm.base.frames import Transformer, framed
from bmrm.base.host_memory import available_bytes, require_memory
from bmrm.base.interrupts import hold_signals, interruptible, requested
from bmrm.base.progress import ProgressLine, progress_line
from bmrm.base.vectors import Vector
from bmrm.distributed.ranks import ALONE, AllRanks, ranks_of
from bmrm.errors import DataError, HostMemoryError, ParameterError
from bmrm.matrix.gpu.device_arrays import read_back
from bmrm.matrix.gpu.devices import import_cuda, parse_device
from bmrm.matrix.gpu.placement import Placement, gpu_that_has, place, with_fall_back
from bmrm.unsupervised.estimator import RowEstimator
from bmrm.unsupervised.manifold._manifold import MAX_AXES
from bmrm.unsupervised.manifold.dissimilarities import Dissimilarities, Metric, Proximities, read_proximities
from bmrm.unsupervised.manifold.majorization import ScalingRun, Stress, place_new, run_starts
from bmrm.unsupervised.manifold.minimum import (
    MinimumTest,
    bound_stress_error,
    check_minimum,
    gradient_norm,
)
from bmrm.unsupervised.manifold.ordinal import Disparities
from bmrm.unsupervised.manifold.scaling_starts import check_start, make_starts
from bmrm.unsupervised.manifold.work import MAX_KEPT_POINTS, MAX_RECOMPUTED_FEATURES, scaling_bytes
from bmrm.unsupervised.scales import divided

STARTS = ("classical_mds", "landmark", "random")
STORES = ("auto", "half", "features")
TYPES = ("float64", "float32")

STORED_SHARE = 0.25
"""Share of the free memory up to which distances of features are stored."""

BLOCK_VALUES = 1 << 22
"""Dissimilarities of new points that `transform` has in memory at once: 32 MiB."""


class FittedPlaces(FittedAnswer):
    """A configuration as a table."""

    embedding_: Vector
    _numbers = (
        *("status_", "stress_", "stress_error_", "normalized_stress_", "stationarity_"),
        *("n_iter_", "placement_.device"),
    )

    def _columns(self) -> dict[str, Any]:
        self._check_fitted()
        return with_coordinates({"row": np.arange(len(self.embedding_))}, None, self.embedding_)


class MDS(RowEstimator, FittedPlaces, Transformer):
    """Multidimensional scaling by SMACOF: points whose distances approximate given dissimilarities.

    Minimises the stress sum w (delta - d)^2 over all pairs, delta being their dissimilarities and d the
    distances of the points. Sums are in float64, each pair is visited once per pass, and results have the
    same bits for any number of threads and of ranks, and in each run on GPUs. Parameters, methods and
    attributes have scikit-learn's names.

    Parameters
    ----------
    n_components : int, default 2
        Dimensions of the configuration.
    metric_mds : bool, default True
        False: ordinal scaling, in which only the order of the dissimilarities counts.
    n_init : int, default 1
        Number of starts, of which the one with the least stress is kept: the first by ``init``, the others
        random.
    init : {"classical_mds", "landmark", "random"}, default "classical_mds"
        First configuration: by classical scaling (of features: the principal components); by classical
        scaling of some far points, which reads O(n) pairs; random. `fit` takes a configuration instead.
    max_iter : int, default 300
        Maximum number of passes over the pairs after the first.
    eps : float, default 1e-6
        A run ends if a step lowers the stress by less than ``eps`` times the sum of w d^2; if steps are
        accelerated, two in a row. With 0 it ends when the stress falls no more.
    max_time : float, optional
        Limit in seconds; the state reached by then is kept.
    random_state : int, Generator or RandomState, optional
        For landmarks and random starts; equal numbers give equal results. A classical start needs none.
    metric : str or callable, default "euclidean"
        What makes dissimilarities of the rows of X: "precomputed" if X has them already; "euclidean"; or a
        metric of `scipy.spatial.distance.pdist`.
    normalized_stress : bool or "auto", default "auto"
        Whether ``stress_`` is ``normalized_stress_``; "auto": for ordinal scaling.
    relax : bool, default True
        Whether steps are accelerated. The stress falls in each step either way.
    store : {"auto", "half", "features"}, default "auto"
        Where distances of features are: "half" computes one number per pair once, "features" computes them
        in every pass, with memory of O(n). "auto" is the latter for up to 8 features or if the former takes
        more than a quarter of the free memory.
    dtype : {"float64", "float32"}, default "float64"
        What the terms of the sums are computed in. "float32" takes about half the time on a CPU; places and
        dissimilarities are then numbers of float32, and sums of more than 16 terms are still in float64.
    verbose : int, default 0
        1 shows a progress line on a terminal, 2 a line per step.
    threads : int, optional
        Maximum number of threads; default: ``n_jobs``, or else the cores that this process may use.
    device : {"auto", "cpu", "cuda", "cuda:N"}, default "auto"
        Where the passes over the pairs run. "auto": on the GPU that has the dissimilarities, otherwise where
        the fit is predicted to take less time. A GPU has no ordinal scaling, and at most 16 components.
    metric_params : dict, optional
        Further arguments of a metric of SciPy.
    n_jobs : int, optional
        As ``threads``, scikit-learn's name; several starts run in turn.

    Attributes
    ----------
    placement_ : Placement
        Where the fit ran, and why.
    embedding_ : ndarray, shape (n, n_components)
    dissimilarity_matrix_ : ndarray, shape (n, n)
        Of features it is computed when it is asked for. Of given dissimilarities a copy is kept if there are
        at most 4096 points.
    stress_ : float
        ``raw_stress_`` or ``normalized_stress_``.
    raw_stress_ : float
        Sum of w (delta - d)^2 over the pairs. For ordinal scaling delta are the disparities.
    stress_error_ : float
        A proven bound on the rounding error of ``raw_stress_``. It is the stress of ``embedding_``, as it is.
    normalized_stress_ : float
        Root of the raw stress over the sum of w d^2; infinite if all points are at one place and should not.
    disparities_ : ndarray, shape (n (n - 1) / 2,)
        Only for ordinal scaling: fitted numbers of the pairs, row by row, with sum w dhat^2 = sum w.
    gradient_norm_, gradient_error_ : float
        Norm of the gradient of the raw stress, and a proven bound on its rounding error. Where points with a
        positive dissimilarity are at one place, there is no gradient, and the bound is large.
    stationarity_ : float
        The same without unit: the norm over 2 D times that of the centred configuration, D being the largest
        sum of weights of a point. About the relative length of one more plain step.
    n_iter_ : int
        Passes over the pairs after the first, of the best start.
    history_ : list of float
        Raw stress of each accepted configuration of the best start. It falls.
    status_ : {"converged", "precision", "max_iter", "max_time", "interrupted"}
        "precision": the stress should fall further, but rounding hides whether it does.
    n_features_in_ : int
    feature_names_in_ : ndarray of str
        Names of the columns, if X is a frame that has them.

    See Also
    --------
    bmrm.PCA : a linear map, with intervals.

    References
    ----------
    J. de Leeuw and P. Mair, Multidimensional scaling using majorization: SMACOF in R, J. Stat. Software 31
    (2009).
    I. Borg and P. Groenen, Modern Multidimensional Scaling, Springer 2005.

    Examples
    --------
    >>> import numpy as np
    >>> from bmrm import MDS
    >>> X = np.array([[0.0, 0], [3, 0], [0, 4], [3, 4]])
    >>> D = np.sqrt(((X[:, None] - X[None]) ** 2).sum(axis=2))
    >>> found = MDS(2, metric="precomputed").fit(D)
    >>> places = found.fit_transform(D)
    >>> round(float(np.linalg.norm(places[0] - places[3])), 9), found.stress_ < 1e-9, found.transform(D).shape
    (5.0, True, (4, 2))
    """

    _reads_sparse = False

    def __init__(
        self,
        n_components: int = 2,
        *,
        metric_mds: bool = True,
        n_init: int = 1,
        init: str = "classical_mds",
        max_iter: int = 300,
        eps: float = 1e-6,
        max_time: float | None = None,
        random_state: Any = None,
        metric: Any = "euclidean",
        normalized_stress: bool | str = "auto",
        relax: bool = True,
        store: str = "auto",
        dtype: str = "float64",
        verbose: int = 0,
        threads: int | None = None,
        device: str = "auto",
        metric_params: dict[str, Any] | None = None,
        n_jobs: int | None = None,
    ) -> None:
        self.n_components = n_components
        self.metric_mds = metric_mds
        self.n_init = n_init
        self.init = init
        self.max_iter = max_iter
        self.eps = eps
        self.max_time = max_time
        self.random_state = random_state
        self.metric = metric
        self.normalized_stress = normalized_stress
        self.relax = relax
        self.store = store
        self.dtype = dtype
        self.verbose = verbose
        self.threads = threads
        self.device = device
        self.metric_params = metric_params
        self.n_jobs = n_jobs

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        given = self.metric == "precomputed"
        tags.input_tags.pairwise = tags.input_tags.positive_only = given
        return tags

    @interruptible
    def fit(self, X: Any, y: Any = None, init: Any = None, weights: Any = None, *, comm: Any = None) -> Self:
        """Find a configuration.

        Parameters
        ----------
        X : array_like
            Features, shape (n, m); or for "precomputed" dissimilarities, a symmetric matrix of shape (n, n)
            or its upper triangle row by row, as `scipy.spatial.distance.pdist` returns it. float32 and
            float64 are used as they are, other numbers become float64. NaN means that a dissimilarity is
            unknown. Dissimilarities that CuPy, PyTorch, JAX or Numba have put on a GPU are used in place.
            A mapped file (``numpy.load(path, mmap_mode="r")``) of float32 or float64 is not copied.
        y : ignored
        init : array_like, shape (n, n_components), optional
            First configuration of the first start.
        weights : array_like, shape (n, n) or (n (n - 1) / 2,), optional
            Of the pairs, at least 0. A diagonal does not count.
        comm : mpi4py.MPI.Comm or PETSc.Comm, optional
            Ranks that share the passes, call this together with equal parameters, and get all results.
            Features are the rows of this rank, which come after those of the ranks before. Dissimilarities
            and weights are those of all pairs, best in a file that each rank maps.

        Returns
        -------
        MDS
            The estimator itself.

        Raises
        ------
        DataError
            If dissimilarities or weights are not symmetric, negative, or infinite; if the diagonal is not 0;
            if the known pairs fall apart into groups; if there are fewer points than components.
        ParameterError
            For a parameter out of range.
        HostMemoryError
            If the memory that `memory` predicts is not free.
        DeviceMemoryError
            If a GPU that ``device`` names, or that has the dissimilarities, has too little memory.
        Interrupted
            After Ctrl-C; its ``result`` is this estimator with the best configuration so far.
        """
        with hold_signals():
            deadline = time.monotonic() + time_limit(self.max_time)
            self._check_parameters()
            ranks = ranks_of(comm)
            ranks.check_alike(self.get_params())
            if ranks.group is not None and not self.metric_mds:
                raise ParameterError("metric_mds: found False with comm, expected True")
            with ranks.guarded():
                rows, data, self.placement_ = self._read(X, weights, ranks, single=self.dtype == "float32")
                self.placement_.log()
                self._fit(data, rows, init, deadline)
            self._remember_columns(X)
        return self

    def _fit(self, data: Dissimilarities, rows: NDArray[Any] | None, init: Any, deadline: float) -> None:
        """Run all starts and keep the best."""
        p, ordinal = self.n_components, not self.metric_mds
        if p > data.n:
            raise DataError(f"n_components: found {p}, expected at most {data.n}, the number of points")
        with data.ranks.together():
            given = None if init is None else check_start(init, data, p, ordinal=ordinal)
        disparities = Disparities(data) if ordinal else None
        stress = Stress(data, disparities, relax=self.relax)
        rng = data.ranks.first_of(self.random_state)
        line = progress_line(self.verbose)
        best = run_starts(
            stress,
            islice(make_starts(self.init, data, disparities, p, rng, deadline, given), self.n_init),
            max_iter=self.max_iter,
            eps=self.eps,
            deadline=deadline,
            relax=self.relax,
            report=partial(self._show, line),
        )
        line.clear()
        self._keep(stress, best, rows)
        self.status_ = data.ranks.agree("interrupted" if requested() else "") or best.status

    @framed
    def fit_transform(self, X: Any, y: Any = None, init: Any = None, weights: Any = None) -> Vector:
        """Find a configuration and return it.

        Parameters
        ----------
        X, y, init, weights : as for `fit`

        Returns
        -------
        ndarray, shape (n, n_components)
        """
        return self.fit(X, init=init, weights=weights).embedding_

    @framed
    def transform(self, X: Any) -> Vector:
        """Place new rows among the points of the configuration, which stay fixed.

        Each new point goes to a minimum of its own stress, the better one of two starts: Gower's point and
        the nearest point. A row with a dissimilarity of 0 to some point gets the position of the first
        such point.

        Parameters
        ----------
        X : array_like
            Features of new rows, shape (k, m); for "precomputed" their dissimilarities to the n points, shape
            (k, n), NaN for unknown ones.

        Returns
        -------
        ndarray, shape (k, n_components)
        """
        self._check_fitted()
        if self._rows is None:
            with words_for_scikit_learn(X):
                found = arguments.matrix("X", read_back(X))
            self._check_columns(X, found.shape[1])
            if not (found >= 0.0).all(where=~np.isnan(found)) or np.isinf(found).any():
                raise DataError("X: found negative or infinite numbers, expected dissimilarities or NaN")
        else:
            rows = self._read_new(read_back(X))
            if rows.sparse:
                raise DataError("X: found sparse rows, expected a dense matrix")
            found = rows[:]
        metric, knots = Metric(*self._made_with[:2]), self._knots if not self._made_with[2] else None
        places = np.empty((len(found), self.embedding_.shape[1]))
        size = max(1, BLOCK_VALUES // len(self.embedding_))
        for first in range(0, len(found), size):
            part = slice(first, first + size)
            delta = found[part] if self._rows is None else metric.between(found[part], self._rows)
            places[part] = place_new(np.asarray(delta, np.float64), self.embedding_, self._threads(), knots)
        return places

    def check_minimum(
        self,
        X: Any,
        weights: Any = None,
        *,
        stationarity: float = 1e-3,
        tol: float = 1e-6,
        max_iter: int = 100,
        max_time: float | None = None,
    ) -> MinimumTest:
        """Test whether the configuration is a local minimum, by the least eigenvalue of the Hessian.

        For ordinal scaling the disparities are held at their present values.

        Parameters
        ----------
        X, weights : as for `fit`
            The data of the fit.
        stationarity : float, default 1e-3
            Maximum of `MinimumTest.stationarity` for a verdict. A run with a smaller ``eps`` reaches less.
        tol : float, default 1e-6
            Residual of the eigenvector, relative to the largest curvature.
        max_iter : int, default 100
            Maximum number of products with the Hessian, each with 8 directions.
        max_time : float, optional
            Limit in seconds.

        Returns
        -------
        MinimumTest

        Examples
        --------
        >>> import numpy as np
        >>> from bmrm import MDS
        >>> X = np.random.default_rng(0).normal(size=(40, 5))
        >>> MDS(2, eps=1e-12, max_iter=2000).fit(X).check_minimum(X).verdict
        'minimum'
        """
        self._check_fitted()
        deadline = time.monotonic() + time_limit(max_time)
        _, data, _ = self._read(X, weights, ALONE)
        places = self.embedding_ * data.scale if self.metric_mds else self.embedding_
        if data.n != len(places):
            raise DataError(f"X: found {data.n} points, expected {len(places)} as in fit")
        test = check_minimum(
            Stress(data, None if self.metric_mds else Disparities(data)),
            places,
            stationarity=nonnegative_number("stationarity", stationarity),
            tol=nonnegative_number("tol", tol),
            max_iter=positive_integer("max_iter", max_iter),
            deadline=deadline,
            rng=random_generator(self.random_state),
        )
        return test.in_units(data.scale if self.metric_mds else 1.0, data.weight_scale)

    @property
    def dissimilarity_matrix_(self) -> Vector:
        """The dissimilarities of all points, shape (n, n)."""
        from scipy.spatial.distance import squareform

        if not self.__sklearn_is_fitted__():
            raise AttributeError("dissimilarity_matrix_: found no fitted model, expected a call of fit first")
        n = len(self.embedding_)
        require_memory(12 * n * n, "the dissimilarities", "transform and score need none")
        if self._rows is not None:
            scale, pairs = Metric(self.metric, self.metric_params).among(self._rows, self._threads())
            return np.asarray(squareform(pairs.condensed() / scale))
        if self._given is None:
            raise AttributeError(
                f"dissimilarity_matrix_: found {n} points with given dissimilarities, expected at most "
                f"{MAX_KEPT_POINTS} in main memory: of more no copy is kept"
            )
        return np.asarray(squareform(self._given))

    def memory(self, n: int, m: int | None = None) -> dict[str, int]:
        """Predict the bytes that `fit` allocates for n points, besides X and the weights, by part.

        Parameters
        ----------
        n : int
        m : int, optional
            Number of features; None if dissimilarities are given.

        Returns
        -------
        dict of str to int

        Examples
        --------
        >>> from bmrm import MDS
        >>> MDS(2, store="features").memory(100_000, 50)["pairs"]
        0
        """
        return scaling_bytes(
            n,
            self.n_components,
            m,
            stored=m is not None and self._store(n, m) == "half",
            ordinal=not self.metric_mds,
            single=self.dtype == "float32",
        )

    def _columns_out(self) -> int:
        return int(self.embedding_.shape[1])

    def _check_parameters(self) -> None:
        positive_integer("n_components", self.n_components)
        positive_integer("n_init", self.n_init)
        positive_integer("max_iter", self.max_iter)
        nonnegative_number("eps", self.eps)
        parse_device(self.device)
        arguments.flag("metric_mds", self.metric_mds)
        arguments.flag("relax", self.relax)
        progress_line(self.verbose)
        if self.normalized_stress != "auto":
            arguments.flag("normalized_stress", self.normalized_stress, "True, False or auto")
        for name, known in (("init", STARTS), ("store", STORES), ("dtype", TYPES)):
            found = getattr(self, name)
            if not isinstance(found, str) or found not in known:
                raise ParameterError(f"{name}: found {found!r}, expected one of {', '.join(known)}")
        if self.dtype == "float32" and not self.metric_mds:
            raise ParameterError("dtype: found float32 with metric_mds=False, expected float64")
        Metric(self.metric, self.metric_params).check()
        self._threads()
        if self.store == "features" and (self.metric != "euclidean" or not self.metric_mds):
            raise ParameterError(
                "store: found 'features', expected auto or half: only metric scaling of Euclidean distances "
                "need not store pairs"
            )

    def _read(
        self, X: Any, weights: Any, ranks: AllRanks, *, single: bool = False
    ) -> tuple[NDArray[Any] | None, Dissimilarities, Placement]:
        """Return the features, None for given dissimilarities; the dissimilarities; and where these are."""
        found = read_proximities(X, Metric(self.metric, self.metric_params), self._threads(), ranks)
        with ranks.together():
            _require_memory(found.n, self.memory(found.n, found.features))
        placement = self._choose_device(X, found)
        if is_on_device(weights):
            placement = replace(placement, chosen=False)  # the CPU does not read them

        def opened(gpu: int | None) -> Dissimilarities:
            stored = found.features is not None and self._store(found.n, found.features, gpu) == "half"
            stored = ranks.everyones(stored)[0]
            return found.opened(weights, gpu, stored=stored, threads=self._threads(), single=single)

        data, placement = with_fall_back(placement, lambda: opened(None), lambda gpu: (opened(gpu), ""))
        return found.rows, data, placement

    def _choose_device(self, X: Any, found: Proximities) -> Placement:
        """Decide where the passes run."""
        p, work = self.n_components, None
        if self.metric_mds and p <= MAX_AXES:
            work = found.work(p, self.max_iter, self._threads(), single=self.dtype == "float32")
        # A copy of features is small.
        there = gpu_that_has(X) if found.given is not None else None
        placement = place(self.device, there, work, group=found.ranks.group)
        if placement.gpu is not None and work is None:
            text = f"n_components: found {p} on a GPU, expected at most {MAX_AXES}; more need"
            if not self.metric_mds:
                text = "metric_mds: found False on a GPU, expected True: ordinal scaling needs"
            raise ParameterError(f"{text} device='cpu' and dissimilarities in main memory")
        return placement

    def _store(self, n: int, m: int, gpu: int | None = None) -> str:
        if self.metric != "euclidean" or not self.metric_mds:
            return "half"
        if self.store != "auto":
            return self.store
        free = available_bytes() if gpu is None else import_cuda().device_info(gpu)["free_bytes"]
        too_large = free is not None and 4 * n * (n - 1) > STORED_SHARE * free
        return "features" if m <= MAX_RECOMPUTED_FEATURES or too_large else "half"

    def _show(self, line: ProgressLine, number: int, run: ScalingRun) -> None:
        start = (f"start {number + 1} of {self.n_init}",) if self.n_init > 1 else ()
        line.update(lambda: run.progress(start, self.max_iter, self.eps))

    def _keep(self, stress: Stress, run: ScalingRun, rows: NDArray[Any] | None) -> None:
        data, found, disparities = stress.data, run.found, stress.disparities
        unit, weight_unit = data.scale if disparities is None else 1.0, data.weight_scale
        if disparities is not None:
            found = stress.at(found.X)  # an array; the last pass may have been elsewhere
            self.disparities_ = disparities.values.copy()
            self._knots = disparities.knots()
        self.embedding_: Vector = found.X / unit
        if (self.embedding_ * unit != found.X).any():  # denormal numbers, which lose digits
            found = stress.fetch(stress.at(stress.passes.put(self.embedding_ * unit)))
        stresses = np.array([found.stress, bound_stress_error(stress, found), *run.history])
        self.raw_stress_, self.stress_error_, *self.history_ = divided(
            stresses, weight_unit, unit, unit
        ).tolist()
        self.normalized_stress_ = found.normalized
        wanted = self.normalized_stress
        normalized = not self.metric_mds if wanted == "auto" else bool(wanted)
        self.stress_ = self.normalized_stress_ if normalized else self.raw_stress_
        gradient = gradient_norm(stress, found)
        self.gradient_norm_, self.gradient_error_ = gradient.in_units(unit, weight_unit)
        self.stationarity_ = gradient.stationarity
        self.n_iter_ = run.n_iter
        self._rows = None if rows is None else rows.copy()
        self._given: Vector | None = None
        if rows is None and data.n <= MAX_KEPT_POINTS:
            assert data.given is not None
            if isinstance(data.given.values, np.ndarray):
                self._given = data.given.condensed() / data.scale
        self._made_with = self.metric, self.metric_params, self.metric_mds  # may be set after a fit
        self.n_features_in_ = data.n if rows is None else rows.shape[1]


def _require_memory(n: int, parts: dict[str, int]) -> None:
    """Raise `HostMemoryError` if what n points need is not free."""
    needed, free = sum(parts.values()), available_bytes()
    if free is not None and needed > free:
        raise HostMemoryError(
            f"out of memory: {n} points need {needed / 1e9:.4g} GB, {max(free, 0) / 1e9:.4g} GB are free"
        )
