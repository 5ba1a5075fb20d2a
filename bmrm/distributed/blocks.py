"""Rows in blocks, of which a GPU holds as many as fit; the others are copied there in each pass.

The number of rows of a block depends on the number of columns and the type of the values alone, or of sparse
rows on the average number of stored values. Sums are those of the blocks, added in their order, whether a
block stays or not: no bit depends on the GPU's memory.

Of the blocks that do not stay some may be the CPU's (`bmrm.matrix.gpu.cpu_share`), the last ones: they are
one part, which the CPU works on in main memory during the pass over the others, by passes of its own.

A block that does not stay is copied to one of two slots of the GPU. While a pass works on one slot, a
thread of the host reads the next block, fills pinned memory with it, and copies that to the other slot
(``src_cuda/runtime/upload.h``). The first blocks stay, and those of the slots are copied in the meantime.
"""

from __future__ import annotations

import functools
import math
import platform
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

import numpy as np

from bmrm.base.distinct import distinct_values
from bmrm.base.threads import usable_cores
from bmrm.base.units import size_text
from bmrm.base.vectors import Indices, Vector
from bmrm.distributed.row_set import RowSet
from bmrm.errors import DeviceMemoryError
from bmrm.matrix.gpu.cpu_share import Pass, count_cpu_blocks, cpu_text
from bmrm.matrix.gpu.devices import import_cuda

BLOCK_BYTES = 1 << 30
"""Maximum size of a block: the bus is busy for some 20 ms, long enough that the start of a pass is little."""

MIN_BLOCK_ROWS = 1024
"""Minimum number of rows of a block, a multiple of what kernels take at a time."""

COLUMN_NUMBER_BYTES = 4
"""Bytes of the column of a stored value."""

OFFSET_BYTES = 8
"""Bytes of the offset at which a sparse row begins."""

SLOTS = 2
"""Blocks on the GPU that do not stay there."""

MEASURED_VALUES = 1 << 23
"""Number of values of the rows whose pass on the CPU is timed: 32 MiB as float32."""

FREE_SHARE = 0.9
"""Share of the free memory that rows and what passes need may take."""

COLUMN_BYTES = 8
"""Bytes that stay on the GPU for each row in any case: its label and a distance."""


class OnDevice(Protocol):
    """Rows on a GPU that others can replace."""

    def load(self, X: Any, weights: Vector | None = None) -> None:
        """Replace the rows, of which there are no more than at first."""
        ...


Held = TypeVar("Held", bound=OnDevice)
Found = TypeVar("Found")


class CpuBlocks(NamedTuple):
    """The blocks that the CPU works on.

    Attributes
    ----------
    number : int
    put : callable
        Puts their rows where the CPU works on them; what it returns has what passes ask of the other blocks.
    """

    number: int
    put: Callable[[RowSet], Any]


NO_CPU_BLOCKS = CpuBlocks(0, lambda rows: rows)


def block_rows(columns: int, value_bytes: int) -> int:
    """Return the number of rows of a block: a power of two.

    Examples
    --------
    >>> block_rows(64, 4), block_rows(784, 4)
    (4194304, 262144)
    """
    return _power_of_two(BLOCK_BYTES // (columns * value_bytes))


def sparse_block_rows(rows: int, stored: int, value_bytes: int) -> int:
    """Return the number of rows of a block of sparse rows, a power of two, for all rows of all ranks.

    - ``stored``: number of all stored values
    - ``value_bytes``: 0 if all are 1

    Examples
    --------
    >>> sparse_block_rows(10**8, 10**10, 4), sparse_block_rows(10, 10**10, 4)
    (1048576, 1024)
    """
    return _power_of_two(
        BLOCK_BYTES * rows // (stored * (value_bytes + COLUMN_NUMBER_BYTES) + rows * OFFSET_BYTES)
    )


def _power_of_two(rows: int) -> int:
    return max(MIN_BLOCK_ROWS, 1 << rows.bit_length() - 1 if rows else 0)


def block_rows_of(rows: RowSet) -> int:
    """Return the number of rows of a block of an estimator's rows, on all ranks."""
    X, (n, d) = rows.X, rows.shape
    if not rows.sparse:
        return block_rows(d, X.value_bytes)
    stored, value_bytes = zip(*rows.everyones((X.size, X.value_bytes)), strict=True)
    return sparse_block_rows(n, sum(stored), max(value_bytes))


def block_parts(rows: int, each: int) -> list[slice]:
    """Return the rows of each block; of no rows, one without any."""
    return [slice(at, min(at + each, rows)) for at in range(0, max(1, rows), each)]


def room_for_blocks(rows: RowSet, gpu: int, each: int) -> int | None:
    """Return the bytes of a GPU that the rows of a rank may take: those free, divided by the ranks on it.

    None if no rank has several blocks to upload. All ranks call it.
    """
    if rows.on_gpu or rows.most_here <= each:
        return None
    free: int = import_cuda().device_info(gpu)["free_bytes"]
    here = platform.node(), gpu
    return int(FREE_SHARE * free) // rows.everyones(here).count(here)


def count_resident(
    blocks: int, block_bytes: int, slot_bytes: int, limit: int | None, column_bytes: int = 0
) -> int:
    """Return the number of blocks that stay on a GPU: all if there is one, or no limit.

    Parameters
    ----------
    blocks : int
    block_bytes, slot_bytes : int
        What a block that stays and a slot take, with what passes over them need.
    limit : int or None
        Bytes for all.
    column_bytes : int, default 0
        Bytes that stay for all rows if some blocks do not.

    Raises
    ------
    DeviceMemoryError
        If there is no room for the slots.

    Examples
    --------
    >>> count_resident(10, 100, 100, 1000), count_resident(10, 100, 100, 999, column_bytes=50)
    (10, 7)
    """
    if limit is None or blocks <= 1 or blocks * block_bytes <= limit:
        return blocks
    left = limit - SLOTS * slot_bytes - column_bytes
    if left < 0:
        needed = size_text(limit - left)
        raise DeviceMemoryError(
            f"X: found {size_text(limit)} on the GPU for blocks of rows, expected {needed} for two"
        )
    return left // block_bytes


def blocks_of_cpu(rows: RowSet, gpu: int, each: int, resident: int, work: Pass) -> int:
    """Return how many blocks of this rank are the CPU's, if the first ones stay on the GPU; never all."""
    number = len(block_parts(rows.here, each))
    streamed, row_bytes = (0 if rows.on_gpu else number - resident), rows.X.nbytes / max(1, rows.here)
    crowded = rows.group is not None and rows.group.cores < usable_cores()
    return min(number - 1, count_cpu_blocks(work, streamed, gpu, row_bytes, crowded=crowded))


def sampled_rows(rows: RowSet, cores: int) -> RowSet:
    """Return other dense rows of the same kind, whose pass on the CPU is timed."""
    d = rows.shape[1]
    values = np.random.default_rng(0).random((max(1, MEASURED_VALUES // d), d), np.float32)
    return RowSet(values.astype(rows.X.dtype, copy=False), threads=cores)


class Slots:
    """Blocks that are copied to a GPU in turn, block i to slot ``i % SLOTS``; the first are there."""

    def __init__(self) -> None:
        self._there = list(range(SLOTS))

    @functools.cached_property
    def _worker(self) -> ThreadPoolExecutor:
        return ThreadPoolExecutor(1, "bmrm-rows")

    def begin(self, load: Callable[[int], None], count: int) -> list[Future[None]]:
        """Begin to copy the first of some blocks: a thread calls ``load(i)`` for the slot of block i.

        It is not kept. Else its owner, and the memory of a GPU, would stay until Python looks for cycles.
        """
        return [self._worker.submit(self._copy, load, i) for i in range(min(SLOTS, count))]

    def numbers(self, copies: list[Future[None]], load: Callable[[int], None], count: int) -> Iterator[int]:
        """Yield the number of each block once it is there; it stays until the next one is asked for."""
        for i in range(count):
            copies[i].result()
            yield i
            if i + SLOTS < count:
                copies.append(self._worker.submit(self._copy, load, i + SLOTS))

    def _copy(self, load: Callable[[int], None], i: int) -> None:
        slot = i % SLOTS
        if self._there[slot] == i:
            return
        self._there[slot] = -1
        load(i)
        self._there[slot] = i


class RowBlocks(Generic[Held]):
    """The rows of a rank in blocks on a GPU.

    Parameters
    ----------
    rows : RowSet
    each : int
        Rows of a block.
    resident : int
        Number of blocks that stay on the GPU, the first ones; all if the rows are on it.
    put : callable
        Puts some rows, in main memory or on the GPU, and their weights there; what it returns has ``load``.
    there : sequence, optional
        Blocks that are on the GPU already, the first ones.
    read : callable, optional
        Returns some rows as ``put`` and ``load`` get them; default: `StoredRows.block`.
    cpu : CpuBlocks, optional

    Attributes
    ----------
    parts : list of slice
        Rows of each block, among those of this rank; the last ones, of the CPU, are one.
    on : list
        What has each block, while it is on the GPU.
    on_cpu : object or None
        What has those of the CPU, the last of ``on``.
    resident : int
    """

    def __init__(
        self,
        rows: RowSet,
        each: int,
        resident: int,
        put: Callable[[Any, Vector | None], Held],
        there: Sequence[Any] = (),
        read: Callable[[slice], Any] | None = None,
        cpu: CpuBlocks = NO_CPU_BLOCKS,
    ) -> None:
        self._rows, self._each, self.resident, self._cpu_blocks = rows, each, resident, cpu.number
        self._read: Callable[[slice], Any] = read or rows.X.block
        self.parts = block_parts(rows.here, each)
        last = self.parts[len(self.parts) - cpu.number :]
        del self.parts[len(self.parts) - cpu.number :]
        held = []
        for i, some in enumerate(self.parts[: resident + SLOTS]):
            X = there[i] if i < len(there) else self._read(some)
            held.append(put(X, self._weights(some)))
            rows.release(some)
        streamed = len(self.parts) - resident
        self.on: list[Held] = held + [held[resident + i % SLOTS] for i in range(SLOTS, streamed)]
        self._slots, self._on_gpu = Slots(), len(self.parts)
        self.on_cpu: Any = None
        if last:
            some = slice(last[0].start, last[-1].stop)
            self.on_cpu = cpu.put(rows.part(some))
            self.parts.append(some)
            self.on.append(self.on_cpu)

    def each(self, of: Callable[[int], Found]) -> Iterator[Found]:
        """Yield what ``of`` finds in each block, in their order; in those of the CPU at the same time.

        An error of the CPU ends the pass of the GPU. One of the GPU is raised once the CPU is done.
        """
        if self.on_cpu is None:
            for i in self.pass_over():
                yield of(i)
            return
        with ThreadPoolExecutor(1, "bmrm-cpu") as pool:
            theirs = pool.submit(of, len(self.on) - 1)
            for i in self.pass_over():
                if theirs.done():
                    theirs.result()
                yield of(i)
            yield theirs.result()

    def pass_over(self, last: int | None = None) -> Iterator[int]:
        """Yield the number of each block in order, once it is on the GPU; it stays until the next one.

        - ``last``: where to end; default: before the blocks of the CPU
        """
        last = self._on_gpu if last is None else last
        streamed = max(0, last - self.resident)
        copies = self._slots.begin(self._load, streamed)
        yield from range(min(last, self.resident))
        for i in self._slots.numbers(copies, self._load, streamed):
            yield self.resident + i

    def sums(self, of: Callable[[int], Sequence[Any]]) -> Sequence[Any]:
        """Return sums over the rows of all ranks, arrays and numbers; ``of`` returns those of a block.

        Those of blocks, and of ranks, are added in their order.
        """
        if self._rows.group is None and len(self.on) == 1:
            return of(0)
        shapes: list[tuple[int, ...]] = []

        def parts() -> Iterator[Vector]:
            for found in self.each(of):
                arrays = [np.asarray(each) for each in found]
                shapes[:] = [each.shape for each in arrays]
                yield np.concatenate([each.ravel() for each in arrays])

        total = self._rows.sum_parts(parts())
        ends = np.cumsum([math.prod(shape) for shape in shapes])[:-1]
        return [part.reshape(shape) for part, shape in zip(np.split(total, ends), shapes, strict=True)]

    def number_of(self, row: int) -> int:
        """Return the number of the block that has a row."""
        return min(row // self._each, len(self.parts) - 1)

    @property
    def note(self) -> str:
        """Which blocks stay on the GPU, and which the CPU computes; empty if all stay."""
        number = len(block_parts(self._rows.here, self._each))
        if self.resident == number:
            return ""
        streamed, some = number - self.resident, self.parts[-1]
        split = f"; {cpu_text(self._cpu_blocks, streamed, some.start, some.stop)}" if self._cpu_blocks else ""
        return (
            f"{self.resident} of {number} blocks of {self._each} rows stay there, "
            f"the others are copied in each pass{split}"
        )

    def take(self, rows: Indices) -> Vector:
        """Return some rows, by their numbers here, of blocks that stay."""
        found, of = np.empty((len(rows), self._rows.shape[1])), rows // self._each
        for number in distinct_values(of):
            mine = of == number
            on: Any = self.on[number]
            found[mine] = on.take(rows[mine] - self.parts[number].start)
        return found

    def _load(self, i: int) -> None:
        some = self.parts[self.resident + i]
        self.on[self.resident + i].load(self._read(some), self._weights(some))
        self._rows.release(some)

    def _weights(self, some: slice) -> Vector | None:
        return None if self._rows.weights is None else self._rows.weights[some]
