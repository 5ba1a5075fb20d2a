"""Losses for ranking the rows of each group, a query's documents: pairs, NDCG, reciprocal rank.

Labels are relevances, and only those of the same group are compared.  The risk is the mean over the groups
in which there is something to rank, rows of different relevance, weighted by the mean weight of a group's
rows; the others take no part.  Margins are scores: the higher, the nearer to the top.
"""

from __future__ import annotations

from abc import abstractmethod

import numpy as np
from numpy.typing import NDArray

from bmrm.base.weighting import scale_weights
from bmrm.errors import DataError, ParameterError
from bmrm.losses._joint import JointRisk
from bmrm.losses.base import About, Vector
from bmrm.losses.extent import Extent
from bmrm.losses.joint import BY_GROUP, Indices, JointLoss, Members, bind, levels_within, members, together

LARGEST_RELEVANCE = 50.0
"""Gains are 2^y - 1, and their sums must be good to the last."""

SWAP = 1.0 - 1.0 / np.log2(3.0)
"""The most that DCG's discount falls from a place to the next: from the first to the second."""


def discount(position: NDArray[np.int64]) -> Vector:
    """DCG's weight of a place, ``1 / log2(1 + i)`` for the places i = 1, 2, ...; here counted from 0."""
    return np.asarray(1.0 / np.log2(position + 2.0))


def gain(relevance: Vector) -> Vector:
    """DCG's gain ``2^y - 1`` of a relevance."""
    return np.asarray(np.exp2(relevance) - 1.0)


class RankingLoss(JointLoss):
    """A loss of the order of rows within groups."""

    task = "ranking"
    needs_groups = True
    no_intercept = "it depends on the order of margins alone"
    _groups: Indices | None = None

    def grouped(self, groups: Indices | None) -> RankingLoss:
        """Return the loss for rows of these groups.

        Raises
        ------
        DataError
            There are none.
        """
        if groups is None:
            raise DataError(f"loss {self.name}: groups are missing (qid: in SVMlight text)")
        found = type(self)(**self.params)
        found._groups = groups
        return found

    def mass(self, y: Vector, weights: Vector | None) -> float:
        """Return the sum of the weights of the groups with something to rank."""
        found = self._counted(y, weights)
        return float(found.group_weights.sum()) if len(found.rows) else 0.0

    def joint_risk(self, y: Vector, weights: Vector | None, threads: int) -> JointRisk:
        """Bind the loss to labels and weights."""
        found = self._counted(y, weights)
        if not len(found.rows):
            raise DataError(f"loss {self.name}: found nothing to rank, expected {self._wanted} in some group")
        return self._bind(y[found.rows], found, found.group_weights / found.group_weights.sum(), threads)

    def _counted(self, y: Vector, weights: Vector | None) -> Members:
        """Collect the rows of the groups with something to rank."""
        found = members(weights, self._groups, len(y))
        return found.of_groups(self._rankable(y, found)) if len(found.rows) else found

    _wanted = "different labels"

    def _rankable(self, y: Vector, found: Members) -> NDArray[np.bool_]:
        """Tell the groups with something to rank: those with different labels."""
        labels, first = y[found.rows], found.starts[:-1]
        return np.asarray(np.maximum.reduceat(labels, first) > np.minimum.reduceat(labels, first))

    @abstractmethod
    def _bind(self, labels: Vector, found: Members, share: Vector, threads: int) -> JointRisk:
        """Make the compiled risk of groups with something to rank, the labels in their order."""

    def _check_weights(self, found: Members) -> None:
        """Raise `ParameterError` where weights differ within a group."""
        first = found.starts[:-1]
        low, high = (f.reduceat(found.weights, first) for f in (np.minimum, np.maximum))
        if (low < high).any():
            raise ParameterError(
                f"loss {self.name}: found different weights within a group, expected one a group (or 0)"
            )


def _about(formula: str, reference: str, complexity: str = "O(m log m)") -> About:
    return together(formula, reference, complexity, distributed=BY_GROUP)


class Pairwise(RankingLoss):
    """Mean over groups of the mean over pairs with ``y_i > y_j`` of ``max(0, 1 - (u_i - u_j))``.

    A bound of the share of pairs in the wrong order.  With weights a pair counts ``s_i s_j``.

    Examples
    --------
    >>> import numpy as np
    >>> loss = Pairwise().grouped(np.array([0, 0, 0, 1]))
    >>> loss.evaluate(np.array([2.0, 0.5, 0.0, 9.0]), np.array([2.0, 1.0, 0.0, 0.0]))[0]
    0.16666666666666666
    """

    name = "pairwise"
    about = _about(
        "mean over groups of the mean over pairs y_i > y_j of max(0, 1 - (u_i - u_j))",
        "Herbrich, Graepel, Obermayer, Advances in Large Margin Classifiers (2000) 115",
        "O(m log m + m log levels)",
    )

    def _bind(self, labels: Vector, found: Members, share: Vector, threads: int) -> JointRisk:
        level = levels_within(found.group, labels)
        largest = np.maximum.reduceat(found.weights, found.starts[:-1])
        s = scale_weights(found.weights, largest[found.group])  # only ratios within a group matter
        # At margins that are all equal the loss of each pair is 1.
        zeros = np.zeros(int(found.rows.max()) + 1)
        everything = bind("pairs", found, level, np.ones(len(share)), weight=s, threads=threads)
        pairs = everything.evaluate(zeros, zeros, 0.0, 0.0, zeros.copy())
        return everything.with_share(share / pairs)


class _GainLoss(RankingLoss):
    """A loss of NDCG: relevances are numbers from 0 on."""

    def check_labels(self, y: Vector) -> None:
        """Raise `DataError` for a relevance that is negative or beyond `LARGEST_RELEVANCE`."""
        bad = np.flatnonzero((y < 0.0) | (y > LARGEST_RELEVANCE))
        if bad.size:
            raise DataError(
                f"loss {self.name}: row {bad[0] + 1} has label {y[bad[0]]:g}, "
                f"expected a relevance from 0 to {LARGEST_RELEVANCE:g}"
            )

    def _ideal(self, labels: Vector, found: Members, k: int) -> tuple[Vector, Vector]:
        """Return DCG of the ideal order of each group, and each row's mean discount over the ideal orders."""
        group, first = found.group, found.starts[:-1]
        order = np.lexsort((-labels, group))
        place = np.arange(len(order)) - first[group]
        weights = np.where(place < k, discount(place), 0.0)
        in_order = labels[order]
        best = np.add.reduceat(weights * gain(in_order), first)
        opens = np.append(True, (np.diff(in_order) != 0) | (np.diff(group) != 0))
        runs = np.flatnonzero(opens)
        means = np.add.reduceat(weights, runs) / np.diff(np.append(runs, len(order)))
        anchor = np.empty(len(order))
        anchor[order] = means[np.cumsum(opens) - 1]
        return np.asarray(best), anchor


class Ndcg(_GainLoss):
    """Structured hinge bound of 1 - NDCG at k, in the assignment form.

    ``max over permutations pi of 1 - NDCG(pi) + sum_i d_i u_pi(i)`` minus the same sum for the ideal order,
    its mean where relevances tie; ``d_i = 1 / log2(1 + i)`` for places i up to k, else 0, and gains are
    ``2^y - 1``.

    Examples
    --------
    >>> import numpy as np
    >>> loss = Ndcg(k=5).grouped(np.zeros(2, np.int64))
    >>> round(loss.evaluate(np.array([0.0, 0.0]), np.array([1.0, 0.0]))[0], 6)
    0.36907
    """

    name, parameter = "ndcg", "k"
    several_cuts = True  # a list has few kinks, where hinges of pairs are nearly smooth
    about = _about(
        "mean over groups of max over permutations pi of 1 - NDCG@k(pi) + sum_i d_i (u_pi(i) - u_ideal(i))",
        "Le, Smola, arXiv:0704.3359 (2007); Chapelle, Le, Smola, NIPS workshop 2007",
    )

    def __init__(self, **params: float) -> None:
        super().__init__(**params)
        if self.parameter_value < 1.0 or not self.parameter_value.is_integer():
            raise ParameterError(f"k: found {self.parameter_value:g}, expected a whole number from 1 on")

    @property
    def total_slope(self) -> float:
        """Twice the positions that count: a discount is at most 1."""
        return 2.0 * self.parameter_value

    def _bind(self, labels: Vector, found: Members, share: Vector, threads: int) -> JointRisk:
        self._check_weights(found)
        k = int(min(self.parameter_value, len(labels)))
        best, anchor = self._ideal(labels, found, k)
        value = gain(labels) / best[found.group]
        level = np.zeros(len(labels), np.int64)
        return bind("ndcg", found, level, share, value=value, anchor=anchor, k=k, threads=threads)


class LambdaNdcg(_GainLoss):
    """Pairwise bound of 1 - NDCG: pairs weighted by the difference of their gains.

    ``(1 - 1 / log2(3)) / ideal DCG`` times the sum over pairs ``y_i > y_j`` of ``(2^y_i - 2^y_j) max(0, 1 -
    (u_i - u_j))``.  LambdaRank weighs a pair by what swapping it would change NDCG, at its present places;
    that is not convex.  Here its places are the worst possible, two neighbours at the top, so that weights
    are constant.  It is a bound, since swaps of neighbours lead from the ideal order to any other, one for
    each pair in the wrong order.

    Examples
    --------
    >>> import numpy as np
    >>> loss = LambdaNdcg().grouped(np.zeros(2, np.int64))
    >>> round(loss.evaluate(np.array([0.0, 0.0]), np.array([1.0, 0.0]))[0], 6)
    0.36907
    """

    name, limited_at_zero = "lambda_ndcg", True
    about = _about(
        "mean over groups of (1 - 1/log2(3)) / ideal DCG sum over pairs y_i > y_j of "
        "(2^y_i - 2^y_j) max(0, 1 - (u_i - u_j))",
        "after Burges, Ragno, Le, NIPS 19 (2006) 193, with constant weights",
        "O(m log m + m log levels)",
    )

    def steepness(self, extent: Extent, risk: float) -> float:
        """Return the sum of the sizes of the derivatives: two a pair, each of which has lost 1 at 0."""
        return 2.0 * extent.at_zero

    def _bind(self, labels: Vector, found: Members, share: Vector, threads: int) -> JointRisk:
        self._check_weights(found)
        best, _ = self._ideal(labels, found, len(labels))
        level = levels_within(found.group, labels)
        ones = np.ones(len(labels))
        share = share * SWAP / best
        return bind("graded_pairs", found, level, share, weight=ones, value=gain(labels), threads=threads)


class Mrr(RankingLoss):
    """Structured hinge bound of 1 - reciprocal rank of the first relevant row; relevant is a label above 0.

    ``max over orders pi of 1 - 1 / rank(pi) + mean over pairs of relevant i and irrelevant j that pi puts the
    wrong way round, of u_j - u_i`` (that mean over all such pairs, right or wrong).

    Examples
    --------
    >>> import numpy as np
    >>> loss = Mrr().grouped(np.zeros(2, np.int64))
    >>> loss.evaluate(np.array([0.0, 1.0]), np.array([1.0, 0.0]))[0]
    1.5
    """

    name = "mrr"
    about = _about(
        "mean over groups of max over orders pi of 1 - 1/rank(pi) + sum over swapped pairs of "
        "(u_j - u_i) / (number of pairs)",
        "Chakrabarti, Khanna, Sawant, Bhattacharyya, KDD 2008, 88",
    )
    _wanted = "relevant rows (labels above 0) and others"

    def _rankable(self, y: Vector, found: Members) -> NDArray[np.bool_]:
        return super()._rankable((y > 0.0).astype(np.float64), found)

    def _bind(self, labels: Vector, found: Members, share: Vector, threads: int) -> JointRisk:
        self._check_weights(found)
        return bind("mrr", found, (labels > 0.0).astype(np.int64), share, threads=threads)
