"""The rows that a method works on: with weights, of one process or shared by several ranks.

Estimators and compiled functions have one rule of parts. The rows of a part depend on the number of all rows
and of the results of a part alone, and parts are combined in the order of the rows; ranks add theirs in turn.
So results have the same bits for any number of threads, in memory and from a file, and for any number of
ranks if the rows of each begin at a multiple of a part's rows. Otherwise the last part of a rank is shorter,
and the bits depend on which rows each rank has.

A mapped file that would fill much of the memory is read in blocks of whole parts, whose pages are released
after use.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from bmrm.base.host_memory import available_bytes, require_memory
from bmrm.base.vectors import Indices, Vector
from bmrm.base.weighting import multiply_weights
from bmrm.distributed._parts import part_rows
from bmrm.distributed.ranks import AllRanks
from bmrm.distributed.rows import stored_rows
from bmrm.errors import DataError

if TYPE_CHECKING:
    from bmrm.distributed.group import Group

SAMPLED_ROWS = 1024
"""Rows whose mean is subtracted from all; any point near the data will do."""

MAX_SCALED_EXPONENT = 400
"""Exponent of the largest absolute value of scaled rows: their sums of squares are far from overflow, and
differences of 2^-500 of it have squares."""

MAX_WEIGHT_EXPONENT = 100
"""Exponent of weights up to which they are used as they are."""

BLOCK_BYTES = 1 << 25
"""Approximate size of a block of rows of a mapped file."""

MAX_TAKEN_ROWS = 64
"""Maximum number of rows that are taken from a large mapped file at a time: the system may map a quarter of a
megabyte around each."""

MAX_COPY_SHARE = 0.5
"""Maximum share of the free memory for a copy of all rows in another form; else blocks are copied in turn."""


@dataclass(frozen=True)
class RowSet(AllRanks):
    """Rows with weights.

    Attributes
    ----------
    X : StoredRows
        The local rows; an array or a `Csr` becomes one. Those of estimators are validated, unless they are on
        a GPU.
    weights : ndarray or None
        Of the local rows. None, on all ranks, if all are 1.
    threads : int or None
    group : bmrm.distributed.group.Group or None
        The ranks that share the rows.
    bounds : tuple of int
        Rank r has the rows ``bounds[r]`` to before ``bounds[r + 1]``; without ranks, those of some rows.
    """

    X: Any
    weights: Vector | None = None
    threads: int | None = None
    group: Group | None = None
    bounds: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "X", stored_rows(self.X))

    @property
    def sparse(self) -> bool:
        return bool(self.X.sparse)

    @property
    def on_gpu(self) -> bool:
        return bool(self.X.on_gpu)

    @property
    def gpu(self) -> int | None:
        """Number of the GPU that has the local rows; None if they are in main memory."""
        return self.X.gpu  # type: ignore[no-any-return]

    @property
    def here(self) -> int:
        """Number of local rows."""
        return int(self.X.shape[0])

    @property
    def most_here(self) -> int:
        """Number of rows of the rank with the most."""
        return max(b - a for a, b in itertools.pairwise(self.bounds)) if self.group else self.here

    @property
    def first(self) -> int:
        """Number of the first row here among the rows of all ranks."""
        return self.bounds[self.group.rank if self.group else 0] if self.bounds else 0

    @property
    def shape(self) -> tuple[int, int]:
        """Number of rows of all ranks, and of columns."""
        return (self.bounds[-1] if self.group else self.here), self.X.shape[1]

    @functools.cached_property
    def total_weight(self) -> float:
        """Sum of the weights of all ranks."""
        return float(self.shape[0]) if self.weights is None else float(self.accumulate(self.weights)[1])

    @functools.cached_property
    def largest(self) -> float:
        """Largest absolute value of the rows of all ranks, which are in main memory."""
        blocks = (self.X[block] for block in self.blocks(self.part_rows()))
        here = 0.0
        for values in [self.X.values] if self.sparse else blocks:
            here = max(here, -float(values.min(initial=0.0)), float(values.max(initial=0.0)))
        return float(max(self.everyones(here)))

    @functools.cached_property
    def least_weight(self) -> float:
        """The smallest positive weight of all ranks."""
        if self.weights is None:
            return 1.0
        least = float(self.weights.min(where=self.weights > 0.0, initial=np.inf))
        return float(min(self.everyones(least)))

    def count_positive(self) -> int:
        """Return the number of rows of positive weight of all ranks."""
        if self.weights is None:
            return self.shape[0]
        return int(self.total(float(np.count_nonzero(self.weights))))

    # --- rows

    def take(self, rows: Indices, take_here: Callable[[Indices], Vector] | None = None) -> Vector:
        """Return some rows of all ranks, dense in float64.

        - ``take_here``: returns rows by their numbers here, if X is on a GPU
        """
        mine = (rows >= self.first) & (rows < self.first + self.here)
        local = rows[mine] - self.first
        found = (take_here or self._take_here)(local)
        if self.group is None:
            return found
        taken = np.empty((len(rows), self.shape[1]))
        for places, values in self.everyones((np.flatnonzero(mine), found)):
            taken[places] = values
        return taken

    def _take_here(self, rows: Indices) -> Vector:
        if not self.X.reads_too_much:
            return np.asarray(self.X.take(rows))
        found = np.empty((len(rows), self.X.shape[1]))
        for first in range(0, len(rows), MAX_TAKEN_ROWS):
            found[first : first + MAX_TAKEN_ROWS] = self.X.take(rows[first : first + MAX_TAKEN_ROWS])
            self.X.release(0, self.here)
        return found

    def part(self, some: slice) -> RowSet:
        """Return some local rows, of this process alone; they keep their numbers."""
        bounds = self.first + some.start, self.first + some.stop
        weights = None if self.weights is None else self.weights[some]
        return replace(self, X=self.X.part(some), weights=weights, group=None, bounds=bounds)

    def sampled_mean(self, take_here: Callable[[Indices], Vector] | None = None) -> Vector:
        """Return the mean of some rows of all ranks, with their weights; see `take`."""
        sampled = np.arange(0, self.shape[0], max(1, self.shape[0] // SAMPLED_ROWS))
        values = self.take(sampled, take_here)
        if self.weights is None:
            return np.asarray(values.mean(axis=0))
        mine = sampled[(sampled >= self.first) & (sampled < self.first + self.here)]
        w = np.concatenate(self.everyones(self.weights[mine - self.first]))
        total = float(w.sum())
        return np.asarray(w @ values) / total if 0.0 < total < np.inf else np.zeros(self.shape[1])

    def scaled(self) -> tuple[RowSet, int]:
        """Return the rows times a power of two that makes their largest value 2^400 or so, and its exponent.

        Rows on a GPU are copied to the host.
        """
        values = self.X.values
        here = max(-float(values.min(initial=0.0)), float(values.max(initial=0.0)))
        largest = max(self.everyones(here))
        exponent = MAX_SCALED_EXPONENT - math.frexp(largest or np.nextafter(0.0, 1.0))[1]
        require_memory(8 * values.size, "the rows in another unit", "rows of a scale near 1 need none")
        return self.multiplied(exponent), exponent

    def multiplied(self, exponent: int) -> RowSet:
        """Return the rows times a power of two; rows on a GPU, or to be converted, are copied to the host."""
        values = np.ldexp(self.X.values.astype(np.float64, copy=False), exponent)
        return replace(self, X=self.X.with_values(values))

    def with_scaled_weights(self) -> tuple[RowSet, int]:
        """Return the rows with weights times a power of four, near 1 if they were not, and half its exponent.

        Raises
        ------
        DataError
            If float64 cannot hold the smallest weight then.
        """
        if self.weights is None:
            return self, 0
        largest = max(self.everyones(float(self.weights.max(initial=0.0))))
        half = -(math.frexp(largest)[1] // 2)
        if 2 * abs(half) <= MAX_WEIGHT_EXPONENT:
            return self, 0
        weights, lost = multiply_weights(self.weights, 2 * half)
        if min(self.everyones(lost)) < np.inf:
            raise DataError(
                f"sample_weight: found weights from {self.least_weight:g} to {largest:g}, expected a ratio "
                "that float64 can hold"
            )
        return replace(self, weights=weights), half

    def all_weights(self) -> Vector | None:
        """Return the weights of the rows of all ranks."""
        if self.weights is None or self.group is None:
            return self.weights
        return self.group.gathered(self.weights, np.array(self.bounds))

    def bytes_fit(self, needed: int) -> bool:
        """Return whether a copy of the local rows should be made as a whole."""
        free = available_bytes()
        return free is None or needed <= MAX_COPY_SHARE * free

    def blocks(self, each: int, limit: float | None = None) -> Iterator[slice]:
        """Yield the local rows in blocks of whole parts of ``each`` rows.

        - ``limit``: of the bytes of a block; None: none, unless the rows are in a mapped file that is too
          large. Pages of such a file are released after each block.
        """
        too_much, size = self.X.reads_too_much, self.here
        if limit is None:
            limit = BLOCK_BYTES if too_much or not self.X.in_place else np.inf
        read = self.X.size * self.X.value_bytes
        if not (self.sparse or self.on_gpu) and read > limit:
            size = each * max(1, int(limit) * self.here // (each * read))
        for first in range(0, self.here, size):
            block = slice(first, min(self.here, first + size))
            yield block
            if too_much:
                self.X.release(block.start, block.stop)

    def release(self, block: slice) -> None:
        """Release the pages of some local rows, if the file with all is too large."""
        if self.X.reads_too_much:
            self.X.release(block.start, block.stop)

    def part_rows(self, numbers: int = 1) -> int:
        """Return the number of rows of a part whose results are so many numbers."""
        return part_rows(self.shape[0], numbers)

    def part_bounds(self, numbers: int = 1, first: int = 0) -> list[int]:
        """Return the first row of each part of the local rows from ``first`` on, and the end of the last."""
        each = self.part_rows(numbers)
        return [first, *range(first + each, self.here, each), self.here]

    def parts_are_whole(self, numbers: int = 1) -> bool:
        """Return whether the parts are those that one process with all rows would have."""
        each = self.part_rows(numbers)
        return all(bound % each == 0 or bound == self.bounds[-1] for bound in self.bounds)

    def fold(self, numbers: int, run: Callable[[slice, Vector], None], limit: float | None = None) -> Vector:
        """Return sums over the rows of all ranks.

        Parameters
        ----------
        numbers : int
            Number of the sums.
        run : callable
            Adds the sums of a block of rows to a vector; or, given a matrix, writes those of each part of
            ``part_rows(rows of all, numbers)`` rows into a row of it.
        limit : float, optional
            Of the bytes of a block; see `blocks`.

        Returns
        -------
        ndarray, shape (numbers,)
        """
        each = self.part_rows(numbers)
        if self.group is None:
            sums = np.zeros(numbers)
            for block in self.blocks(each, limit):
                run(block, sums)
            return sums
        parts = np.zeros((-(-self.here // each), numbers))
        for block in self.blocks(each, limit):
            run(block, parts[block.start // each : -(-block.stop // each)])
        return self.add_in_turn(parts)

    def fold_parts(self, numbers: int, each: int, sums_of: Callable[[slice], Vector]) -> Vector:
        """Return sums over the rows of all ranks, made of those of parts of ``each`` rows."""

        def parts() -> Iterator[Vector]:
            yield np.zeros(numbers)
            for block in self.blocks(each):
                for first in range(block.start, block.stop, each):
                    yield sums_of(slice(first, min(first + each, block.stop)))

        return self.sum_parts(parts())

    def sum_parts(self, parts: Iterator[Vector]) -> Vector:
        """Return the sum of the vectors of the parts of all ranks, added in their order.

        An error of one rank is one of all.
        """
        if self.group is None:
            total = np.array(next(parts))
            for part in parts:
                total += part
            return total
        with self.together():
            found = np.array(list(parts))
        return self.add_in_turn(found)

    def accumulate(self, values: Vector) -> tuple[Vector, Vector]:
        """Return cumulative sums along the last axis, from the first row of all ranks on, and their end.

        - ``values``: shape (..., m), numbers of the local rows in their order
        """
        if self.group is None:
            found = np.add.accumulate(values, axis=-1)
            return found, found[..., -1]
        begin = np.zeros(values.shape[:-1])

        def step(before: Vector | None) -> Vector:
            nonlocal begin
            if before is not None:
                begin = before.reshape(begin.shape)
            return self._continued(begin, values)[..., -1].reshape(-1)

        end = self.in_turn(max(1, begin.size), step)
        return self._continued(begin, values), end.reshape(begin.shape)

    def _continued(self, begin: Vector, values: Vector) -> Vector:
        joined = np.concatenate([begin[..., None], values], axis=-1)
        if self.group is not None and self.group.rank == 0:
            joined = values
            return np.asarray(np.add.accumulate(joined, axis=-1))
        return np.asarray(np.add.accumulate(joined, axis=-1)[..., 1:])
