"""PageRank of small graphs in exact arithmetic.

Written from the definition alone: x = d (P' x + m u) + (1 - d) v, with weights, damping and restarts as the
floats that they are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction

import flint
import numpy as np
from numpy.typing import NDArray


def transition_rows(edges: Sequence[tuple[int, int, float]], n: int) -> list[dict[int, Fraction]]:
    """Per node, the shares of the nodes that it sends to; empty for a dangling node."""
    rows: list[dict[int, Fraction]] = [{} for _ in range(n)]
    for u, v, weight in edges:
        rows[u][v] = rows[u].get(v, Fraction(0)) + Fraction(weight)
    sums = [sum(row.values(), Fraction(0)) for row in rows]
    return [{v: w / s for v, w in row.items()} if s else {} for row, s in zip(rows, sums, strict=True)]


def distribution(shares: Mapping[int, float] | None, n: int) -> list[Fraction]:
    if shares is None:
        return [Fraction(1, n)] * n
    given = [Fraction(shares.get(i, 0)) for i in range(n)]
    return [share / sum(given) for share in given]


def pagerank(
    edges: Sequence[tuple[int, int, float]],
    n: int,
    damping: float,
    restart: Mapping[int, float] | None = None,
    dangling: Mapping[int, float] | None = None,
) -> list[Fraction]:
    """Solve the linear system exactly."""
    d = Fraction(damping)
    v = distribution(restart, n)
    u = v if dangling is None else distribution(dangling, n)
    matrix = [[Fraction(int(i == j)) for j in range(n)] for i in range(n)]
    for j, row in enumerate(transition_rows(edges, n)):
        for i, share in row.items() if row else enumerate(u):
            matrix[i][j] -= d * share
    return solve(matrix, [(1 - d) * share for share in v])


def solve(matrix: Sequence[Sequence[Fraction]], right: Sequence[Fraction]) -> list[Fraction]:
    n = len(right)
    number = [flint.fmpq(x.numerator, x.denominator) for row in matrix for x in row]
    side = [flint.fmpq(x.numerator, x.denominator) for x in right]
    solved = flint.fmpq_mat(n, n, number).solve(flint.fmpq_mat(n, 1, side))
    return [Fraction(int(solved[i, 0].p), int(solved[i, 0].q)) for i in range(n)]


def l1_distance(scores: NDArray[np.float64], exact: Sequence[Fraction]) -> float:
    """The l1 distance, rounded down to a float."""
    total = sum((abs(Fraction(float(s)) - x) for s, x in zip(scores, exact, strict=True)), Fraction(0))
    return float(np.nextafter(float(total), 0))


def pagerank_of_classes(
    sizes: Sequence[int], shares: Sequence[Mapping[int, float]], damping: float
) -> list[Fraction]:
    """Score of a node of each class, if nodes of a class are alike and all nodes restart equally."""
    k, n, d = len(sizes), sum(sizes), Fraction(damping)
    matrix = [[Fraction(int(i == j)) for j in range(k)] for i in range(k)]
    for j, row in enumerate(shares):
        total = sum((Fraction(w) * sizes[i] for i, w in row.items()), Fraction(0))
        everywhere = dict.fromkeys(range(k), Fraction(1, n))
        sent = {i: Fraction(w) / total for i, w in row.items()} if row else everywhere
        for i, share in sent.items():
            matrix[i][j] -= d * share * sizes[j]
    return solve(matrix, [(1 - d) / n] * k)
