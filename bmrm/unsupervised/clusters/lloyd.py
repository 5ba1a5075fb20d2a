"""Lloyd's method: label rows by the nearest centre, move centres to the means of their rows, repeat.

S. P. Lloyd, Least squares quantization in PCM, IEEE Trans. Inform. Theory 28 (1982). The inertia of exact
labels and exact means never rises. Centres move by the mean of x - c, so the sums are small near the end and
the means keep their digits.

A centre without rows gets the row that is farthest from its own centre, by w |x - c|^2, unless that row is
alone; of several such centres, the first gets the farthest row. This lowers the inertia. If all rows are at
their centres already, centres without rows stay where they are.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bmrm.base.limits import limit_reached
from bmrm.base.vectors import Vector
from bmrm.unsupervised.clusters.passes import Assignment, ClusterPasses


@dataclass(frozen=True)
class Clustering:
    """Centres, the labels of all rows by them, and how the method came there."""

    centers: Vector
    labels: NDArray[np.int32]
    cluster_weights: Vector
    inertia: float
    history: list[float]
    status: str
    n_iter: int
    rechecked: int


def run_lloyd(
    passes: ClusterPasses,
    centers: Vector,
    *,
    max_iter: int,
    tol: float,
    deadline: float,
    after_pass: Callable[[int, float, int], object] = lambda iteration, inertia, changed: None,
) -> Clustering:
    """Run from given centres; ``tol`` bounds the squared length of the last move of all centres."""
    passes.reset()
    history: list[float] = []
    status, n_iter, rechecked = "", 0, 0
    while True:
        found = passes.assign(centers)
        history.append(found.inertia)
        rechecked += found.rechecked
        after_pass(n_iter, found.inertia, found.changed)
        if found.changed == 0:
            status = "converged"
        elif not status and len(history) > 1 and found.inertia >= history[-2]:
            status = "precision"  # the inertia can only fall, so this is rounding
        if not status:
            status = passes.agree(limit_reached(n_iter, max_iter, deadline))
        if status:
            break
        moved = move_centers(passes, centers, found)
        n_iter += 1
        if float(np.einsum("jf,jf->", moved - centers, moved - centers)) <= tol:
            status = "converged"  # one more pass labels the rows by these centres
        elif n_iter == max_iter:
            status = "max_iter"
        centers = moved
    return Clustering(
        centers, passes.labels(), found.cluster_weights, found.inertia, history, status, n_iter, rechecked
    )


def move_centers(passes: ClusterPasses, centers: Vector, found: Assignment) -> Vector:
    """Return the means of the rows of each centre; centres without rows get the farthest rows."""
    sums, weights = found.sums, found.cluster_weights
    empty = np.flatnonzero(weights == 0.0)
    taken: list[int] = []
    if len(empty):
        taken = _take_farthest(passes, centers, sums, weights, len(empty))
    moved = centers + sums / np.where(weights > 0.0, weights, 1.0)[:, None]
    if taken:
        moved[empty[: len(taken)]] = passes.take(np.array(taken))
    return moved


def _take_farthest(
    passes: ClusterPasses, centers: Vector, sums: Vector, weights: Vector, count: int
) -> list[int]:
    """Take up to ``count`` rows out of the sums and weights of their centres, the farthest first."""
    found = passes.farthest(centers, count + len(centers))  # of each cluster one row may be alone
    taken: list[int] = []
    for row, own, w, distance in zip(*(each.tolist() for each in found), strict=True):
        if len(taken) == count or distance <= 0.0:
            break
        if weights[own] - w <= 0.0:
            continue
        weights[own] -= w
        sums[own] -= w * (passes.take(np.array([row]))[0] - centers[own])
        taken.append(row)
    return taken
