"""Loops that may take long: which of them look in each iteration whether the pass is to end early.

A pass that nobody can end is not to take longer than about a second, but looking costs time in short loops.
So a loop looks only if the operations of all its iterations, without those of loops in it that look
themselves, may be too many for the sizes of a call. Nobody knows how many iterations a `while` has: it looks.
On a CPU a loop that looks does so in each iteration, and so does the loop over the rows. On a GPU the flag is
in main memory, some microseconds away. There each lane adds up the work of its iterations, and looks from
time to time (`work_of_iteration`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from bmrm.formulas.analysis.bounds import IndexBounds
from bmrm.formulas.language.function_table import calls_of
from bmrm.formulas.language.tree import (
    Apply,
    Loop,
    Program,
    Statement,
    While,
    direct_expressions,
    name_of,
    parts,
    parts_of,
)

MAX_UNWATCHED = 1 << 26
"""Maximum number of operations, of all lanes at once, between two looks: some tenths of a second."""

CALL_OPERATIONS = 64
"""What a call of a function of the library counts, lane by lane."""


MIN_ITERATION_WORK = 16
"""Minimum number of operations that an iteration of a loop counts on a GPU."""

GPU_LOOK_OPERATIONS = 1 << 24
"""Number of operations of a lane on a GPU between two looks: 2^20 iterations of short loops. The device
header ``watch.cuh`` has the same."""

ROWS = "rows"
"""Name of the loop over the rows; no other loop has it."""


def work_of_iteration(operations: float) -> int:
    """Return what an iteration counts on a GPU.

    Examples
    --------
    >>> work_of_iteration(3), work_of_iteration(100), GPU_LOOK_OPERATIONS // work_of_iteration(3) == 2**20
    (16, 100, True)
    """
    return int(min(max(operations, MIN_ITERATION_WORK), GPU_LOOK_OPERATIONS))


def long_loops(program: Program, sizes: Mapping[str, int]) -> dict[str, float]:
    """Return the loops that look whether the pass is to end early, and the operations of their iterations.

    If there are some, the loop over the rows is one of them, and called `ROWS`.

    Parameters
    ----------
    program : Program
    sizes : dict of str to int
        Those of a call.
    """
    bounds, found = IndexBounds(program), dict[str, float]()

    def operations(body: tuple[Statement, ...]) -> float:
        total = 0.0
        for statement in body:
            own = 1.0
            for expr in direct_expressions(statement):
                applied = [part.op for part in parts(expr) if isinstance(part, Apply)]
                own += sum(CALL_OPERATIONS * calls_of(op) or 1 for op in applied)
            inside = sum(map(operations, parts_of(statement)))
            total += own
            if not isinstance(statement, Loop):
                total += inside
                continue
            each, count = 1 + inside, None
            if isinstance(statement, While):
                each = own + inside
            else:
                count = bounds.iterations(statement, sizes)
            if each * (math.inf if count is None else count) > MAX_UNWATCHED:
                found[name_of(statement)] = each
                total += each
            else:
                total += each * (count or 0)
        return total

    each = operations(program.body)
    return found | {ROWS: each} if found else {}
