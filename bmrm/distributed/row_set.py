"""The rows of an estimator: in main memory or in a mapped file, of one process or shared by several ranks.

Sums over the rows are made of those of parts, whose rows depend on the number of all rows and of the sums
alone, and which are added in the order of the rows; ranks add theirs in turn. So sums have the same bits for
any number of threads, in memory and from a file, and for any number of ranks if the rows of each begin at a
multiple of a part's rows. Else a rank's last part is a shorter one, and the bits are those of these ranks.

A mapped file that would fill much of the memory is read in blocks of whole parts, whose pages are given back
to the system after use.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from bmrm.base import arguments
from bmrm.base.arguments import describe_position, is_on_device, is_sparse, random_generator
from bmrm.base.estimator import words_for_scikit_learn
from bmrm.base.host_memory import available_bytes, require_memory
from bmrm.base.interrupts import check_signals, requested
from bmrm.base.vectors import Indices, Vector
from bmrm.base.weighting import multiply_weights
from bmrm.distributed._parts import dense_values, part_rows
from bmrm.distributed.rows import ConvertedRows, DenseRows, find_converted, reads_too_much
from bmrm.errors import DataError
from bmrm.io.csr import Csr, check_layout
from bmrm.matrix.dataset import Dataset
from bmrm.matrix.gpu.device_arrays import DeviceArray, read_back
from bmrm.matrix.resident import resident_rows, validate_matrix

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

MAX_ABSOLUTE_VALUE = 1e150
"""Values of float64 whose squares are far from overflow."""

READ_BYTES = 1 << 25
"""Size of rows of a mapped file that are validated before their pages are given back."""


@dataclass(frozen=True)
class RowSet:
    """Rows with weights.

    Attributes
    ----------
    X : Csr, ndarray, ConvertedRows or DeviceArray
        The rows here; validated, unless they are on a GPU.
    weights : ndarray or None
        Of the rows here. None, on all ranks, if all are 1.
    threads : int or None
    group : bmrm.distributed.group.Group or None
        The ranks that share the rows.
    bounds : tuple of int
        Rank r has the rows ``bounds[r]`` to before ``bounds[r + 1]``.
    """

    X: Any
    weights: Vector | None
    threads: int | None = None
    group: Group | None = None
    bounds: tuple[int, ...] = ()

    @property
    def here(self) -> int:
        """Number of rows here."""
        return int(self.X.shape[0])

    @property
    def most_here(self) -> int:
        """Number of rows of the rank with the most."""
        return max(b - a for a, b in itertools.pairwise(self.bounds)) if self.group else self.here

    @property
    def first(self) -> int:
        """Number of the first row here among the rows of all ranks."""
        return self.bounds[self.group.rank] if self.group else 0

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
        X = self.X
        if isinstance(X, Csr):
            here = 1.0 if X.data is None else float(np.abs(X.data).max(initial=0.0))
            return float(max(self.everyones(here)))
        here = 0.0
        for block in self.blocks(part_rows(self.shape[0])):
            here = max(here, -float(X[block].min()), float(X[block].max()))
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

    def together(self) -> AbstractContextManager[None]:
        """Raise on every rank what a block raises on any; see `Group.together`."""
        return self.group.together() if self.group else nullcontext()

    def guarded(self) -> AbstractContextManager[None]:
        """End the job if a block fails on this rank alone; see `Group.guarded`."""
        return self.group.guarded() if self.group else nullcontext()

    # --- what ranks agree on

    @property
    def ranks(self) -> int:
        """Number of ranks."""
        return self.group.size if self.group else 1

    def check_alike(self, options: Mapping[str, Any]) -> None:
        """Raise `ParameterError` on all ranks if some rank was given another option than rank 0."""
        if self.group is not None:
            from bmrm.distributed.options import check_alike

            compared = {n: v for n, v in options.items() if n != "random_state" and not callable(v)}
            check_alike(self.group, compared)

    def first_of(self, random_state: Any) -> np.random.Generator:
        """Return the generator of the first rank on all ranks."""
        generator: np.random.Generator = self.everyones(random_generator(random_state))[0]
        return generator

    def everyones(self, value: Any) -> list[Any]:
        """Return the values of all ranks, in rank order."""
        return self.group.everyones(value) if self.group else [value]

    def total(self, number: float) -> float:
        """Return the sum of a number over the ranks, in rank order."""
        return float(sum(self.everyones(number)))

    def total_array(self, part: Vector) -> Vector:
        """Return the sum of an array over the ranks, in rank order."""
        return self.group.total(part) if self.group else part

    def agree(self, status: str) -> str:
        """Return a status that some rank has, the same on all; empty if none has one."""
        return next(filter(None, self.everyones(status)), "")

    def check_signals(self) -> None:
        """Raise `KeyboardInterrupt` on all ranks if a signal has asked one of them to stop."""
        if self.group is None:
            check_signals()
        elif any(self.everyones(requested())):
            raise KeyboardInterrupt

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
        if isinstance(self.X, Csr):
            return np.asarray(self.X.take(rows).to_scipy(np.float64).toarray())
        mapped = self._large_mapped()
        found = np.empty((len(rows), self.X.shape[1]))
        size = max(1, len(rows)) if mapped is None else MAX_TAKEN_ROWS
        for first in range(0, len(rows), size):
            found[first : first + size] = self.X[rows[first : first + size]]
            if mapped is not None:
                mapped.give_back(0, self.here)
        return found

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
        X: Any = self.X if isinstance(self.X, (Csr, np.ndarray)) else self.X[:]
        values = X if not isinstance(X, Csr) else np.ones(X.nnz) if X.data is None else X.data
        here = max(-float(values.min(initial=0.0)), float(values.max(initial=0.0)))
        largest = max(self.everyones(here))
        exponent = MAX_SCALED_EXPONENT - math.frexp(largest or np.nextafter(0.0, 1.0))[1]
        require_memory(8 * values.size, "the rows in another unit", "rows of a scale near 1 need none")
        return replace(self, X=X).multiplied(exponent), exponent

    def multiplied(self, exponent: int) -> RowSet:
        """Return the rows times a power of two; rows on a GPU, or to be converted, are copied to the host."""
        X: Any = self.X if isinstance(self.X, (Csr, np.ndarray)) else self.X[:]
        values = X if not isinstance(X, Csr) else np.ones(X.nnz) if X.data is None else X.data
        values = np.ldexp(values.astype(np.float64, copy=False), exponent)
        return replace(self, X=X._replace(data=values) if isinstance(X, Csr) else values)

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
        """Return whether a copy of the rows here should be made as a whole."""
        free = available_bytes()
        return free is None or needed <= MAX_COPY_SHARE * free

    def blocks(self, each: int, limit: float | None = None) -> Iterator[slice]:
        """Yield the rows here in blocks of whole parts of ``each`` rows.

        - ``limit``: of the bytes of a block; None: none, unless the rows are in a mapped file that is too
          large. Pages of such a file are given back after each block.
        """
        mapped = self._large_mapped()
        if limit is None:
            whole = mapped is None and not isinstance(self.X, ConvertedRows)
            limit = np.inf if whole else BLOCK_BYTES
        size = self.here
        if isinstance(self.X, (np.ndarray, ConvertedRows)) and self.X.nbytes > limit:
            size = each * max(1, int(limit) * self.here // (each * self.X.nbytes))
        for first in range(0, self.here, size):
            block = slice(first, min(self.here, first + size))
            yield block
            if mapped is not None:
                mapped.give_back(block.start, block.stop)

    def give_back(self, block: slice) -> None:
        """Give the pages of some rows here back to the system, if the file with all is too large."""
        mapped = self._large_mapped()
        if mapped is not None:
            mapped.give_back(block.start, block.stop)

    def _large_mapped(self) -> DenseRows | None:
        """Return the rows if they are in a mapped file that would fill much of the memory."""
        X = self.X.source.array if isinstance(self.X, ConvertedRows) else self.X
        rows = DenseRows(X) if isinstance(X, np.ndarray) else None
        return rows if rows is not None and reads_too_much(rows) else None

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
        each = part_rows(self.shape[0], numbers)
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
        parts, total = [], np.zeros(numbers)
        for block in self.blocks(each):
            for first in range(block.start, block.stop, each):
                found = sums_of(slice(first, min(first + each, block.stop)))
                if self.group is None:
                    total += found
                else:
                    parts.append(found)
        return total if self.group is None else self.add_in_turn(np.array(parts))

    def add_in_turn(self, parts: Vector) -> Vector:
        """Return the sum of the parts of all ranks, added in their order; shape of those here: (parts, m)."""

        def step(before: Vector | None) -> Vector:
            total = np.zeros(parts.shape[1]) if before is None else before
            for part in parts:
                total += part
            return total

        return self.group.in_turn(parts.shape[1], step) if self.group else step(None)

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

        - ``values``: shape (..., m), numbers of the rows here in their order
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

        end = self.group.in_turn(max(1, begin.size), step)
        return self._continued(begin, values), end.reshape(begin.shape)

    def _continued(self, begin: Vector, values: Vector) -> Vector:
        joined = np.concatenate([begin[..., None], values], axis=-1)
        if self.group is not None and self.group.rank == 0:
            joined = values
            return np.asarray(np.add.accumulate(joined, axis=-1))
        return np.asarray(np.add.accumulate(joined, axis=-1)[..., 1:])


def read_row_set(
    X: Any,
    sample_weight: Any = None,
    *,
    threads: int | None = None,
    comm: Any = None,
) -> RowSet:
    """Validate rows and weights; with a communicator, those of each rank.

    A dense array on a GPU stays there; with a communicator, those of all ranks are.

    Raises
    ------
    DataError
        See `bmrm.distributed.row_set.read_rows`; if ranks have other numbers of columns, or no rows.
    ParameterError
        If ``comm`` is not a communicator.
    """
    if comm is None:
        if isinstance(X, Dataset) and X.device != "cpu":
            sample_weight = X.weights if sample_weight is None else sample_weight
            X = resident_rows("X", X)
        if is_on_device(X) and not is_sparse(X):
            found = _read_device_rows(X)
            return RowSet(found, read_weights(read_back(sample_weight), len(found)), threads)
        return RowSet(*_read_here(X, read_back(sample_weight)), threads)
    from bmrm.distributed.group import Group

    group = comm if isinstance(comm, Group) else Group(comm)
    with group.together():
        if isinstance(X, Dataset):
            raise DataError("X: found a Dataset with comm, expected the rows of this rank as a matrix")
        there = is_on_device(X) and not is_sparse(X)
        rows: Any = _read_device_rows(X) if there else _read_here(X, None)[0]
        weights = read_weights(read_back(sample_weight), rows.shape[0], zeros=True)
    kinds = group.everyones(_kind_of(rows))
    if len(set(kinds)) > 1:
        first, other = sorted(set(kinds))[:2]
        raise DataError(f"X: found {first} on rank {kinds.index(first)}, {other} on {kinds.index(other)}")
    shapes = group.everyones(rows.shape)
    columns = {d for _, d in shapes}
    if len(columns) > 1:
        raise DataError(f"X: found {min(columns)} columns on one rank and {max(columns)} on another")
    weighted = group.everyones(weights is not None)
    if any(weighted):
        weights = np.ones(rows.shape[0]) if weights is None else weights
        if not any(group.everyones(bool(weights.any()))):
            raise DataError("sample_weight: found only zeros, expected some positive weight")
    threads = group.cores if threads is None else threads
    return RowSet(rows, weights, threads, group, (0, *itertools.accumulate(n for n, _ in shapes)))


def _read_here(X: Any, sample_weight: Any) -> tuple[Any, Vector | None]:
    """Return rows in main memory or in a mapped file, and their weights."""
    converted = read_converted(X)
    if converted is None:
        return read_rows(X, sample_weight)
    return converted, read_weights(sample_weight, len(converted))


def read_converted(X: Any) -> ConvertedRows | None:
    """Return the rows of a mapped file that are converted when they are read, validated; else None.

    Raises
    ------
    DataError
        If a value is not finite, or its square overflows.
    """
    found = find_converted(X)
    if found is None:
        return None
    large = reads_too_much(found.source)
    for first, block in found.blocks():
        largest = max(-float(block.min()), float(block.max()))
        if not largest <= MAX_ABSOLUTE_VALUE:  # NaN compares false
            bad = np.argwhere(~np.isfinite(block))
            if len(bad):
                where = describe_position((first + bad[0, 0], bad[0, 1]), "row")
                raise DataError(f"X: {where}has {block[tuple(bad[0])]}, expected a finite number")
            raise DataError(
                f"X: found {largest:.3g}, expected absolute values of at most {MAX_ABSOLUTE_VALUE:g}"
            )
        if large:
            found.source.give_back(first, first + len(block))
    return found


def _read_device_rows(X: Any) -> DeviceArray:
    found = DeviceArray("X", X, 2, (np.float32, np.float64))
    if not all(found.shape):
        raise DataError(f"X: found shape {found.shape} on a GPU, expected some rows and columns")
    return found


def _kind_of(rows: Any) -> str:
    if isinstance(rows, DeviceArray):
        return "rows on a GPU"
    return "sparse rows" if isinstance(rows, Csr) else "dense rows in main memory"


def read_matrix(X: Any) -> Csr | NDArray[Any]:
    """Return rows on the host, compressed or dense, of finite float32 or float64 values.

    Raise `DataError` for anything else, also for values whose squares overflow.
    """
    with words_for_scikit_learn(X):
        return _read_matrix(X)


def _read_matrix(X: Any) -> Csr | NDArray[Any]:
    found = validate_matrix(X)
    if isinstance(found, Csr):
        found = found.on_host()
        indices = np.ascontiguousarray(
            found.indices, np.int32 if found.indices.dtype == np.int32 else np.int64
        )
        data = None if found.data is None else np.ascontiguousarray(found.data)
        try:  # compiled loops trust the indices
            check_layout(found.indptr, indices, indices if data is None else data, found.shape)
        except DataError as error:
            raise DataError(f"X: {error}") from None
        found = Csr(np.ascontiguousarray(found.indptr, np.int64), indices, data, found.shape)
        values = data
    else:
        found = values = np.ascontiguousarray(found)
    if values is None:
        return found
    largest = _largest_value(values)
    if not largest < np.inf:  # NaN compares false
        if isinstance(found, Csr):
            at = int(np.argmin(np.isfinite(values)))
            row = int(np.searchsorted(found.indptr, at, "right"))
            raise DataError(f"X: row {row} has {values[at]}, expected finite numbers")
        arguments.check_finite("X", found)
    if largest > MAX_ABSOLUTE_VALUE:
        raise DataError(f"X: found {largest:.3g}, expected absolute values of at most {MAX_ABSOLUTE_VALUE:g}")
    return found


def _largest_value(values: NDArray[Any]) -> float:
    """Return the largest absolute value, NaN if there is one; pages of a large mapped file are given back."""
    rows = DenseRows(values) if values.ndim == 2 else None
    mapped = rows if rows is not None and reads_too_much(rows) else None
    size = len(values) if mapped is None else max(1, READ_BYTES * len(values) // mapped.nbytes)
    largest = 0.0
    for first in range(0, len(values), max(1, size)):
        block = values[first : first + size]
        found = max(-float(block.min(initial=0.0)), float(block.max(initial=0.0)))
        largest = found if not found < largest else largest  # NaN compares false
        if mapped is not None:
            mapped.give_back(first, first + len(block))
        if np.isnan(largest):
            break
    return largest


def read_rows(X: Any, sample_weight: Any) -> tuple[Csr | NDArray[Any], Vector | None]:
    """Return rows as `read_matrix` does, also those of a `bmrm.Dataset`, and their weights."""
    if not isinstance(X, Dataset):
        found = read_matrix(X)
        return found, read_weights(sample_weight, found.shape[0])
    values = dense_values(X.matrix)
    if values is None or X.group is not None:
        raise DataError(
            f"X: found a Dataset of {X.nnz} stored values, expected dense rows on the CPU, or a matrix"
        )
    given = X.weights if sample_weight is None else sample_weight
    return read_matrix(values), read_weights(given, X.shape[0])


def read_weights(given: Any, rows: int, *, zeros: bool = False) -> Vector | None:
    """Return the weights of rows, None if all are equal to 1.

    Raise `DataError` for weights of the wrong number, negative or not finite, or, unless ``zeros``, all 0.
    """
    if given is None:
        return None
    if isinstance(given, (int, float, np.generic)) or (isinstance(given, np.ndarray) and given.ndim == 0):
        given = np.full(rows, arguments.number("sample_weight", given, DataError))
    weights = np.ascontiguousarray(arguments.vector("sample_weight", given, rows))
    arguments.check_finite("sample_weight", weights)
    if weights.min() < 0.0:
        raise DataError(f"sample_weight: found {weights.min():g}, expected numbers of at least 0")
    if not (zeros or weights.any()):
        raise DataError("sample_weight: found only zeros, expected some positive weight")
    return None if (weights == 1.0).all() else weights
