"""Predicted time and work of a pass: counted by walking the tree, as the schedule of the CPU prints it."""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np

from bmrm.base.recent import Recent
from bmrm.formulas.analysis.facts import ProgramFacts
from bmrm.formulas.analysis.schedule import VectorColumns, schedule_cpu
from bmrm.formulas.cpu import native
from bmrm.formulas.language.combination import read_operator
from bmrm.formulas.language.function_table import FUNCTIONS, calls_of
from bmrm.formulas.language.operators import FunctionOperator
from bmrm.formulas.language.tree import (
    Apply,
    Combine,
    Const,
    Expr,
    For,
    ForStored,
    Load,
    Loop,
    RowItem,
    SetItem,
    SizeOf,
    While,
    direct_expressions,
    expressions,
    parts,
    repeated,
)
from bmrm.formulas.language.two_points import NEAR, NEAR_END
from bmrm.formulas.run.binding import MAX_PLANS, Call
from bmrm.matrix.gpu.work import Work, threads_of


class Kind(NamedTuple):
    """A kind of work.

    Attributes
    ----------
    seconds : float
    in_lanes : bool
        Whether a vector register of rows does it at once.
    """

    seconds: float
    in_lanes: bool


KINDS = {
    "operations": Kind(7.2e-11, True),
    "vector functions": Kind(2e-8, True),
    "calls of functions": Kind(4e-9, False),
    "scattered loads": Kind(1e-9, False),
    "updates": Kind(9.5e-10, True),
    "scattered updates": Kind(1.6e-9, False),
    "rows of columns": Kind(7e-9, False),
}
"""What a row's work is made of. Loads count as operations; what is scattered has a place that depends on the
row; a loop whose vectors have columns begins for each row. Times are those with which predictions are closest
to the measured times of 94 calls, as those of ``benchmarks/reductions/predictions.py``, on one core with
vectors of 64 bytes (2026-11-27): all are within a factor of 2.5."""

ASSUMED_ITERATIONS = 16
"""Number of iterations that a `while` is taken to have: Newton's method has some 5, a search in a million
values 20, and others any number."""

WIDE = 2
"""Some number of lanes above 1: what loops become does not depend on it further."""

STAGE_SECONDS = 9.3e-10
"""Time to read one number of a dense row from main memory, and to transpose it; or to write one."""

RESULT_SECONDS = 1.9e-9
"""Time to set a number of the results of a part, and to combine it with those of the others."""

MIN_THREADED_SECONDS = 7.5e-4
"""Predicted time below which a reduction has one thread."""

REDUCTION_GPU_SPEED = 102.0
"""Speed of a pass of a reduction on a GPU, as a multiple of one core's."""

REDUCTION_CALL_SECONDS = 2.25e-4
"""Time of a call of a reduction on the CPU, besides its passes."""

REDUCTION_GPU_CALL_SECONDS = 3e-4
"""Time of a call of a reduction on a GPU, besides its passes."""

REDUCTION_TEAM_SECONDS = 1.2e-3
"""Time to set the threads of a reduction to work."""

REDUCTION_PART_SECONDS = 4.5e-5
"""Time of a part of a reduction that only one thread at a time can spend: a call, and combining results."""


_counted: Recent[dict[str, float]] = Recent(MAX_PLANS)


def predict_seconds(call: Call, threads: int) -> float:
    """Predict the time of a pass with compiled code."""
    rows, X, lanes = call.rows.here, call.rows.X, lanes_of(call)
    each = (row_numbers(call) + (0 if X.sparse else X.shape[1])) * STAGE_SECONDS
    for name, count in work_of(call).items():
        each += count * KINDS[name].seconds / (lanes if KINDS[name].in_lanes else 1)
    return float(rows * each / threads + result_seconds(call))


def row_numbers(call: Call) -> int:
    """Return how many numbers of arguments with an array per row a row has."""
    program = call.program
    return sum(math.prod(call.shape(a)) for a in program.arguments.values() if a.name in program.own_arrays())


def result_seconds(call: Call) -> float:
    """Predict the time for the results of all parts, which one thread spends."""
    return (len(call.part_bounds()) - 1) * call.numbers * RESULT_SECONDS


def lanes_of(call: Call) -> float:
    """Return how many real numbers fill a vector register, one of each row."""
    return 1 if call.rows.sparse else native.vector_bytes() / np.dtype(call.real).itemsize


def work_of(call: Call) -> dict[str, float]:
    """Return how much of each of the `KINDS` a row of a call is."""
    key = (*call.key, call.rows.X.kind(), call.real, call.rows.X.stored)
    return _counted.get(key, lambda: _count_work(call))


def _count_work(call: Call) -> dict[str, float]:
    """Count the work of a row, with the average number of stored values of one that is sparse.

    Nobody knows how many iterations a `while` has: `ASSUMED_ITERATIONS`. Of a `for` loop all count, of one
    over listed points their average.
    """
    program, sizes, X = call.program, call.sizes, call.rows.X
    schedule = schedule_cpu(program, 1 if X.sparse else WIDE, contiguous=X.kind().contiguous)
    found, middle = dict.fromkeys(KINDS, 0.0), dict[str, float]()
    if NEAR in sizes:
        middle[NEAR_END] = 1.0 + sizes[NEAR] / max(1, call.rows.here)
    columns: set[int] = set()

    def iterations(node: Loop) -> float:
        if isinstance(node, While):
            return ASSUMED_ITERATIONS
        if isinstance(node, ForStored):
            middle[node.index] = sizes[program.width] / 2
            return float(X.stored)
        first, last = estimate(node.start, sizes, middle), estimate(node.stop, sizes, middle)
        middle[node.name] = (first + last) / 2
        return max(0.0, (last - first) / node.step)

    for statement, times in repeated(program.body, iterations):
        if isinstance(statement, For) and isinstance(schedule.of(statement), VectorColumns):
            columns.update(map(id, statement.body))
            found["rows of columns"] += times
        for expr in direct_expressions(statement):
            for part in parts(expr):
                if kind := _kind_of(part, schedule.facts, X.sparse):
                    found[kind] += times
        if isinstance(statement, Combine):
            scattered = X.sparse or schedule.facts.varies(*statement.index)
            found["scattered updates" if scattered and id(statement) not in columns else "updates"] += times
        if isinstance(statement, SetItem) and statement.op is not None:
            scattered = not X.sparse and schedule.facts.varies(*statement.index)
            found["scattered updates" if scattered else "operations"] += times * (1 if scattered else 2)
        if isinstance(statement, (Combine, SetItem)) and isinstance(statement.op, FunctionOperator):
            found["calls of functions"] += times * _calls_of_operator(statement.op)
    return found


def _calls_of_operator(op: FunctionOperator) -> int:
    """Count the calls of functions that combine two numbers: of the operator itself, and of the library."""
    applied = [part.op for part in expressions(read_operator(op)[1].body) if isinstance(part, Apply)]
    return 1 + sum(map(calls_of, applied))


def _kind_of(part: Expr, facts: ProgramFacts, sparse: bool) -> str:
    """Return what kind of work an operation or a load is; of other expressions none."""
    match part:
        case Apply(op=op) if calls_of(op):
            return "vector functions" if FUNCTIONS[op].vector and not sparse else "calls of functions"
        case Load(index=index) if facts.varies(*index):
            return "scattered loads"
        case RowItem(index=index) if facts.varies(index):
            return "scattered loads"
        case Apply() | Load() | RowItem():
            return "operations"
    return ""


def estimate(expr: Expr, sizes: Mapping[str, int], middle: Mapping[str, float]) -> float:
    """Estimate a bound of a loop; a counter of an outer loop counts as the middle of its range."""
    match expr:
        case Const(value, _):
            return float(value)
        case SizeOf(size):
            return float(sizes[size])
        case Apply(op, args, _, _) if op in ("add", "sub", "min", "max", "mul"):
            values = [estimate(each, sizes, middle) for each in args]
            functions: dict[str, Callable[[float, float], float]] = {
                "add": operator.add,
                "sub": operator.sub,
                "mul": operator.mul,
                "min": min,
                "max": max,
            }
            return functools.reduce(functions[op], values)
    return float(middle.get(getattr(expr, "name", ""), 1.0))


def reduction_work(
    core_seconds: float,
    parts: int,
    copied: float,
    there: float,
    threads: int | None = None,
    results: float = 0.0,
) -> Work:
    """Predict the work of a reduction from its predicted time on one core, and its parts on the CPU.

    ``copied`` and ``there`` are the bytes that are copied to a GPU or back and that the call needs on it;
    ``results`` is the part of the time for results, which one thread spends, and which a GPU has not.
    """
    seconds = core_seconds
    if core_seconds >= MIN_THREADED_SECONDS:
        threads = min(parts, threads_of(threads))
        seconds = (core_seconds - results) / threads + results
        seconds += REDUCTION_TEAM_SECONDS + parts * REDUCTION_PART_SECONDS
    return Work(
        seconds + REDUCTION_CALL_SECONDS,
        (core_seconds - results) / REDUCTION_GPU_SPEED,
        0.0,
        copied,
        there,
        call_seconds=REDUCTION_GPU_CALL_SECONDS,
    )
