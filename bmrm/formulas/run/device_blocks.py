"""The blocks of the rows of a compiled function on a GPU: in place, uploaded, or one after the other."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import Any, NamedTuple

from bmrm.base.vectors import Vector
from bmrm.distributed.blocks import (
    FREE_SHARE,
    OFFSET_BYTES,
    SLOTS,
    RowBlocks,
    block_parts,
    block_rows,
    count_resident,
    sparse_block_rows,
)
from bmrm.distributed.row_set import RowSet
from bmrm.distributed.rows import Entries, StoredRows
from bmrm.matrix.gpu.driver import Device, GpuArray, count_devices
from bmrm.matrix.gpu.placement import ranks_per_gpu

UPLOADED_BYTES = 1 << 26
"""Size of rows of a mapped file that are uploaded before their pages are released."""


def rows_of_blocks(X: StoredRows) -> int:
    """Return the number of rows of a block."""
    if X.sparse:
        return sparse_block_rows(max(1, len(X)), X.size, X.item_bytes)
    return block_rows(max(1, X.shape[1]), X.item_bytes)


def block_bytes(X: StoredRows, each: int, most: int) -> int:
    """Return the bytes of a block of so many rows and at most so many stored values."""
    if not X.sparse:
        return most * X.item_bytes
    return most * -(-X.nbytes // max(1, X.size)) + OFFSET_BYTES * (each + 1)


def resident_bytes(X: StoredRows, each: int) -> int:
    """Return the bytes that rows should have on a GPU: two blocks of several, unless they are to stay."""
    if X.held is not None or each >= len(X):
        return X.nbytes
    return SLOTS * block_bytes(X, each, X.most_stored(each))


class _Block(NamedTuple):
    """A block that is on a GPU."""

    entries: Entries
    owner: Any


class _Uploaded:
    """Some rows that were uploaded; others can come to their place, of up to ``most`` stored values."""

    def __init__(self, on: Device, X: StoredRows, some: slice, most: int) -> None:
        self._on, self._X = on, X
        count = some.stop - some.start
        self._room = {"rows": count * X.shape[1], "starts": count + 1, "columns": most, "values": most}
        self._arrays: dict[str, GpuArray] = {}
        self.load(some)

    def load(self, some: slice, weights: Vector | None = None) -> None:
        """Upload some rows; those that are converted, or of a mapped file, by pieces."""
        X, size = self._X, max(1, some.stop - some.start)
        returns = X.reads_too_much
        if not X.sparse and (X.copied or returns):
            size = max(1, UPLOADED_BYTES // (X.shape[1] * X.item_bytes))
        for first in range(some.start, max(some.stop, some.start + 1), size):
            last = min(first + size, some.stop)
            for name, array in X.arrays(slice(first, last)).items():
                if name not in self._arrays:
                    self._arrays[name] = self._on.allocate((self._room[name],), array.dtype)
                self._on.write(self._arrays[name], (first - some.start) * X.shape[1], array)
            if returns:
                X.release(first, last)

    @property
    def entries(self) -> Entries:
        """Return where compiled code finds the arrays."""
        found = {name: array.address for name, array in self._arrays.items()}
        if "rows" in found:
            item = self._arrays["rows"].dtype.itemsize
            found |= {"row_step": item * self._X.shape[1], "column_step": item}
        return found


class _Copied(RowBlocks[_Uploaded]):
    """The blocks of rows in main memory; calls of several threads take turns, since they share the slots."""

    def __init__(self, *words: Any, **keywords: Any) -> None:
        super().__init__(*words, **keywords)
        self.lock: AbstractContextManager[Any] = threading.Lock()


class _InPlace:
    """The blocks of rows that are on the GPU."""

    lock: AbstractContextManager[Any] = nullcontext()

    def __init__(self, on: Device, X: StoredRows, each: int) -> None:
        uploaded = {name: on.upload(array) for name, array in X.arrays(slice(0, len(X))).items()}
        entries = X.entries() | {name: array.address for name, array in uploaded.items()}
        name, step = ("starts", OFFSET_BYTES) if X.sparse else ("rows", entries["row_step"])
        self.on = [
            _Block({**entries, name: entries[name] + step * some.start}, uploaded)
            for some in block_parts(len(X), each)
        ]
        self.resident = len(self.on)

    def pass_over(self, last: int) -> Iterator[int]:
        yield from range(last)


def blocks_on(on: Device, rows: RowSet, each: int) -> _InPlace | _Copied:
    """Put blocks of rows on the device, or find them there."""
    held = rows.X.held
    found = None if held is None else held.get(on)
    if found is None:
        X: Any = rows.X if held is None else replace(rows.X, held=None)  # or it would hold itself
        found = _InPlace(on, X, each) if X.on_gpu else _upload(on, replace(rows, X=X), each, held is not None)
        if held is not None:
            held[on] = found
    return found


def find_whole(on: Device, X: StoredRows) -> tuple[int, Any] | None:
    """Return the address of rows that stay on the device in one block, and their owner; None for others."""
    each = rows_of_blocks(X)
    if X.held is None or not X.size or len(X) > each:
        return None
    found = blocks_on(on, RowSet(X), each)
    return (found.on[0].entries["rows"], found) if found.resident else None


def resident_blocks(on: Device, rows: RowSet, each: int) -> int:
    """Return how many blocks stay on the device, or would."""
    held = rows.X.held
    if held is not None and on in held:
        return int(held[on].resident)
    return _count_resident(on, rows, each, held is not None)


def _count_resident(on: Device, rows: RowSet, each: int, stay: bool) -> int:
    """Return how many blocks of rows in main memory stay: all that fit if they are to, else one alone."""
    X, number = rows.X, len(block_parts(rows.here, each))
    if not stay:
        return 0 if number > 1 else 1
    sharers = ranks_per_gpu(rows.group, count_devices()) if rows.group else 1
    limit, needed = int(FREE_SHARE * on.free_bytes()) // sharers, block_bytes(X, each, _most_stored(X, each))
    return count_resident(number, needed, needed, limit)


def _most_stored(X: StoredRows, each: int) -> int:
    return X.most_stored(each) if len(X) > each else X.size


def _upload(on: Device, rows: RowSet, each: int, stay: bool) -> _Copied:
    """Upload the first blocks: all that fit if they are to stay, else two of several."""
    X, resident = rows.X, _count_resident(on, rows, each, stay)
    most = _most_stored(X, each)
    return _Copied(rows, each, resident, lambda some, _: _Uploaded(on, X, some, most), read=lambda some: some)
