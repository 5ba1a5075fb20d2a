"""k-means with labels that are exact in float64."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from bmrm.base import arguments
from bmrm.base.answers import with_coordinates
from bmrm.base.arguments import nonnegative_number, positive_integer, time_limit
from bmrm.base.estimator import FittedAnswer, convergence_warning
from bmrm.base.frames import RowTransformer, framed
from bmrm.base.host_memory import require_memory
from bmrm.base.interrupts import hold_signals, interruptible, requested
from bmrm.base.notices import warn
from bmrm.base.progress import ProgressLine, ProgressStep, progress_line
from bmrm.base.vectors import Vector
from bmrm.distributed.reading import read_row_set
from bmrm.distributed.row_set import RowSet
from bmrm.errors import DataError, ParameterError
from bmrm.matrix.gpu.cpu_share import parse_share
from bmrm.matrix.gpu.devices import parse_device
from bmrm.matrix.gpu.placement import Placement, place
from bmrm.unsupervised.clusters.gpu import open_clusters
from bmrm.unsupervised.clusters.lloyd import Clustering, run_lloyd
from bmrm.unsupervised.clusters.lower_bounds import ClusterCertificate, certify
from bmrm.unsupervised.clusters.passes import ClusterPasses
from bmrm.unsupervised.clusters.seeding import check_centers, check_values, first_centers
from bmrm.unsupervised.clusters.work import kmeans_work, sparse_kmeans_work
from bmrm.unsupervised.scales import UNSCALED, Scales, in_safe_units

INITS = ("k-means++", "k-means||", "random")
"""First centres that have a name."""

ALGORITHMS = ("lloyd", "elkan")
"""scikit-learn's names of ways to the same result."""

RANDOM_STARTS = 10
"""Starts of ``n_init="auto"`` from random rows; one is enough for k-means++ and k-means||."""


CENTER_COPIES = 4
"""Arrays of the size of the centres that a fit has at least: centres before and after a move, and sums."""


@dataclass(frozen=True)
class KMeansProgress:
    """What a callback gets after each pass.

    Attributes
    ----------
    start : int
        Number of the start, from 0.
    iteration : int
        Moves of the centres so far.
    inertia : float
    changed : int
        Labels that changed in the pass.
    seconds : float
        Since the call of fit.
    """

    start: int
    iteration: int
    inertia: float
    changed: int
    seconds: float

    def words(self) -> tuple[str, ...]:
        """Return words for a line of progress."""
        start = () if self.start == 0 else (f"start {self.start + 1}",)
        return (
            *start,
            f"move {self.iteration}",
            f"inertia {self.inertia:.6g}",
            f"{self.changed} labels changed",
        )


class FittedClusters(FittedAnswer):
    """Clusters as a table: weights and centres."""

    cluster_centers_: Vector
    cluster_weights_: Vector
    _numbers = ("status_", "inertia_", "inertia_error_", "n_iter_", "rechecked_", "placement_.device")

    def _columns(self) -> dict[str, Any]:
        self._check_fitted()
        found: dict[str, Any] = {"cluster": np.arange(len(self.cluster_centers_))}
        if hasattr(self, "cluster_weights_"):  # not of given centres
            found["total_weight"] = self.cluster_weights_
        return with_coordinates(found, self._known_columns(), self.cluster_centers_)


class KMeans(FittedClusters, RowTransformer):
    """k-means clustering by Lloyd's method.

    Labels are those of float64 distances, row by row: a fast pass in float32 is used only if a bound on its
    error proves the label. All sums are in float64, and results have the same bits for any number of threads.
    Parameters, methods and attributes have scikit-learn's names.

    Parameters
    ----------
    n_clusters : int, default 8
    init : {"k-means++", "k-means||", "random"}, ndarray of shape (n_clusters, d), or callable
        First centres: by k-means++ with 2 + ln k trials per centre, the default; by k-means||, which reads
        the rows some ten times instead of once or twice per centre, for many clusters, ranks and large files;
        random rows; the given ones; or what ``init(X, n_clusters, random_state)`` returns, on the GPU if X is
        there or in main memory.
    n_init : int or "auto", default "auto"
        Number of starts, of which the one with the least inertia is kept. "auto" is 10 for "random" or a
        callable, else 1. Given centres have one start.
    max_iter : int, default 300
        Maximum number of moves of the centres.
    tol : float, default 1e-4
        A run also ends when the sum of squared moves of the centres is at most ``tol`` times the average
        variance of a column. With 0 it ends when no label changes.
    max_time : float, optional
        Limit in seconds; the state reached by then is kept.
    random_state : int, Generator or RandomState, optional
        Equal numbers give equal results.
    device : {"auto", "cpu", "cuda", "cuda:N"}, default "auto"
        "auto" is the GPU that has X. For X in main memory it is a GPU if that is predicted to be faster,
        upload included, and else the CPU. Labels are the same on both; sums differ by rounding.
    threads : int, optional
        Maximum number of threads; default: the cores that this process may use.
    cpu_share : float or "auto", optional
        The CPU's share, in eighths, of the blocks of rows that do not fit on a GPU; see docs/kmeans.md.
    callback : callable, optional
        Called with a `KMeansProgress` after each pass.
    verbose : int, default 0
        1 shows a progress line on a terminal, 2 a line per pass.
    copy_x : bool, default True
        Changes nothing: X is never written to.
    algorithm : {"lloyd", "elkan"}, default "lloyd"
        Changes nothing: both are the same method, and bounds on distances are used where they pay.

    Attributes
    ----------
    cluster_centers_ : ndarray of float64, shape (n_clusters, d)
    labels_ : ndarray of int32, shape (n,)
        Nearest centre of each row, ties to the least number.
    inertia_ : float
        Sum of ``w |x - c|^2`` over the rows, c being the nearest centre.
    inertia_error_ : float
        Bound on the rounding error of ``inertia_``.
    cluster_weights_ : ndarray, shape (n_clusters,)
        Sum of the weights of the rows of each centre.
    n_iter_ : int
    history_ : list of float
        Inertia before each move of the centres, and at the end. It never rises by more than rounding.
    status_ : {"converged", "precision", "max_iter", "max_time", "interrupted"}
        "precision": labels still change, but rounding hides whether the inertia falls.
    rechecked_ : float
        Share of labels that the float32 pass could not prove and that were resolved in float64.
    placement_ : Placement
        Where it ran, and why: ``placement_.device`` and ``placement_.reason``.
    n_features_in_ : int
    feature_names_in_ : ndarray of str
        Names of the columns, if X is a frame that has them. Rows with other names are refused later.

    See Also
    --------
    bmrm.reduction : passes of your own over the rows.

    References
    ----------
    S. P. Lloyd, Least squares quantization in PCM, IEEE Trans. Inform. Theory 28 (1982).
    D. Arthur and S. Vassilvitskii, k-means++: the advantages of careful seeding, SODA 2007.
    B. Bahmani et al., Scalable k-means++, VLDB 2012.

    Examples
    --------
    >>> import numpy as np
    >>> from bmrm import KMeans
    >>> X = np.array([[1.0, 2], [1, 4], [1, 0], [10, 2], [10, 4], [10, 0]])
    >>> found = KMeans(2, random_state=0).fit(X)
    >>> np.sort(found.cluster_centers_[:, 0]), found.inertia_, found.status_
    (array([ 1., 10.]), 16.0, 'converged')
    >>> found.predict([[2.0, 3.0]]) == found.labels_[0], found.transform([[1.0, 2.0]]).min(axis=1)
    (array([ True]), array([0.]))
    >>> found.score(X), KMeans(2, random_state=0).fit_predict(X).shape, found.fit_transform(X).shape
    (-16.0, (6,), (6, 2))
    """

    _estimator_type = "clusterer"

    def __init__(
        self,
        n_clusters: int = 8,
        *,
        init: Any = "k-means++",
        n_init: int | str = "auto",
        max_iter: int = 300,
        tol: float = 1e-4,
        max_time: float | None = None,
        random_state: Any = None,
        device: str = "auto",
        threads: int | None = None,
        cpu_share: float | str | None = None,
        callback: Callable[[KMeansProgress], object] | None = None,
        verbose: int = 0,
        copy_x: bool = True,
        algorithm: str = "lloyd",
    ) -> None:
        self.n_clusters = n_clusters
        self.init = init
        self.n_init = n_init
        self.max_iter = max_iter
        self.tol = tol
        self.max_time = max_time
        self.random_state = random_state
        self.device = device
        self.threads = threads
        self.cpu_share = cpu_share
        self.callback = callback
        self.verbose = verbose
        self.copy_x = copy_x
        self.algorithm = algorithm

    @classmethod
    def of_centers(cls, centers: Any, **parameters: Any) -> Self:
        """Return a model that labels rows by given centres, as if fitted.

        Parameters
        ----------
        centers : array_like, shape (k, d)
        **parameters
            Of the constructor.

        Returns
        -------
        KMeans
            It has no attributes of a fit except ``cluster_centers_`` and ``n_features_in_``.

        Raises
        ------
        ParameterError
            If the centres are not a finite matrix.

        Examples
        --------
        >>> KMeans.of_centers([[0.0, 0.0], [9.0, 9.0]]).predict([[1.0, 2.0], [8.0, 7.0]])
        array([0, 1], dtype=int32)
        """
        found = arguments.numbers("centers", centers, ParameterError)
        if found.ndim != 2 or not found.size:
            raise ParameterError(f"centers: found shape {found.shape}, expected a matrix")
        check_values("centers", found)
        model = cls(len(found), **parameters)
        model.cluster_centers_ = np.array(found)
        model.n_features_in_ = found.shape[1]
        return model

    @interruptible
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None, *, comm: Any = None) -> Self:
        """Find centres.

        Parameters
        ----------
        X : ndarray, SciPy sparse matrix, Csr, dense Dataset, or dense array on a GPU, shape (n, d)
            float32 or float64; other numbers become float64. Dense rows are packed, which takes 4 n d bytes;
            if these would be more than half of the free memory, blocks of rows are packed in each pass, so
            that a mapped file may be larger than the memory. Of a `bmrm.Dataset` its weights count, unless
            others are given.
        y : ignored
        sample_weight : array_like, shape (n,), optional
            At least 0. A row of weight 2 counts like two rows, a row of weight 0 only gets a label.
        comm : mpi4py.MPI.Comm or PETSc.Comm, optional
            X and the weights are the rows of this rank, at least one, which come after those of the ranks
            before. All ranks must call this at the same time, with equal parameters. ``labels_`` are those of
            the rows of this rank; all else is the same on all ranks, on CPUs with the same bits as without
            ranks if the rows of each rank begin at a multiple of a power of two of rows, see
            docs/reductions.md. On GPUs each rank takes one of its machine.

        Returns
        -------
        KMeans
            The estimator itself.

        Raises
        ------
        DataError
            If X is not a matrix of finite numbers, has fewer rows of positive weight than clusters, or the
            weights do not fit.
        ParameterError
            For a parameter out of range.
        Interrupted
            After Ctrl-C; its ``result`` is this estimator with the best centres so far.
        """
        with hold_signals():
            started = time.monotonic()
            self._check_parameters()
            rows = read_row_set(X, sample_weight, threads=self.threads, comm=comm)
            rows.check_alike(self.get_params())
            given = self._given_centers(rows.shape[1])
            self._check_count(rows.count_positive(), weighted=rows.weights is not None)
            needed = CENTER_COPIES * 8 * self.n_clusters * rows.shape[1]
            require_memory(needed, "the centres and their sums", "fewer clusters or columns need less")
            with rows.guarded():
                safe, scales = in_safe_units(rows, given)
                passes, self.placement_ = self._passes(safe, fitting=True)
                self.placement_.log()
                self._cluster(passes, rows, rows.first_of(self.random_state), started, scales)
            self._remember_columns(X)
        self._warn_of_empty_clusters()
        return self

    def _passes(self, rows: RowSet, *, fitting: bool = False) -> tuple[ClusterPasses, Placement]:
        """Put rows where they are worked on; in a fit for many passes, else for one."""
        k = self.n_clusters if fitting else len(self.cluster_centers_)
        return open_clusters(rows, self._place(rows, k, fitting=fitting), k, parse_share(self.cpu_share))

    def _place(self, rows: RowSet, k: int, *, fitting: bool = False) -> Placement:
        X, size = rows.X, (rows.most_here, rows.shape[1])
        options = {"threads": rows.threads, **self._work_options(rows.shape[1], fitting=fitting)}
        if X.sparse:
            work = sparse_kmeans_work(*size, max(rows.everyones(X.size)), k, X.value_bytes, **options)
        else:
            work = kmeans_work(*size, k, X.dtype.itemsize, **options)
        return place(self.device, rows.gpu, work, group=rows.group)

    def _work_options(self, columns: int, *, fitting: bool) -> dict[str, Any]:
        """Return what the work of a fit, or of one pass, depends on besides the rows."""
        if not fitting:
            return {"moves": 0, "starts": 1, "init": ""}
        return {
            "moves": self.max_iter,
            "starts": self._starts(self._given_centers(columns)),
            "init": self.init if isinstance(self.init, str) else "",
        }

    def _cluster(
        self,
        passes: ClusterPasses,
        rows: RowSet | None,
        rng: np.random.Generator,
        started: float,
        scales: Scales = UNSCALED,
    ) -> Self:
        """Run all starts and keep the best.

        - ``rows``: those of the user, for k-means|| and a callable ``init``
        - ``scales``: by which they were multiplied for the passes
        """
        given = self._given_centers(passes.shape[1])
        init = self.init if given is None else given
        tol = self.tol * _mean_variance(passes)
        deadline = started + time_limit(self.max_time)
        best: Clustering | None = None
        rechecked = labelled = 0
        line = progress_line(self.verbose)
        for start in range(self._starts(given)):
            try:
                centers = first_centers(init, passes, rows, self.n_clusters, rng, scales)
            except KeyboardInterrupt:
                if best is None:
                    raise
                break
            run = run_lloyd(
                passes,
                centers,
                max_iter=self.max_iter,
                tol=tol,
                deadline=deadline,
                after_pass=self._after_pass(start, started, line, scales),
            )
            rechecked += run.rechecked
            labelled += len(run.history) * passes.shape[0]
            if best is None or run.inertia < best.inertia:
                best = run
            if run.status in ("max_time", "interrupted"):
                break
        line.clear()
        assert best is not None
        status = passes.agree("interrupted" if requested() else "") or best.status
        self._keep(passes, best, status, rechecked / labelled, scales)
        return self

    def fit_predict(self, X: Any, y: Any = None, sample_weight: Any = None) -> NDArray[np.int32]:
        """Find centres and return the labels of the rows.

        Parameters
        ----------
        X, y, sample_weight : as for `fit`

        Returns
        -------
        ndarray of int32, shape (n,)
        """
        return self.fit(X, sample_weight=sample_weight).labels_

    def predict(self, X: Any) -> NDArray[np.int32]:
        """Return the nearest centre of each row, exact in float64, ties to the least.

        Parameters
        ----------
        X : as for `fit`

        Returns
        -------
        ndarray of int32, shape (n,)
        """
        passes, centers, _ = self._open(self._read_new_rows(X))
        passes.assign(centers, want_sums=False)
        return passes.labels()

    @framed
    def transform(self, X: Any) -> Vector:
        """Return the distances from each row to all centres.

        Parameters
        ----------
        X : as for `fit`

        Returns
        -------
        ndarray of float64, shape (n, n_clusters)
        """
        rows = self._read_new_rows(X)
        k = len(self.cluster_centers_)
        require_memory(8 * rows.here * k, "the distances", "fewer rows at a time need less")
        passes, centers, scales = self._open(rows)
        return scales.points(passes.distances(centers))

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Return minus the inertia of rows for the centres of this model.

        Parameters
        ----------
        X : array or matrix as for `fit`, shape (m, d)
        y : ignored
        sample_weight : array_like, shape (m,), optional
            At least 0. A row of weight 2 counts like two rows.

        Returns
        -------
        float
            Minus the sum of the squared distances of the rows to their nearest centres.
        """
        passes, centers, scales = self._open(self._read_new_rows(X, sample_weight))
        return -scales.known_inertia(passes.assign(centers, want_sums=False).inertia)

    def _open(self, rows: RowSet) -> tuple[ClusterPasses, Vector, Scales]:
        """Put rows where they are worked on once; return the centres in their units too."""
        safe, scales = in_safe_units(rows, self.cluster_centers_)
        return self._passes(safe)[0], scales.scaled(self.cluster_centers_), scales

    def _columns_out(self) -> int:
        return len(self.cluster_centers_)

    def _read_new_rows(self, X: Any, sample_weight: Any = None, comm: Any = None) -> RowSet:
        """Validate rows that the model is applied to."""
        self._check_fitted()
        rows = read_row_set(X, sample_weight, threads=self.threads, comm=comm)
        self._check_columns(X, rows.shape[1])
        return rows

    def certificate(
        self,
        X: Any,
        sample_weight: Any = None,
        *,
        comm: Any = None,
        samples: int = 16,
        size: int = 150,
        confidence: float = 0.999,
    ) -> ClusterCertificate:
        """Bound how far the inertia is from the smallest possible one, and look for single moves.

        Two bounds are computed, and the larger is returned. The sum of all eigenvalues of the scatter matrix
        but the k - 1 largest never exceeds the inertia of any k centres; it is computed for up to 1024
        columns, where the passes run if the rows are dense. The other one bounds the optimum of
        ``samples`` random samples by the dual of the relaxation of Peng and Wei; the mean optimum per row of
        a sample is at most that of all rows, and Markov's inequality turns the least of the samples' bounds
        into a bound of the given confidence. It is the stronger one for up to some 20 clusters. Its time
        grows as ``samples * size**3``.

        Parameters
        ----------
        X, sample_weight, comm : as for `fit`
        samples : int, default 16
            0 leaves the second bound out.
        size : int, default 150
            Rows of a sample, drawn with replacement by their weights.
        confidence : float, default 0.999

        Returns
        -------
        ClusterCertificate

        References
        ----------
        J. Peng and Y. Wei, Approximating k-means-type clustering via semidefinite programming, SIAM J. Optim.
        18 (2007).
        D. Mixon and S. Villar, Monte Carlo approximation certificates for k-means clustering,
        arXiv:1710.00956.

        Examples
        --------
        >>> import numpy as np
        >>> from bmrm import KMeans
        >>> X = np.repeat([[0.0, 0.0], [9.0, 0.0], [0.0, 9.0]], 30, axis=0)
        >>> X += np.random.default_rng(0).normal(size=X.shape)
        >>> found = KMeans(3, random_state=0).fit(X).certificate(X, samples=4, size=40)
        >>> found.lower_bound <= found.inertia, found.moves_left
        (True, 0)
        """
        if arguments.integer("samples", samples) < 0:
            raise ParameterError(f"samples: found {samples}, expected at least 0")
        if not 0.0 < arguments.number("confidence", confidence) < 1.0:
            raise ParameterError(f"confidence: found {confidence}, expected a number between 0 and 1")
        rows = self._read_new_rows(X, sample_weight, comm)
        with rows.guarded():
            rows, scales = in_safe_units(rows, self.cluster_centers_)
            centers, sampling = scales.scaled(self.cluster_centers_), (samples, size, confidence)
            placement = self._place(rows, len(centers))
            return certify(rows, centers, placement, scales, *sampling, self.random_state)

    def _check_parameters(self) -> None:
        positive_integer("n_clusters", self.n_clusters)
        positive_integer("max_iter", self.max_iter)
        nonnegative_number("tol", self.tol)
        time_limit(self.max_time)
        if self.n_init != "auto":
            positive_integer("n_init", self.n_init)
        if isinstance(self.init, str) and self.init not in INITS:
            raise ParameterError(
                f"init: found {self.init!r}, expected {', '.join(INITS)}, centres or a callable"
            )
        arguments.flag("copy_x", self.copy_x)
        if self.algorithm not in ALGORITHMS:
            raise ParameterError(f"algorithm: found {self.algorithm!r}, expected {' or '.join(ALGORITHMS)}")
        if self.callback is not None and not callable(self.callback):
            raise ParameterError(f"callback: found {self.callback!r}, expected a callable")
        parse_device(self.device)
        parse_share(self.cpu_share)
        progress_line(self.verbose)

    def _after_pass(
        self, start: int, began: float, line: ProgressLine, scales: Scales
    ) -> Callable[[int, float, int], object]:
        """Return the function that reports each pass of a start to the callback, and shows it."""

        def report(iteration: int, inertia: float, changed: int) -> None:
            inertia = scales.inertia(inertia)
            state = KMeansProgress(start, iteration, inertia, changed, time.monotonic() - began)
            if self.callback is not None:
                self.callback(state)
            line.update(lambda: ProgressStep(state.words()))

        return report

    def _check_count(self, counted: int, *, weighted: bool) -> None:
        if self.n_clusters > counted:
            kind = f"at most {counted}, the number of {'rows of positive weight' if weighted else 'rows'}"
            raise DataError(f"n_clusters: found {self.n_clusters}, expected {kind}")

    def _given_centers(self, columns: int) -> Vector | None:
        if isinstance(self.init, str) or callable(self.init):
            return None
        return check_centers(self.init, self.n_clusters, columns)

    def _starts(self, given: Vector | None) -> int:
        if given is not None:
            return 1  # every start would be the same
        if self.n_init != "auto":
            return int(self.n_init)
        return RANDOM_STARTS if callable(self.init) or self.init == "random" else 1

    def _keep(
        self, passes: ClusterPasses, run: Clustering, status: str, rechecked: float, scales: Scales
    ) -> None:
        centers, labels, weights, inertia = run.centers, run.labels, run.cluster_weights, run.inertia
        self.cluster_centers_ = scales.points(centers)
        if scales.rows and (scales.scaled(self.cluster_centers_) != centers).any():
            centers = scales.scaled(self.cluster_centers_)  # denormal numbers, which lose digits
            found = passes.assign(centers, want_sums=False)
            labels, weights, inertia = passes.labels(), found.cluster_weights, found.inertia
        self.labels_ = labels
        self.inertia_ = scales.known_inertia(inertia)
        self.inertia_error_ = scales.bounds(0.0, passes.inertia_error(centers, inertia))[1]
        self.cluster_weights_ = scales.of_weights(weights)
        self.n_iter_ = run.n_iter
        self.history_ = [scales.inertia(value) for value in run.history]
        self.status_ = status
        self.rechecked_ = rechecked
        self.n_features_in_ = passes.shape[1]

    def _warn_of_empty_clusters(self) -> None:
        empty = int(np.count_nonzero(self.cluster_weights_ == 0.0))
        if empty and self.status_ == "converged":
            text = f"{empty} of {self.n_clusters} clusters are empty: all rows are at the others"
            warn(text, convergence_warning())


def _mean_variance(passes: ClusterPasses) -> float:
    """Return the variance of a column, averaged over the columns."""
    origin = passes.take(np.array([0]))
    found = passes.assign(origin)
    total = found.cluster_weights[0]
    mean = origin + found.sums / total
    return float(passes.assign(mean, want_sums=False).inertia / (total * passes.shape[1]))
