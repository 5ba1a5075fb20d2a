"""Structured prediction: a loss defined by a user's oracle.

An input x has outputs y in a set too large to list: taggings of a sentence, parses, matchings.  A model
scores the output y by ``<w, psi(x, y)>`` for a joint feature map psi, and predicts the output with the
highest score.  With margin rescaling (Tsochantaridis, Joachims, Hofmann, Altun, JMLR 6 (2005) 1453) the loss
of an example is

    max over y' of  cost(y, y') + <w, psi(x, y') - psi(x, y)>,

convex in w.  Training needs only the y' that attains the maximum; for a chain it is found by one run of the
Viterbi algorithm.  There is no data matrix: the weights themselves play the part of the margins
(``bmrm/matrix/examples.py``).

The oracle is called once per example in a pass, and once per example at each step of a line search.  Since a
step costs as much as a cut here, searches are coarse (`search_slack`), and the oracle's answers are cached
for points that recur.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from bmrm.base.vectors import Indices, Vector, dot, read_only_view
from bmrm.errors import DataError, ParameterError
from bmrm.losses.base import About, Loss, RowRisk

SparseVector = tuple[NDArray[np.integer[Any]], Vector]

MAX_SHORTFALL = 1e-9
"""Tolerance, as a share of the terms: a maximum this far below the 0 of the true output is an error."""

MAX_CACHED_POINTS = 64
"""Maximum number of points for which the oracle's answers are cached."""

MAX_CACHE_BYTES = 1 << 26
"""Maximum size of these answers; two of them are always cached."""


class Oracle(Protocol):
    """The interface of a user's oracle.

    Attributes
    ----------
    n_features : int
        Length of w and of psi.
    """

    n_features: int

    def most_violated(self, w: Vector, x: Any, y: Any) -> tuple[float, Vector | SparseVector]:
        """Return the y' that maximises ``cost(y, y') + <w, psi(x, y')>``, by its cost and features.

        Parameters
        ----------
        w : ndarray of float64, shape (n_features,)
            Read-only.
        x, y
            An input and its true output, as passed to `bmrm.solve`.

        Returns
        -------
        cost : float
            ``cost(y, y')``, 0 for y itself.
        difference : ndarray of shape (n_features,), or a tuple (indices, values)
            ``psi(x, y') - psi(x, y)``.
        """

    def predict(self, w: Vector, x: Any) -> Any:
        """Return the y that maximises ``<w, psi(x, y)>``."""


class Structured(Loss):
    """``max_y' cost(y, y') + <w, psi(x, y') - psi(x, y)>`` for a structure defined by an oracle.

    Pass `bmrm.solve` a sequence of inputs as X and one of outputs as y; the oracle gets them unchanged.

    Parameters
    ----------
    oracle : Oracle
        Its maxima must be exact: the certificate rests on them. It must not change while training runs.

    Examples
    --------
    A "structure" of one label out of three, which is the loss ``multiclass``:

    >>> import numpy as np, bmrm
    >>> class OneLabel:
    ...     n_features = 6
    ...
    ...     def most_violated(self, w, x, y):
    ...         scores = w.reshape(3, 2) @ x + (np.arange(3) != y)
    ...         best = int(scores.argmax())
    ...         e = np.eye(3)
    ...         return float(best != y), np.outer(e[best] - e[y], x).ravel()
    ...
    ...     def predict(self, w, x):
    ...         return int((w.reshape(3, 2) @ x).argmax())
    >>> X = [np.array([1.0, 0.0]), np.array([0.0, 1.0]), np.array([-1.0, -1.0])]
    >>> result = bmrm.solve(X, [0, 1, 2], bmrm.losses.Structured(OneLabel()), lam=0.1)
    >>> result.status, result.predict(X)
    ('converged', [0, 1, 2])
    """

    name, task = "structured", "structured"
    search_slack = 500.0
    about: ClassVar[About] = About(
        formula="max_y' (cost(y, y') + <w, psi(x, y') - psi(x, y)>)",
        reference="Tsochantaridis, Joachims, Hofmann, Altun, JMLR 6 (2005) 1453",
        complexity="m calls of the oracle",
        line_search="coarse, m calls per step",
        weights=True,
        distributed="no",
        gpu="no",
    )

    def __init__(self, oracle: Oracle) -> None:
        n = getattr(oracle, "n_features", None)
        if not isinstance(n, (int, np.integer)) or n < 1:
            raise ParameterError(f"oracle: found n_features {n!r}, expected a number of at least 1")
        self.oracle, self.n_features = oracle, int(n)

    @property
    def key(self) -> object:
        # The oracle may be replaced between two solves.
        return self, self.oracle

    def risk(self, y: Any, weights: Vector | None, scale: float, threads: int) -> RowRisk:
        # y holds the examples, pairs of input and output; margins are copies of w, one per block.
        return _OracleRisk(self, y, np.ones(len(y)) if weights is None else weights, scale)

    def predict(self, w: Vector, X: Any) -> list[Any]:
        """Return the oracle's prediction for each input.

        Parameters
        ----------
        w : ndarray of float64, shape (n_features,)
        X : sequence
            Inputs, as the oracle reads them.

        Returns
        -------
        list
        """
        return [self.oracle.predict(w, x) for x in X]


class _OracleRisk:
    """Sums over the examples of an oracle's answers."""

    def __init__(self, loss: Structured, examples: list[Any], weights: Vector, scale: float) -> None:
        self.loss, self.examples, self.weights = loss, examples, weights * scale
        self._answers: OrderedDict[bytes, tuple[Vector, Vector]] = OrderedDict()

    def _evaluate(self, w: Vector, blocks: int) -> tuple[Vector, Vector]:
        """Return risk and gradient per block of examples."""
        key = w.tobytes() + bytes(str(blocks), "ascii")
        if key in self._answers:
            self._answers.move_to_end(key)
            return self._answers[key]
        values, gradients = np.zeros(blocks), np.zeros((blocks, len(w)))
        w = read_only_view(w)  # it is passed to the oracle
        starts = np.linspace(0, len(self.examples), blocks + 1).astype(np.int64)
        for p in range(blocks):
            for i in range(starts[p], starts[p + 1]):
                if self.weights[i] > 0.0:
                    values[p] += self.weights[i] * self._add(i, w, gradients[p])
        self._answers[key] = values, gradients
        while len(self._answers) > max(2, min(MAX_CACHED_POINTS, MAX_CACHE_BYTES // gradients.nbytes)):
            self._answers.popitem(last=False)
        return values, gradients

    def _add(self, i: int, w: Vector, gradient: Vector) -> float:
        """Add the weighted subgradient of example i to ``gradient``; return its loss."""
        cost, difference = self.loss.oracle.most_violated(w, *self.examples[i])
        if isinstance(difference, tuple):
            indices, values = np.asarray(difference[0], np.intp), np.asarray(difference[1])
            inside = indices.size == 0 or (indices.min() >= 0 and indices.max() < len(w))
            if indices.ndim != 1 or indices.shape != values.shape or not inside:
                raise DataError(
                    f"oracle: example {i + 1} has indices {indices} and values {values}, expected as many "
                    f"indices as values, and indices from 0 to {len(w) - 1}"
                )
            score = float(w[indices] @ values)
            np.add.at(gradient, indices, self.weights[i] * values)
        else:
            if np.shape(difference) != w.shape:
                raise DataError(
                    f"oracle: example {i + 1} has a difference of shape {np.shape(difference)}, "
                    f"expected {w.shape}"
                )
            dense = np.ascontiguousarray(difference, np.float64)
            score = dot(w, dense)
            gradient += self.weights[i] * dense
        if np.isnan(cost + score):
            raise DataError(f"oracle: example {i + 1} has the maximum NaN, expected a number")
        if cost + score < -MAX_SHORTFALL * (1.0 + abs(cost) + abs(score)):
            raise DataError(
                f"oracle: example {i + 1} has the maximum {cost + score:g}, "
                "expected at least the 0 of its true output"
            )
        return float(cost) + score

    def slope(self, z: Vector, dz: Vector, t: float, b: float) -> tuple[float, float]:
        d = self.loss.n_features
        _, gradients = self._evaluate(z[:d] + t * dz[:d], len(z) // d)
        return dot(gradients.sum(axis=0), dz[:d]), 0.0

    def cut(
        self, z: Vector, dz: Vector, t: float, b: float, starts: Indices, r: Vector
    ) -> tuple[Vector, Vector]:
        d = self.loss.n_features
        values, gradients = self._evaluate(z[:d] + t * dz[:d], len(z) // d)
        r[:] = gradients.ravel()
        sums = np.add.reduceat(values, starts[:-1] // d)
        return sums, np.zeros(len(sums))

    def curvature(self, z: Vector, b: float, r: Vector) -> float:
        raise NotImplementedError("a loss by an oracle has no second derivative")
