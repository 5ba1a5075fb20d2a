"""Set up the running error bound of a solve from its data, loss and penalty; see `running_error`."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from bmrm.base.vectors import Vector, dot, norm
from bmrm.linear.objective.objective import Objective
from bmrm.linear.objective.running_error import ErrorBound
from bmrm.losses import Loss
from bmrm.losses.extent import Extent

Sums = Callable[[list[float], list[float]], tuple[list[float], list[float]]]
"""Returns the sums of numbers over all processes, and the largest of others."""


def extent_of(
    loss: Loss,
    labels: Vector,
    weights: Vector | None,
    offset: Vector | None,
    columns: int,
    classes: int,
    sums_of: Sums,
) -> Extent:
    """Return what the error bound needs to know of labels, weights and offsets.

    - ``labels``, shape (rows,), or (rows, K): those of the local rows, coded for the loss
    - ``weights``, shape (rows,), or None
    - ``offset``, shape (rows columns,), or None
    - ``columns``, ``classes``: margins per row; the number of classes, 0 if there are none
    """
    rows, moved = len(labels), 0.0
    if offset is not None:
        each = offset.reshape(rows, columns)
        moved = norm((each if weights is None else each[weights > 0.0]).ravel())
    if weights is not None and isinstance(labels, np.ndarray):  # a row of weight 0 takes no part
        labels, weights = labels[weights > 0.0], weights[weights > 0.0]
    compared = loss.target_norm(labels) if len(labels) else 0.0
    # Relative to the largest ones, so that no square is beyond float64.
    heaviest = 1.0 if weights is None else float(weights.max(initial=0.0))
    _, (heaviest, farthest, shifted) = sums_of([], [heaviest, compared, moved])
    s = np.ones(rows) if weights is None else weights / heaviest
    apart = [(here / (most or 1.0)) ** 2 for here, most in ((compared, farthest), (moved, shifted))]
    sums = [float(rows), float(s.sum()), dot(s, s), *apart, 0.0, 0.0]
    if loss.task == "count":
        doubled = 2.0 * labels
        sums[5:] = dot(s, labels), dot(s, doubled * np.log(np.maximum(doubled, 1.0)))
    (rows_of_all, total, squares, *apart, labels_of_all, logs), _ = sums_of(sums, [])
    return Extent(
        margins=int(rows_of_all) * columns,
        losses_per_row=max(1, classes - 1) if loss.task == "ordinal" else columns,
        weight=math.sqrt(squares) / total,
        most=1.0 / total,
        labels=farthest * math.sqrt(apart[0]),
        offsets=shifted * math.sqrt(apart[1]),
        mean_label=labels_of_all / total,
        mean_log=logs / total,
    )


def watch(
    objective: Objective, extent: Extent, rows: int, floor: float, longest: int, squares: Vector | None = None
) -> None:
    """Give an objective a running error bound.

    - ``rows``: of X in all processes
    - ``floor``: a number that the risk is nowhere below
    - ``longest``: stored values of the fullest row
    - ``squares``, shape (d,): sum of the squares of each column of X, if not all rows count
    """
    loss, passes, operator = objective.loss, objective.passes, objective.operator
    if loss.limited_at_zero:
        extent = extent._replace(at_zero=objective.risk_at_zero())
    lengths = passes.column_lengths(operator.column_squares(squares, rows))
    errors = ErrorBound(
        extent,
        lengths,
        lambda w: passes.size(w, lengths),
        operator.shape[1],
        longest,
        floor,
        lambda risk: loss.steepness(extent, risk),
        loss.curvature_limit,
        objective.block_rows(extent),
        level=loss.level,
        joint=not loss.by_rows,
    )
    errors.profile = objective.profile
    errors.take_penalty(objective.reg)
    objective.errors = errors
