"""Graphs in METIS files: one line per node with its neighbours, numbered from 1.

References
----------
Karypis, Kumar, "METIS: a software package for partitioning unstructured graphs", manual of version 5.1.0,
section 4.1.1.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bmrm.base.host_memory import require_memory
from bmrm.errors import DataError
from bmrm.io.csr import Csr
from bmrm.io.sources import Source
from bmrm.io.text import quote_token


def read_metis(source: Source) -> Csr:
    """Read a METIS file as a matrix whose rows list the neighbours of the nodes, in both directions.

    Weights and sizes of nodes are ignored; edges have weights if the header says so.

    Raises
    ------
    DataError
        With file and line: a header that does not fit the lines, a neighbour out of range, no number.
    """
    lines = _content(source)
    number, header = next(lines, (1, b""))
    fields = _integers(source, number, header)
    if not 2 <= len(fields) <= 4:
        raise _fault(
            source,
            number,
            f"found a header of {len(fields)} numbers, expected 2 to 4: nodes, edges, fmt, ncon",
        )
    nodes, edges = (int(field) for field in fields[:2])
    flags = f"{int(fields[2]) if len(fields) > 2 else 0:03d}"
    if nodes < 0 or edges < 0 or set(flags) - {"0", "1"} or len(flags) > 3:
        raise _fault(
            source, number, "found another header, expected counts of at least 0 and a fmt of digits 0 and 1"
        )
    has_sizes, has_node_weights, has_weights = (flag == "1" for flag in flags)
    skipped = has_sizes + (int(fields[3]) if len(fields) > 3 else int(has_node_weights))
    rows: list[NDArray[np.int64]] = []
    for number, line in lines:
        if len(rows) == nodes and line.strip():
            raise _fault(
                source, number, f"found a line after the {nodes} nodes of the header, expected the end"
            )
        if len(rows) < nodes:
            rows.append(_integers(source, number, line)[skipped:])
            if has_weights and len(rows[-1]) % 2:
                raise _fault(source, number, "found a neighbour without a weight, expected pairs")
            _check_range(source, number, rows[-1][:: 1 + has_weights], nodes)
    if len(rows) != nodes:
        raise _fault(source, number, f"found {len(rows)} lines of nodes, expected {nodes} as in the header")
    return _to_matrix(source, rows, edges, has_weights)


def _content(source: Source) -> Iterator[tuple[int, bytes]]:
    """Yield numbered lines without comments; an empty line is a node without neighbours."""
    for number, line in enumerate(source.file, 1):
        if not line.lstrip().startswith(b"%"):
            yield number, line


def _integers(source: Source, number: int, line: bytes) -> NDArray[np.int64]:
    words = line.split()
    try:
        return np.array([int(word) for word in words], np.int64)
    except (ValueError, OverflowError):
        wrong = next(word for word in words if not _is_integer(word))
        column = line.index(wrong) + 1
        raise DataError(
            f"{source.name}:{number}:{column}: found {quote_token(wrong)}, expected an integer of 64 bits"
        ) from None


def _is_integer(word: bytes) -> bool:
    try:
        return -(2**63) <= int(word) < 2**63
    except ValueError:
        return False


def _check_range(source: Source, number: int, neighbours: NDArray[np.int64], nodes: int) -> None:
    outside = (neighbours < 1) | (neighbours > nodes)
    if outside.any():
        raise _fault(source, number, f"found the neighbour {neighbours[outside][0]}, expected 1 to {nodes}")


def _to_matrix(source: Source, rows: list[NDArray[np.int64]], edges: int, has_weights: bool) -> Csr:
    width = 1 + has_weights
    counts = np.array([len(row) // width for row in rows], np.int64)
    if counts.sum() != 2 * edges:
        raise DataError(
            f"{source.name}: found {counts.sum()} neighbours, expected {2 * edges}, two for each edge "
            "of the header"
        )
    require_memory(16 * int(counts.sum()), "the graph")
    flat: Any = np.concatenate([*rows, np.zeros(0, np.int64)])
    values = flat[1::2].astype(np.float64) if has_weights else None
    indptr = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    neighbours = flat[::width] - 1
    _check_both_ways(source, np.repeat(np.arange(len(rows)), counts), neighbours, values)
    return Csr(indptr, neighbours, values, (len(rows), len(rows)))


def _check_both_ways(
    source: Source, nodes: NDArray[Any], neighbours: NDArray[Any], values: NDArray[Any] | None
) -> None:
    """Raise unless both ends of each edge list it, with the same weight."""
    weights = np.zeros(len(nodes)) if values is None else values
    one, other = np.lexsort((weights, neighbours, nodes)), np.lexsort((weights, nodes, neighbours))
    same_ends = (nodes[one] == neighbours[other]) & (neighbours[one] == nodes[other])
    wrong = ~(same_ends & (weights[one] == weights[other]))
    if wrong.any():
        place = int(np.argmax(wrong))
        u, v = sorted((int(nodes[one[place]]), int(neighbours[one[place]])))
        if not same_ends[place]:  # the smaller of the two edges at this place has no reverse
            pairs = [
                (nodes[one[place]], neighbours[one[place]]),
                (neighbours[other[place]], nodes[other[place]]),
            ]
            u, v = sorted(map(int, min(pairs)))
            raise DataError(
                f"{source.name}: found the edge of nodes {u + 1} and {v + 1} in the list of one of them, "
                "expected it in both"
            )
        raise DataError(
            f"{source.name}: found two weights of the edge of nodes {u + 1} and {v + 1}, expected one"
        )


def _fault(source: Source, number: int, text: str) -> DataError:
    return DataError(f"{source.name}:{number}: {text}")
