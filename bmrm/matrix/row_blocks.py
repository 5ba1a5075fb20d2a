"""Split X on a GPU into blocks of rows.

A block is prepared on its own, and during that needs a multiple of its final size. So blocks are small
compared with the memory that X may use: most of it is left for the blocks that are ready, or for two staging
areas (``src_cuda/matrix/matrix.h``).

Where blocks begin decides about the bits of products. What is free on a device differs from run to run, as
other processes use it, so several blocks begin where half of its memory would have them begin, or a quarter
and so on, whichever is free (`steady_room`). A limit that the user sets is used as it is.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable

import numpy as np

from bmrm.base.vectors import Indices
from bmrm.errors import DeviceMemoryError

MAX_BLOCK_NONZEROS = 2**31 - 1
"""Maximum number of nonzeros of a block; the kernels' indices are int32."""

MAX_BLOCKS = 10_000
"""Maximum number of blocks; with more, the fixed cost per block dominates a product."""

MAX_HALF_ROOM_BLOCKS = 64
"""Maximum number of blocks whose preparation uses half of the memory; with more blocks it uses all of it.
Half is preferred if blocks are few and large: products are fast, and blocks that are ready can stay
meanwhile."""

DENSE_BLOCK_DIVISOR = 8
"""A dense block takes 1/8 of the memory, so two staging areas take a quarter; it needs no preparation."""


def steady_room(room: int, total: int) -> int:
    """Return the greatest of 1/2, 1/4, 1/8, ... of a device's memory that is not above a number of bytes.

    Examples
    --------
    >>> [steady_room(room, 80) for room in (75, 41, 39, 20)]
    [40, 40, 20, 20]
    """
    share = total // 2
    while share > room:
        share //= 2
    return share


def sparse_blocks(
    indptr: Indices, room: int, prepare: Callable[[int, int], int], steady: int | None = None
) -> Indices:
    """Return the bounds of blocks of rows of a sparse matrix; a single block if that fits.

    - ``indptr``, shape (m + 1,)
    - ``room``: bytes of device memory that X may use
    - ``steady``: bytes by which several blocks begin; default ``room``
    - ``prepare``: maps numbers of rows and nonzeros to the bytes that their preparation needs

    Raise `DeviceMemoryError` if some row cannot be prepared.

    Examples
    --------
    >>> import numpy as np
    >>> indptr = np.arange(0, 1100, 100)
    >>> sparse_blocks(indptr, 8000, lambda rows, nonzeros: 8 * nonzeros)
    array([ 0, 10])
    >>> sparse_blocks(indptr, 6400, lambda rows, nonzeros: 8 * nonzeros)
    array([ 0,  4,  8, 10])
    """
    rows = len(indptr) - 1

    def fits(start: int, stop: int, bytes_: int) -> bool:
        nonzeros = int(indptr[stop] - indptr[start])
        return nonzeros <= MAX_BLOCK_NONZEROS and prepare(stop - start, nonzeros) <= bytes_

    if fits(0, rows, room):
        return np.array([0, rows])
    steady = room if steady is None else steady
    for bytes_, max_blocks in ((steady // 2, MAX_HALF_ROOM_BLOCKS), (steady, MAX_BLOCKS), (room, MAX_BLOCKS)):
        starts = [0]
        while starts[-1] < rows and len(starts) <= max_blocks:
            start = starts[-1]
            some = bisect_left(
                range(1, rows - start + 1), True, key=lambda n: not fits(start, start + n, bytes_)
            )
            if some == 0:
                break
            starts.append(start + some)
        if starts[-1] == rows:
            return np.array(starts)
    least = prepare(1, int(np.diff(indptr).max()))
    raise DeviceMemoryError(
        f"X has too many rows, or one whose preparation needs {least / 1e6:.4g} MB of device memory; "
        f"{room / 1e6:.4g} MB are left for X"
    )


def dense_blocks(rows: int, row_bytes: int, room: int, steady: int | None = None) -> Indices:
    """Return the bounds of blocks of rows of a dense matrix; a single block if that fits.

    ``room`` and ``steady`` are those of `sparse_blocks`.

    Raise `DeviceMemoryError` if `room` is too small for a few rows.

    Examples
    --------
    >>> dense_blocks(100, 8, 800)
    array([  0, 100])
    >>> dense_blocks(100, 8, 720)
    array([  0,  11,  22,  33,  44,  55,  66,  77,  88,  99, 100])
    """
    if rows * row_bytes <= room:
        return np.array([0, rows])
    each = (room if steady is None else steady) // DENSE_BLOCK_DIVISOR // row_bytes
    if each < 1 or rows > each * MAX_BLOCKS:
        raise DeviceMemoryError(
            f"X has {rows} rows of {row_bytes / 1e3:.4g} kB, too many to stream through the "
            f"{room / 1e6:.4g} MB of device memory that are left for it"
        )
    return np.append(np.arange(0, rows, each), rows)
