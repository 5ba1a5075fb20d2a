"""Nearest neighbours with scikit-learn's names, by `bmrm.pairs.nearest` and `bmrm.pairs.within`."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from bmrm.base.arguments import flag
from bmrm.base.suggestions import check_choice
from bmrm.base.vectors import Indices, Vector, index_type
from bmrm.distributed.reading import read_new_rows
from bmrm.errors import ParameterError
from bmrm.matrix.gpu.devices import parse_device
from bmrm.pairs._pairs import METRICS
from bmrm.pairs.neighbours import nearest, nearest_graph, within
from bmrm.pairs.points import KeptRows, read_box
from bmrm.pairs.sides import read_rows
from bmrm.unsupervised.estimator import RowEstimator, require_dense

if TYPE_CHECKING:
    from scipy.sparse import csr_array

MODES = ("connectivity", "distance")
"""What graphs have for a neighbour: 1, or its distance."""


class NearestNeighbors(RowEstimator):
    """Neighbours of rows among those of fit, exact in float64.

    Neighbours are ordered by distance and then by index. Parameters, methods and attributes have
    scikit-learn's names.

    Parameters
    ----------
    n_neighbors : int, default 5
    radius : float, default 1.0
    metric : {"euclidean", "sqeuclidean", "cosine", "manhattan", "chebyshev", "jaccard"}
        By default "euclidean".
    box : float or array, shape (d,), optional
        Lengths of a periodic box, 0 for an axis that is open.
    device : {"auto", "cpu", "cuda", "cuda:N"}, default "auto"
        Where neighbours are found; "auto": where that is predicted to be faster.
    threads : int, optional
        Maximum number of threads; default: ``n_jobs``, or else the cores that this process may use.
    n_jobs : int, optional
        As ``threads``, scikit-learn's name; -1 means all cores.

    Attributes
    ----------
    n_samples_fit_ : int
    effective_metric_ : str
    n_features_in_ : int
    feature_names_in_ : ndarray of str
        Names of the columns, if X is a frame that has them.

    See Also
    --------
    bmrm.pairs.nearest, bmrm.pairs.within : the functions.

    Examples
    --------
    >>> from bmrm import NearestNeighbors
    >>> found = NearestNeighbors(n_neighbors=1).fit([[0.0, 0], [1, 0], [3, 0]])
    >>> distances, indices = found.kneighbors([[2.6, 0]])
    >>> distances.round(2).tolist(), indices.tolist()
    ([[0.4]], [[2]])
    >>> found.kneighbors_graph().toarray()
    array([[0., 1., 0.],
           [1., 0., 0.],
           [0., 1., 0.]])
    >>> found.radius_neighbors([[2.6, 0]], radius=2.0)[1][0].tolist()
    [1, 2]
    """

    _reads_sparse = False

    def __init__(
        self,
        n_neighbors: int = 5,
        radius: float = 1.0,
        *,
        metric: str = "euclidean",
        box: Any = None,
        device: str = "auto",
        threads: int | None = None,
        n_jobs: int | None = None,
    ) -> None:
        self.n_neighbors = n_neighbors
        self.radius = radius
        self.metric = metric
        self.box = box
        self.device = device
        self.threads = threads
        self.n_jobs = n_jobs

    def fit(self, X: Any, y: Any = None) -> Self:
        """Store the rows among which neighbours are found.

        Parameters
        ----------
        X : array, shape (n, d)
            Of NumPy, a memory-mapped file, a data frame, or any library with DLPack.
        y : ignored

        Returns
        -------
        NearestNeighbors
        """
        check_choice("metric", self.metric, METRICS)
        parse_device(self.device)
        self._fit_X = read_rows("x", np.array(require_dense(read_new_rows(X))[:], np.float64))
        read_box(self.box, self._fit_X.shape[1])
        self.n_samples_fit_, self.n_features_in_ = self._fit_X.shape
        self.effective_metric_ = self.metric
        self._remember_columns(X)
        return self

    def kneighbors(
        self, X: Any = None, n_neighbors: int | None = None, return_distance: bool = True
    ) -> tuple[Vector, Indices] | Indices:
        """Find the nearest neighbours of rows.

        Parameters
        ----------
        X : array, shape (m, d), optional
            By default the rows of fit, none of which is its own neighbour.
        n_neighbors : int, optional
        return_distance : bool, default True

        Returns
        -------
        distances : ndarray of float64, shape (m, n_neighbors)
            If they are wanted.
        indices : ndarray of int64, shape (m, n_neighbors)
        """
        found = nearest(
            self.n_neighbors if n_neighbors is None else n_neighbors, *self._sides(X), **self._words()
        )
        return found if flag("return_distance", return_distance) else found[1]

    def radius_neighbors(
        self,
        X: Any = None,
        radius: float | None = None,
        return_distance: bool = True,
        sort_results: bool = False,
    ) -> Any:
        """Find all neighbours of rows within a radius.

        Parameters
        ----------
        X : array, shape (m, d), optional
            By default the rows of fit, none of which is its own neighbour.
        radius : float, optional
        return_distance : bool, default True
        sort_results : bool, default False
            By distance instead of by index.

        Returns
        -------
        distances : ndarray of object, shape (m,)
            An array of float64 per row, if they are wanted.
        indices : ndarray of object, shape (m,)
            An array of int64 per row.
        """
        if sort_results and not flag("return_distance", return_distance):
            raise ParameterError("sort_results: found True without return_distance, expected both")
        graph = self.radius_neighbors_graph(X, radius, "distance", sort_results)
        values = (graph.data, graph.indices.astype(np.int64))
        lists = [_lists(each, graph.indptr) for each in values]
        return tuple(lists) if return_distance else lists[1]

    def kneighbors_graph(
        self, X: Any = None, n_neighbors: int | None = None, mode: str = "connectivity"
    ) -> csr_array:
        """Return the graph of the nearest neighbours of rows.

        Parameters
        ----------
        X, n_neighbors
            As for `kneighbors`.
        mode : {"connectivity", "distance"}, default "connectivity"
            Ones, or distances.

        Returns
        -------
        csr_array, shape ``(m, n_samples_fit_)``
            Each row by distance.
        """
        check_choice("mode", mode, MODES)
        distances, indices = self.kneighbors(X, n_neighbors)
        columns = self.n_samples_fit_
        kind = index_type(max(indices.size, columns))
        graph = nearest_graph(distances, indices.astype(kind), columns)
        if mode == "connectivity":
            graph.data[:] = 1.0
        return graph

    def radius_neighbors_graph(
        self,
        X: Any = None,
        radius: float | None = None,
        mode: str = "connectivity",
        sort_results: bool = False,
    ) -> csr_array:
        """Return the graph of the neighbours of rows within a radius.

        Parameters
        ----------
        X, radius, sort_results
            As for `radius_neighbors`.
        mode : {"connectivity", "distance"}, default "connectivity"
            Ones, or distances.

        Returns
        -------
        csr_array, shape ``(m, n_samples_fit_)``
        """
        check_choice("mode", mode, MODES)
        graph = within(self.radius if radius is None else radius, *self._sides(X), **self._words())
        if flag("sort_results", sort_results):
            of_row = np.repeat(np.arange(graph.shape[0]), np.diff(graph.indptr))
            order = np.lexsort((graph.indices, graph.data, of_row))
            graph.data, graph.indices = graph.data[order], graph.indices[order]
            graph.has_canonical_format = graph.has_sorted_indices = False
        if mode == "connectivity":
            graph.data[:] = 1.0
        return graph

    def _sides(self, X: Any) -> tuple[Any, KeptRows | None]:
        """Return whose neighbours are sought, and among which rows, which stay on a GPU between calls."""
        self._check_fitted()
        return (self._fit_X, None) if X is None else (require_dense(self._read_new(X))[:], self._fit_X)

    def _words(self) -> dict[str, Any]:
        return {
            "metric": self.effective_metric_,
            "box": self.box,
            "device": self.device,
            "threads": self._threads(),
        }


def _lists(values: Any, starts: Any) -> Any:
    """Return an array of arrays, one per row."""
    found = np.empty(len(starts) - 1, object)
    for i, (first, last) in enumerate(pairwise(starts.tolist())):
        found[i] = values[first:last]
    return found
