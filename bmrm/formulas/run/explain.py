"""Explain what was found in a row function, where things are placed, and how long a pass should take."""

from __future__ import annotations

import numpy as np

from bmrm.base.units import size_text
from bmrm.distributed.rows import reads_too_much
from bmrm.formulas.analysis.varying import varying_names
from bmrm.formulas.cpu import native
from bmrm.formulas.gpu.cuda_text import place
from bmrm.formulas.language.source import Source
from bmrm.formulas.language.tree import (
    Argument,
    Combine,
    For,
    ForStored,
    Program,
    RowItem,
    Value,
    Var,
    parts,
    statements,
)
from bmrm.formulas.run.binding import Call
from bmrm.formulas.run.cost import count_work, predict_seconds
from bmrm.formulas.run.cpu import default_threads
from bmrm.formulas.run.memory import choose_lanes
from bmrm.formulas.run.parts import falls_whole, is_exact, part_bounds, part_rows, result_bytes

_ROLES = {
    "parameter": "parameter, the same for all rows",
    "row value": "parameter, one number per row",
    "output": "result, one value per row",
    "sum": "result, sum",
    "min": "result, minimum",
    "max": "result, maximum",
    "or": "result, bitwise or",
    "and": "result, bitwise and",
    "argmin": "result, minimum; ties go to the least row",
    "argmax": "result, maximum; ties go to the least row",
}


def explain_program(source: Source, program: Program) -> str:
    """Return a table of the roles, shapes and types of a row function.

    Parameters
    ----------
    source : Source
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
    ]
    lines += [(name, "local number", "", kind) for name, kind in program.locals.items() if "." not in name]
    named = dict.fromkeys(
        (s.name if isinstance(s, For) else s.index).partition(".")[0]
        for s in statements(program.body)
        if isinstance(s, (For, ForStored))
    )
    lines += [(name, "loop variable", "", "int") for name in named if name != "column"]
    widths = [max(len(line[column]) for line in lines) for column in range(3)]
    return "\n".join(
        "  ".join([*(text.ljust(width) for text, width in zip(line, widths, strict=False)), line[3]]).rstrip()
        for line in lines
    )


def explain_call(source: Source, call: Call) -> str:
    """Return the table of a row function, and how a call of it would run on the CPU."""
    program, rows = call.program, call.rows
    count, width = rows.shape
    sizes = ", ".join(f"{name} = {value}" for name, value in call.sizes.items())
    kind = "sparse" if rows.sparse else "dense"
    real = np.dtype(call.real).name
    lines = [
        explain_program(source, program),
        "",
        f"{count} {kind} rows of {width}, {size_text(rows.nbytes)}, computed with in {real}; {sizes}",
    ]
    if not native.can_compile():
        return "\n".join(
            [*lines, "plain Python loop: llvmlite is not installed (pip install bmrm[reductions])"]
        )
    operations, calls, updates = count_work(program, call.sizes, rows.stored)
    each = part_rows(rows.total, result_bytes(call))
    parts_ = len(part_bounds(call)) - 1
    threads = min(default_threads(call), parts_)
    lanes = choose_lanes(call)
    side = f"{lanes} rows side by side, one in each lane" if lanes > 1 else "one row after the other"
    lines += [
        f"CPU: {side}; vectors of {native.vector_bytes()} bytes",
        f"per row: {operations:.0f} operations, {calls:.0f} calls of functions, {updates:.0f} updates",
        f"{parts_} parts of {each} rows, each with results of its own, {size_text(result_bytes(call))}; "
        "they are combined in the order of the rows"
        if parts_ > 1
        else f"one part of up to {each} rows, with results of {size_text(result_bytes(call))}",
        _bits_text(call, each),
        *(
            ["rows in a mapped file: its pages are given back after each part"]
            if reads_too_much(rows)
            else []
        ),
        _gpu_text(call),
        f"predicted on the CPU: {1e3 * predict_seconds(call, 1):.3g} ms on one thread, "
        f"{1e3 * predict_seconds(call, threads):.3g} ms on {threads}",
    ]
    return "\n".join(lines)


def _bits_text(call: Call, each: int) -> str:
    """Return the sentence on what results do not depend on."""
    ranks = call.rows.ranks
    if is_exact(call):
        return "the same bits for any number of threads and ranks: no result is a sum of real numbers"
    if ranks is None:
        return f"the same bits for any number of threads, and of ranks that begin at multiples of {each} rows"
    if falls_whole(call):
        return "the same bits for any number of threads, and as without ranks: every part is on one rank"
    return (
        f"the same bits for any number of threads on {ranks.group.size} ranks with these rows; "
        f"as without ranks if each began at a multiple of {each} rows"
    )


def _gpu_text(call: Call) -> str:
    """Return where a GPU would have results and parameters."""
    found = place(call.program, call.sizes, np.dtype(call.real).itemsize, call.rows.sparse)
    where = "shared" if found.shared_results else "global"
    parameters = ", ".join(found.shared_parameters) or "none"
    row = "in registers" if found.register_row else "read where it is"
    in_blocks = found.blocks.results()
    blocks = f"; sums of products by blocks in registers: {', '.join(in_blocks)}" if in_blocks else ""
    return (
        f"GPU: blocks of {found.warps} warps, one row per lane, the row {row}; results of a warp in {where} "
        f"memory; parameters in shared memory: {parameters}; {size_text(found.shared_bytes)} of it per block"
        f"{blocks}"
    )


def _role_text(program: Program, argument: Argument) -> str:
    if argument.role == "parameter" and argument.type == "any" and not argument.dims:
        return "parameter, one number or one per row"
    if argument.role == "other":
        return f"result, set with {argument.leader}"
    found = _ROLES[argument.role]
    if argument.role in ("parameter", "row value", "output") or not argument.dims:
        return found
    return found + (", in bins that depend on the row" if _has_bins(program, argument) else "")


def _has_bins(program: Program, argument: Argument) -> bool:
    """Return whether some index of a result depends on the row."""
    varying = varying_names(program, program.sparse)
    for statement in statements(program.body):
        if isinstance(statement, Combine) and statement.array == argument.name:
            for index in statement.index:
                for part in parts(index):
                    if isinstance(part, RowItem) or (isinstance(part, Var) and part.name in varying):
                        return True
                    if isinstance(part, Value) and program.arguments[part.name].role == "row value":
                        return True
    return False


def _shape_text(argument: Argument) -> str:
    inner = ", ".join(map(str, argument.dims))
    return f"({inner}{',' if len(argument.dims) == 1 else ''})" if argument.dims else ""
