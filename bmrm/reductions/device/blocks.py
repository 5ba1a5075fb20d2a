"""Rows in blocks, of which a GPU holds as many as fit; the others are copied there in each pass.

The number of rows of a block depends on the number of columns and the type of the values alone. Sums are
those of the blocks, added in their order, whether a block stays or not: no bit depends on the GPU's memory.

A block that does not stay has its place in one of two slots of the GPU. While a pass works on one slot, a
thread of the host reads the next block, fills pinned memory with it, and copies that to the other slot
(``src_cuda/runtime/upload.h``). The first blocks stay, and those of the slots are copied in the meantime.
"""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor

import numpy as np

from bmrm.base.units import size_text
from bmrm.errors import DeviceMemoryError
from bmrm.matrix.device_arrays import DeviceArray
from bmrm.matrix.gpu.devices import import_cuda
from bmrm.reductions.row_set import RowSet

BLOCK_BYTES = 1 << 30
"""Maximum size of a block: the bus is busy for some 20 ms, long enough that the start of a pass is little."""

MIN_BLOCK_ROWS = 1024
"""Minimum number of rows of a block, a multiple of what kernels take at a time."""

SLOTS = 2
"""Blocks on the GPU that do not stay there."""

FREE_SHARE = 0.9
"""Share of the free memory that rows and what passes need may take."""

COLUMN_BYTES = 8
"""Bytes that stay on the GPU for each row in any case: its label and a distance."""


def block_rows(columns: int, value_bytes: int) -> int:
    """Return the number of rows of a block: a power of two.

    Examples
    --------
    >>> block_rows(64, 4), block_rows(784, 4)
    (4194304, 262144)
    """
    return max(MIN_BLOCK_ROWS, 1 << (BLOCK_BYTES // (columns * value_bytes)).bit_length() - 1)


def free_share(rows: RowSet, gpu: int) -> int:
    """Return the bytes of a GPU that the rows of a rank may take: those free, divided by the ranks on it."""
    free: int = import_cuda().device_info(gpu)["free_bytes"]
    here = platform.node(), gpu
    return int(FREE_SHARE * free) // rows.everyones(here).count(here)


def count_resident(blocks: int, rows: int, block_bytes: int, limit: int) -> int:
    """Return the number of blocks that stay on a GPU.

    Parameters
    ----------
    blocks, rows : int
        Number of blocks, and of their rows.
    block_bytes : int
        What a block takes, with what passes over it need.
    limit : int
        Bytes for all.

    Raises
    ------
    DeviceMemoryError
        If there is no room for the slots.

    Examples
    --------
    >>> count_resident(10, 10, 100, 1000), count_resident(10, 10, 100, 999)
    (10, 7)
    """
    if blocks * block_bytes <= limit:
        return blocks
    left = limit - SLOTS * block_bytes - COLUMN_BYTES * rows
    if left < 0:
        needed = size_text(limit - left)
        raise DeviceMemoryError(
            f"X: found {size_text(limit)} on the GPU for blocks of rows, expected {needed} for two"
        )
    return left // block_bytes


class Slots:
    """Blocks that are copied to a GPU in turn, block i to slot ``i % SLOTS``; the first are there.

    Parameters
    ----------
    count : int
        Number of blocks.
    load : callable
        Copies block i into its slot. A thread of its own calls it.
    """

    def __init__(self, count: int, load: Callable[[int], None]) -> None:
        self._count, self._load = count, load
        self._there = list(range(SLOTS))
        self._worker = ThreadPoolExecutor(1, "bmrm-rows")

    def begin(self) -> list[Future[None]]:
        """Begin to copy the first blocks of a pass."""
        return [self._worker.submit(self._copy, i) for i in range(min(SLOTS, self._count))]

    def numbers(self, copies: list[Future[None]]) -> Iterator[int]:
        """Yield the number of each block once it is there; it stays until the next one is asked for."""
        for i in range(self._count):
            copies[i].result()
            yield i
            if i + SLOTS < self._count:
                copies.append(self._worker.submit(self._copy, i + SLOTS))

    def _copy(self, i: int) -> None:
        slot = i % SLOTS
        if self._there[slot] == i:
            return
        self._there[slot] = -1
        self._load(i)
        self._there[slot] = i


class RowsInPlace:
    """Some rows of an array on a GPU."""

    def __init__(self, X: DeviceArray, rows: slice) -> None:
        size = np.dtype(X.dtype).itemsize * X.shape[1]
        self._owner = X
        self.__cuda_array_interface__ = {
            "shape": (rows.stop - rows.start, X.shape[1]),
            "typestr": np.dtype(X.dtype).str,
            "data": (X.address + rows.start * size, True),
            "strides": None,
            "version": 3,
        }
