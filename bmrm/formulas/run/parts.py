"""What the parts of a pass depend on: the size of the results; and which results depend on the parts.

The rule is that of `bmrm.distributed.row_set`. Each part has results of its own.
"""

from __future__ import annotations

import math

from bmrm.formulas.run.binding import Call


def part_bounds(call: Call, order: str = "fixed") -> list[int]:
    """Return the first row of each part of the rows here, and the end of the last part.

    In any order threads have the results, not parts, which then need not be few if results are large.
    """
    return call.rows.part_bounds(result_numbers(call) if order == "fixed" else 1)


def is_exact(call: Call) -> bool:
    """Return whether results do not depend on where parts end: none is a sum of real numbers."""
    return not any(a.rounds for a in call.program.results())


def result_numbers(call: Call) -> int:
    """Return how many numbers of 8 bytes the results of a part are."""
    return sum(math.prod(call.shape(a)) for a in call.program.results() if a.role != "output")
