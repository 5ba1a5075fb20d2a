"""The rows that `PCA` and `TruncatedSVD` decompose: A = diag(sqrt w) (X - 1 m'), and products with A'A.

Rows and weights whose squares, or whose sums of squares, are far from 1 are multiplied by powers of two
first, which is exact: products of float64 overflow above 1e154 and vanish below 1e-162. The results are
multiplied back at the end.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from bmrm.base.host_memory import require_memory
from bmrm.base.vectors import Vector, dot
from bmrm.distributed.reading import read_product_rows
from bmrm.errors import DataError, ParameterError
from bmrm.matrix.gpu.cpu_share import Share
from bmrm.matrix.gpu.placement import Placement, place
from bmrm.unsupervised.decomposition.gpu import DeviceGram, open_gram
from bmrm.unsupervised.decomposition.scatter import (
    Scatter,
    block_rows,
    resident_matrix,
    rounding_bound,
    scatter_matrix,
    scatter_of_matrix,
    underflow_bound,
)
from bmrm.unsupervised.decomposition.short_rows import ShortRows, gathered
from bmrm.unsupervised.decomposition.work import gram_work

SHORT_ROW = 64
"""Average number of stored values up to which products visit rows by length: if each row has another one
than that before it, the ends of loops are mispredicted. With 10 values, 1.2 ms instead of 1.7."""

MATRIX_COPIES = 2
"""Matrices d x d that there are at least when the covariance matrix is computed."""

MIN_SIZE, MAX_SIZE = 2.0**-200, 2.0**900
"""Sums of squares of rows that are decomposed as they are."""

DIGITS_LOST = 1e-4
"""Share of a mean square that the variance of a coordinate may be before it is computed from differences."""


class DecomposedRows:
    """Rows to decompose, and products with A'A or A A'.

    Parameters
    ----------
    X, sample_weight, threads, comm
        See `PCA.fit`.
    center : bool
        Whether m is the mean, else 0.
    by_gram : callable
        Whether rows of some columns are decomposed by their covariance matrix.
    share : Share, default 0
        The CPU's share of blocks that do not stay on a GPU; see `bmrm.matrix.gpu.cpu_share.parse_share`.

    Attributes
    ----------
    set : RowSet
    shape : (int, int)
    total : float
        Sum of the weights, in their unit.
    exponent, half_weight_exponent : int
        The rows are multiplied by 2^exponent, and their weights by 4^half_weight_exponent.
    mean : ndarray, shape (d,)
    trace, trace_error, rounding : float
        Sum of the eigenvalues of A'A, a bound on its error, and one on that of a product with a vector of
        length 1; `prepare` sets them.
    short : ShortRows or None
        Rows that are fewer than their columns.
    scatter : Scatter or None
        The matrix A'A, or A A' of ``short``, if all eigenvalues are wanted.
    """

    def __init__(
        self,
        X: Any,
        sample_weight: Any,
        center: bool,
        threads: int | None,
        comm: Any = None,
        *,
        by_gram: Callable[[int], bool],
        share: Share = 0,
    ) -> None:
        self.set, matrix = read_product_rows(X, sample_weight, threads=threads, comm=comm, needs_rows=by_gram)
        self._share = share
        self._stays = matrix is not None
        self._resident = matrix if self.set.weights is None else None
        self._there = self.set.gpu if self._stays else None  # the GPU of a Dataset
        self.set, self.half_weight_exponent = self.set.with_scaled_weights()
        self.exponent = 0
        self.shape = self.set.shape
        self._center = center
        self.total = self.set.total_weight
        self.rank = min(self.shape)
        self.trace = self.trace_error = self.rounding = 0.0
        self.mean = np.zeros(self.shape[1])
        self.short: ShortRows | None = None
        self.scatter: Scatter | None = None
        self._centred: Scatter | None = None
        self._gram: DeviceGram | None = None

    def side(self, device: str) -> int:
        """Return the number of rows and columns of the matrix that is decomposed."""
        short = self._there is None and (device == "cpu" or (device == "auto" and not self.set.on_gpu))
        return min(self.shape) if short else self.shape[1]

    def put(self, device: str, solver: str) -> Placement:
        """Put rows where they are decomposed."""
        if self._stays:
            found = Placement(self._there, "the Dataset is on it")
            if device not in ("auto", found.device, *(["cuda"] if found.gpu == 0 else [])):
                raise ParameterError(
                    f"device: found {device!r}, expected {found.device}, where the Dataset is"
                )
            return found
        if device == "auto" and self.side(device) < self.shape[1]:
            return Placement(None, "there are fewer rows than columns")
        by_gram = solver == "covariance_eigh" and not self.set.sparse
        work = None
        if by_gram:
            work = gram_work(self.set.most_here, self.shape[1], self.set.X.dtype.itemsize)
        found = place(device, self.set.gpu, work, group=self.set.group)
        if found.gpu is not None and self.set.sparse:
            raise ParameterError(f"device: found {device!r} for sparse rows, expected auto or cpu")
        if found.gpu is not None and solver != "covariance_eigh":
            raise ParameterError(
                f"svd_solver: found {solver!r} on {found.device}, expected 'covariance_eigh', rows and "
                "device on the CPU, or a bmrm.Dataset of float64 on the GPU"
            )
        self._gram, found = open_gram(self.set, found, self._share)
        return found

    def prepare(self, solver: str) -> bool:
        """Set mean and trace, and what the solver needs; return whether float64 holds the sums of squares."""
        with np.errstate(all="ignore"):
            self.short = self._shortened(solver)
            if self.short is not None:
                self.mean, self.rounding = self.short.mean, self.short.rounding
                self.trace, self.trace_error = self.short.trace, self.short.error
                if solver == "covariance_eigh":
                    self.scatter = self.short.scatter()
                size = self.trace
            elif solver == "covariance_eigh":
                size = self._prepare_scatter()
            else:
                size = self._prepare_products()
        return MIN_SIZE <= size <= MAX_SIZE

    def scaled(self) -> DecomposedRows:
        """Return the rows in a unit in which their largest value is 2^400 or so."""
        if self._there is not None:
            raise DataError(
                "X: found a Dataset on a GPU whose squares float64 cannot hold, expected values near 1"
            )
        other = object.__new__(DecomposedRows)
        other.__dict__.update(self.__dict__)
        for name in ("_matrix", "_by_length"):
            other.__dict__.pop(name, None)
        other.set, other.exponent = self.set.scaled()
        other._resident = other._gram = other.short = other.scatter = other._centred = None
        return other

    def _shortened(self, solver: str) -> ShortRows | None:
        n, d = self.shape
        if n >= d or self._gram is not None or self._there is not None:
            return None
        whole = gathered(self.set)
        if whole is None:
            return None
        needed = 0 if whole.sparse or solver == "covariance_eigh" else 16 * n * d
        return ShortRows(whole, center=self._center) if whole.bytes_fit(needed) else None

    def _prepare_scatter(self) -> float:
        d = self.shape[1]
        require_memory(8 * MATRIX_COPIES * d * d, "the covariance matrix", "another svd_solver needs less")
        if self._gram is not None or (self._there is None and not self.set.sparse):
            about_mean = self._gram.scatter() if self._gram else scatter_matrix(self.set, center=True)
            self._centred = about_mean
            self.scatter = about_mean if self._center else about_mean.about_zero()
        elif self._there is None:
            self.scatter = scatter_matrix(self.set, center=self._center)
        else:
            self.scatter = scatter_of_matrix(self._matrix, self.set, center=self._center)
        self.mean, self.trace = self.scatter.mean, self.scatter.trace
        self.trace_error = self.scatter.error * np.sqrt(self.shape[1])
        return self.trace

    def _prepare_products(self) -> float:
        n, d = self.shape
        if self._center:
            self.mean = self.center_of_mass()
        square = self.total * dot(self.mean, self.mean)
        if self._there is None:
            self.trace = self.set.total(self._squares_about(self.mean))
            size = self.trace + square
        else:
            size = self.set.total(float(self._matrix.mean_squares.sum()) * self.set.here)
            self.trace = max(0.0, size - square)
        g = max(rounding_bound(d + 6), rounding_bound(n + 6))
        # |sqrt(w) X| + sqrt(W) |m| bounds the terms of both products
        big = np.sqrt(size * (1.0 + 4.0 * g)) + np.sqrt(square)
        underflow = underflow_bound(self.set, size)
        own = self.trace if self._there is None else size  # what the trace was computed from
        self.trace_error = 4.0 * g * own + (2.0 * g * big) ** 2 + underflow
        small = np.sqrt(self.trace + self.trace_error)
        terms = big * (small + 2.0 * g * big)
        self.rounding = 1.1 * (rounding_bound(d + 6) + rounding_bound(n + 6)) * float(terms) + underflow
        return float(size)

    @functools.cached_property
    def _matrix(self) -> Any:
        if self._resident is not None:
            return self._resident
        X = self.set.X
        if not X.in_place:
            needed = X.size * X.value_bytes
            require_memory(needed, "rows of another type or order", "'covariance_eigh' converts blocks")
        return resident_matrix(X, self.set.threads)

    @functools.cached_property
    def _by_length(self) -> tuple[Any, Vector | None]:
        """The matrix and the weights, rows by length if they are short: A'A has no order."""
        X, weights = self.set.X, self.set.weights
        if self._resident is not None or not X.sparse or X.stored > SHORT_ROW:
            return self._matrix, weights
        order = np.argsort(np.diff(X[:].indptr), kind="stable")
        return self._matrix.reordered(order), None if weights is None else weights[order]

    def center_of_mass(self) -> Vector:
        w = np.ones(self.set.here) if self.set.weights is None else self.set.weights
        return self.set.total_array(np.asarray(self._matrix.rmatvec(w))) / self.total

    def multiply(self, V: Vector) -> Vector:
        """Return A'A V."""
        if self._there is None:
            mean = self.mean if self._center else None
            matrix, weights = self._by_length
            return self.set.total_array(matrix.gram_product(V, weights=weights, mean=mean))
        U = self._matrix.matmat(V)
        if self._center:
            U -= self.mean @ V
        found = np.asarray(self._matrix.rmatmat(U))
        if self._center:
            found -= np.outer(self.mean, np.ones(len(U)) @ U)  # a product adds columns faster than a sum
        return self.set.total_array(found)

    def variances(self, components: Vector, values: Vector) -> tuple[Vector, float]:
        """Return the variances of the coordinates of rows along components, and that of the rows themselves.

        The latter is 0 if it may be all rounding.

        - ``values``: sums of the squares of the coordinates
        """
        g, square = rounding_bound(sum(self.shape)), self.trace / self.total
        if self._centred is not None:
            spread = np.einsum("pd,pd->p", components @ self._centred.matrix, components) / self.total
            whole, noise = self._centred.trace / self.total, (2.0 * g) ** 2 * square
        else:
            center = self.center_of_mass()
            shift = components @ center
            spread = values / self.total - shift**2
            if self._there is not None:
                whole, noise = square - dot(center, center), 2.0 * g * square
            else:
                whole, noise = (
                    self.set.total(self._squares_about(center)) / self.total,
                    (2.0 * g) ** 2 * square,
                )
                if (spread < DIGITS_LOST * (values / self.total)).any():
                    places = self._matrix.matmat(components.T) - shift
                    w = np.ones(self.set.here) if self.set.weights is None else self.set.weights
                    spread = self.set.total_array(w @ places**2) / self.total
        return np.maximum(spread, 0.0), whole if whole > noise else 0.0

    def _squares_about(self, center: Vector) -> float:
        """Return the sum of w |x - center|^2 of the local rows."""
        X, weights = self.set.X, self.set.weights
        if X.sparse:
            starts, columns, data, _ = X[:]
            values = 1.0 if data is None else data.astype(np.float64)
            squares = (values - center[columns]) ** 2
            w = 1.0 if weights is None else np.repeat(weights, np.diff(starts))
            weight = float(self.set.here) if weights is None else float(weights.sum())
            stored = np.bincount(columns, np.broadcast_to(w, X.size), minlength=len(center))
            return float((w * squares).sum() + np.maximum(weight - stored, 0.0) @ center**2)
        each, found = block_rows(X.shape[1]), 0.0
        for first in range(0, len(X), each):
            rows = slice(first, min(first + each, len(X)))
            moved = X.dense(rows) - center
            squares = np.einsum("if,if->i", moved, moved)
            found += float(squares.sum() if weights is None else weights[rows] @ squares)
            self.set.release(rows)
        return found
