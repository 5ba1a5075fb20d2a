"""Losses for several classes or labels: K margins a row, ``u_ic = x_i . w_c``, and a weight matrix of d x K.

A model has a column of weights for each class, and its penalty is that of all of them together.  In one
problem X is read once for all columns; the compiled passes over the margins are in
``src_cython/losses/class_risk.h``.

A cost matrix says what it costs to predict class b where class a is right: by margin rescaling
(Tsochantaridis, Joachims, Hofmann, Altun, JMLR 6 (2005) 1453, section 2.2) the loss is an upper bound on the
cost of what is predicted.  For a taxonomy, `tree_costs` makes such a matrix: the number of edges between two
classes (Dekel, Keshet, Singer, ICML 2004).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from bmrm.base import arguments
from bmrm.base.vectors import freeze
from bmrm.errors import DataError, ParameterError
from bmrm.losses import _losses
from bmrm.losses.base import SUMS, About, NamedLoss, RowRisk, Vector
from bmrm.losses.extent import Extent


def by_class(formula: str, reference: str) -> About:
    """Tell of a loss of several margins a row: what all of them have in common."""
    return About(formula, reference, "O(m K)", "exact, on stored margins", True, SUMS, "products")


class ClassLoss(NamedLoss):
    """A loss in the K margins of a row; subclasses name it and what is to be known of it."""

    several = True
    slope_limit = math.sqrt(2.0)

    @property
    def level(self) -> float:
        """One: classes are told apart by a margin of it."""
        return 1.0

    def compared_with(self, y: Vector) -> float:
        """Return the length of ones, one for each margin of a row."""
        return math.sqrt(len(y) * self._classes(y))

    def risk(self, y: Vector, weights: Vector | None, scale: float, threads: int) -> RowRisk:
        """Bind the loss to labels and weights; margins are (m, K), row after row."""
        return self.bind(y, weights, scale, threads, self._classes(y))

    def bind(self, y: Vector, weights: Vector | None, scale: float, threads: int, K: int) -> RowRisk:
        """Bind the loss to rows that need not have all of the K classes."""
        return _losses.ClassRisk(self.name, y, K, None, weights, scale, threads)

    @staticmethod
    def _classes(y: Vector) -> int:
        """Return K: every class of coded labels occurs in them."""
        return int(y.shape[1]) if y.ndim == 2 else int(y.max()) + 1

    def _rows(self, margins: Vector, y: Vector) -> tuple[Vector, Vector]:
        z, labels = arguments.margins(margins, y, columns=True)
        m, K = z.shape
        if labels.ndim == 1 and not (np.isin(labels, np.arange(K))).all():
            raise DataError(f"labels: found one that is no class, expected numbers from 0 to {K - 1}")
        r = np.empty(m * K)
        bound = self.bind(labels, None, 1.0, 1, K)
        values, _ = bound.cut(z.ravel(), z.ravel(), 0.0, 0.0, K * np.arange(m + 1), r)
        return values, r.reshape(m, K)


class Multiclass(ClassLoss):
    """``max_c (u_c + cost[y, c]) - u_y``: the multi-class support vector machine of Crammer and Singer.

    Parameters
    ----------
    costs : array_like of shape (K, K), optional
        ``costs[a, b]``, at least 0, for predicting class b in place of a; classes ascend, the diagonal is 0.
        Default: 1 for every wrong class.

    Raises
    ------
    ParameterError
        If ``costs`` is no such matrix.

    Examples
    --------
    >>> import numpy as np
    >>> from bmrm import losses
    >>> loss = losses.get("multiclass", costs=[[0, 1, 4], [1, 0, 1], [4, 1, 0]])
    >>> loss.value(np.array([[0.0, 0.0, 0.0]]), np.array([0]))
    array([4.])
    """

    name, task = "multiclass", "multiclass"
    about = by_class(
        "max_c (u_c + cost(y, c)) - u_y",
        "Crammer, Singer, JMLR 2 (2001) 265; costs: Tsochantaridis et al., JMLR 6 (2005) 1453",
    )

    def __init__(self, costs: Any = None, **params: Any) -> None:
        super().__init__(**params)
        self.costs = None if costs is None else freeze(checked_costs(costs).copy())

    @property
    def key(self) -> object:
        """Name and costs."""
        return super().key if self.costs is None else (self.name, self.costs.shape, self.costs.tobytes())

    def check_labels(self, y: Vector) -> None:
        """Raise `DataError` where the cost matrix is not one of these classes."""
        K = self._classes(y)
        if self.costs is not None and len(self.costs) != K:
            raise DataError(f"costs: found {len(self.costs)} classes, expected the {K} of the labels")

    @property
    def has_dual(self) -> bool:
        """True: it is what conjugates are known of."""
        return True

    @property
    def level(self) -> float:
        """The largest cost."""
        return 1.0 if self.costs is None else float(self.costs.max())

    def compared_with(self, y: Vector) -> float:
        """Return the length of the largest costs, one for each margin of a row."""
        return super().compared_with(y) * self.level

    def bind(self, y: Vector, weights: Vector | None, scale: float, threads: int, K: int) -> RowRisk:
        """Bind the loss to rows that need not have all of the K classes."""
        return _losses.ClassRisk(self.name, y, K, self.costs, weights, scale, threads)

    def __repr__(self) -> str:
        return "Multiclass()" if self.costs is None else f"Multiclass(costs={self.costs.tolist()})"


class Softmax(ClassLoss):
    """``log sum_c exp(u_c) - u_y``: multinomial logistic regression."""

    name, task = "softmax", "multiclass"
    about = by_class(
        "log(sum_c exp(u_c)) - u_y",
        "Krishnapuram, Carin, Figueiredo, Hartemink, IEEE PAMI 27 (2005) 957",
    )

    @staticmethod
    def probabilities(margins: Vector) -> Vector:
        """Probability of each class, shape (m, K), at margins of that shape.

        Examples
        --------
        >>> import numpy as np
        >>> Softmax.probabilities(np.array([[0.0, 0.0, -np.inf]]))
        array([[0.5, 0.5, 0. ]])
        """
        e = np.exp(margins - margins.max(axis=1, keepdims=True))
        return np.asarray(e / e.sum(axis=1, keepdims=True))


class Multilabel(ClassLoss):
    """``sum_c max(0, 1 - y_c u_c)``, y_c = 1 for the labels of a row and -1 for the others.

    One support vector machine a label (binary relevance), all in one problem: X is read once for all labels.
    """

    name, task = "multilabel", "multilabel"
    about = by_class(
        "sum_c max(0, 1 - y_c u_c)",
        "Tsoumakas, Katakis, Int. J. Data Warehousing and Mining 3 (2007) 1: binary relevance",
    )

    @property
    def has_dual(self) -> bool:
        """True: it is what conjugates are known of."""
        return True

    def steepness(self, extent: Extent, risk: float) -> float:
        """Return the length of the weights of all margins: each has a hinge of its own."""
        return extent.weight * math.sqrt(extent.parts)

    def bind(self, y: Vector, weights: Vector | None, scale: float, threads: int, K: int) -> RowRisk:
        """Bind the loss to rows that need not have all of the K classes."""
        each = None if weights is None else np.repeat(weights, K)
        return _losses.Risk(_losses.names().index("hinge"), 0.0, y.ravel(), each, scale, threads)


class MultilabelRanking(ClassLoss):
    """``max(0, 1 + max_{c not in Y} u_c - min_{c in Y} u_c)``: every label of a row above every other.

    A row with all labels, or with none, takes no part.  The margins order the labels; no threshold among them
    is learned, so that what is predicted is that order.
    """

    name, task = "multilabel_ranking", "label_ranking"
    about = by_class(
        "max(0, 1 + max_{c not in Y} u_c - min_{c in Y} u_c)",
        "Elisseeff, Weston, NIPS 14 (2001) 681; Teo et al., JMLR 11 (2010) 311",
    )


def checked_costs(costs: Any) -> Vector:
    """Return a cost matrix as float64, or raise for what is none."""
    found = np.ascontiguousarray(arguments.matrix("costs", costs, ParameterError), np.float64)
    if found.shape[0] != found.shape[1]:
        raise ParameterError(f"costs: found shape {found.shape}, expected a row and a column a class")
    bad = np.argwhere(~((found >= 0.0) & (found < np.inf)))
    if len(bad):
        row, column = bad[0]
        value = found[row, column]
        raise ParameterError(f"costs: row {row + 1}, column {column + 1} has {value:g}, expected at least 0")
    if found.diagonal().any():
        row = int(np.flatnonzero(found.diagonal())[0])
        raise ParameterError(f"costs: row {row + 1} has {found[row, row]:g} on the diagonal, expected 0")
    return found


def tree_costs(paths: Sequence[Sequence[Any]]) -> Vector:
    """Make the cost matrix of a taxonomy: the number of edges of the tree between two classes.

    Parameters
    ----------
    paths : sequence of sequences, one a class
        The nodes from below the root down to the class, in the order of the classes (labels ascending).

    Returns
    -------
    ndarray of float64, shape (K, K)

    Raises
    ------
    ParameterError
        If two classes have the same path, or a path is no sequence of nodes.

    References
    ----------
    Dekel, Keshet, Singer, Large margin hierarchical classification, ICML 2004.

    Examples
    --------
    >>> from bmrm.losses import tree_costs
    >>> tree_costs([("animal", "cat"), ("animal", "dog"), ("plant", "oak")])
    array([[0., 2., 4.],
           [2., 0., 4.],
           [4., 4., 0.]])
    """
    given = arguments.sequence("paths", paths, ParameterError)
    texts = (str, bytes)  # their nodes are characters
    nodes = [
        tuple(path if isinstance(path, texts) else arguments.sequence("paths", path, ParameterError))
        for path in given
    ]
    costs = np.zeros((len(nodes), len(nodes)))
    for a, one in enumerate(nodes):
        for b in range(a):
            other = nodes[b]
            if one == other:
                raise ParameterError(f"paths: classes {b + 1} and {a + 1} are the same node")
            shared = 0
            while shared < min(len(one), len(other)) and one[shared] == other[shared]:
                shared += 1
            costs[a, b] = costs[b, a] = len(one) + len(other) - 2 * shared
    return costs
