"""The loop of PageRank and of random walks: iterate T, and stop when the error is proven to be small.

T contracts l1 distances by d, since P' plus the share of the dangling nodes keeps sums of nonnegative
vectors. So for any x, with the exact image T(x) and the fixed point x*,

    ||T(x) - x*||_1 <= d ||x - x*||_1 <= d / (1 - d) ||T(x) - x||_1.

The computed image g differs from T(x) by at most e in l1, a bound of the rounding that the backend knows.
Hence

    ||g - x*||_1 <= (d ||g - x||_1 + e) / (1 - d),

with the norm of the computed residual, enlarged by its own rounding. This holds for every nonnegative x,
wherever it comes from. For two nodes i and j the error of the difference of their scores is at most the same
bound: two scores that are further apart than it are in the right order.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from bmrm.base import interrupts
from bmrm.base.vectors import Vector
from bmrm.graph import anderson
from bmrm.graph.backends.base import Walk

SLOW_CONTRACTION = 0.6
"""Anderson's method pays if the residual shrinks by less than this per step: below, a plain walk needs about
12 steps to 1e-8 and mixing costs as much as it saves."""

WATCHED_STEPS = 3
"""Plain steps after which the contraction is judged."""

STALLED_STEPS = 30
"""Steps without a smaller residual after which rounding is taken to be what remains."""

FEW_COLUMNS = 0.5
"""Finished walks are taken out when the others are at most this share: the copy costs about two steps."""

UPWARD = 1.0 + 1e-14
"""Factor that covers the rounding of the bound itself."""

GAP_CHECK_FACTOR = 0.5
"""The largest scores are sorted again when the bound has shrunk by this factor."""


@dataclass(frozen=True)
class Progress:
    """How far a walk is; several walks count as the one that is furthest from its end.

    Attributes
    ----------
    iteration : int
    residual, error_bound : float
        The bound counts rounding roughly until the end.
    n_products : int
    elapsed : float
        Seconds.
    """

    iteration: int
    residual: float
    error_bound: float
    n_products: int
    elapsed: float


Callback = Callable[[Progress], object]


@dataclass(frozen=True)
class Goal:
    """When to stop: the error is at most ``tol``, or the order of the ``top`` largest scores is proven."""

    tol: float
    top: int | None = None
    max_iter: int = 1000
    max_time: float = math.inf
    callback: Callback | None = None
    accelerate: str = "auto"


class Outcome(NamedTuple):
    """The end of one walk.

    Attributes
    ----------
    value : object
        What was collected.
    error_bound, residual : float
    status : str
    n_iter : int
    """

    value: Any
    error_bound: float
    residual: float
    status: str
    n_iter: int


Collect = Callable[[Walk, int, int], Any]
"""Takes what is wanted from a slot and a column of a walk."""


class FixedPoint:
    """Walks on their way to their fixed points.

    Parameters
    ----------
    walk : Walk
    damping : float
    goal : Goal
    collect : callable
    start : ndarray of float64, optional
        See `Walk.place`.

    Attributes
    ----------
    n_products : int
        Products of the matrix and a vector so far.
    """

    def __init__(
        self, walk: Walk, damping: float, goal: Goal, collect: Collect, start: Vector | None = None
    ) -> None:
        self.walk, self.damping, self.goal, self.collect = walk, damping, goal, collect
        self.start, self.n_products = start, 0
        count = walk.columns
        self._outcomes: dict[int, Outcome] = {}
        self._active = list(range(count))  # the walks that go on, as numbers of the caller
        self._columns = list(range(count))  # their columns
        self._n_iter = 0
        self._newest = 0  # slot of the newest image
        self._history: list[int] = []  # slots of images whose residuals are kept, the newest first
        self._mixing = goal.accelerate == "anderson"
        self._steps_to_mixture = anderson.PERIOD
        self._residual = np.full(count, np.inf)
        self._before = np.full(count, np.inf)
        self._best, self._best_at = np.full(count, np.inf), np.zeros(count, int)
        self._best_slot: int | None = None  # of a single walk
        self._sorted_at, self._gap = np.full(count, np.inf), np.zeros(count)

    def run(self) -> list[Outcome]:
        """Iterate until every walk has ended; return their outcomes in the order of the columns."""
        interrupts.set_signal_mode(self.walk.signal_mode)  # the loop ends after the step that one arrives in
        self._began = time.perf_counter()
        slots, factors = [self._newest], None
        self.walk.place(self._newest, self.start)
        while self._active:
            into = self._free_slot()
            residual = self.walk.step(slots, factors, into, keep_residual=self._mixing)
            self.n_products += len(self._active)
            self._n_iter += 1
            self._newest = into
            self._history = [into, *self._history[: anderson.DIFFERENCES]] if self._mixing else []
            self._judge(residual)
            self._drop_finished()
            self._watch_contraction()
            slots, factors = self._next_point()
        self.walk.close()
        return [self._outcomes[number] for number in sorted(self._outcomes)]

    def _free_slot(self) -> int:
        """Return a slot that nothing is in that may still be needed."""
        used = {*self._history, self._best_slot, self._newest}
        return next(slot for slot in range(len(used) + 1) if slot not in used)

    def _bound(self, residual: Vector, rounding: Vector) -> Vector:
        """Return the bound of the error of an image, given the norm of its residual."""
        d = self.damping
        return (d * residual * (1.0 + self.walk.norm_error) + rounding) / (1.0 - d) * UPWARD

    def _judge(self, residual: Vector) -> None:
        """Find the walks that have ended."""
        self._before, self._residual = self._residual, residual
        better = residual < self._best
        self._best_at[better] = self._n_iter
        self._best = np.minimum(self._best, residual)
        if self.walk.columns == 1 and better[0]:
            self._best_slot = self._newest
        rough = self.walk.rounding_at_most()
        bound = self._bound(residual, rough)
        if (self._bound(residual, np.zeros_like(rough))[self._columns] <= self.goal.tol).any() or (
            self.damping * residual <= rough
        ).any():
            rounding = self.walk.rounding()
            bound = self._bound(residual, rounding)
        else:
            rounding = rough
        ended = {}
        for column in self._columns:
            if bound[column] <= self.goal.tol or self._is_order_proven(column, bound[column]):
                ended[column] = "converged"
            elif self._is_at_rounding(column, rounding[column]):
                ended[column] = "precision"
        limit = self._limit(residual, bound)
        for column, number in zip(list(self._columns), list(self._active), strict=True):
            if (status := ended.get(column, limit)) is not None:
                self._finish(column, number, status, bound[column], rough[column])

    def _is_at_rounding(self, column: int, rounding: float) -> bool:
        """Whether the residual is no larger than what rounding may hide, or does not shrink any more."""
        if self.damping * self._residual[column] <= rounding:
            return True
        stalled = self._n_iter - self._best_at[column] >= STALLED_STEPS
        return bool(stalled and self.damping * self._best[column] <= 2.0 * rounding / (1.0 - self.damping))

    def _is_order_proven(self, column: int, bound: float) -> bool:
        """Whether the scores of the ``top`` first nodes are further apart than the bound."""
        top = self.goal.top
        if top is None:
            return False
        if bound >= self._gap[column] and bound > GAP_CHECK_FACTOR * self._sorted_at[column]:
            return False
        _, scores = self.walk.top(self._newest, column, top + 1)
        self._sorted_at[column] = bound
        self._gap[column] = np.min(scores[:-1] - scores[1:], initial=np.inf)
        return bool(self._gap[column] > bound * UPWARD)

    def _limit(self, residual: Vector, bound: Vector) -> str | None:
        """Return the status if all walks have to end here, on any process."""
        return self.walk.agree(self._own_limit(residual, bound))

    def _own_limit(self, residual: Vector, bound: Vector) -> str | None:
        elapsed = time.perf_counter() - self._began
        goal = self.goal
        if goal.callback is not None:
            worst = self._columns[int(np.argmax(bound[self._columns]))]
            state = Progress(
                self._n_iter, float(residual[worst]), float(bound[worst]), self.n_products, elapsed
            )
            if goal.callback(state):
                return "interrupted"
        if interrupts.requested():
            return "interrupted"
        if elapsed >= goal.max_time:
            return "max_time"
        return "max_iter" if self._n_iter >= goal.max_iter else None

    def _finish(self, column: int, number: int, status: str, bound: float, rough: float) -> None:
        slot, residual = self._newest, float(self._residual[column])
        if self._best_slot is not None and self._best[column] < residual and status != "converged":
            older = float(self._bound(self._best, np.full_like(self._best, rough))[column])
            if older < bound:
                slot, residual, bound = self._best_slot, float(self._best[column]), older
        value = self.collect(self.walk, slot, column)
        self._outcomes[number] = Outcome(value, float(bound), residual, status, self._n_iter)
        self._columns.remove(column)
        self._active.remove(number)

    def _drop_finished(self) -> None:
        """Take finished walks out if that makes steps faster."""
        if not self._columns or len(self._columns) > FEW_COLUMNS * self.walk.columns:
            return
        chosen = list(self._columns)
        self.walk.keep(chosen, {*self._history, self._newest})
        self._columns = list(range(len(chosen)))
        for name in ("_residual", "_before", "_best", "_best_at", "_sorted_at", "_gap"):
            setattr(self, name, getattr(self, name)[chosen])
        self._best_slot = None

    def _watch_contraction(self) -> None:
        """Begin to mix if plain steps are slow."""
        if self._mixing or self.goal.accelerate != "auto" or self._n_iter < WATCHED_STEPS:
            return
        shrinks = self._residual[self._columns] <= SLOW_CONTRACTION * self._before[self._columns]
        self._mixing = not bool(shrinks.all())

    def _next_point(self) -> tuple[list[int], Vector | None]:
        """Return the slots and factors of the next point."""
        self._steps_to_mixture -= 1
        if not (self._mixing and self._active) or self._steps_to_mixture > 0 or len(self._history) < 2:
            return [self._newest], None
        self._steps_to_mixture = anderson.PERIOD
        return self._history, anderson.mixture(self.walk.products(self._history))
