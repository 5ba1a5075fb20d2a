"""Calls of a statistic: all pairs at once, or blocks of rows of the results of each pair.

Sparse results are counted first. Then rows are filled that have room for as many values as the row with the
most, as many rows at a time as fit into some memory; so a few long rows do not make room in all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from bmrm.base.host_memory import require_memory
from bmrm.distributed.row_set import RowSet
from bmrm.distributed.rows import StoredRows
from bmrm.errors import DeviceMemoryError, ParameterError
from bmrm.formulas.language.two_points import PairSource, columns_of, most_of
from bmrm.formulas.run.function import CompiledFunction

FILLED_BYTES = 1 << 28
"""Memory in which the rows of sparse results are filled at a time, if a call does not say it."""

VALUE_BYTES = 32
"""Memory of a stored value while it is filled: with its column, in the room of its row and compressed."""

EVEN_ROWS = 64
"""Rows that run side by side on any device: blocks of many rows are multiples of it."""


class StatisticCall(NamedTuple):
    """What a call of a statistic runs.

    Attributes
    ----------
    pairs : PairSource
    function : CompiledFunction
        Counts sparse results of each pair, and finds all others.
    fill : CompiledFunction or None
        Fills sparse results, if there are some.
    x : RowSet
    y : StoredRows
    words : dict of str to object
        All arguments but y.
    """

    pairs: PairSource
    function: CompiledFunction
    fill: CompiledFunction | None
    x: RowSet
    y: StoredRows
    words: dict[str, Any]

    @property
    def all_words(self) -> dict[str, Any]:
        """All arguments, in main memory."""
        return {**self.words, self.pairs.y: self.y.given}

    @property
    def row_bytes(self) -> int:
        """Bytes of a row of all full results of each pair."""
        return int(self.x.X.dtype.itemsize) * len(self.y) * len(self.pairs.full)

    def part(self, some: slice) -> StatisticCall:
        """Return the call for some x, which keep their positions."""
        if (some.start, some.stop) == (0, self.x.here):
            return self
        of_x = self.pairs.source.axes
        words = {name: value[some] if name in of_x else value for name, value in self.words.items()}
        bounds = self.x.first + some.start, self.x.first + some.stop
        return self._replace(x=RowSet(self.x.X[some], bounds=bounds), words=words)


Run: TypeAlias = Callable[[StatisticCall], Any]


def run_whole(call: StatisticCall, run: Run) -> Any:
    """Run a call; sparse results of each pair become sparse matrices."""
    name, advice = call.pairs.source.name, "blocks='1 GB' gives it in blocks of rows"
    size = call.x.here * call.row_bytes
    require_memory(size, f"the matrix of {name}", advice)
    try:
        found = run(call)
    except DeviceMemoryError as error:
        if not size:
            raise
        text = f"{error}; the matrix of {name} needs {size / 1e9:.4g} GB, {advice}"
        raise DeviceMemoryError(text) from None
    if call.fill is None:
        return found
    counts = _counts_of(call, found)
    stored = sum(int(each.sum()) for each in counts.values())
    require_memory(VALUE_BYTES * stored, f"the {stored} stored values of {name}", advice)
    parts = [each for _, each in _filled(call, counts, FILLED_BYTES, run)]
    return found._replace(
        **{word: _join([each[word] for each in parts], counts[word], len(call.y)) for word in counts}
    )


def run_blocks(call: StatisticCall, run: Run, memory: int) -> Iterator[tuple[slice, Any]]:
    """Run a call for one block of rows after the other; yield the positions of x, and the results."""
    name, pairs = call.pairs.source.name, call.pairs
    if pairs.shared:
        raise ParameterError(f"{name}: blocks: found {pairs.shared[0]!r}, which all pairs share")
    if not (pairs.full or pairs.sparse):
        raise ParameterError(f"{name}: blocks: found no result of each pair, expected one")
    if call.row_bytes > memory:
        raise ParameterError(
            f"{name}: blocks: found {memory} bytes, expected at least {call.row_bytes}, those of a row"
        )
    return _blocks(call, run, memory // 2 if pairs.full and pairs.sparse else memory)


def _blocks(call: StatisticCall, run: Run, memory: int) -> Iterator[tuple[slice, Any]]:
    def full_bytes(some: slice) -> int:
        return int(some.stop - some.start) * call.row_bytes

    for some in _fitting(slice(0, call.x.here), full_bytes, memory):
        part = call.part(some)
        found = run(part)
        if call.fill is None:
            yield some, found
            continue
        counts = _counts_of(call, found)
        for rows, filled in _filled(part, counts, memory, run):
            made = {word: _join([filled[word]], counts[word][rows], len(call.y)) for word in counts}
            others = {word: getattr(found, word)[rows] for word in found._fields if word not in made}
            yield slice(some.start + rows.start, some.start + rows.stop), found._replace(**others, **made)


def _counts_of(call: StatisticCall, found: Any) -> dict[str, NDArray[Any]]:
    return {word: getattr(found, word) for word in call.pairs.sparse}


def _filled(
    call: StatisticCall, counts: dict[str, NDArray[Any]], memory: int, run: Run
) -> Iterator[tuple[slice, dict[str, tuple[NDArray[Any], NDArray[Any]]]]]:
    """Yield rows of the call, with values and columns of each sparse result."""
    assert call.fill is not None

    def room(each: NDArray[Any]) -> int:  # few different ones, since code on a GPU depends on it
        return 1 << (int(each.max(initial=1)) - 1).bit_length()

    def needed(some: slice) -> int:
        return VALUE_BYTES * int(some.stop - some.start) * sum(room(each[some]) for each in counts.values())

    filling = call._replace(function=call.fill)
    for some in _fitting(slice(0, call.x.here), needed, memory):
        if needed(some) > memory:
            require_memory(needed(some), f"a row of {call.pairs.source.name}")
        part = filling.part(some)
        rooms = {most_of(word): room(each[some]) for word, each in counts.items()}
        found, made = run(part._replace(words=part.words | rooms)), {}
        for word, each in counts.items():
            values, columns = getattr(found, word), getattr(found, columns_of(word))
            there = np.arange(values.shape[1]) < each[some, None]
            made[word] = values[there], columns[there]
        yield some, made


def _fitting(some: slice, needed: Callable[[slice], int], memory: int) -> Iterator[slice]:
    """Yield parts of some rows that fit into a memory, or are single rows."""
    rows = some.stop - some.start
    if rows <= 1 or needed(some) <= memory:
        yield some
        return
    half = rows // 2 // EVEN_ROWS * EVEN_ROWS or rows // 2
    yield from _fitting(slice(some.start, some.start + half), needed, memory)
    yield from _fitting(slice(some.start + half, some.stop), needed, memory)


def _join(parts: list[tuple[NDArray[Any], NDArray[Any]]], counts: NDArray[Any], columns: int) -> Any:
    """Return a sparse matrix of the values and columns of rows, part by part."""
    from scipy.sparse import csr_array

    values, at = (np.concatenate(each) for each in zip(*parts, strict=True))
    return csr_array((values, at, np.concatenate([[0], np.cumsum(counts)])), shape=(len(counts), columns))
