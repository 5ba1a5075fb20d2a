"""A pass over the rows on the CPU: parts of fixed rows, any number of threads, results combined in order.

The rows of a part depend on the number of all rows and on the size of the results alone, each part has
results of its own, and these are combined in the order of the parts: the same bits for any number of
threads. With ``order="any"`` each thread has results of its own, of whichever parts it takes.

Several ranks have the parts that one would have, and fold them in turn, each rank from where the one before
ended. If the rows of a rank end inside a part, there are two parts of it, and sums are rounded otherwise.
"""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias, TypeGuard

import numpy as np
from numpy.typing import NDArray

from bmrm.base import _threads, interrupts
from bmrm.base.host_memory import MIN_CHECKED_BYTES, available_bytes, require_memory
from bmrm.base.threads import preferred_threads
from bmrm.base.vectors import Vector
from bmrm.errors import BmrmError, ReductionError
from bmrm.formulas import native
from bmrm.formulas.lanes import NO_ROW, Code, print_lanes
from bmrm.formulas.layout import ZERO, Layout
from bmrm.formulas.plain import Row, make_plain, size_of
from bmrm.formulas.source import Source
from bmrm.formulas.tree import Argument
from bmrm.formulas.turns import long_loops
from bmrm.reductions.binding import MAX_PLANS, Call, to_host
from bmrm.reductions.rows import AnyRows, DenseRows, HostRows

PART_ROWS = 4096
"""Minimum number of rows of a part, so that starting one costs little; a multiple of any number of lanes."""

MAX_PARTS = 256
"""Maximum number of parts: enough for the cores of a large machine to finish together."""

MAX_RESULT_BYTES = 1 << 28
"""Maximum size of the results of all parts, before they are combined."""

STAGED_BYTES = 1 << 17
"""Maximum size of the staged rows and local arrays of a block: a part of the second cache."""

VECTORS_PER_LANES = 4
"""Vector registers that one local number takes: several, so that sums of one row need not wait."""

MAX_MAPPED_SHARE = 0.5
"""Maximum share of the free memory for pages of a mapped file; else they are given back after each part."""

MIN_THREADED_SECONDS = 2e-3
"""Predicted time below which one thread is used."""

MIN_WATCHED_SECONDS = 0.25
"""Predicted time of a pass from which the main thread only waits, so that it can handle signals."""

MAX_PLAIN_SECONDS = 10.0
"""Maximum predicted time of the plain Python loop, if there is no compiler."""

PLAIN_TRIAL_SECONDS = 0.2
"""Time after which the plain loop predicts how long it will take."""


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


def require_room(source: Source, call: Call, parts: int, workers: int) -> None:
    """Raise `HostMemoryError` if the results and local arrays of a pass do not fit into main memory."""
    outputs = 8 * call.rows.shape[0] * sum(a.role == "output" for a in call.program.results())
    lanes = choose_lanes(call) if native.can_compile() else 1
    arrays = workers * lanes * sum(_array_bytes(call))
    advice = "smaller sizes or order='any' need less" if parts > workers else "smaller sizes need less"
    require_memory(
        parts * result_bytes(call) + outputs + arrays, f"the results of {source.name} and its arrays", advice
    )


def result_bytes(call: Call) -> int:
    """Return the size of the results of a part."""
    results = [a for a in call.program.results() if a.role != "output"]
    return sum(8 * math.prod(call.shape(a)) for a in results)


class Results:
    """Results of some parts, each with a row of its own in every array."""

    def __init__(self, call: Call, count: int) -> None:
        self.call = call
        self.arrays = {
            a.name: np.full((count, *call.shape(a)), neutral_value(a), accumulated_type(a))
            for a in call.program.results()
            if a.role != "output"
        }
        self.best_rows = {
            a.name: np.full((count, *call.shape(a)), NO_ROW, np.int64)
            for a in call.program.results()
            if a.role in ("argmin", "argmax")
        }
        """Number of the row of each extremum: of equal values the earliest row counts."""

    def combined(self, before: Results | None = None) -> Results:
        """Combine the parts in their order, after the combined parts before them."""
        found = Results(self.call, 1) if before is None else before
        if before is None:
            for mine, theirs in zip(found.all(), self.all(), strict=True):
                mine[0] = theirs[0]
        for name, argument in self.call.program.arguments.items():
            if name in self.arrays and argument.role != "other":
                for part in range(1 if before is None else 0, len(self.arrays[name])):
                    found.take(argument, self, part)
        return found

    def all(self) -> list[NDArray[Any]]:
        """Return all arrays."""
        return [*self.arrays.values(), *self.best_rows.values()]

    def packed(self) -> Vector:
        """Return the bits of the first part as one vector."""
        return np.concatenate(
            [array[0].reshape(-1).view(np.float64) for array in self.all()] or [np.empty(0)]
        )

    def unpack(self, bits: Vector) -> Results:
        """Set the first part from a vector; return these results."""
        start = 0
        for array in self.all():
            size = array[0].size
            array[0] = bits[start : start + size].view(array.dtype).reshape(array.shape[1:])
            start += size
        return self

    def one(self, part: int = 0) -> dict[str, NDArray[Any]]:
        """Return the results of one part."""
        return {name: array[part, ...] for name, array in self.arrays.items()}

    def take(self, argument: Argument, others: Results, part: int) -> None:
        """Combine a result of another part into the first part here."""
        name = argument.name
        old, new = self.arrays[name][0, ...], others.arrays[name][part, ...]
        match argument.role:
            case "sum":
                with np.errstate(all="ignore"):
                    old += new
            case "or":
                old |= new
            case "and":
                old &= new
            case _:
                least = argument.role in ("min", "argmin")
                better = new < old if least else new > old
                if name in self.best_rows:
                    rows, theirs = self.best_rows[name][0, ...], others.best_rows[name][part, ...]
                    better |= (new == old) & (theirs < rows)
                    np.copyto(rows, theirs, where=better)
                    for other in self.call.program.arguments.values():
                        if other.leader == name:
                            mine = self.arrays[other.name][0, ...]
                            np.copyto(mine, others.arrays[other.name][part, ...], where=better)
                np.copyto(old, new, where=better)


def accumulated_type(argument: Argument) -> type[np.generic]:
    """Return the type in which a result is combined."""
    return np.float64 if argument.type == "real" else np.int64


def neutral_value(argument: Argument) -> float | int:
    """Return the value of a result of no rows."""
    real = argument.type == "real"
    match argument.role:
        case "sum" | "or":
            return 0
        case "and":
            return -1
        case "min" | "argmin":
            return np.inf if real else 2**63 - 1
        case "max" | "argmax":
            return -np.inf if real else -(2**63)
    return np.nan if real else -1


def output_type(argument: Argument, real: type[np.floating[Any]]) -> type[np.generic]:
    """Return the type of a result that is one value per row."""
    return {"real": real, "int": np.int64, "bool": np.uint8}[argument.type]


def make_outputs(call: Call) -> dict[str, NDArray[Any]]:
    """Make room for the results that are one value per row."""
    return {
        a.name: np.zeros(call.rows.shape[0], output_type(a, call.real))
        for a in call.program.results()
        if a.role == "output"
    }


Pass: TypeAlias = tuple[Results, dict[str, NDArray[Any]]]
"""What a pass over the rows of one rank gives: results of parts, and values of its rows."""


def over_ranks(call: Call, run: Callable[[], Pass]) -> dict[str, Any]:
    """Run a pass over the rows here, and combine the parts of all ranks; an error of one ends all."""
    ranks = call.rows.ranks
    if ranks is None or ranks.group.size == 1:
        results, outputs = run()
        return finished(call, results.combined(), outputs)
    with ranks.group.together():
        results, outputs = run()

    def fold(before: Vector | None) -> Vector:
        return results.combined(None if before is None else Results(call, 1).unpack(before)).packed()

    length = sum(array[0].size for array in results.all())
    return finished(call, Results(call, 1).unpack(ranks.group.in_turn(length, fold)), outputs)


def finished(call: Call, results: Results, outputs: dict[str, NDArray[Any]]) -> dict[str, Any]:
    """Give the results the types that users see, in the order of the arguments."""
    made: dict[str, Any] = {}
    found = results.one()
    for argument in call.program.results():
        name = argument.name
        if argument.role == "output":
            made[name] = outputs[name].view(np.bool_) if argument.type == "bool" else outputs[name]
            continue
        value = found[name]
        if argument.role != "sum" and argument.type == "real":
            with np.errstate(over="ignore"):
                value = value.astype(call.real)
        made[name] = value if argument.dims else value[()]
    return made


class HostPasses:
    """Passes of one row function on the CPU; remembers its compiled code."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self._codes: dict[Any, tuple[Code, Callable[[int], None]]] = {}
        self._long_loops: dict[tuple[Any, ...], frozenset[str]] = {}

    def long_loops(self, call: Call) -> frozenset[str]:
        """Return the loops of a call that look whether the pass is to end early."""
        found = self._long_loops.get(call.key)
        if found is None:
            if len(self._long_loops) >= MAX_PLANS:  # another thread may do the same
                self._long_loops.clear()
            found = self._long_loops[call.key] = long_loops(call.program, call.sizes)
        return found

    def code_of(self, call: Call, *, contract: bool = True) -> Code:
        """Print the code of a call."""
        kind, real, lanes = call.rows.kind(), _llvm_real(call.real), choose_lanes(call)
        vector, looking = native.vector_bytes() // np.dtype(call.real).itemsize, self.long_loops(call)
        return print_lanes(call.program, kind, real, lanes, vector, contract=contract, looking=looking)

    def compiled(self, call: Call, contract: bool) -> tuple[Code, Callable[[int], None]]:
        looking = self.long_loops(call)
        key = (id(call.program), call.rows.kind(), call.real, choose_lanes(call), contract, looking)
        if key not in self._codes:
            code = self.code_of(call, contract=contract)
            self._codes[key] = code, native.compile_text(code.text)
        return self._codes[key]

    def run(
        self, call: Call, threads: int | None = None, order: str = "fixed", *, contract: bool = True
    ) -> dict[str, Any]:
        """Run a pass with compiled code."""
        return over_ranks(call, lambda: self._run_here(call, threads, order, contract))

    def _run_here(self, call: Call, threads: int | None, order: str, contract: bool) -> Pass:
        """Run a pass over the rows of this rank."""
        code, function = self.compiled(call, contract)
        bounds = part_bounds(call)
        parts = len(bounds) - 1
        if threads is None:
            threads = default_threads(call)
        threads = min(threads, parts)
        require_room(self.source, call, threads if order == "any" else parts, threads)
        results = Results(call, threads if order == "any" else parts)
        outputs = make_outputs(call)
        errors = np.zeros((parts, 3), np.int64)
        rows = call.host_rows()
        mapped = rows if reads_too_much(rows) else None
        tables: dict[int, _Table] = {}
        failed: list[int] = []
        leave = np.zeros(1, np.uint8)

        def work(part: int, member: int) -> None:
            if leave[0] or any(other < part for other in failed):
                return
            if member not in tables:
                tables[member] = _Table(call, code, outputs, leave)
            table = tables[member]
            table.point(results, member if order == "any" else part, errors[part])
            for entries in table.passes(bounds[part], bounds[part + 1]):
                function(entries)
            if mapped is not None:
                mapped.give_back(bounds[part], bounds[part + 1])
            if errors[part, 0]:
                failed.append(part)

        if self._may_last(call, threads):
            interrupts.wait_for(lambda: _threads.run(work, parts, threads), lambda: leave.fill(1))
        else:
            _threads.run(work, parts, threads)
        if failed:
            raise_failure(self.source, call, code.layout, errors[min(failed)])
        return results, outputs

    def _may_last(self, call: Call, threads: int) -> bool:
        """Return whether a pass may take so long that it must end on a signal."""
        from bmrm.reductions.cost import predict_seconds

        return bool(self.long_loops(call)) or predict_seconds(call, threads) > MIN_WATCHED_SECONDS


def reads_too_much(rows: AnyRows) -> TypeGuard[DenseRows]:
    """Return whether rows are in a mapped file that would fill much of the free memory.

    The system drops pages of files when memory is short, but others' pages too.
    """
    if not isinstance(rows, DenseRows) or rows.nbytes < MIN_CHECKED_BYTES or rows.mapped is None:
        return False
    free = available_bytes()
    return free is not None and rows.nbytes > MAX_MAPPED_SHARE * free


def default_threads(call: Call) -> int:
    """Return the number of threads of a pass: one if it is short."""
    from bmrm.reductions.cost import predict_seconds

    if predict_seconds(call, 1) < MIN_THREADED_SECONDS:
        return 1
    return preferred_threads()


def _llvm_real(real: type[np.floating[Any]]) -> str:
    return "float" if real is np.float32 else "double"


def choose_lanes(call: Call) -> int:
    """Return the number of rows that run side by side: fewer if a block of them would not fit a cache."""
    if call.rows.sparse:
        return 1
    size = np.dtype(call.real).itemsize
    lanes = VECTORS_PER_LANES * native.vector_bytes() // size
    row_bytes = size * call.rows.shape[1] + sum(_array_bytes(call))
    while lanes * row_bytes > STAGED_BYTES and lanes > native.vector_bytes() // size:
        lanes //= 2
    return int(lanes)


def _array_bytes(call: Call) -> Iterator[int]:
    """Yield the bytes of the local arrays of one row."""
    for array in call.program.arrays.values():
        count = 1
        for size in array.dims:
            count *= size_of(size, call.sizes)
        yield count * (np.dtype(call.real).itemsize if array.type == "real" else 8)


class _Table:
    """The table of addresses and numbers that a worker passes to compiled code."""

    def __init__(
        self, call: Call, code: Code, outputs: dict[str, NDArray[Any]], leave: NDArray[np.uint8]
    ) -> None:
        self.call, self.slots = call, code.layout.slots
        self.table = np.zeros(len(self.slots), np.int64)
        self.kept: list[NDArray[Any]] = []
        self._aggregates = [a.name for a in call.program.results() if a.role != "output"]
        size = np.dtype(call.real).itemsize
        lanes = code.lanes
        for name, value in call.sizes.items():
            if f"size {name}" in self.slots:
                self.set(f"size {name}", value)
        for name, array in {**call.values, **outputs}.items():
            self.set(f"argument {name}", array.ctypes.data)
        for name, array in call.squares.items():
            self.set(f"squares {name}", array.ctypes.data)
        self.set("staged", self.room(lanes * size * (1 if call.rows.sparse else call.rows.shape[1])))
        for (name, _), bytes_ in zip(call.program.arrays.items(), _array_bytes(call), strict=True):
            self.set(f"array {name}", self.room(lanes * bytes_))
        rows = call.host_rows()
        self.set("number", rows.first_row)
        self.set("leave", leave.ctypes.data)
        if isinstance(rows, DenseRows) and not rows.converted_rows:
            self.set("rows", rows.array.ctypes.data)
            self.set("row_step", rows.array.strides[0])
            self.set("column_step", rows.array.strides[1])
        elif not isinstance(rows, DenseRows):
            self.set("starts", rows.csr.indptr.ctypes.data)
            self.set("columns", rows.csr.indices.ctypes.data)
            if rows.csr.data is not None:
                self.set("values", rows.csr.data.ctypes.data)

    def set(self, name: str, value: int) -> None:
        self.table[self.slots[name]] = value

    def room(self, bytes_: int) -> int:
        """Return the address of zeros that begin at a cache line."""
        found = np.zeros(bytes_ + 64, np.uint8)
        self.kept.append(found)
        return int(-(-found.ctypes.data // 64) * 64)

    def point(self, results: Results, at: int, error: NDArray[np.int64]) -> None:
        for name in self._aggregates:
            self.set(f"argument {name}", results.arrays[name][at : at + 1].ctypes.data)
        for name, array in results.best_rows.items():
            self.set(f"rows {name}", array[at : at + 1].ctypes.data)
        self.set("error", error.ctypes.data)

    def passes(self, first: int, last: int) -> Iterator[int]:
        """Yield the address of the table for each call that the rows of a part need: mostly one."""
        rows = self.call.rows
        each = rows.converted_rows if isinstance(rows, DenseRows) else 0
        for start in range(first, last, each) if each else (first,):
            stop = min(last, start + each) if each else last
            if each and isinstance(rows, DenseRows):
                block = rows.converted(start, stop)
                self.set("rows", block.ctypes.data - start * block.strides[0])
                self.set("row_step", block.strides[0])
                self.set("column_step", block.strides[1])
            self.set("first", start)
            self.set("last", stop)
            yield int(self.table.ctypes.data)


def raise_failure(source: Source, call: Call, layout: Layout, error: NDArray[np.int64]) -> None:
    """Raise the error that compiled code reports: the place, the row and the number found."""
    number, row, found = (int(each) for each in error)
    site = layout.sites[number - 1]
    where = f"{source.name}, line {site.line}: row {row}"
    if site.kind == ZERO:
        raise ReductionError(f"{where}: division of a whole number by 0")
    last = size_of(site.size, call.sizes) - 1
    raise ReductionError(f"{where}: {site.what}: found the index {found}, expected 0 to {last}")


def run_plain(source: Source, call: Call, *, limit: float | None = None) -> dict[str, Any]:
    """Run a pass as a plain Python loop.

    Parameters
    ----------
    source : Source
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


def _run_plain_here(source: Source, call: Call, limit: float | None) -> Pass:
    call.host_rows()  # raises if they are on a GPU
    program = call.program
    function = make_plain(source, program, call.sizes, call.real)
    bounds = part_bounds(call)
    require_room(source, call, len(bounds) - 1, 1)
    outputs = make_outputs(call)
    results, part, arrays = Results(call, len(bounds) - 1), -1, {}
    numbers = [a for a in program.results() if not a.dims]
    rows, started = call.rows.shape[0], time.perf_counter()
    with np.errstate(all="ignore"):
        for number in range(rows):
            if limit is not None and number:
                _check_limit(source, number, rows, time.perf_counter() - started, limit)
            if number == bounds[part + 1]:
                part += 1
                arrays = results.one(part)
            back = _call_plain(source, call, function, arrays, number)
            with _named_failures(source, number):
                for argument, value in zip(numbers, back, strict=True):
                    if argument.role == "output":
                        outputs[argument.name][number] = value
                    else:
                        arrays[argument.name][...] = value
    return results, outputs


def run_plain_row(source: Source, call: Call, number: int) -> None:
    """Run the plain function on one row, for the error that it raises."""
    function = make_plain(source, call.program, call.sizes, call.real)
    with np.errstate(all="ignore"):
        _call_plain(source, call, function, Results(call, 1).one(), number)


def _call_plain(
    source: Source, call: Call, function: Callable[..., Any], arrays: dict[str, NDArray[Any]], number: int
) -> Any:
    """Run the plain function on one row; it changes arrays in place and returns its other results."""
    words = [_plain_argument(call, a, arrays, number) for a in call.program.arguments.values()]
    with _named_failures(source, number):
        return function(_plain_row(call.host_rows(), call.real, number), *words)


@contextlib.contextmanager
def _named_failures(source: Source, number: int) -> Iterator[None]:
    """Name the row in the error of a plain function; numbers that int64 does not hold are one."""
    try:
        yield
    except OverflowError as error:
        text = "found a whole number that does not fit 64 bits"
        raise ReductionError(f"{source.name}: row {number}: {text}") from error
    except (IndexError, ZeroDivisionError, ValueError) as error:
        raise ReductionError(f"{source.name}: row {number}: {error}") from error


def _check_limit(source: Source, done: int, rows: int, spent: float, limit: float) -> None:
    """Raise if the rest of a plain loop would take too long; look once enough time is spent."""
    if spent < PLAIN_TRIAL_SECONDS:
        return
    total = spent * rows / done
    if total > limit:
        raise BmrmError(
            f"{source.name}: found no compiler, and the plain Python loop would take about {total:.0f} s "
            f"for {rows} rows; pip install bmrm[reductions] adds one"
        )


def _plain_argument(call: Call, argument: Argument, arrays: dict[str, NDArray[Any]], row: int) -> Any:
    name = argument.name
    if argument.role in ("parameter", "row value"):
        array = to_host(call.values[name])
        if argument.type == "bool":
            array = array.view(np.bool_)
        if argument.role == "row value" or not argument.dims:
            value = array[row] if argument.role == "row value" else array[()]
            return value if argument.type == "real" else value.item()
        return array
    if argument.role == "output":
        return 0
    return arrays[name] if argument.dims else arrays[name][()]


def _plain_row(rows: HostRows, real: type[np.floating[Any]], at: int) -> Row:
    number = rows.first_row + at
    if isinstance(rows, DenseRows):
        return Row(rows.array[at].astype(real), number)
    csr = rows.csr
    part = slice(csr.indptr[at], csr.indptr[at + 1])
    values = np.ones(part.stop - part.start, real) if csr.data is None else csr.data[part].astype(real)
    return Row(values, number, csr.indices[part], csr.shape[1])
