"""A pass as a plain Python loop over the rows: for tests, for debuggers, and if there is no compiler."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bmrm.errors import BmrmError, ReductionError
from bmrm.formulas.language.plain import Row, make_plain
from bmrm.formulas.language.source import FunctionSource
from bmrm.formulas.language.tree import Argument
from bmrm.formulas.run.accumulators import Pass, Results, make_outputs, over_ranks
from bmrm.formulas.run.binding import Call, to_host
from bmrm.formulas.run.memory import require_room

MAX_PLAIN_SECONDS = 10.0
"""Maximum predicted time of the plain Python loop, if there is no compiler."""

PLAIN_TRIAL_SECONDS = 0.2
"""Time after which the plain loop predicts how long it will take."""


def run_plain(source: FunctionSource, call: Call, *, limit: float | None = None) -> dict[str, Any]:
    """Run a pass as a plain Python loop.

    Parameters
    ----------
    source : FunctionSource
    call : Call
    limit : float, optional
        Maximum predicted seconds.

    Raises
    ------
    BmrmError
        If the pass would take longer than the limit.
    ReductionError
        If a row makes the function fail.
    """
    return over_ranks(call, lambda: _run_plain_here(source, call, limit))


def _run_plain_here(source: FunctionSource, call: Call, limit: float | None) -> Pass:
    call.require_host_rows()
    program = call.program
    function = make_plain(source, program, call.sizes, call.real)
    bounds = call.part_bounds()
    require_room(source, call, len(bounds) - 1, 1)
    outputs = make_outputs(call, call.rows.here)
    results, part = Results(call, len(bounds) - 1), -1
    numbers = [a for a in program.results() if not a.dims]
    rows, started = call.rows.here, time.perf_counter()
    with np.errstate(all="ignore"):
        for number in range(rows):
            if limit is not None and number:
                _check_limit(source, number, rows, time.perf_counter() - started, limit)
            if number == bounds[part + 1]:
                part += 1
            arrays = results.one(part) | {name: array[number, ...] for name, array in outputs.items()}
            back = _call_plain(source, call, function, arrays, number)
            with _named_failures(source, number):
                for argument, value in zip(numbers, back, strict=True):
                    arrays[argument.name][...] = value
    return results, outputs


def run_plain_row(source: FunctionSource, call: Call, number: int) -> None:
    """Run the plain function on one row, for the error that it raises."""
    function = make_plain(source, call.program, call.sizes, call.real)
    arrays = Results(call, 1).one() | {name: array[0, ...] for name, array in make_outputs(call, 1).items()}
    with np.errstate(all="ignore"):
        _call_plain(source, call, function, arrays, number)


def _call_plain(
    source: FunctionSource,
    call: Call,
    function: Callable[..., Any],
    arrays: dict[str, NDArray[Any]],
    number: int,
) -> Any:
    """Run the plain function on one row; it changes arrays in place and returns results that are numbers."""
    words = [_plain_argument(call, a, arrays, number) for a in call.program.arguments.values()]
    with _named_failures(source, number):
        return function(_plain_row(call, number), *words)


@contextlib.contextmanager
def _named_failures(source: FunctionSource, number: int) -> Iterator[None]:
    """Name the row in the error of a plain function; numbers that int64 does not hold are one."""
    try:
        yield
    except OverflowError as error:
        text = "found an integer that does not fit 64 bits"
        raise ReductionError(f"{source.name}: row {number}: {text}") from error
    except (IndexError, ZeroDivisionError, ValueError) as error:
        raise ReductionError(f"{source.name}: row {number}: {error}") from error


def _check_limit(source: FunctionSource, done: int, rows: int, spent: float, limit: float) -> None:
    """Raise if the rest of a plain loop would take too long; look once enough time is spent."""
    if spent < PLAIN_TRIAL_SECONDS:
        return
    total = spent * rows / done
    if total > limit:
        raise BmrmError(
            f"{source.name}: found no compiler, and the plain Python loop would take about {total:.0f} s "
            f"for {rows} rows: pip install llvmlite"
        )


def _plain_argument(call: Call, argument: Argument, arrays: dict[str, NDArray[Any]], row: int) -> Any:
    name = argument.name
    if argument.role == "parameter":
        array = to_host(call.values[name])
        value = array[row, ...] if argument.axes else array
    else:
        value = arrays[name]
    if argument.type == "bool":
        value = value.view(np.bool_)
    if argument.dims:
        return value
    return value.item() if argument.role == "parameter" and argument.type != "real" else value[()]


def _plain_row(call: Call, at: int) -> Row:
    (values, columns), number = call.rows.X.row(at), call.rows.first + at
    return Row(values.astype(call.real), number, *(() if columns is None else (columns, call.rows.shape[1])))
