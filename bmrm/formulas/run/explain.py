"""Explain what was found in a row function, where things are placed, and how long a pass should take."""

from __future__ import annotations

import numpy as np

from bmrm.base.units import size_text
from bmrm.distributed.blocks import block_parts
from bmrm.distributed.rows import StoredRows
from bmrm.formulas.analysis.facts import find_facts
from bmrm.formulas.analysis.schedule import (
    BLOCKED_ROWS,
    explain_loops,
    schedule_cpu,
    schedule_gpu,
    spoken_name,
)
from bmrm.formulas.cpu import native
from bmrm.formulas.language.source import ROWS, FunctionSource
from bmrm.formulas.language.tree import (
    Argument,
    Combine,
    For,
    ForStored,
    Program,
    While,
    statements,
)
from bmrm.formulas.run.binding import Call
from bmrm.formulas.run.cost import ASSUMED_ITERATIONS, predict_seconds, work_of
from bmrm.formulas.run.cpu import default_threads
from bmrm.formulas.run.device_blocks import resident_bytes, rows_of_blocks
from bmrm.formulas.run.memory import choose_lanes


def explain_program(source: FunctionSource, program: Program) -> str:
    """Return a table of the roles, shapes and types of a row function.

    Parameters
    ----------
    source : FunctionSource
    program : Program

    Returns
    -------
    str
    """
    lines = [(source.row, "row, read only", f"({program.width},)", "real")]
    lines += [
        (argument.name, _role_text(program, argument), _shape_text(argument), argument.type)
        for argument in program.arguments.values()
    ]
    lines += [
        (name, "local array of the row", f"({', '.join(map(str, array.dims))})", array.type)
        for name, array in program.arrays.items()
        if name not in program.arguments
    ]
    lines += [(name, "local number", "", kind) for name, kind in program.locals.items() if "." not in name]
    named = dict.fromkeys(spoken_name(s) for s in statements(program.body) if isinstance(s, (For, ForStored)))
    lines += [(name, "loop variable", "", "int") for name in named if name]
    lines += [(name, "function, in place of its calls", "", "") for name in source.helpers]
    widths = [max(len(line[column]) for line in lines) for column in range(3)]
    return "\n".join(
        "  ".join([*(text.ljust(width) for text, width in zip(line, widths, strict=False)), line[3]]).rstrip()
        for line in lines
    )


def explain_call(source: FunctionSource, call: Call) -> str:
    """Return the table of a row function, and how a call of it would run on the CPU."""
    program, rows = call.program, call.rows
    count, width = rows.X.shape
    sizes = ", ".join(f"{name} = {value}" for name, value in call.sizes.items())
    kind = "sparse" if rows.sparse else "dense"
    real = np.dtype(call.real).name
    lines = [
        explain_program(source, program),
        "",
        f"{count} {kind} rows of {width}, {size_text(rows.X.nbytes)}, computed with in {real}; {sizes}",
    ]
    if not native.can_compile():
        return "\n".join([*lines, "plain Python loop: llvmlite is not installed (pip install llvmlite)"])
    numbers = call.numbers
    each = rows.part_rows(numbers)
    parts_ = len(call.part_bounds()) - 1
    threads = min(default_threads(call), parts_)
    lanes = choose_lanes(call)
    on_cpu = schedule_cpu(program, lanes, contiguous=rows.X.kind().contiguous)
    has_while = any(isinstance(each, While) for each in statements(program.body))
    iterations = f"; each while is taken to have {ASSUMED_ITERATIONS} iterations" if has_while else ""
    side = f"{lanes} rows side by side, one in each lane" if lanes > 1 else "one row after the other"
    lines += [
        f"CPU: {side}; vectors of {native.vector_bytes()} bytes",
        f"CPU loops: {explain_loops(program, on_cpu)}",
        "per row: " + ", ".join(f"{count:.0f} {name}" for name, count in work_of(call).items()) + iterations,
        f"{parts_} parts of {each} rows, each with results of its own, {size_text(8 * numbers)}; "
        "they are combined in the order of the rows"
        if parts_ > 1
        else f"one part of up to {each} rows, with results of {size_text(8 * numbers)}",
        _bits_text(call, each),
        *(["rows in a mapped file: its pages are released after each part"] if rows.X.reads_too_much else []),
        _gpu_text(call),
        *_blocks_text(call.rows.X),
        f"predicted on the CPU: {1e3 * predict_seconds(call, 1):.3g} ms on one thread, "
        f"{1e3 * predict_seconds(call, threads):.3g} ms on {threads}",
    ]
    return "\n".join(lines)


def _is_exact(call: Call) -> bool:
    """Return whether results do not depend on where parts end: none is a sum of real numbers."""
    return not any(a.rounds for a in call.program.results())


def _bits_text(call: Call, each: int) -> str:
    """Return the sentence on what results do not depend on."""
    rows = call.rows
    if _is_exact(call):
        return "the same bits for any number of threads and ranks: no result is a sum of real numbers"
    if rows.group is None:
        return f"the same bits for any number of threads, and of ranks that begin at multiples of {each} rows"
    if rows.parts_are_whole(call.numbers):
        return "the same bits for any number of threads, and as without ranks: every part is on one rank"
    return (
        f"the same bits for any number of threads on {rows.ranks} ranks with these rows; "
        f"as without ranks if each began at a multiple of {each} rows"
    )


def _gpu_text(call: Call) -> str:
    """Return where a GPU would have results and parameters, and what loops become."""
    schedule = schedule_gpu(call.program, call.sizes, np.dtype(call.real).itemsize, call.rows.sparse)
    memory, blocks = schedule.memory, schedule.blocks.results()
    where = "shared" if memory.shared_results else "global"
    parameters = ", ".join(memory.shared_parameters) or "none"
    row = "in registers" if memory.register_row else "read where it is"
    products = f"; sums of products by blocks in registers: {', '.join(blocks)}" if blocks else ""
    if schedule.in_place:
        products += f"; results of rows in global memory: {', '.join(sorted(schedule.in_place))}"
    first = f", {BLOCKED_ROWS} rows per lane for the first statements" if schedule.blocked else ""
    return (
        f"GPU: blocks of {memory.warps} warps, one row per lane, the row {row}; results of a warp in {where} "
        f"memory; parameters in shared memory: {parameters}; {size_text(memory.shared_bytes)} of it per block"
        f"{products}\nGPU loops{first}: {explain_loops(call.program, schedule)}"
    )


def _blocks_text(X: StoredRows) -> list[str]:
    """Return how rows of several blocks come to a GPU."""
    each = rows_of_blocks(X)
    if each >= len(X):
        return []
    if X.on_gpu:
        how = "which are there"
    elif X.held is not None:
        how = "of which as many stay as fit; a call uploads the others"
    else:
        how = f"uploaded one after the other; two take {size_text(resident_bytes(X, each))}"
    return [f"GPU: {len(block_parts(len(X), each))} blocks of {each} rows, {how}"]


def _role_text(program: Program, argument: Argument) -> str:
    if argument.role == "parameter" and argument.type == "any" and not (argument.dims or argument.axes):
        return "parameter, one number or one per row"
    if argument.role == "parameter":
        own = "parameter, numbers of each row" if argument.dims else "parameter, one number per row"
        return own if argument.axes else "parameter, the same for all rows"
    if argument.role == "other":
        return f"result, set with {argument.leader}"
    if argument.operator is None:
        return "result, values of each row" if argument.dims else "result, one value per row"
    if argument.axes:
        return f"result of each row, {argument.operator.about.partition(';')[0]}"
    found = f"result, {argument.operator.about}"
    bins = bool(argument.dims) and _has_bins(program, argument)
    return found + (", in bins that depend on the row" if bins else "")


def _has_bins(program: Program, argument: Argument) -> bool:
    """Return whether some index of a result depends on the row."""
    facts = find_facts(program, {})
    return any(
        isinstance(each, Combine) and each.array == argument.name and facts.varies(*each.index)
        for each in statements(program.body)
    )


def _shape_text(argument: Argument) -> str:
    if not argument.dims:
        return ""
    sizes = (*(ROWS for _ in argument.axes), *argument.dims)
    return f"({', '.join(map(str, sizes))}{',' * (len(sizes) == 1)})"
