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

So it does not matter how x is found. Most steps are light: the backend takes them in float32, on a correction
of a base point in float64. Light steps reduce the residual by a factor of up to `PHASE_REDUCTION`, which
float32 can follow; then an exact step in float64 makes the point the new base and computes its residual, from
which the next light steps go on, or a proof. (Iterative refinement: Wilkinson, "Rounding errors in algebraic
processes", 1963; Langou et al., "Exploiting the performance of 32 bit floating point arithmetic in obtaining
64 bit accuracy", SC 2006.) An error of 1e-8 takes two exact steps, one of 1e-12 three.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bmrm.base import interrupts
from bmrm.base.vectors import Vector
from bmrm.graph import anderson
from bmrm.graph.backends.base import Walk

PHASE_REDUCTION = 1e-5
"""Reduction of the residual by light steps from one exact step to the next. float32 keeps 7 digits of a
correction, of which rounding in long rows takes one or two."""

STALLED_LIGHT_STEPS = 6
"""Light steps without a smaller residual after which rounding in float32 is taken to be what remains."""

READY_SHARE = 0.9
"""Share of the tolerance from which a light residual calls for an exact step that proves it: light norms are
wrong by far less, and a step more costs less than an exact one in vain."""

WAITING_STEPS = 4
"""Light steps that at least half of the walks, ready for an exact step, wait for the others."""

SLOW_CONTRACTION = 0.6
"""Anderson's method pays if the residual shrinks by less than this per step: below, a plain walk needs about
12 steps to 1e-8 and mixing costs as much as it saves."""

WATCHED_STEPS = 3
"""Plain steps after which the contraction is judged."""

STALLED_STEPS = 5
"""Exact steps without a smaller residual after which rounding is taken to be what remains."""

FEW_COLUMNS = 0.5
"""Finished walks are taken out when the others are at most this share: the copy costs about two steps."""

UPWARD = 1.0 + 1e-14
"""Factor that covers the rounding of the bound itself."""

GAP_CHECK_FACTOR = 0.05
"""The largest scores are sorted again when the bound is below their smallest gap or has shrunk by this
factor: to find them takes about as long as a step of a walk."""


@dataclass(frozen=True)
class IterationProgress:
    """How far a walk is; several walks count as the one that is furthest from its end.

    Attributes
    ----------
    iteration : int
    residual, error_bound : float
        After light steps both are estimates.
    n_products : int
    elapsed : float
        Seconds.
    """

    iteration: int
    residual: float
    error_bound: float
    n_products: int
    elapsed: float


Callback = Callable[[IterationProgress], object]


@dataclass(frozen=True)
class Goal:
    """When to stop: the error is at most ``tol``, or the order of the ``top`` largest scores is proven."""

    tol: float
    top: int | None = None
    max_iter: int = 1000
    max_time: float = math.inf
    callback: Callback | None = None
    accelerate: str = "auto"

    def shared_options(self) -> dict[str, Any]:
        """Return the options that must be equal on all processes, by the names that users know."""
        return {"tol": self.tol, "top": self.top, "max_iter": self.max_iter, "method": self.accelerate}


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


Collect = Callable[[Walk, int, "list[int]", "list[int]"], "Sequence[Any]"]
"""Takes what is wanted from a slot, of the walks in some columns, whose numbers for the caller come last."""


class FixedPoint:
    """Walks on their way to their fixed points.

    Parameters
    ----------
    walk : Walk
    damping : float
    goal : Goal
    collect : callable, optional
        Default: the lists of the ``top`` first nodes, and one more, with their scores.
    start : ndarray of float64, optional
        See `Walk.place`.

    Attributes
    ----------
    n_products : int
        Products of the matrix and a vector so far.
    """

    def __init__(
        self,
        walk: Walk,
        damping: float,
        goal: Goal,
        collect: Collect | None = None,
        start: Vector | None = None,
    ) -> None:
        self.walk, self.damping, self.goal, self.collect = walk, damping, goal, collect
        self.start, self.n_products = start, 0
        count = walk.columns
        self._outcomes: dict[int, Outcome] = {}
        self._active = list(range(count))  # the walks that go on, as numbers of the caller
        self._columns = list(range(count))  # their columns
        self._n_iter = 0
        self._limit: str | None = None  # the limit that was reached
        self._was_plain = False  # whether the last light step started at the image before
        self._newest = 0  # slot of the newest image
        # Slots of images and of their points (None: the base), the newest first.
        self._history: list[tuple[int, int | None]] = []
        self._mixing = goal.accelerate == "anderson"
        self._steps_to_mixture = anderson.PERIOD
        # Of the phase of light steps since the last exact one:
        self._goal_of_phase = np.full(count, PHASE_REDUCTION)  # residuals; the first one is about 1
        self._residual = self._before = np.full(count, 2.0)  # the distance of two distributions at most
        self._best, self._best_at = np.full(count, np.inf), np.zeros(count, int)
        self._best_slot: int | None = None  # of a single walk
        self._waiting = 0
        self._is_likely = np.zeros(count, bool)  # whether the order of the largest scores is
        self._lists: dict[int, tuple[NDArray[Any], Vector]] = {}  # of the newest image, by column
        # Of the exact steps:
        self._rounding = np.zeros(count)
        self._least, self._n_stalled = np.full(count, np.inf), np.zeros(count, int)
        self._sorted_at, self._gap = np.full(count, np.inf), np.zeros(count)

    def run(self) -> list[Outcome]:
        """Iterate until every walk has ended; return their outcomes in the order of the columns."""
        interrupts.set_signal_mode(self.walk.signal_mode)  # the loop ends after the step that one arrives in
        self._began = time.perf_counter()
        self.walk.place(self._newest, self.start)
        while self._active:
            if self._limit is not None or self._n_iter + 1 >= self.goal.max_iter or self._is_exact_due():
                self._take_exact_step()
            else:
                self._take_light_step()
        self.walk.close()
        return [self._outcomes[number] for number in sorted(self._outcomes)]

    def _free_slots(self) -> list[int]:
        """Return two slots that nothing is in that may still be needed."""
        used = {slot for pair in self._history for slot in pair} | {self._best_slot, self._newest}
        return [slot for slot in range(len(used) + 2) if slot not in used][:2]

    def _take_light_step(self) -> None:
        slots, factors = self._next_point()
        mixed, into = self._free_slots()
        likely = self.walk.looks_ahead and self._is_plain_likely()
        residual = self.walk.light_step(slots, factors, mixed, into, plain_next=likely)
        self._was_plain = factors is None
        self._count_step(into, slots[0] if self._was_plain else mixed)
        self._before, self._residual = self._residual, residual
        better = residual < self._best
        if better.any():
            self._best_at[better], self._best = self._n_iter, np.minimum(self._best, residual)
            if self.walk.columns == 1:
                self._best_slot = into
        if not self._mixing and self.goal.accelerate == "auto" and self._n_iter >= WATCHED_STEPS:
            slow = residual > SLOW_CONTRACTION * self._before
            self._mixing = self._is_any(slow)
        self._watch_limits()

    def _is_plain_likely(self) -> bool:
        """Whether the step after this one will be light and plain if the residual shrinks as before."""
        if self._mixing and self._steps_to_mixture <= 1:
            return False
        shrinks = np.divide(
            self._residual, self._before, out=np.ones_like(self._residual), where=self._before > 0
        )
        expected = self._residual * np.minimum(shrinks, 1.0)
        due = np.maximum(self._goal_of_phase, READY_SHARE * self.goal.tol * (1.0 - self.damping))
        return self._is_any(expected > due)

    def _is_any(self, columns: NDArray[np.bool_]) -> bool:
        """Whether something holds for a walk that goes on."""
        return bool(columns.any()) and bool(columns[self._columns].any())

    def _count_step(self, into: int, point: int | None) -> None:
        self._n_iter += 1
        self._take_image(into)
        self._history = [(into, point), *self._history[: anderson.DIFFERENCES]] if self._mixing else []

    def _take_image(self, into: int) -> None:
        self.n_products += len(self._active)
        self._newest, self._lists = into, {}

    def _next_point(self) -> tuple[list[int], Vector | None]:
        """Return the slots and factors of the next point."""
        self._steps_to_mixture -= 1
        if not self._mixing or self._steps_to_mixture > 0 or len(self._history) < 2:
            return [self._newest], None
        self._steps_to_mixture = anderson.PERIOD
        images, points = (list(slots) for slots in zip(*self._history, strict=True))
        return images, anderson.mixture(self.walk.products(images, points))

    def _is_exact_due(self) -> bool:
        """Whether light steps have done what they can, for all walks or for most since some steps."""
        if self._n_iter == 0 and self.start is not None:
            return True
        stalled = self._n_iter - self._best_at >= STALLED_LIGHT_STEPS
        # The exact step is a plain one: it shrinks the residual by d at least, likely as the last one did.
        shrinks = np.full(len(stalled), self.damping)
        if self._was_plain:
            np.divide(self._residual, self._before, out=shrinks, where=self._before > 0)
        then = self._bound(np.minimum(shrinks, self.damping) * self._residual, self._rounding)
        done = (self._residual <= self._goal_of_phase) | stalled | (then <= READY_SHARE * self.goal.tol)
        if self.goal.top is None and not done.any():
            self._waiting = 0
            return False
        if self.goal.top is not None and self.walk.ranks_light_images:
            bound = self._bound(self._residual, self._rounding)
            waiting = [column for column in self._columns if not (done[column] or self._is_likely[column])]
            self._is_likely[self._proven_orders(waiting, bound)] = True
            done |= self._is_likely
        ready = int(np.count_nonzero(done[self._columns]))
        self._waiting = self._waiting + 1 if 2 * ready >= len(self._columns) else 0
        return ready == len(self._columns) or self._waiting > WAITING_STEPS

    def _take_exact_step(self) -> None:
        """Prove what there is, and finish the walks that have ended."""
        from_slot = self._newest if self._best_slot is None else self._best_slot
        into = self._free_slots()[0]
        residual = self.walk.exact_step(from_slot, into)
        if self._limit is None:
            self._history = []
            self._count_step(into, None)
        else:  # the limit was reached before this step, which proves what there is
            self._take_image(into)
        # It was a plain step from the image of the step before.
        self._before, self._was_plain = self._residual, True
        self._residual, self._rounding = residual, self.walk.rounding()
        bound = self._bound(residual, self._rounding)
        if self._limit is None:
            self._watch_limits()
        open_ones = [column for column in self._columns if bound[column] > self.goal.tol]
        proven = self._proven_orders(open_ones, bound)
        ended = {
            column: (number, status)
            for column, number in zip(self._columns, self._active, strict=True)
            if (status := self._status(column, bound[column], column in proven)) is not None
        }
        numbers = [number for number, _ in ended.values()]
        values = self._collect(list(ended), numbers) if ended else []
        for (column, (number, status)), value in zip(ended.items(), values, strict=True):
            self._outcomes[number] = Outcome(
                value, float(bound[column]), float(residual[column]), status, self._n_iter
            )
        self._columns = [column for column in self._columns if column not in ended]
        self._active = [number for number in self._active if number not in numbers]
        self._drop_finished()
        self._begin_phase()

    def _begin_phase(self) -> None:
        self._goal_of_phase = PHASE_REDUCTION * self._residual
        self._best, self._best_at = self._residual.copy(), np.full(len(self._residual), self._n_iter)
        self._best_slot = self._newest if self.walk.columns == 1 else None
        self._waiting = 0
        self._is_likely = np.zeros(len(self._residual), bool)

    def _bound(self, residual: Vector, rounding: Vector) -> Vector:
        """Return the bound of the error of an image, given the norm of its residual."""
        d = self.damping
        return (d * residual * (1.0 + self.walk.norm_error) + rounding) / (1.0 - d) * UPWARD

    def _collect(self, columns: list[int], numbers: list[int]) -> Sequence[Any]:
        if self.collect is None:
            return self._find_lists(columns)
        return self.collect(self.walk, self._newest, columns, numbers)

    def _status(self, column: int, bound: float, is_proven: bool) -> str | None:
        """Return why a walk ends after an exact step; None if it goes on."""
        if bound <= self.goal.tol or is_proven:
            return "converged"
        residual, rounding = self._residual[column], self._rounding[column]
        if residual < self._least[column]:
            self._least[column], self._n_stalled[column] = residual, 0
        else:
            self._n_stalled[column] += 1
        # What is left may be rounding, or does not shrink any more.
        if self.damping * residual <= rounding:
            return "precision"
        hidden = self.damping * self._least[column] <= 2.0 * rounding / (1.0 - self.damping)
        if self._n_stalled[column] >= STALLED_STEPS and hidden:
            return "precision"
        return self._limit

    def _proven_orders(self, columns: list[int], bound: Vector) -> list[int]:
        """Return the columns whose ``top`` first scores are further apart than the bound."""
        top = self.goal.top
        if top is None:
            return []
        # Each of the scores is at least the bound above the next, and their sum is at most 1.
        near = [column for column in columns if bound[column] < 2.0 / (top * (top + 1))]
        if any(
            bound[column] < self._gap[column] or bound[column] <= GAP_CHECK_FACTOR * self._sorted_at[column]
            for column in near
        ):  # the lists of the others cost little then
            for column, (_, scores) in zip(near, self._find_lists(near), strict=True):
                self._sorted_at[column] = bound[column]
                self._gap[column] = np.min(scores[:-1] - scores[1:], initial=np.inf)
        return [column for column in near if self._gap[column] > bound[column] * UPWARD]

    def _find_lists(self, columns: list[int]) -> list[tuple[NDArray[Any], Vector]]:
        """Return the ``top`` first nodes and one more of walks, with their scores, from the newest image."""
        assert self.goal.top is not None
        missing = [column for column in columns if column not in self._lists]
        found = self.walk.top(self._newest, missing, self.goal.top + 1) if missing else []
        self._lists.update(zip(missing, found, strict=True))
        return [self._lists[column] for column in columns]

    def _watch_limits(self) -> None:
        """Set the status if all walks have to end here, on any process."""
        self._watch_own_limits()
        self._limit = self.walk.agree(self._limit)

    def _watch_own_limits(self) -> None:
        elapsed = time.perf_counter() - self._began
        goal = self.goal
        if goal.callback is not None:
            bound = self._bound(self._residual, self._rounding)
            worst = self._columns[int(np.argmax(bound[self._columns]))]
            state = IterationProgress(
                self._n_iter, float(self._residual[worst]), float(bound[worst]), self.n_products, elapsed
            )
            if goal.callback(state):
                self._limit = "interrupted"
        if interrupts.requested():
            self._limit = "interrupted"
        elif elapsed >= goal.max_time:
            self._limit = self._limit or "max_time"
        elif self._n_iter >= goal.max_iter:
            self._limit = self._limit or "max_iter"

    def _drop_finished(self) -> None:
        """Take finished walks out if that makes steps faster."""
        if not self._columns or len(self._columns) > FEW_COLUMNS * self.walk.columns:
            return
        chosen = list(self._columns)
        self.walk.keep(chosen, self._newest)
        self._lists = {}
        self._columns = list(range(len(chosen)))
        for name in ("_residual", "_before", "_rounding", "_least", "_n_stalled", "_sorted_at", "_gap"):
            setattr(self, name, getattr(self, name)[chosen])
