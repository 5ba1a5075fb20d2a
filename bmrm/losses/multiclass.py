"""Losses for several classes or labels: K margins per row, ``u_ic = x_i . w_c``, and a d x K weight matrix.

A model has one column of weights per class, and one penalty of all columns.  Because the columns form one
problem, a pass reads X once for all of them.  The compiled passes over the margins are in
``src_cython/losses/class_risk.h``.

Entry (a, b) of a cost matrix is the cost of predicting class b if class a is correct. With margin rescaling
(Tsochantaridis, Joachims, Hofmann, Altun, JMLR 6 (2005) 1453, section 2.2) the loss is an upper bound on the
cost of the prediction.  For a taxonomy, `tree_costs` makes such a matrix: the number of edges between two
classes (Dekel, Keshet, Singer, ICML 2004).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from bmrm.base import arguments
from bmrm.base.vectors import Vector, freeze
from bmrm.errors import DataError, ParameterError
from bmrm.losses import _losses
from bmrm.losses.base import SUMS_OVER_RANKS, About, NamedLoss, RowRisk, SoftRisk
from bmrm.losses.extent import Extent


def about_class_loss(formula: str, reference: str) -> About:
    """Describe a loss of several margins per row, with what all such losses have in common."""
    return About(formula, reference, "O(m K)", "exact, on stored margins", True, SUMS_OVER_RANKS, "products")


class ClassLoss(NamedLoss):
    """A loss of the K margins of a row; subclasses set its name and its description.

    Parameters
    ----------
    **params
        As for `NamedLoss`.

    Examples
    --------
    >>> import numpy as np
    >>> from bmrm import losses
    >>> loss, y = losses.get("softmax"), np.array([0.0, 2.0])
    >>> loss.value(np.zeros((2, 3)), y).round(4)  # log 3
    array([1.0986, 1.0986])
    >>> risk, softened = loss.bind(y, None, 0.5, 1, 3), loss.soften(y, None, 0.5, 1, 3)
    >>> losses.get("multiclass").intercept_limit(np.array([1.0, 2.0]), 3.0)
    7.0
    """

    several = True
    slope_limit = math.sqrt(2.0)

    @property
    def level(self) -> float:
        return 1.0  # the margin between classes

    def target_norm(self, y: Vector) -> float:
        return math.sqrt(len(y) * self._classes(y))  # a 1 per margin

    def risk(self, y: Vector, weights: Vector | None, scale: float, threads: int) -> RowRisk:
        # Margins have shape (m, K), in row-major order.
        return self.bind(y, weights, scale, threads, self._classes(y))

    def bind(self, y: Vector, weights: Vector | None, scale: float, threads: int, K: int) -> RowRisk:
        """Bind the loss to rows that need not contain all classes.

        Parameters
        ----------
        y, weights, scale, threads : as for `Loss.risk`
        K : int
            Number of classes.

        Returns
        -------
        RowRisk
        """
        return _losses.ClassRisk(self.name, y, K, None, weights, scale, threads)

    def soften(self, y: Vector, weights: Vector | None, scale: float, threads: int, K: int) -> SoftRisk:
        """Bind the smoothed loss, from which the intercepts of the classes are minimised out.

        Parameters
        ----------
        y, weights, scale, threads : as for `Loss.risk`
        K : int
            Number of classes.

        Returns
        -------
        SoftRisk
        """
        return _losses.SoftRisk(self.name, y, K, getattr(self, "costs", None), weights, scale, threads)

    def intercept_limit(self, class_weights: Vector, size: float) -> float:
        """Return the largest intercept that is needed to minimise the risk at margins of at most ``size``.

        The risk is linear between kinks, and has a minimum at a point that K - 1 of them determine: at each
        of them two classes are apart by the level, or less, and by two margins.

        Parameters
        ----------
        class_weights : ndarray of float64, shape (K,)
            Sums of the weights of the rows of each class.
        size : float

        Returns
        -------
        float
        """
        return (len(class_weights) - 1) * (self.level + 2.0 * size)

    @staticmethod
    def _classes(y: Vector) -> int:
        """Return K; every class occurs in coded labels."""
        return int(y.shape[1]) if y.ndim == 2 else int(y.max()) + 1

    def _rows(self, margins: Vector, y: Vector) -> tuple[Vector, Vector]:
        z, labels = arguments.margins(margins, y, columns=True)
        m, K = z.shape
        if labels.ndim == 1 and not (np.isin(labels, np.arange(K))).all():
            raise DataError(f"labels: found one that is not a class, expected integers from 0 to {K - 1}")
        r = np.empty(m * K)
        bound = self.bind(labels, None, 1.0, 1, K)
        values, _ = bound.cut(z.ravel(), z.ravel(), 0.0, 0.0, K * np.arange(m + 1), r)
        return values, r.reshape(m, K)


class Multiclass(ClassLoss):
    """``max_c (u_c + cost[y, c]) - u_y``: the multi-class support vector machine of Crammer and Singer.

    Parameters
    ----------
    costs : array_like of shape (K, K), optional
        ``costs[a, b]``, at least 0, is the cost of predicting class b instead of a. Classes are in ascending
        order, and the diagonal is 0. Default: 1 for every wrong class.

    Raises
    ------
    ParameterError
        If ``costs`` is not such a matrix.

    Examples
    --------
    >>> import numpy as np
    >>> from bmrm import losses
    >>> loss = losses.get("multiclass", costs=[[0, 1, 4], [1, 0, 1], [4, 1, 0]])
    >>> loss.value(np.array([[0.0, 0.0, 0.0]]), np.array([0]))
    array([4.])
    """

    name, task, moves_together = "multiclass", "multiclass", True
    about = about_class_loss(
        "max_c (u_c + cost(y, c)) - u_y",
        "Crammer, Singer, JMLR 2 (2001) 265; costs: Tsochantaridis et al., JMLR 6 (2005) 1453",
    )

    def __init__(self, costs: Any = None, **params: Any) -> None:
        super().__init__(**params)
        self.costs = None if costs is None else freeze(validate_costs(costs).copy())

    @property
    def key(self) -> object:
        return super().key if self.costs is None else (self.name, self.costs.shape, self.costs.tobytes())

    def check_labels(self, y: Vector) -> None:
        K = self._classes(y)
        if self.costs is not None and len(self.costs) != K:
            raise DataError(f"costs: found {len(self.costs)} classes, expected the {K} of the labels")

    @property
    def has_dual(self) -> bool:
        return True

    @property
    def level(self) -> float:
        return 1.0 if self.costs is None else float(self.costs.max())

    def target_norm(self, y: Vector) -> float:
        return super().target_norm(y) * self.level

    def bind(self, y: Vector, weights: Vector | None, scale: float, threads: int, K: int) -> RowRisk:
        return _losses.ClassRisk(self.name, y, K, self.costs, weights, scale, threads)

    def __repr__(self) -> str:
        return "Multiclass()" if self.costs is None else f"Multiclass(costs={self.costs.tolist()})"


class Softmax(ClassLoss):
    """``log sum_c exp(u_c) - u_y``: multinomial logistic regression."""

    name, task, moves_together = "softmax", "multiclass", True
    own_width = 1.0
    about = about_class_loss(
        "log(sum_c exp(u_c)) - u_y",
        "Krishnapuram, Carin, Figueiredo, Hartemink, IEEE PAMI 27 (2005) 957",
    )

    def intercept_limit(self, class_weights: Vector, size: float) -> float:
        # At the minimum the mean probability of a class is its share of the weights. The ratio of two
        # probabilities of a row is exp of the difference of intercepts, and of two margins.
        present = class_weights[class_weights > 0.0]
        return math.log(float(present.max()) / float(present.min())) + 2.0 * size


class Multilabel(ClassLoss):
    """``sum_c max(0, 1 - y_c u_c)``, y_c = 1 for the labels of a row and -1 for the others.

    One support vector machine per label (binary relevance), all in one problem: a pass reads X once for all
    labels.
    """

    name, task = "multilabel", "multilabel"
    about = about_class_loss(
        "sum_c max(0, 1 - y_c u_c)",
        "Tsoumakas, Katakis, Int. J. Data Warehousing and Mining 3 (2007) 1: binary relevance",
    )

    @property
    def has_dual(self) -> bool:
        return True

    def steepness(self, extent: Extent, risk: float) -> float:
        return extent.weight * math.sqrt(extent.losses_per_row)  # a hinge, of slope up to 1, per margin

    def intercept_limit(self, class_weights: Vector, size: float) -> float:
        return self.level + size  # a hinge has its minimum at a kink

    def bind(self, y: Vector, weights: Vector | None, scale: float, threads: int, K: int) -> RowRisk:
        each = None if weights is None else np.repeat(weights, K)
        return _losses.Risk(_losses.names().index("hinge"), 0.0, y.ravel(), each, scale, threads)


class MultilabelRanking(ClassLoss):
    """``max(0, 1 + max_{c not in Y} u_c - min_{c in Y} u_c)``: ranks a row's labels above all others.

    A row with all labels, or with none, takes no part.  The margins order the labels. No threshold between
    them is learned, so the order itself is the prediction.
    """

    name, task, moves_together = "multilabel_ranking", "label_ranking", True
    about = about_class_loss(
        "max(0, 1 + max_{c not in Y} u_c - min_{c in Y} u_c)",
        "Elisseeff, Weston, NIPS 14 (2001) 681; Teo et al., JMLR 11 (2010) 311",
    )


def validate_costs(costs: Any) -> Vector:
    """Validate a cost matrix and return it as float64."""
    found = np.ascontiguousarray(arguments.matrix("costs", costs, ParameterError), np.float64)
    if found.shape[0] != found.shape[1]:
        raise ParameterError(f"costs: found shape {found.shape}, expected one row and one column per class")
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
    """Make the cost matrix of a taxonomy: the number of edges between two classes in the tree.

    Parameters
    ----------
    paths : sequence of sequences, one per class
        The nodes from below the root down to the class. Classes are in the ascending order of their labels.

    Returns
    -------
    ndarray of float64, shape (K, K)

    Raises
    ------
    ParameterError
        If two classes have the same path, or a path is not a sequence of nodes.

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
    texts = (str, bytes)  # here every character is a node
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
