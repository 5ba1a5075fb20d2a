"""Predicted time and work of a pass: operations of a row by walking the tree, bytes of a row by its type."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Mapping

import numpy as np

from bmrm.formulas.cpu import native
from bmrm.formulas.cpu.lanes import LIBRARY
from bmrm.formulas.language.tree import (
    Apply,
    Combine,
    Const,
    Expr,
    For,
    ForStored,
    If,
    Program,
    SizeOf,
    Statement,
    direct_expressions,
    parts,
)
from bmrm.formulas.run.binding import MAX_PLANS, Call
from bmrm.matrix.gpu.work import Work, threads_of

LANE_SECONDS = 0.45e-9
"""Time of one vector operation: measured by ``benchmarks/reductions/cpu.py`` over its programs."""

CALL_SECONDS = 6e-9
"""Time of one call of a function of the C library."""

UPDATE_SECONDS = 1.2e-9
"""Time of one update of a result by one row."""

BYTE_SECONDS = 1 / 8e9
"""Time to read one byte of the rows from main memory, on one core."""

MIN_THREADED_SECONDS = 2e-3
"""Predicted time below which a reduction has one thread; see `bmrm.formulas.run.cpu`."""

REDUCTION_CPU_SHARE = 0.38
"""Time of a reduction on one core of the Xeon, as a share of what `predict_seconds` returns."""

REDUCTION_GPU_SPEED = 250.0
"""Speed of a pass of a reduction on a GPU, as a multiple of one core's."""

REDUCTION_CALL_SECONDS = 2.25e-4
"""Time of a call of a reduction on the CPU, besides its passes."""

REDUCTION_GPU_CALL_SECONDS = 3e-4
"""Time of a call of a reduction on a GPU, besides its passes."""

REDUCTION_TEAM_SECONDS = 1.2e-3
"""Time to set the threads of a reduction to work."""

REDUCTION_PART_SECONDS = 4.5e-5
"""Time of a part of a reduction that only one thread at a time can spend: a call, and combining results."""

_counted: dict[tuple[object, ...], tuple[Program, tuple[float, float, float]]] = {}
"""Work of calls; with their programs, since keys have only the addresses of these."""


def predict_seconds(call: Call, threads: int) -> float:
    """Predict the time of a pass with compiled code."""
    rows = call.rows.shape[0]
    key = (*call.key, call.rows.stored)
    found = _counted.get(key)
    if found is None:
        if len(_counted) >= MAX_PLANS:  # another thread may do the same
            _counted.clear()
        found = _counted[key] = call.program, count_work(call.program, call.sizes, call.rows.stored)
    operations, calls, updates = found[1]
    lanes = 1 if call.rows.sparse else native.vector_bytes() / np.dtype(call.real).itemsize
    each = operations * LANE_SECONDS / lanes + calls * CALL_SECONDS + updates * UPDATE_SECONDS
    return (rows * each + call.rows.nbytes * BYTE_SECONDS) / threads


def count_work(program: Program, sizes: Mapping[str, int], stored: float) -> tuple[float, float, float]:
    """Count arithmetic operations, calls of library functions and updates of results of one row.

    Parameters
    ----------
    program : Program
    sizes : dict of str to int
    stored : float
        Average number of stored values of a row.

    Returns
    -------
    (float, float, float)
    """
    totals = [0.0, 0.0, 0.0]

    def visit(body: tuple[Statement, ...], times: float, middle: dict[str, float]) -> None:
        for statement in body:
            for expr in direct_expressions(statement):
                for part in parts(expr):
                    if isinstance(part, Apply):
                        totals[1 if part.op in LIBRARY else 0] += times
            match statement:
                case Combine():
                    totals[2] += times
                case For(name, start, stop, step, inner):
                    first, last = estimate(start, sizes, middle), estimate(stop, sizes, middle)
                    count = max(0.0, (last - first) / step)
                    visit(inner, times * count, {**middle, name: (first + last) / 2})
                case ForStored(name, _, inner):
                    visit(inner, times * stored, {**middle, name: sizes[program.width] / 2})
                case If(_, inner, other):
                    visit(inner, times, middle)
                    visit(other, times, middle)

    visit(program.body, 1.0, {})
    return totals[0], totals[1], totals[2]


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
    core_seconds: float, parts: int, uploaded: float, there: float, threads: int | None = None
) -> Work:
    """Predict the work of a reduction from its predicted time on one core, and its parts on the CPU.

    ``uploaded`` and ``there`` are the bytes that are copied to a GPU and that the call needs on it.
    """
    seconds = REDUCTION_CPU_SHARE * core_seconds
    if core_seconds >= MIN_THREADED_SECONDS:
        threads = min(parts, threads_of(threads))
        seconds = seconds / threads + REDUCTION_TEAM_SECONDS + parts * REDUCTION_PART_SECONDS
    return Work(
        seconds + REDUCTION_CALL_SECONDS,
        core_seconds / REDUCTION_GPU_SPEED,
        0.0,
        uploaded,
        there,
        call_seconds=REDUCTION_GPU_CALL_SECONDS,
    )
