"""The printer for the GPU: CUDA C++ text of a program, which calls the device headers.

One kernel walks over the rows (`rows_kernel.py`). A second one combines the chunks in a fixed order. So the
bits do not depend on the grid, on the number of multiprocessors or on luck.
"""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from bmrm.formulas.analysis.layout import TableLayout
from bmrm.formulas.analysis.schedule import SHARED_BYTES, GpuSchedule, schedule_gpu
from bmrm.formulas.gpu.combine_kernel import CombineKernel
from bmrm.formulas.gpu.expressions import View
from bmrm.formulas.gpu.operator_text import print_operators
from bmrm.formulas.gpu.rows_kernel import RowsKernel
from bmrm.formulas.gpu.statements import CudaStatements
from bmrm.formulas.gpu.writer import CudaWriter
from bmrm.formulas.language.combination import read_operator
from bmrm.formulas.language.operators import FunctionOperator
from bmrm.formulas.language.tree import Program

NO_FAILURE = 0x7F7F7F7F7F7F7F7F
"""Value of the error word of a pass in which nothing failed: later than any row."""

MAX_SITES = 4096
"""Maximum number of places of a program at which it may fail: the error word holds the row and the place."""

HEADERS = ("arithmetic", "bins", "failures", "parts", "rows", "warp")
"""What every text includes of the device headers."""


@dataclass(frozen=True)
class CudaCode:
    """Text of the kernels, and what their caller must know."""

    text: str
    layout: TableLayout
    schedule: GpuSchedule
    numbers: Mapping[str, int]
    """Entries of the table that depend on sizes which are no constants of the text."""


def print_cuda(
    program: Program,
    sizes: Mapping[str, int],
    real: str,
    item: str,
    column: str = "",
    shared_bytes: int = SHARED_BYTES,
    wide: AbstractSet[str] = frozenset(),
) -> CudaCode:
    """Print a program as CUDA C++ text.

    Parameters
    ----------
    program : Program
        With all types known.
    sizes : dict of str to int
        Those that `GpuSchedule.run_time` names are read at run time; the others are constants of the text.
    real : {"float", "double"}
    item : str
        C++ type of a value of the rows; "" if all stored values are 1.
    column : str, default ""
        C++ type of a column of sparse rows; "" for dense rows.
    shared_bytes : int, optional
        Maximum shared memory of a block.
    wide : set of str, optional
        Parameters that are float64 in memory where real numbers are float32.
    """
    schedule = schedule_gpu(program, sizes, 4 if real == "float" else 8, bool(column), shared_bytes)
    writer = CudaWriter(schedule, real, item, column, wide)
    RowsKernel(writer).print()
    CombineKernel(writer).print()
    headers = [*HEADERS, *(["products"] if schedule.blocks.sums() else [])]
    headers += ["watch"] if schedule.looking else []
    slots = writer.layout.slots
    head = [
        *(f'#include "device/{name}.cuh"' for name in headers),
        "using namespace bmrm;",
        f"typedef {real} T;",
        "#define WARP kWarpLanes",
        "#define FULL kAllLanes",
        f"#define WARPS {schedule.memory.warps}",
        *print_operators(program, _print_operator),
        "struct Table {",
        f"  whole at[{len(writer.layout.slots)}];",
        f"  static constexpr int SITES = {MAX_SITES};",
        f"  __device__ whole* error() const {{ return (whole*)at[{slots['error']}]; }}",
        f"  __device__ const void* leave() const {{ return (const void*)at[{slots['leave']}]; }}",
        "};",
    ]
    return CudaCode("\n".join([*head, *writer.lines, ""]), writer.layout, schedule, writer.numbers)


def _print_operator(operator: FunctionOperator) -> list[str]:
    """Return the body of a function of ``a`` and ``b`` that combines two numbers."""
    program = read_operator(operator)[1]
    writer = CudaWriter(schedule_gpu(program, {program.width: 1}, 8, False), "double", "", "", frozenset())
    writer.put("typedef double T;")
    for argument, given in zip(program.arguments.values(), "ab", strict=False):
        writer.put(f"const {writer.kind(argument.type)} {writer.name(argument.name)} = {given};")
    writer.declare_numbers()
    CudaStatements(writer, View()).block(program.body, "true")
    (result,) = program.results()
    writer.put(f"return {writer.kind(operator.type)}({writer.name(result.name)});")
    return writer.lines
