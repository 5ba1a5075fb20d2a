"""Types of the compiled reader of edges."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bmrm.io._text import Bytes, FileText
from bmrm.io.edge_layout import EdgeLayout

MAX_NODES: int
"""Maximum number of nodes."""

class NodesError(Exception):
    """There are more than ``MAX_NODES`` nodes."""

class Names:
    """The distinct names of a text, numbered by first appearance, the source of an edge before its target."""

    def __init__(self) -> None: ...
    def __len__(self) -> int: ...
    def strings(self) -> NDArray[np.object_]:
        """Return the names as strings, in the order of their numbers."""

class Parsed:
    """The arrays of one parsed part of a text."""

    sources: NDArray[np.int64] | NDArray[np.int32]
    """Integers as they are written, of type int64; or the numbers of names, of type int32."""
    targets: NDArray[np.int64] | NDArray[np.int32]
    weights: NDArray[np.float64] | None
    lines: int
    low: int
    """Smallest integer; with ``high`` below it if there are none."""
    high: int

def parse(
    text: Bytes | FileText,
    start: int,
    stop: int,
    *,
    names: Names | None,
    weights: bool,
    layout: EdgeLayout,
    threads: int,
    block_bytes: int,
    reserve: Callable[[int], object],
) -> Parsed:
    """Parse the whole lines ``text[start:stop]``.

    Ids are integers if ``names`` is None, else names that are added to it. Weights are 1 unless the layout
    has a place for them. ``block_bytes`` is the minimum
    size of the pieces that threads process; neither it nor ``threads`` changes the result. ``reserve`` is
    called with an upper bound of the number of edges before the arrays are allocated. Raises `TextError` for
    the first fault, `ChangedError`, `LongLineError` and `NodesError`.
    """

def parsed_bytes() -> int:
    """Return the number of bytes of edge text that this process has parsed, while it parses too."""

def open_text(text: Bytes | FileText, start: int, stop: int) -> tuple[list[tuple[int, int]], int]:
    """Look for the first two of the whole lines ``text[start:stop]`` that are not blank and no comments.

    Returns their offsets, without the ends of the lines, and the number of lines before the second.
    """

def number(
    arrays: list[NDArray[Any]], *, low: int, high: int, threads: int
) -> tuple[list[NDArray[np.int32]], NDArray[np.int64]]:
    """Give the distinct ids of arrays numbers in ascending order; return the numbers, and the ids.

    The arrays have int32 or int64 and are contiguous, here and below. All ids are between ``low`` and
    ``high``. Removes the arrays from the list as it goes. Raises `NodesError`.
    """

def extent(arrays: Sequence[NDArray[Any]], threads: int) -> tuple[int, int]:
    """Return the least and the largest of the ids of arrays; the former is above the latter without any."""

def narrow(ids: NDArray[np.int64], threads: int) -> NDArray[np.int32]:
    """Return a copy of ids that int32 can hold."""
