"""What a run reports while it is going on."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from bmrm.base.vectors import Vector
from bmrm.linear.bundle.bundle import Bundle

Status = Literal["converged", "max_iter", "max_time", "interrupted", "precision", "max_cuts"]


class Clock:
    """Seconds spent, in all and by part of the work: a stopwatch with laps that are charged to parts."""

    def __init__(self) -> None:
        self.started = self._last = time.perf_counter()
        self.seconds: defaultdict[str, float] = defaultdict(float)
        self._products = 0.0

    @property
    def elapsed(self) -> float:
        """Seconds since the start."""
        return time.perf_counter() - self.started

    def start(self) -> None:
        """Begin a lap; the time before it is charged to nothing."""
        self._last = time.perf_counter()

    def lap(self, part: str, products: float) -> None:
        """End a lap and begin the next.

        Parameters
        ----------
        part : str
            What the lap is charged to.
        products : float
            Seconds of all products so far; those since the last lap are charged to "products".
        """
        now = time.perf_counter()
        of_products = products - self._products
        self.seconds[part] += now - self._last - of_products
        if of_products:
            self.seconds["products"] += of_products
        self._last, self._products = now, products


class FileBounds(NamedTuple):
    """A certificate for the numbers of a file: ``lower_bound <= optimum <= J(w) <= objective``."""

    objective: float
    lower_bound: float
    rounding: float = 0.0  # how far the two have been moved apart for the rounding of X


@dataclass(frozen=True, eq=False)
class Progress:
    """The state after an iteration, for a callback.

    Attributes
    ----------
    iteration : int
    objective, lower_bound, gap : float
        Of the best iterate so far.
    tol : float
        Absolute gap at which the solve ends.
    cuts : int
    step : float
        Length of the last line search; 1 in ``solver="bmrm"``.
    seconds : dict
        By part, since the start.
    elapsed : float
        Seconds since the start.
    model : callable
        What `best` calls.
    bundle : Bundle
        The cuts so far; its arrays are read-only.
    of_file : callable or None
        What `bounds` calls.

    Examples
    --------
    >>> import numpy as np, bmrm
    >>> gaps = []
    >>> found = bmrm.solve(
    ...     np.array([[1.0], [-1.0]]), [1, -1], lam=0.1, callback=lambda progress: gaps.append(progress.gap)
    ... )
    >>> len(gaps) == len(found.history)
    True
    """

    iteration: int
    objective: float
    lower_bound: float
    gap: float
    tol: float
    cuts: int
    step: float
    seconds: dict[str, float]
    elapsed: float
    model: Callable[[], tuple[Vector, float | Vector]] = field(repr=False)
    bundle: Bundle = field(repr=False)
    of_file: Callable[[Progress], FileBounds] | None = field(repr=False, default=None)

    def bounds(self) -> FileBounds:
        """Return the certificate for the numbers of the file that X was read from; see `bmrm.solve`.

        In a cross validation it is that for the stored values. All ranks must call this at the same time.
        """
        return FileBounds(self.objective, self.lower_bound) if self.of_file is None else self.of_file(self)

    def best(self) -> tuple[Vector, float | Vector]:
        """Return copies of the weights and the intercept of the best iterate so far."""
        return self.model()
