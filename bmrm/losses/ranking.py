"""Losses for ranking the rows of each group, such as the documents of a query: pairs, NDCG, reciprocal rank.

Labels are relevances, and only rows of the same group are compared.  A group can be ranked if it has rows of
different relevance; other groups take no part.  The risk is a mean over the groups, each weighted by the mean
weight of its rows.  Margins are scores: the rows with the highest scores come first.
"""

from __future__ import annotations

from abc import abstractmethod

import numpy as np
from numpy.typing import NDArray

from bmrm.base.units import number_text
from bmrm.base.vectors import Indices, Vector
from bmrm.base.weighting import scale_weights
from bmrm.errors import DataError, ParameterError
from bmrm.losses._joint import JointRisk
from bmrm.losses.base import About
from bmrm.losses.extent import Extent
from bmrm.losses.joint import (
    GATHERED_GROUPS,
    JointLoss,
    Members,
    about_joint_loss,
    bind,
    collect_members,
    levels_within,
)

MAX_RELEVANCE = 50.0
"""Gains are 2^y - 1: with larger relevances, small gains would be lost to rounding in their sums."""

MAX_DISCOUNT_STEP = 1.0 - 1.0 / np.log2(3.0)
"""Largest fall of DCG's discount between neighbouring positions: from the first to the second."""


def discount_divisor(position: Indices) -> Vector:
    """Return ``log2(2 + position)``, by which DCG divides a gain; positions count from 0."""
    return np.asarray(np.log2(position + 2.0))


def discount(position: Indices) -> Vector:
    """Return DCG's discount, one over the divisor."""
    return np.asarray(1.0 / discount_divisor(position))


def gain(relevance: Vector) -> Vector:
    """Return DCG's gain ``2^y - 1`` of a relevance y."""
    return np.asarray(np.exp2(relevance) - 1.0)


class RankingLoss(JointLoss):
    """A loss of the order of rows within groups."""

    task = "ranking"
    needs_groups = True
    no_intercept = "it depends only on the order of margins"
    _groups: Indices | None = None

    def grouped(self, groups: Indices | None) -> RankingLoss:
        if groups is None:
            raise DataError(f"loss {self.name}: groups are missing (qid: in SVMlight text)")
        found = type(self)(**self.params)
        found._groups = groups
        return found

    def total_weight(self, y: Vector, weights: Vector | None) -> float:
        # The sum of the weights of the groups that can be ranked.
        found = self.rankable_members(y, weights)
        return float(found.group_weights.sum()) if len(found.rows) else 0.0

    def joint_risk(self, y: Vector, weights: Vector | None, threads: int) -> JointRisk:
        found = self.rankable_members(y, weights)
        if not len(found.rows):
            raise DataError(
                f"loss {self.name}: found nothing to rank, expected {self._requirement} in some group"
            )
        return self._bind(y[found.rows], found, found.group_weights / found.group_weights.sum(), threads)

    def rankable_members(self, y: Vector, weights: Vector | None) -> Members:
        """Collect the rows of the groups that can be ranked."""
        found = collect_members(weights, self._groups, len(y))
        return found.select_groups(self._rankable(y, found)) if len(found.rows) else found

    _requirement = "different labels"

    def _rankable(self, y: Vector, found: Members) -> NDArray[np.bool_]:
        """Return which groups can be ranked: those with different labels."""
        labels, first = y[found.rows], found.starts[:-1]
        return np.asarray(np.maximum.reduceat(labels, first) > np.minimum.reduceat(labels, first))

    @abstractmethod
    def _bind(self, labels: Vector, found: Members, share: Vector, threads: int) -> JointRisk:
        """Make the compiled risk of groups that can be ranked; ``labels`` are those of ``found.rows``."""

    def _check_weights(self, found: Members) -> None:
        """Raise `ParameterError` if weights differ within a group."""
        first = found.starts[:-1]
        low, high = (f.reduceat(found.weights, first) for f in (np.minimum, np.maximum))
        if (low < high).any():
            raise ParameterError(
                f"loss {self.name}: found different weights within a group, expected one per group (or 0)"
            )


def _about(formula: str, reference: str, complexity: str = "O(m log m)") -> About:
    return about_joint_loss(formula, reference, complexity, distributed=GATHERED_GROUPS)


class Pairwise(RankingLoss):
    """Mean over groups of the mean over pairs with ``y_i > y_j`` of ``max(0, 1 - (u_i - u_j))``.

    An upper bound of the share of pairs in the wrong order.  With weights s, a pair has weight ``s_i s_j``.

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
        # If all margins are equal, the loss of each pair is 1, so the risk is the sum of the pairs' weights.
        zeros = np.zeros(int(found.rows.max()) + 1)
        unscaled = bind("pairs", found, level, np.ones(len(share)), weight=s, threads=threads)
        pairs = unscaled.evaluate(zeros, zeros, 0.0, 0.0, zeros.copy())
        return unscaled.with_share(share / pairs)


class _GainLoss(RankingLoss):
    """A loss that bounds 1 - NDCG; relevances are at least 0."""

    def check_labels(self, y: Vector) -> None:
        bad = np.flatnonzero((y < 0.0) | (y > MAX_RELEVANCE))
        if bad.size:
            raise DataError(
                f"loss {self.name}: row {bad[0] + 1} has label {number_text(y[bad[0]])}, "
                f"expected a relevance from 0 to {MAX_RELEVANCE:g}"
            )

    def ideal_order(self, labels: Vector, found: Members, k: int) -> tuple[Vector, Vector]:
        """Return the DCG of each group's ideal order, and each row's mean discount over all ideal orders."""
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
    """Structured hinge bound of 1 - NDCG at k, as an assignment problem.

    ``max over permutations pi of 1 - NDCG(pi) + sum_i d_i u_pi(i)`` minus the same sum for the ideal order;
    if relevances tie, minus its mean over the ideal orders.  Discounts are ``d_i = 1 / log2(1 + i)`` for
    positions i up to k and 0 below them; gains are ``2^y - 1``.

    Examples
    --------
    >>> import numpy as np
    >>> loss = Ndcg(k=5).grouped(np.zeros(2, np.int64))
    >>> round(loss.evaluate(np.array([0.0, 0.0]), np.array([1.0, 0.0]))[0], 6)
    0.36907
    """

    name, parameter = "ndcg", "k"
    several_cuts = True  # the risk of a list has few kinks, whereas sums of hinges of pairs are nearly smooth
    about = _about(
        "mean over groups of max over permutations pi of 1 - NDCG@k(pi) + sum_i d_i (u_pi(i) - u_ideal(i))",
        "Le, Smola, arXiv:0704.3359 (2007); Chapelle, Le, Smola, NIPS workshop 2007",
    )

    def __init__(self, **params: float) -> None:
        super().__init__(**params)
        if self.parameter_value < 1.0 or not self.parameter_value.is_integer():
            raise ParameterError(
                f"k: found {number_text(self.parameter_value)}, expected an integer of at least 1"
            )

    @property
    def total_slope(self) -> float:
        return 2.0 * self.parameter_value  # two sums of k discounts, each at most 1

    def _bind(self, labels: Vector, found: Members, share: Vector, threads: int) -> JointRisk:
        self._check_weights(found)
        k = int(min(self.parameter_value, len(labels)))
        best, anchor = self.ideal_order(labels, found, k)
        value = gain(labels) / best[found.group]
        level = np.zeros(len(labels), np.int64)
        return bind("ndcg", found, level, share, value=value, anchor=anchor, k=k, threads=threads)


class LambdaNdcg(_GainLoss):
    """Pairwise bound of 1 - NDCG: pairs weighted by the difference of their gains.

    ``(1 - 1 / log2(3)) / ideal DCG`` times the sum over pairs ``y_i > y_j`` of ``(2^y_i - 2^y_j) max(0, 1 -
    (u_i - u_j))``.  LambdaRank weights a pair by the change of NDCG if the two rows swapped their present
    positions, which is not convex.  Here the positions are the worst possible, the first and the second, so
    the weights are constant.  This is an upper bound, since swaps of neighbours lead from the ideal order to
    any other order, with one swap for each pair in the wrong order.

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
        # A pair of weight s has derivatives of s and -s at most, and at margins of 0 its loss is s.
        return 2.0 * extent.at_zero

    def _bind(self, labels: Vector, found: Members, share: Vector, threads: int) -> JointRisk:
        self._check_weights(found)
        best, _ = self.ideal_order(labels, found, len(labels))
        level = levels_within(found.group, labels)
        ones = np.ones(len(labels))
        share = share * MAX_DISCOUNT_STEP / best
        return bind("graded_pairs", found, level, share, weight=ones, value=gain(labels), threads=threads)


class Mrr(RankingLoss):
    """Structured hinge bound of 1 - reciprocal rank of the first relevant row, one with a label above 0.

    ``max over orders pi of 1 - 1 / rank(pi) + sum of (u_j - u_i) / n``: the sum is over the pairs of a
    relevant row i and an irrelevant row j that pi puts in the wrong order, and n is the number of all pairs.

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
    _requirement = "relevant rows (labels above 0) and irrelevant ones"

    def _rankable(self, y: Vector, found: Members) -> NDArray[np.bool_]:
        return super()._rankable((y > 0.0).astype(np.float64), found)

    def _bind(self, labels: Vector, found: Members, share: Vector, threads: int) -> JointRisk:
        self._check_weights(found)
        return bind("mrr", found, (labels > 0.0).astype(np.int64), share, threads=threads)
