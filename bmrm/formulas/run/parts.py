"""The parts of a pass, a rule that depends on the number of all rows and the size of the results alone.

Each part has results of its own, which are combined in the order of the parts: the same bits for any number
of threads. Several ranks have the parts that one would have. If the rows of a rank end inside a part, there
are two parts of it, and sums are rounded otherwise.
"""

from __future__ import annotations

import math

from bmrm.formulas.run.binding import Call

PART_ROWS = 4096
"""Minimum number of rows of a part, so that starting one costs little; a multiple of any number of lanes."""

MAX_PARTS = 256
"""Maximum number of parts: enough for the cores of a large machine to finish together."""

MAX_RESULT_BYTES = 1 << 28
"""Maximum size of the results of all parts, before they are combined."""


def part_rows(rows: int, result_bytes: int) -> int:
    """Return the number of rows of a part: a power of two, so that ranks that keep to a large one fit all.

    Examples
    --------
    >>> part_rows(1000, 8), part_rows(10_000_000, 8), part_rows(10_000_000, 1 << 28)
    (4096, 65536, 16777216)
    """
    parts = max(1, min(MAX_PARTS, MAX_RESULT_BYTES // max(1, result_bytes)))
    each = PART_ROWS
    while each * parts < rows:
        each *= 2
    return each


def part_bounds(call: Call) -> list[int]:
    """Return the first row of each part of the rows here, and the end of the last part."""
    rows, first = call.rows.shape[0], call.rows.first_row
    each = part_rows(call.rows.total, result_bytes(call))
    return [0, *range(each - first % each, rows, each), rows]


def is_exact(call: Call) -> bool:
    """Return whether results do not depend on where parts end: none is a sum of real numbers."""
    return not any(a.role == "sum" and a.type == "real" for a in call.program.results())


def falls_whole(call: Call) -> bool:
    """Return whether every part is on one rank."""
    each, ranks = part_rows(call.rows.total, result_bytes(call)), call.rows.ranks
    return ranks is None or all(b % each == 0 or b == ranks.bounds[-1] for b in ranks.bounds)


def result_bytes(call: Call) -> int:
    """Return the size of the results of a part."""
    results = [a for a in call.program.results() if a.role != "output"]
    return sum(8 * math.prod(call.shape(a)) for a in results)
