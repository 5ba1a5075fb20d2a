"""The printer for the GPU: CUDA C++ text of a program, for NVRTC; it includes no header.

A warp has a chunk of rows of its own, one row per lane. Chunks are fixed: they depend on the number of rows
and the size of the results alone. Each warp has results of its own, in shared memory if those of all warps of
a block fit, else in the chunk's place in global memory. No result is combined by an atomic operation. Values
with the same index for all lanes are combined over the warp by halves. Values whose index depends on the row
are combined by rounds: a round has one lane of each index, the earliest that is left. A second kernel
combines the chunks in a fixed order. So the bits do not depend on the grid, on the number of multiprocessors
or on luck.

Branches and loops that depend on the row and hold a combination are masks, so that all lanes of a warp arrive
there together; others are branches. Results have the first place in shared memory, then parameters in
ascending order of size: the "write-first" order of Ma and Agrawal (2009, section 4.3.1).

References
----------
W. Ma and G. Agrawal, A translation system for enabling data mining applications on GPUs, ICS 2009.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from bmrm.formulas.analysis.bounds import Bounds
from bmrm.formulas.analysis.layout import OUTSIDE, ZERO, Layout, Site
from bmrm.formulas.analysis.products import COUNTER, without_lines
from bmrm.formulas.analysis.varying import depends_on_row, varying_names
from bmrm.formulas.cpu.lanes import INTRINSIC, LIBRARY
from bmrm.formulas.gpu.cuda_loops import (
    MAX_BATCH,
    Best,
    batched,
    chosen_row,
    find_best,
    paired,
    ranked,
    trips,
    turned,
    turns_at_once,
)
from bmrm.formulas.gpu.cuda_products import HELPERS as PRODUCT_HELPERS
from bmrm.formulas.gpu.cuda_products import Blocks, Group, choose_blocks, held_bytes, print_apart
from bmrm.formulas.language.tree import (
    Apply,
    Argument,
    Combine,
    Const,
    Expr,
    For,
    ForStored,
    If,
    Load,
    Program,
    RowItem,
    RowNumber,
    Set,
    SetItem,
    Size,
    SizeOf,
    Statement,
    Value,
    Var,
    parts,
    statements,
)

WARP = 32
"""Lanes of a warp."""

MAX_REGISTER_COLUMNS = 64
"""Maximum number of columns of a row that is kept in registers."""

SHARED_BYTES = 96 * 1024
"""Maximum shared memory of a block: two blocks of this size fit a multiprocessor of an H100."""

MAX_WARPS = 8
"""Maximum number of warps of a block."""

PAIR = 2
"""Number of rows that a lane has side by side: each parameter is read from shared memory once for all."""

MAX_PAIRED_BYTES = 128
"""Maximum size of one of the rows side by side: all of them are in registers."""

ROWS_AHEAD = 8
"""Number of rows whose values are read before they are added, in a loop whose lanes are columns."""

EXTRA = ("chunks", "chunk_rows")
"""Entries of the table besides those of the CPU's code: how many chunks there are, and their rows."""

NO_FAILURE = 0x7F7F7F7F7F7F7F7F
"""Value of the error word of a pass in which nothing failed: later than any row."""

C_NAMES = {*LIBRARY, *INTRINSIC} - {"fmod"}
"""Functions of the C library that CUDA has too."""

SIGNS = {
    "add": "+", "sub": "-", "mul": "*", "div": "/", "bitand": "&", "bitor": "|", "bitxor": "^",
    "lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "==", "ne": "!=", "and": "&&", "or": "||",
}  # fmt: skip

HELPERS = r"""
typedef long long whole;
typedef unsigned long long bits64;
#define FULL 0xffffffffu
#define INF (__longlong_as_double(0x7ff0000000000000LL))
#define NOT_A_NUMBER (__longlong_as_double(0x7ff8000000000000LL))
#define LEAST_WHOLE (-9223372036854775807LL - 1)
#define GREATEST_WHOLE 9223372036854775807LL
template <class A> __device__ __forceinline__ A least(A a, A b) { return b < a ? b : a; }
template <class A> __device__ __forceinline__ A greatest(A a, A b) { return b > a ? b : a; }
// Whole numbers wrap at 64 bits: signed overflow has no meaning in C++.
__device__ __forceinline__ whole wrap_add(whole a, whole b) { return whole(bits64(a) + bits64(b)); }
__device__ __forceinline__ whole wrap_sub(whole a, whole b) { return whole(bits64(a) - bits64(b)); }
__device__ __forceinline__ whole wrap_mul(whole a, whole b) { return whole(bits64(a) * bits64(b)); }
// The next value of a counter; the last number there is if it would wrap, so that its loop ends.
__device__ __forceinline__ whole next_count(whole a, whole step) {
  const whole next = wrap_add(a, step);
  if (step > 0) return next < a ? GREATEST_WHOLE : next;
  return next > a ? LEAST_WHOLE : next;
}
template <class A> __device__ __forceinline__ A absolute(A a);
template <> __device__ __forceinline__ whole absolute(whole a) { return a < 0 ? wrap_sub(0, a) : a; }
template <> __device__ __forceinline__ float absolute(float a) { return fabsf(a); }
template <> __device__ __forceinline__ double absolute(double a) { return fabs(a); }
// Too large numbers become the greatest whole number; NaN becomes the least, an index of nothing.
__device__ __forceinline__ whole to_whole(double a) {
  if (!(a < 9223372036854775808.0)) return a != a ? LEAST_WHOLE : GREATEST_WHOLE;
  return a < -9223372036854775808.0 ? LEAST_WHOLE : whole(a);
}
__device__ __forceinline__ whole whole_mod(whole a, whole b) {
  if (b == -1) return 0;
  const whole rest = a % b;
  return rest != 0 && ((rest ^ b) < 0) ? rest + b : rest;
}
__device__ __forceinline__ whole whole_div(whole a, whole b) {
  if (b == -1) return whole(0ULL - bits64(a));
  const whole quotient = a / b, rest = a - quotient * b;
  return rest != 0 && ((rest ^ b) < 0) ? quotient - 1 : quotient;
}
// Division that rounds down, as Python and NumPy do it: exact where the quotient is a whole number.
__device__ inline double real_mod(double a, double b) {
  const double rest = fmod(a, b);
  if (b == 0.0) return rest;
  if (rest == 0.0) return copysign(0.0, b);
  return (b < 0.0) != (rest < 0.0) ? rest + b : rest;
}
__device__ inline double real_div(double a, double b) {
  if (b == 0.0) return a / b;
  const double rest = fmod(a, b);
  double quotient = (a - rest) / b;
  if (rest != 0.0 && (b < 0.0) != (rest < 0.0)) quotient -= 1.0;
  if (quotient == 0.0) return copysign(0.0, a / b);
  const double low = floor(quotient);
  return quotient - low > 0.5 ? low + 1.0 : low;
}
template <class A> __device__ __forceinline__ bool is_nan(A a) { return a != a; }
struct Sum {
  template <class A> static __device__ A of(A a, A b) { return a + b; }
  static __device__ whole of(whole a, whole b) { return wrap_add(a, b); }
};
struct Least { template <class A> static __device__ A of(A a, A b) { return b < a ? b : a; } };
struct Greatest { template <class A> static __device__ A of(A a, A b) { return b > a ? b : a; } };
struct Or { static __device__ whole of(whole a, whole b) { return a | b; } };
struct And { static __device__ whole of(whole a, whole b) { return a & b; } };
template <class Op, class A> __device__ __forceinline__ A over_warp(A a) {
#pragma unroll
  for (int step = WARP / 2; step > 0; step /= 2) a = Op::of(a, __shfl_xor_sync(FULL, a, step));
  return a;
}
// Combines each of N values over the warp; a[0] of lane i is then value i * N / WARP.
template <class Op, int STEP, int COUNT> struct Halve {
  template <class A, int N> static __device__ __forceinline__ void run(A (&a)[N], int lane) {
    const bool upper = lane & STEP;
#pragma unroll
    for (int i = 0; i < COUNT; i++) {
      const A given = upper ? a[i] : a[i + COUNT], kept = upper ? a[i + COUNT] : a[i];
      a[i] = Op::of(kept, __shfl_xor_sync(FULL, given, STEP));
    }
    Halve<Op, STEP / 2, COUNT / 2>::run(a, lane);
  }
};
template <class Op, int STEP> struct Halve<Op, STEP, 0> {
  template <class A, int N> static __device__ __forceinline__ void run(A (&a)[N], int lane) {
    a[0] = Op::of(a[0], __shfl_xor_sync(FULL, a[0], STEP));
    Halve<Op, STEP / 2, 0>::run(a, lane);
  }
};
template <class Op> struct Halve<Op, 0, 0> {
  template <class A, int N> static __device__ __forceinline__ void run(A (&)[N], int) {}
};
template <class Op, class A, int N> __device__ __forceinline__ void over_warp_each(A (&a)[N], int lane) {
  Halve<Op, WARP / 2, N / 2>::run(a, lane);
}
// The number of earlier lanes that take part and have the same index; -1 for a lane that does not take part.
template <class Index> __device__ __forceinline__ int rank_of(Index index, bool taking_part, int lane) {
  const unsigned taking = __ballot_sync(FULL, taking_part);
  if (!taking_part) return -1;
  return __popc(__match_any_sync(taking, index) & ((1u << lane) - 1u));
}
template <class Op, class A>
__device__ __forceinline__ void combine_same(A* at, A value, int lane) {
  value = over_warp<Op>(value);
  if (lane == 0) *at = Op::of(*at, value);
  __syncwarp();
}
template <class Op, class A>
__device__ __forceinline__ void combine_bins(A* results, whole index, A value, int rank) {
  for (int round = 0; __any_sync(FULL, rank >= round); round++) {
    if (rank == round) results[index] = Op::of(results[index], value);
    __syncwarp();
  }
}
// Combines the parts of a result: a column of threads per element, groups of parts; all threads of a number.
// The blocks of the first elements are those after `before`. Not inline: it is compiled once.
template <class Op, class A>
__device__ __noinline__ void combine_parts(const A* from, A* to, whole count, whole parts, A neutral,
                                           unsigned before, A (*held)[33]) {
  const int cell = threadIdx.x % 32, group = threadIdx.x / 32;
  const whole start = count == 1 ? threadIdx.x : group, step = count == 1 ? 1024 : 32;
  whole first = (blockIdx.x + gridDim.x - before % gridDim.x) % gridDim.x * 32LL;
  for (; first < count; first += gridDim.x * 32LL) {
    const whole q = count == 1 ? 0 : first + cell;
    A best = neutral;
#pragma unroll 4
    for (whole part = q < count ? start : parts; part < parts; part += step) {
      best = Op::of(best, from[part * count + q]);
    }
    if (count == 1) best = over_warp<Op>(best);
    held[group][cell] = best;
    __syncthreads();
    best = over_warp<Op>(held[cell][group]);
    if (cell == 0 && first + group < count) to[first + group] = best;
    __syncthreads();
  }
}
"""


@dataclass(frozen=True)
class Placement:
    """Where results and parameters are.

    Attributes
    ----------
    warps : int
        Warps of a block.
    slice_items : int
        Numbers of 8 bytes of the results of a warp.
    shared_results : bool
        Whether results are in shared memory.
    shared_parameters : tuple of str
        Parameters that are copied to shared memory.
    shared_bytes : int
        Shared memory of a block.
    held_bytes : int
        The part of it in which warps add sums of products, after the results of the warps.
    register_row : bool
        Whether a row is kept in registers.
    blocks : Blocks
        Sums of products that are computed by blocks, and go from registers to global memory.
    paired : int
        Number of the first statements, which a lane computes for `PAIR` rows side by side.
    """

    warps: int
    slice_items: int
    shared_results: bool
    shared_parameters: tuple[str, ...]
    shared_bytes: int
    held_bytes: int
    register_row: bool
    blocks: Blocks
    paired: int

    def is_together(self, result: Argument) -> bool:
        """Return whether the warps of a block combine a result, so that there is one part per block."""
        if result.name in self.blocks.results():
            return True
        return self.shared_results and bool(result.dims) and result.role in OPERATORS


@dataclass(frozen=True)
class CudaCode:
    """Text of the kernels, and what their caller must know."""

    text: str
    layout: Layout
    placement: Placement


def place(
    program: Program,
    sizes: Mapping[str, int],
    real_bytes: int,
    sparse: bool,
    shared_bytes: int = SHARED_BYTES,
) -> Placement:
    """Decide where results and parameters are; see the top of this file.

    ``shared_bytes`` limits the shared memory of a block; a GPU may have less than `SHARED_BYTES`.
    """
    blocks = choose_blocks(program, sizes, sparse)
    in_blocks = blocks.results()
    results = [a for a in program.results() if a.role != "output" and a.name not in in_blocks]
    items = sum(
        _count(a.dims, sizes) * (2 if a.role in ("argmin", "argmax") else 1) for a in results if a.dims
    )
    warps, held = MAX_WARPS, held_bytes(blocks, sizes)
    while warps > 1 and 8 * items * warps + held > shared_bytes:
        warps //= 2
    shared_results = 8 * items * warps + held <= shared_bytes
    if not shared_results:
        warps = MAX_WARPS
    used = held + (8 * items * warps if shared_results else 0)
    parameters = [a for a in program.arguments.values() if a.role == "parameter" and a.dims]
    chosen = []
    for argument in sorted(parameters, key=lambda a: _count(a.dims, sizes)):
        bytes_ = _count(argument.dims, sizes) * {"real": real_bytes, "int": 8, "bool": 1}[argument.type]
        bytes_ = -(-bytes_ // 8) * 8
        if used + bytes_ <= shared_bytes:
            chosen.append(argument.name)
            used += bytes_
    register_row = not sparse and sizes[program.width] <= MAX_REGISTER_COLUMNS
    few = register_row and real_bytes * sizes[program.width] <= MAX_PAIRED_BYTES and not blocks.sums()
    pairs = paired(program, Bounds(program), sizes, varying_names(program, sparse)) if few else 0
    return Placement(warps, items, shared_results, tuple(chosen), used, held, register_row, blocks, pairs)


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
        They become constants of the text.
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
    where = place(program, sizes, 4 if real == "float" else 8, bool(column), shared_bytes)
    return _Printer(program, sizes, real, item, column, where, wide).print()


def _count(dims: tuple[Size, ...], sizes: Mapping[str, int]) -> int:
    return math.prod(sizes[size] if isinstance(size, str) else size for size in dims)


def has_combination(body: tuple[Statement, ...]) -> bool:
    """Return whether some statement, or one inside it, combines a result."""
    return any(isinstance(statement, Combine) for statement in statements(body))


class _Printer:
    def __init__(
        self,
        program: Program,
        sizes: Mapping[str, int],
        real: str,
        item: str,
        column: str,
        where: Placement,
        wide: AbstractSet[str],
    ) -> None:
        self.wide = wide
        self.program, self.sizes, self.real, self.item, self.column = program, sizes, real, item, column
        self.layout = Layout(program, bool(column), extra=EXTRA)
        self.bounds = Bounds(program)
        self.varying = varying_names(program, bool(column))
        self.place = where
        whole_numbers = {name for name, kind in program.locals.items() if kind == "int"}
        self.narrow = {name for name in whole_numbers if self.bounds.narrow(name)}
        self.direct = False  # whether rows are read where they are
        self.column_text = ""  # the value of a factor's own column, if it was read before
        self.value_texts: dict[str, str] = {}  # numbers of the row that were read before
        self.held_at = 8 * where.slice_items * where.warps if where.shared_results else 0
        self.in_blocks = where.blocks.results()
        self.along: dict[int, Group] = {}
        self.ranks: dict[tuple[tuple[Expr, ...], str], str] = {}
        """Ranks of the lanes that are known here, by the index, and by the lanes that take part."""
        self.batches: dict[int, str] = {}  # where statements leave their values, by their identity
        self.lines: list[str] = []
        self.depth = 0
        self.names: dict[str, str] = {}
        self.x = "x"  # the row in registers
        self.count = 0

    # --- text

    def put(self, text: str) -> None:
        self.lines.append("  " * self.depth + text)

    def open(self, text: str) -> None:
        self.put(f"{text} {{" if text else "{")
        self.depth += 1

    def close(self, end: str = "}") -> None:
        self.depth -= 1
        self.put(end)

    def name(self, name: str) -> str:
        """Return a C++ name for a local: no user's name can clash with one of C++ or of this file."""
        if name not in self.names:
            self.names[name] = f"v{len(self.names)}_" + re.sub(r"\W", "_", name, flags=re.ASCII)
        return self.names[name]

    def rename(self, names: dict[str, str]) -> None:
        """Give locals other C++ names."""
        self.names |= names

    def fresh(self, hint: str) -> str:
        self.count += 1
        return f"{hint}{self.count}"

    def slot(self, name: str) -> str:
        return f"table.at[{self.layout.slots[name]}]"

    def kind(self, kind: str) -> str:
        return {"real": "T", "int": "whole", "bool": "bool"}[kind]

    def memory(self, kind: str) -> str:
        return {"real": "T", "int": "whole", "bool": "unsigned char"}[kind]

    def size(self, size: Size) -> str:
        return f"{self.sizes[size] if isinstance(size, str) else size}LL"

    def accumulated(self, result: Argument) -> str:
        return "double" if result.type == "real" else "whole"

    def neutral(self, result: Argument) -> str:
        real = result.type == "real"
        match result.role:
            case "sum" | "or":
                return "0"
            case "and":
                return "-1"
            case "min" | "argmin":
                return "INF" if real else "GREATEST_WHOLE"
            case "max" | "argmax":
                return "-INF" if real else "LEAST_WHOLE"
        return "NOT_A_NUMBER" if real else "-1"

    def print(self) -> CudaCode:
        place_ = self.place
        self.rows_kernel()
        self.combine_kernel()
        head = [
            f"typedef {self.real} T;",
            f"#define WARP {WARP}",
            f"#define WARPS {place_.warps}",
            HELPERS,
            *([PRODUCT_HELPERS] if self.in_blocks else []),
            f"struct Table {{ whole at[{len(self.layout.slots)}]; }};",
            "// Keeps the failure of the earliest row.",
            "__device__ __forceinline__ void fail(const Table& table, whole row, int site) {",
            f"  atomicMin((whole*){self.slot('error')}, row * {MAX_SITES} + site);",
            "}",
            "__device__ __forceinline__ whole inside(whole index, whole size, bool used, const Table& table,",
            "                                        whole row, int site) {",
            "  if (bits64(index) < bits64(size)) return index;",
            "  if (used) fail(table, row, site);",
            "  return 0;",
            "}",
            "__device__ __forceinline__ whole divisor(whole b, bool used, const Table& table, whole row,",
            "                                         int site) {",
            "  if (b == 0 && used) fail(table, row, site);",
            "  return b == 0 ? 1 : b;",
            "}",
        ]
        return CudaCode("\n".join([*head, *self.lines, ""]), self.layout, place_)

    # --- the kernel of the rows

    def array_results(self) -> list[Argument]:
        results = self.program.results()
        return [a for a in results if a.role != "output" and a.dims and a.name not in self.in_blocks]

    def number_results(self) -> list[Argument]:
        return [a for a in self.program.results() if a.role != "output" and not a.dims]

    def rows_kernel(self) -> None:
        self.open(
            f'extern "C" __global__ void __launch_bounds__({self.place.warps * WARP}) bmrm_rows(Table table)'
        )
        self.put("const int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;")
        self.put("extern __shared__ double shared[];")
        self.parameters()
        self.put(f"const whole last = {self.slot('last')}, number = {self.slot('number')};")
        self.put(f"const whole chunks = {self.slot('chunks')}, chunk_rows = {self.slot('chunk_rows')};")
        if self.vector() > 1:
            item = {"float": 4, "double": 8}[self.item]
            places = f"({self.slot('rows')} | {self.slot('row_step')}) % {item * self.vector()} == 0"
            self.put(f"const bool packed = {self.slot('column_step')} == {item} && {places};")
        self.put("const whole step = gridDim.x * whole(WARPS);")
        self.open("for (whole chunk = blockIdx.x * whole(WARPS) + warp; chunk < chunks; chunk += step)")
        self.results()
        self.put("const whole end = least((chunk + 1) * chunk_rows, last);")
        blocks = self.place.blocks
        for sums in blocks.apart.values():
            print_apart(self, sums)
        for place_, sums in blocks.along.items():
            self.along[place_] = Group(self, sums)
            self.along[place_].declare()
        if len(blocks.apart) < len(self.program.body):
            self.rows_loop()
        for group in self.along.values():
            group.write()
        self.write_results()
        self.close()
        self.close()

    def rows_loop(self) -> None:
        """Print the loop that has a row per lane, or `PAIR` rows for the first statements."""
        blocks, count = self.place.blocks, self.place.paired
        if count:
            self.open(f"for (whole start = chunk * chunk_rows; start < end; start += {PAIR} * WARP)")
            self.pairs(count)
            self.open(f"for (whole base = start; base < end && base < start + {PAIR} * WARP; base += WARP)")
            self.own_row("base", "base")
        else:
            self.open("for (whole base = chunk * chunk_rows; base < end; base += WARP)")
            self.own_row("base", "base")
            self.row()
            self.locals()
        for place_, statement in enumerate(self.program.body[count:], count):
            if place_ in self.along:
                self.along[place_].step()
            elif place_ not in blocks.apart:
                self.statement(statement, "here")
        self.outputs()
        if count:
            self.next_row()
            self.close()
        self.close()

    def own_row(self, first: str, other: str) -> None:
        """Print the number of this lane's row; lanes without one read row ``other``."""
        self.put(f"const whole row = {first} + lane;")
        self.put("const bool here = row < end;")
        self.put(f"const whole mine = here ? row : {other};")

    # --- rows side by side

    def own_names(self) -> list[str]:
        """Return the names of a row's own numbers."""
        return [*self.program.locals, *(a.name for a in self.program.results() if a.role == "output")]

    def open_row(self, turn: int) -> dict[str, str]:
        """Begin what is for one of the rows side by side; return the names to restore."""
        names = {name: self.name(name) for name in self.own_names()}
        if turn:
            self.rename({name: f"{text}_{turn}" for name, text in names.items()})
            self.x = f"x_{turn}"
        self.open("")
        self.own_row(f"start + {turn} * WARP" if turn else "start", "start")
        return names

    def close_row(self, names: dict[str, str]) -> None:
        self.rename(names)
        self.x = "x"
        self.close()

    def pairs(self, count: int) -> None:
        """Print the first statements for `PAIR` rows."""
        width = max(1, self.sizes[self.program.width])
        for turn in range(PAIR):
            self.locals(f"_{turn}" if turn else "")
            self.put(f"T x{f'_{turn}' if turn else ''}[{width}];")
            names = self.open_row(turn)
            self.row_address()
            self.read_row()
            self.close_row(names)
        for statement in self.program.body[:count]:
            if isinstance(statement, For):
                self.pairs_loop(statement)
                continue
            for turn in range(PAIR):
                names = self.open_row(turn)
                self.statement(statement, "here")
                self.close_row(names)

    def pairs_loop(self, node: For) -> None:
        """Print a loop whose turns are for `PAIR` rows each."""
        start, stop = self.expr(node.start, "true"), self.expr(node.stop, "true")
        if best := find_best(node, self.program, self.bounds, self.sizes):
            self.best_loop(node, best, start, stop)
            return
        name, end = self.name(node.name), self.fresh("end")
        if count := turns_at_once(node, self.bounds, self.sizes):
            self.put(f"#pragma unroll {count}")
        self.open(f"for (whole {name} = {start}, {end} = {stop}; {name} < {end}; {name}++)")
        for turn in range(PAIR):
            names = self.open_row(turn)
            self.block(node.body, "here")
            self.close_row(names)
        self.close()

    def best_loop(self, node: For, best: Best, start: str, stop: str) -> None:
        """Print a loop that looks for the best value, by groups of turns.

        Only the best value of a group is compared with the best so far; at the end the turns of the best
        group are computed again. Turns that are left over follow one by one.
        """
        name, least = self.name(node.name), "fmin" if best.op == "lt" else "fmax"
        least += "f" if self.real == "float" else ""
        first, begin, end, item = (self.fresh(hint) for hint in ("first", "begin", "end", "item"))
        of_group = [self.fresh("best") for _ in range(PAIR)]
        group = [self.fresh("group") for _ in range(PAIR)]
        self.put(f"const whole {begin} = {start}, {end} = {stop};")
        self.put(f"whole {first} = {begin};")
        self.put(f"int {group[0]} = -1, {', '.join(f'{each} = -1' for each in group[1:])};")
        self.open(f"for (; {first} + {best.turns} <= {end}; {first} += {best.turns})")
        self.put(f"T {', '.join(of_group)};")
        self.put("#pragma unroll")
        self.open(f"for (int {item} = 0; {item} < {best.turns}; {item}++)")
        self.put(f"const whole {name} = {first} + {item};")
        for turn in range(PAIR):
            names = self.open_row(turn)
            self.block(node.body[:-1], "here")
            value = f"T({self.expr(best.value, 'here')})"
            self.put(f"{of_group[turn]} = {item} ? {least}({of_group[turn]}, {value}) : {value};")
            self.close_row(names)
        self.close()
        sign = SIGNS[best.op]
        for turn in range(PAIR):
            kept = self.name(best.name) + (f"_{turn}" if turn else "")
            self.put(
                f"if ({of_group[turn]} {sign} {kept}) "
                f"{kept} = {of_group[turn]}, {group[turn]} = int({first} - {begin});"
            )
        self.close()
        for turn in range(PAIR):
            names = self.open_row(turn)
            self.open(f"if ({group[turn]} >= 0)")
            self.put(f"{self.name(best.name)} = T({'INF' if best.op == 'lt' else '-INF'});")
            self.put("#pragma unroll")
            self.open(f"for (int {item} = 0; {item} < {best.turns}; {item}++)")
            self.put(f"const whole {name} = {begin} + {group[turn]} + {item};")
            self.block(node.body, "here")
            self.close()
            self.close()
            self.put("#pragma unroll 1")
            self.open(f"for (whole {name} = {first}; {name} < {end}; {name}++)")
            self.block(node.body, "here")
            self.close()
            self.close_row(names)

    def next_row(self) -> None:
        """Print that the next of the rows side by side becomes the first."""
        width = self.sizes[self.program.width]
        for turn in range(1, PAIR):
            before = f"_{turn - 1}" if turn > 1 else ""
            for name in map(self.name, self.own_names()):
                self.put(f"{name}{before} = {name}_{turn};")
            self.put("#pragma unroll")
            self.put(f"for (int f = 0; f < {width}; f++) x{before}[f] = x_{turn}[f];")

    def parameters(self) -> None:
        """Point to the parameters; copy those that have a place in shared memory."""
        offset = self.held_at + self.place.held_bytes
        for argument in self.program.arguments.values():
            if argument.role not in ("parameter", "row value"):
                continue
            kind = self.memory(argument.type)
            stored = "double" if argument.name in self.wide else kind
            given = f"((const {stored}*){self.slot(f'argument {argument.name}')})"
            name = self.name(argument.name)
            if argument.name in self.place.shared_parameters:
                count = _count(argument.dims, self.sizes)
                self.put(f"{kind}* const {name} = ({kind}*)((char*)shared + {offset});")
                self.put(f"for (int q = threadIdx.x; q < {count}; q += blockDim.x) {name}[q] = {given}[q];")
                bytes_ = count * {"T": 4 if self.real == "float" else 8, "whole": 8}.get(kind, 1)
                offset += -(-bytes_ // 8) * 8
            elif argument.role == "parameter" and not argument.dims:
                self.put(f"const {self.kind(argument.type)} {name} = {given}[0];")
            else:
                self.put(f"const {stored}* __restrict__ const {name} = {given};")
        for name in self.program.squares:
            given = f"(const T*){self.slot(f'squares {name}')}"
            self.put(f"const T* __restrict__ const {self.name(name + '.squares')} = {given};")
        self.put("__syncthreads();")

    def results(self) -> None:
        """Point to the results of this chunk, and give them the value of no rows."""
        offset = 0
        for result in self.array_results():
            count, kind, name = (
                _count(result.dims, self.sizes),
                self.accumulated(result),
                self.name(result.name),
            )
            arrays = [(name, f"argument {result.name}", kind, self.neutral(result))]
            if result.role in ("argmin", "argmax"):
                arrays.append((name + "_row", f"rows {result.name}", "whole", "GREATEST_WHOLE"))
            for array, slot, type_, neutral in arrays:
                if self.place.shared_results:
                    place_ = f"(({type_}*)shared + warp * {self.place.slice_items} + {offset})"
                else:
                    place_ = f"(({type_}*){self.slot(slot)} + chunk * {count}LL)"
                self.put(f"{type_}* const {array} = {place_};")
                self.put("#pragma unroll 1")
                self.put(f"for (int q = lane; q < {count}; q += WARP) {array}[q] = {neutral};")
                offset += count
        for result in self.program.results():
            if result.name not in self.in_blocks:
                continue
            count, name = _count(result.dims, self.sizes), self.name(result.name)
            place_ = f"(double*){self.slot(f'argument {result.name}')} + chunk / WARPS * {count}LL"
            self.put(f"double* const {name} = {place_};")
            self.put(f"for (int q = threadIdx.x; q < {count}; q += blockDim.x) {name}[q] = 0;")
        for result in self.number_results():
            kind, name = self.accumulated(result), self.name(result.name)
            self.put(f"{kind} {name} = {self.neutral(result)};")
            if result.role in ("argmin", "argmax"):
                self.put(f"whole {name}_row = GREATEST_WHOLE;")
        self.put("__syncwarp();")

    def write_results(self) -> None:
        """Write the results of a chunk, or of those of a block, to their place in global memory."""
        together = [result for result in self.array_results() if self.place.is_together(result)]
        self.put("__syncthreads();" if together else "__syncwarp();")
        for result in self.array_results() if self.place.shared_results else []:
            count, kind, name = (
                _count(result.dims, self.sizes),
                self.accumulated(result),
                self.name(result.name),
            )
            if result in together:
                self.open(f"for (int q = threadIdx.x; q < {count}; q += blockDim.x)")
                self.put(f"const {kind}* const first = {name} - warp * {self.place.slice_items};")
                self.put(f"{kind} all = first[q];")
                self.put("#pragma unroll")
                self.open("for (int other = 1; other < WARPS; other++)")
                other = f"first[other * {self.place.slice_items} + q]"
                self.put(f"all = {OPERATORS[result.role]}::of(all, {other});")
                self.close()
                to = f"(({kind}*){self.slot(f'argument {result.name}')})[chunk / WARPS * {count}LL + q]"
                self.put(f"{to} = all;")
                self.close()
                continue
            arrays = [(name, f"argument {result.name}", kind)]
            if result.role in ("argmin", "argmax"):
                arrays.append((name + "_row", f"rows {result.name}", "whole"))
            for array, slot, type_ in arrays:
                to = f"(({type_}*){self.slot(slot)})[chunk * {count}LL + q]"
                self.put(f"for (int q = lane; q < {count}; q += WARP) {to} = {array}[q];")
        for result in self.number_results():
            kind, name = self.accumulated(result), self.name(result.name)
            value = name
            if result.role in OPERATORS:
                value = f"over_warp<{OPERATORS[result.role]}>({name})"
                self.put(f"const {kind} {name}_all = {value};")
                value = f"{name}_all"
            self.put(f"if (lane == 0) (({kind}*){self.slot(f'argument {result.name}')})[chunk] = {value};")
            if result.role in ("argmin", "argmax"):
                self.put(f"if (lane == 0) ((whole*){self.slot(f'rows {result.name}')})[chunk] = {name}_row;")
        self.put("__syncthreads();" if together else "__syncwarp();")

    def row(self) -> None:
        """Find the row of this lane; lanes without one read the first of their warp."""
        if self.column:
            self.put(f"const whole* const starts = (const whole*){self.slot('starts')};")
            self.put("const whole row_first = starts[mine], row_last = here ? starts[mine + 1] : row_first;")
            return
        self.row_address()
        if self.place.register_row:
            self.put(f"T x[{max(1, self.sizes[self.program.width])}];")
            self.read_row()

    def read_row(self) -> None:
        """Read a row into registers."""
        width, vector = self.sizes[self.program.width], self.vector()
        if vector > 1:
            self.open("if (packed)")
            self.put("#pragma unroll")
            self.open(f"for (int f = 0; f < {width}; f += {vector})")
            self.put(f"const {self.item}{vector} some = ((const {self.item}{vector}*)at)[f / {vector}];")
            for place_, part in zip(range(vector), "xyzw", strict=False):
                self.put(f"{self.x}[f + {place_}] = T(some.{part});")
            self.close()
            self.close("} else")
        value = f"T(*(const {self.item}*)(at + f * across))"
        self.put("#pragma unroll")
        self.put(f"for (int f = 0; f < {width}; f++) {self.x}[f] = {value};")

    def vector(self) -> int:
        """Return how many values of a row in registers are read at once if nothing is between them."""
        most = {"float": 4, "double": 2}.get(self.item, 1)
        width = self.sizes[self.program.width]
        return math.gcd(most, width) if self.place.register_row and width else 1

    def row_address(self) -> None:
        self.put(f"const char* const at = (const char*){self.slot('rows')} + mine * {self.slot('row_step')};")
        self.put(f"const whole across = {self.slot('column_step')};")

    def locals(self, suffix: str = "") -> None:
        kinds = dict(self.program.locals)
        kinds |= {a.name: a.type for a in self.program.results() if a.role == "output"}
        for name, kind in kinds.items():
            type_ = "int" if name in self.narrow else self.kind(kind)
            self.put(f"{type_} {self.name(name)}{suffix} = {'false' if kind == 'bool' else '0'};")
        if not suffix:
            self.arrays()

    def arrays(self) -> None:
        for name, array in self.program.arrays.items():
            count = _count(array.dims, self.sizes)
            self.put(f"{self.memory(array.type)} {self.name(name)}[{max(1, count)}];")
            self.put(f"for (int q = 0; q < {count}; q++) {self.name(name)}[q] = 0;")

    def outputs(self) -> None:
        for result in self.program.results():
            if result.role == "output":
                kind = self.memory(result.type)
                to = f"(({kind}*){self.slot(f'argument {result.name}')})[row]"
                self.put(f"if (here) {to} = {self.name(result.name)};")

    # --- statements

    def block(self, body: tuple[Statement, ...], mask: str) -> None:
        self.ranks = {}
        for statement in body:
            self.statement(statement, mask)
        self.ranks = {}

    def statement(self, statement: Statement, mask: str) -> None:
        guard = "" if mask in EVERY else f"if ({mask}) "
        if not isinstance(statement, Combine):
            self.ranks = {}
        match statement:
            case Set(name, value):
                self.put(f"{guard}{self.name(name)} = {self.expr(value, mask)};")
            case SetItem(array, index, value, line):
                flat = self.flat(index, self.program.arrays[array].dims, array, line, mask)
                self.put(f"{guard}{self.name(array)}[{flat}] = {self.expr(value, mask)};")
            case Combine():
                self.combine(statement, mask)
            case For():
                self.loop(statement, mask)
            case ForStored():
                self.stored_loop(statement, mask)
            case If():
                self.condition(statement, mask)

    def varies(self, *exprs: Expr) -> bool:
        """Return whether an expression may differ from lane to lane."""
        return any(depends_on_row(self.program, expr, self.varying) for expr in exprs)

    def loop(self, node: For, mask: str) -> None:
        start, stop = self.expr(node.start, mask), self.expr(node.stop, mask)
        name, end = self.name(node.name), self.fresh("end")
        sign = "<" if node.step > 0 else ">"
        head = f"whole {name} = {start}, {end} = {stop}"
        if not self.varies(node.start, node.stop) and node.name not in self.varying:
            known = node, self.program, self.bounds, self.sizes, self.varying
            if some := batched(*known):
                self.batched_loop(node, some, start, stop, mask)
                return
            if some := turned(*known):
                self.turned_loop(node, some, start, stop, mask)
                return
            if some := ranked(*known):
                self.ranked_loop(node, some, start, stop, mask)
                return
            if count := turns_at_once(node, self.bounds, self.sizes):
                self.put(f"#pragma unroll {count}")
            self.open(f"for ({head}; {name} {sign} {end}; {self.next_count(node)})")
            self.block(node.body, mask)
            self.close()
        elif not has_combination(node.body):
            self.open(f"if ({mask}) for ({head}; {name} {sign} {end}; {self.next_count(node)})")
            self.block(node.body, "true")
            self.close()
        else:
            test = self.fresh("active")
            on = f"{mask} && {name} {sign} {end}"
            head = f"whole {name} = {self.guarded(node.start, mask)}, {end} = {self.guarded(node.stop, mask)}"
            self.open(f"for ({head}; __any_sync(FULL, {on}); {self.next_count(node, lanes_wait=True)})")
            self.put(f"const bool {test} = {on};")
            self.block(node.body, test)
            self.close()

    def next_count(self, node: For, lanes_wait: bool = False) -> str:
        """Return how the counter of a loop goes on; that of a lane that waits for others goes on too."""
        name = self.name(node.name)
        if self.bounds.counts_near(node) or (abs(node.step) == 1 and not lanes_wait):
            return f"{name} += {node.step}"
        return f"{name} = next_count({name}, {constant(node.step, 'int')})"

    def batched_loop(self, node: For, some: list[Combine], start: str, stop: str, mask: str) -> None:
        """Print a loop by batches of turns, after each of which the results of all are combined."""
        count, name = trips(node, self.bounds, self.sizes), self.name(node.name)
        if count <= MAX_REGISTER_COLUMNS:
            self.put("#pragma unroll")
        count = min(MAX_BATCH, 1 << (count - 1).bit_length())
        first, end, item = self.fresh("first"), self.fresh("end"), self.fresh("item")
        self.open(f"for (whole {first} = {start}, {end} = {stop}; {first} < {end}; {first} += {count})")
        for each in some:
            held = self.batches[id(each)] = self.fresh("held")
            self.put(f"{self.accumulated(self.program.arguments[each.array])} {held}[{count}];")
        self.put("#pragma unroll")
        self.open(f"for (int {item} = 0; {item} < {count}; {item}++)")
        for each in some:
            held = self.batches[id(each)] = f"{self.batches[id(each)]}[{item}]"
            self.put(f"{held} = {self.neutral(self.program.arguments[each.array])};")
        self.put(f"const whole {name} = {first} + {item};")
        self.open(f"if ({name} < {end})")
        self.block(node.body, mask)
        self.close()
        self.close()
        for each in some:
            result, op = self.program.arguments[each.array], OPERATORS[each.op]
            held = self.batches.pop(id(each)).partition("[")[0]
            self.open("")
            self.put(f"over_warp_each<{op}>({held}, lane);")
            self.put(f"const whole {name} = {first} + lane / {WARP // count};")
            flat = self.flat(each.index, result.dims, each.array, each.line, mask)
            self.put(f"{self.accumulated(result)}& place = {self.name(each.array)}[{flat}];")
            here = f"{name} < {end} && lane % {WARP // count} == 0"
            self.put(f"if ({here}) place = {op}::of(place, {held}[0]);")
            self.close()
        self.put("__syncwarp();")
        self.close()

    def turned_loop(self, node: For, some: list[Combine], start: str, stop: str, mask: str) -> None:
        """Print a loop row by row: lanes are its turns.

        Values of some rows are read before they are added, and two rows are added at a time: both places are
        read before either is written, and of two equal places the second takes what the first has. If a half
        of the lanes suffices for the turns, the other half has two other rows, and adds after the first half
        if one of its places is one of those. Rows that do not take part add 0 to some place.
        """
        few = trips(node, self.bounds, self.sizes) <= WARP // 2
        halves = 2 if few and len({each.array for each in some}) == len(some) else 1
        lanes, name = WARP // halves, self.name(node.name)
        first, end, taking, item = (self.fresh(hint) for hint in ("first", "end", "taking", "item"))
        self.open("")
        self.put(f"const whole {first} = {start}, {end} = {stop};")
        mask = self.with_turn(node, first, end, mask)
        self.put(f"const unsigned {taking} = __ballot_sync(FULL, {mask});")
        places = []
        for each in some:
            dims = self.program.arguments[each.array].dims
            flat = self.flat(each.index[:-1], dims[:-1], each.array, each.line, mask)
            flat = flat if mask in EVERY else f"({mask} ? {flat} : 0)"
            chosen, count = self.fresh("chosen"), _count(dims, self.sizes)
            kind = "int" if count < 1 << 31 else "whole"
            self.put(f"const {kind} {chosen} = ({flat}) * {self.size(dims[-1])};")
            places.append((chosen, kind))
        if halves == 2:
            others = [
                f"{chosen} == __shfl_xor_sync(FULL, {chosen}, {other})"
                for chosen, _ in places
                for other in (lanes, lanes + 1)
            ]
            self.put(f"const unsigned meeting = __ballot_sync(FULL, {' | '.join(others)});")
        block, half = self.fresh("block"), f"lane / {lanes} * {lanes}"
        self.put(f"const whole across = {self.slot('column_step')}, along = {self.slot('row_step')};")
        self.put(f"const char* const base_at = (const char*){self.slot('rows')} + (base + {half}) * along;")
        self.open(f"for (whole {block} = {first}; {block} < {end}; {block} += {lanes})")
        self.put(f"const whole {name} = {block} + lane % {lanes};")
        self.put(f"const bool has_turn = {name} < {end};")
        for place_, each in enumerate(some):
            kind = self.accumulated(self.program.arguments[each.array])
            self.put(f"{kind}* const to{place_} = {self.name(each.array)} + {name};")
        self.put("#pragma unroll 1")
        self.open(f"for (int {item} = 0; {item} < {lanes}; {item} += {ROWS_AHEAD})")
        for place_, (each, (_, kind)) in enumerate(zip(some, places, strict=True)):
            type_ = self.accumulated(self.program.arguments[each.array])
            self.put(f"{kind} place{place_}[{ROWS_AHEAD}];")
            self.put(f"{type_} value{place_}[{ROWS_AHEAD}];")
        self.put(f"const char* const item_at = base_at + {item} * along;")
        self.open(f"if ({taking} == FULL && {block} + {lanes} <= {end})")
        self.values_ahead(node, some, [chosen for chosen, _ in places], f"{item} + ahead + {half}", "true")
        self.close()
        self.open("else")
        self.put(f"const unsigned of_rows = {taking} >> {half} >> {item};")
        used = "(has_turn && (of_rows >> ahead & 1u))"
        self.values_ahead(node, some, [chosen for chosen, _ in places], f"{item} + ahead + {half}", used)
        self.close()
        self.put("#pragma unroll")
        self.open(f"for (int ahead = 0; ahead < {ROWS_AHEAD}; ahead += 2)")
        if halves == 1:
            self.add_two(some, "has_turn")
        else:
            self.put(f"const bool apart = !(meeting >> ({item} + ahead) & 3u);")
            self.add_two(some, f"has_turn && (apart || lane < {lanes})")
            self.open("if (!apart)")
            self.put("__syncwarp();")
            self.add_two(some, f"has_turn && lane >= {lanes}")
            self.close()
            self.put("__syncwarp();")
        self.close()
        self.close()
        self.close()
        self.put("__syncwarp();")
        self.close()

    def values_ahead(self, node: For, some: list[Combine], chosen: list[str], other: str, used: str) -> None:
        """Print how the places and values of the next rows are read, those of lanes ``other``."""
        self.put("#pragma unroll")
        self.open(f"for (int ahead = 0; ahead < {ROWS_AHEAD}; ahead++)")
        for place_, index in enumerate(chosen):
            self.put(f"place{place_}[ahead] = __shfl_sync(FULL, {index}, {other});")
        self.close()
        self.put("#pragma unroll")
        self.open(f"for (int ahead = 0; ahead < {ROWS_AHEAD}; ahead++)")
        self.put(f"const int from = {other};")
        self.put(f"const bool used = {used};")
        names = {p.name for each in some for p in parts(each.value) if isinstance(p, Var)} - {node.name}
        held = self.bring(sorted(names & set(self.program.locals)), "from")
        self.put("const whole row = base + from, mine = used ? row : base;")
        self.put("const char* const at = item_at + ahead * along;")
        self.direct = True
        for place_, each in enumerate(some):
            kind = self.accumulated(self.program.arguments[each.array])
            value = f"{kind}({self.expr(each.value, 'used')})"
            self.put(f"value{place_}[ahead] = used ? {value} : 0;")
        self.direct = False
        self.rename(held)
        self.close()

    def add_two(self, some: list[Combine], test: str) -> None:
        """Print how the values of two rows are added to their places."""
        self.open(f"if ({test})")
        for place_, each in enumerate(some):
            kind = self.accumulated(self.program.arguments[each.array])
            self.open("")
            self.put(f"const auto one = place{place_}[ahead], two = place{place_}[ahead + 1];")
            self.put(f"const {kind} old = to{place_}[two];")
            self.put(f"const {kind} first = Sum::of(to{place_}[one], value{place_}[ahead]);")
            self.put(f"to{place_}[one] = first;")
            self.put(f"to{place_}[two] = Sum::of(one == two ? first : old, value{place_}[ahead + 1]);")
            self.close()
        self.close()

    def bring(self, names: list[str], other: str) -> dict[str, str]:
        """Print the exchange of numbers of another lane's row, and return how they are called here."""
        held = {}
        for name in names:
            kind, old, new = self.program.locals[name], self.name(name), self.fresh("far")
            value = f"int({old})" if kind == "bool" else old
            self.put(f"const {self.kind(kind)} {new} = __shfl_sync(FULL, {value}, {other});")
            held[name], self.names[name] = old, new
        return held

    def with_turn(self, node: For, start: str, stop: str, mask: str) -> str:
        """Return the mask of lanes that take part in what a loop needs before its first turn."""
        if self.bounds.has_turn(node):
            return mask
        found = self.fresh("part")
        self.put(f"const bool {found} = {mask} && {start} < {stop};")
        return found

    def ranked_loop(self, node: For, some: list[Combine], start: str, stop: str, mask: str) -> None:
        """Print a loop whose lanes take turns once for all turns of the loop."""
        rank, round_, end, name = *map(self.fresh, ("rank", "round", "end")), self.name(node.name)
        first, dims = some[0], self.program.arguments[some[0].array].dims
        mine = self.with_turn(node, start, stop, mask)
        flat = self.flat(first.index[:-1], dims[:-1], first.array, first.line, mine)
        flat = f"({mine} ? {flat} : 0)" if self.strays(*first.index[:-1], mask=mine) else flat
        self.put(f"const int {rank} = rank_of({self.index(flat, dims)}, {mine}, lane);")
        self.open(f"for (int {round_} = 0; __any_sync(FULL, {rank} >= {round_}); {round_}++)")
        head = f"whole {name} = {start}, {end} = {stop}; {name} < {end}; {name}++"
        self.open(f"if ({rank} == {round_}) for ({head})")
        for each in some:
            self.batches[id(each)] = ""
        self.block(node.body, "true")
        for each in some:
            del self.batches[id(each)]
        self.close()
        self.put("__syncwarp();")
        self.close()
        if mine == mask:
            self.ranks[chosen_row(first), mask] = rank

    def stored_loop(self, node: ForStored, mask: str) -> None:
        place_, index, value = self.fresh("place"), self.name(node.index), self.name(node.value)
        inner = mask
        combined = has_combination(node.body)
        on = f"{mask} && {place_} < row_last"
        if combined:
            inner = self.fresh("active")
            self.open(f"for (whole {place_} = row_first; __any_sync(FULL, {on}); {place_}++)")
            self.put(f"const bool {inner} = {on};")
            where = f"({inner} ? {place_} : 0)"
        else:
            self.open(f"if ({mask}) for (whole {place_} = row_first; {place_} < row_last; {place_}++)")
            inner, where = "true", place_
        columns = f"((const {self.column}*){self.slot('columns')})"
        stored = f"T(((const {self.item}*){self.slot('values')})[{where}])" if self.item else "T(1)"
        empty = f"{inner} ? " if combined else ""
        other = " : 0" if combined else ""
        self.put(f"const whole {index} = {empty}whole({columns}[{where}]){other};")
        self.put(f"{value} = {empty}{stored}{' : T(0)' if combined else ''};")
        self.block(node.body, inner)
        self.close()

    def condition(self, node: If, mask: str) -> None:
        test = self.expr(node.test, mask)
        if not self.varies(node.test):
            self.open(f"if ({test})")
            self.block(node.body, mask)
            if node.orelse:
                self.depth -= 1
                self.open("} else")
                self.block(node.orelse, mask)
            self.close()
            return
        yes, no = self.fresh("yes"), self.fresh("no")
        self.put(f"const bool {yes} = {mask} && {test};")
        if node.orelse:
            self.put(f"const bool {no} = {mask} && !{yes};")
        for flag, body in ((yes, node.body), (no, node.orelse)):
            if not body:
                continue
            combined = has_combination(body)
            self.open(f"if (__any_sync(FULL, {flag}))" if combined else f"if ({flag})")
            self.block(body, flag if combined else "true")
            self.close()

    # --- combining

    def combine(self, node: Combine, mask: str) -> None:
        result = self.program.arguments[node.array]
        kind, op = self.accumulated(result), OPERATORS.get(node.op, "")
        value, flag = self.fresh("value"), self.fresh("part")
        self.put(f"{kind} {value} = {kind}({self.guarded(node.value, mask)});")
        number = f" && {value} == {value}" if node.op not in ("sum", "or", "and") and kind == "double" else ""
        self.put(f"const bool {flag} = {mask}{number};")
        name = self.name(node.array)
        if node.others:
            self.combine_extremum(node, result, value, flag, mask)
            return
        self.put(f"if (!{flag}) {value} = {self.neutral(result)};")
        if not result.dims:
            self.put(f"{name} = {op}::of({name}, {value});")
            return
        if held := self.batches.get(id(node)):
            self.put(f"{held} = {value};")
            return
        flat = self.place_of(node, result.dims, mask)
        if held is not None:  # this lane's turn
            place_ = self.fresh("place")
            self.put(f"{kind}& {place_} = {name}[{flat}];")
            self.put(f"{place_} = {op}::of({place_}, {value});")
            return
        if not self.varies(*node.index):
            self.put(f"combine_same<{op}>({name} + {flat}, {value}, lane);")
        else:
            rank = self.ranks.get((tuple(map(without_lines, node.index)), mask))
            if rank is None:
                rank = self.fresh("rank")
                self.put(f"const int {rank} = rank_of({self.index(flat, result.dims)}, {flag}, lane);")
            self.put(f"combine_bins<{op}>({name}, {flat}, {value}, {rank});")

    def place_of(self, node: Combine, dims: tuple[Size, ...], mask: str) -> str:
        """Return the place of what is combined."""
        flat = self.flat(node.index, dims, node.array, node.line, mask)
        return f"({mask} ? {flat} : 0)" if self.strays(*node.index, mask=mask) else flat

    def combine_extremum(self, node: Combine, result: Argument, value: str, flag: str, mask: str) -> None:
        """Keep the best value, and what goes with it; of equal values the one of the earliest row."""
        name, sign = self.name(node.array), "<" if node.op == "argmin" else ">"
        number, kind = self.fresh("row"), self.accumulated(result)
        self.put(f"whole {number} = {flag} ? number + row : GREATEST_WHOLE;")
        others = []
        for other, expr in node.others:
            held = self.fresh("other")
            type_ = self.accumulated(self.program.arguments[other])
            self.put(f"{type_} {held} = {type_}({self.guarded(expr, mask)});")
            others.append((other, held))
        at = self.fresh("at")
        flat = self.place_of(node, result.dims, mask)
        self.put(f"const whole {at} = {flat};")
        place_ = f"[{at}]" if result.dims else ""

        def better(new: str, row: str, old: str, before: str) -> str:
            return f"{new} {sign} {old} || ({new} == {old} && {row} < {before} && {before} != GREATEST_WHOLE)"

        def keep() -> None:
            self.put(f"{name}{place_} = {value};")
            self.put(f"{name}_row{place_} = {number};")
            for other, held in others:
                self.put(f"{self.name(other)}{place_} = {held};")

        if self.varies(*node.index):
            rank, round_ = self.fresh("rank"), self.fresh("round")
            self.put(f"const int {rank} = rank_of({self.index(at, result.dims)}, {flag}, lane);")
            self.open(f"for (int {round_} = 0; __any_sync(FULL, {rank} >= {round_}); {round_}++)")
            test = better(value, number, f"{name}{place_}", f"{name}_row{place_}")
            self.open(f"if ({rank} == {round_} && ({test}))")
            keep()
            self.close()
            self.put("__syncwarp();")
            self.close()
            return
        winner = self.fresh("winner")
        self.put(f"if (!{flag}) {value} = {self.neutral(result)};")
        self.put(f"int {winner} = lane;")
        self.put("#pragma unroll")
        self.open("for (int step = WARP / 2; step > 0; step /= 2)")
        self.put(f"const {kind} v = __shfl_xor_sync(FULL, {value}, step);")
        self.put(f"const whole r = __shfl_xor_sync(FULL, {number}, step);")
        self.put(f"const int w = __shfl_xor_sync(FULL, {winner}, step);")
        self.open(f"if (v {sign} {value} || (v == {value} && r < {number}))")
        self.put(f"{value} = v, {number} = r, {winner} = w;")
        self.close()
        self.close()
        for _, held in others:
            self.put(f"{held} = __shfl_sync(FULL, {held}, {winner});")
        taken = f"{number} != GREATEST_WHOLE && "
        test = better(value, number, f"{name}{place_}", f"{name}_row{place_}")
        # A number is kept by every lane, an element of an array by one.
        who = "lane == 0 && " if result.dims else ""
        self.open(f"if ({who}{taken}({test}))")
        keep()
        self.close()
        self.put("__syncwarp();")

    def combine_kernel(self) -> None:
        """Print the kernel that combines the parts."""
        self.open('extern "C" __global__ void __launch_bounds__(1024) bmrm_combine(Table table, Table to)')
        self.put("__shared__ double held[32][33];")
        if any(a.leader for a in self.program.results()):
            self.put("__shared__ whole rows[32][33];")
        self.put(f"const whole chunks = {self.slot('chunks')};")
        error = self.layout.slots["error"]
        self.put("const bool is_first = blockIdx.x == 0 && threadIdx.x == 0;")
        self.put(f"if (is_first) *(volatile whole*)to.at[{error}] = *(const whole*)table.at[{error}];")
        before = 0
        for result in self.program.results():
            if result.role in ("output", "other"):
                continue
            if result.role in OPERATORS:
                self.combine_plain(result, before)
            else:
                self.combine_best(result, before)
            before += -(-max(1, _count(result.dims, self.sizes)) // WARP)
        self.close()

    def combine_plain(self, result: Argument, before: int) -> None:
        """Print how a result is combined that is combined on its own."""
        count, kind = max(1, _count(result.dims, self.sizes)), self.accumulated(result)
        slot = self.layout.slots[f"argument {result.name}"]
        parts_ = "chunks / WARPS" if self.place.is_together(result) else "chunks"
        self.put(
            f"combine_parts<{OPERATORS[result.role]}, {kind}>((const {kind}*)table.at[{slot}], "
            f"({kind}*)to.at[{slot}], {count}LL, {parts_}, {self.neutral(result)}, {before}u, "
            f"({kind} (*)[33])held);"
        )

    def combine_best(self, result: Argument, before: int) -> None:
        """Print how extrema are combined that bring others along: as `combine_parts`, groups in order."""
        count, kind = max(1, _count(result.dims, self.sizes)), self.accumulated(result)
        slot, rows = (self.layout.slots[f"{what} {result.name}"] for what in ("argument", "rows"))
        sign = "<" if result.role == "argmin" else ">"
        as_double = "" if kind == "double" else "__longlong_as_double"
        from_double = "" if kind == "double" else "__double_as_longlong"
        better = f"chosen < 0 || v {sign} best || (v == best && r < row)"
        mine = f"(blockIdx.x + gridDim.x - {before}u % gridDim.x) % gridDim.x"
        self.open(f"for (whole first = {mine} * 32LL; first < {count}LL; first += gridDim.x * 32LL)")
        self.put("const int cell = threadIdx.x % 32, group = threadIdx.x / 32;")
        self.put("const whole q = first + cell;")
        self.put(f"{kind} best = {self.neutral(result)};")
        self.put("whole row = GREATEST_WHOLE, chosen = -1;")
        self.put("#pragma unroll 4")
        self.open(f"for (whole chunk = q < {count}LL ? group : chunks; chunk < chunks; chunk += 32)")
        self.put(f"const {kind} v = ((const {kind}*)table.at[{slot}])[chunk * {count}LL + q];")
        self.put(f"const whole r = ((const whole*)table.at[{rows}])[chunk * {count}LL + q];")
        self.put("if (r == GREATEST_WHOLE) continue;")
        self.put(f"if ({better}) best = v, row = r, chosen = chunk;")
        self.close()
        self.put(f"held[group][cell] = {as_double}(best);")
        self.put("rows[group][cell] = chosen;")
        self.put("__syncthreads();")
        self.open(f"if (group == 0 && q < {count}LL)")
        self.put("#pragma unroll 1")
        self.open("for (int g = 1; g < 32; g++)")
        self.put(f"const {kind} v = {from_double}(held[g][cell]);")
        self.put("const whole c = rows[g][cell];")
        self.put("if (c < 0) continue;")
        self.put(f"const whole r = ((const whole*)table.at[{rows}])[c * {count}LL + q];")
        self.put(f"if ({better}) best = v, row = r, chosen = c;")
        self.close()
        self.put(f"(({kind}*)to.at[{slot}])[q] = best;")
        self.put(f"((whole*)to.at[{rows}])[q] = row;")
        for other in self.program.results():
            if other.leader == result.name:
                place_, type_ = self.layout.slots[f"argument {other.name}"], self.accumulated(other)
                taken = f"((const {type_}*)table.at[{place_}])[chosen * {count}LL + q]"
                nothing = f"{type_}({self.neutral(other)})"
                self.put(f"(({type_}*)to.at[{place_}])[q] = chosen < 0 ? {nothing} : {taken};")
        self.close()
        self.put("__syncthreads();")
        self.close()

    # --- expressions

    def flat(self, index: tuple[Expr, ...], dims: tuple[Size, ...], what: str, line: int, mask: str) -> str:
        """Return the place of an element in an array that is stored by rows, all indices checked."""
        found = ""
        for each, size in zip(index, dims, strict=True):
            text = self.expr(each, mask)
            if not self.bounds.inside(each, size):
                text = self.checked(text, size, Site(line, OUTSIDE, what, size), mask)
            found = f"({found} * {self.size(size)} + {text})" if found else text
        return found or "0"

    def guarded(self, node: Expr, mask: str) -> str:
        """Return an expression that only lanes which take part compute, if it may stray in others."""
        text = self.expr(node, mask)
        return f"({mask} ? {text} : {self.kind(node.type)}(0))" if self.strays(node, mask=mask) else text

    def strays(self, *exprs: Expr, mask: str) -> bool:
        """Return whether lanes that take no part may read outside of arrays: no bound holds there."""
        if mask in EVERY:
            return False
        read = [p for expr in exprs for p in parts(expr) if isinstance(p, (Load, RowItem))]
        return any(self.varies(*(p.index if isinstance(p, Load) else (p.index,))) for p in read)

    def index(self, text: str, dims: tuple[Size, ...]) -> str:
        """Return an index of an array in the type in which lanes compare it."""
        return f"{'unsigned' if _count(dims, self.sizes) < 1 << 32 else 'bits64'}({text})"

    def checked(self, text: str, size: Size, site: Site, mask: str) -> str:
        if self.direct:  # only what needs no check is read so
            return text
        return f"inside({text}, {self.size(size)}, {mask}, table, row, {self.layout.site(site)})"

    def expr(self, node: Expr, mask: str) -> str:
        match node:
            case Const(value, kind):
                return constant(value, kind)
            case Var(name, _):
                return f"whole({self.name(name)})" if name in self.narrow else self.name(name)
            case Value(name, kind):
                text = self.name(name)
                if self.program.arguments[name].role == "row value":
                    text = self.value_texts.get(name, f"{text}[mine]") + (" != 0" if kind == "bool" else "")
                    text = f"T({text})" if name in self.wide else text
                return f"({text})"
            case SizeOf(size):
                return self.size(size)
            case RowNumber():
                return "(number + row)"
            case RowItem(index, line):
                if self.column_text and index == COUNTER:
                    return f"T({self.column_text})"
                width = self.program.width
                at = self.flat((index,), (width,), "the row", line, mask)
                if self.place.register_row and not self.direct:
                    return f"{self.x}[{at}]"
                where = f"(const {self.item}*)(at + ({at}) * across)"
                return f"T(__ldg({where}))" if self.direct else f"T(*{where})"
            case Load(array, index, kind, line):
                return self.load(array, index, kind, line, mask)
            case Apply():
                return self.apply(node, mask)

    def load(self, array: str, index: tuple[Expr, ...], kind: str, line: int, mask: str) -> str:
        if array in self.program.arrays:
            dims = self.program.arrays[array].dims
        elif array.endswith(".squares"):
            dims = self.program.arguments[array.removesuffix(".squares")].dims[:-1]
        else:
            dims = self.program.arguments[array].dims
        flat = self.flat(index, dims, array.removesuffix(".squares"), line, mask)
        text = f"{self.name(array)}[{flat}]"
        if array in self.wide and array not in self.place.shared_parameters:
            return f"T({text})"
        return f"({text} != 0)" if kind == "bool" else text

    def apply(self, node: Apply, mask: str) -> str:
        op = node.op
        args = [self.expr(each, mask) for each in node.args]
        kind = node.args[0].type if node.args else node.type
        if kind == "int" and self.bounds.wraps(node):
            match op:
                case "add" | "sub" | "mul":
                    return f"wrap_{op}({args[0]}, {args[1]})"
                case "neg":
                    return f"wrap_sub(0, {args[0]})"
        if op in SIGNS:
            return f"({args[0]} {SIGNS[op]} {args[1]})"
        match op:
            case "select":
                return f"({args[0]} ? {args[1]} : {args[2]})"
            case "not":
                return f"(!{args[0]})"
            case "neg":
                return f"(-{args[0]})"
            case "isnan":
                return f"is_nan({args[0]})"
            case "min" | "max":
                return (
                    f"{'least' if op == 'min' else 'greatest'}<{self.kind(node.type)}>({args[0]}, {args[1]})"
                )
            case "abs":
                return f"absolute<{self.kind(node.type)}>({args[0]})"
            case "real" | "bool":
                return f"{self.kind(op)}({args[0]})"
            case "int":
                return f"to_whole({args[0]})" if kind == "real" else f"whole({args[0]})"
            case "shl" | "shr":
                by = args[1]
                if not self.bounds.inside(node.args[1], 64):
                    by = self.checked(by, 64, Site(node.line, OUTSIDE, "a shift", 64), mask)
                return f"whole(bits64({args[0]}) << {by})" if op == "shl" else f"({args[0]} >> {by})"
            case "floordiv" | "mod":
                word = "div" if op == "floordiv" else "mod"
                if kind == "real":
                    return f"T(real_{word}({args[0]}, {args[1]}))"
                by = args[1]
                if not (isinstance(node.args[1], Const) and node.args[1].value != 0):
                    by = f"divisor({by}, {mask}, table, row, {self.layout.site(Site(node.line, ZERO))})"
                return f"whole_{word}({args[0]}, {by})"
        assert op in C_NAMES, op
        suffix = "f" if self.real == "float" else ""
        return f"{op}{suffix}({', '.join(args)})"


EVERY = ("here", "true")
"""Masks of statements that run in every lane: lanes without a row have the numbers of another one."""

OPERATORS = {"sum": "Sum", "min": "Least", "max": "Greatest", "or": "Or", "and": "And"}
"""Operators of results that are combined on their own."""

MAX_SITES = 4096
"""Maximum number of places of a program at which it may fail: the error word holds the row and the place."""


def constant(value: bool | int | float, kind: str) -> str:
    """Return a number as C++ text.

    Examples
    --------
    >>> constant(True, "bool"), constant(-3, "int"), constant(0.1, "real")
    ('true', '(-3LL)', 'T(0x1.999999999999ap-4)')
    """
    if kind == "bool":
        return "true" if value else "false"
    if kind == "int":
        return "LEAST_WHOLE" if value == -(2**63) else f"({int(value)}LL)" if value < 0 else f"{int(value)}LL"
    value = float(value)
    if math.isnan(value):
        return "T(NOT_A_NUMBER)"
    if math.isinf(value):
        return "T(INF)" if value > 0 else "T(-INF)"
    return f"T({value.hex()})"
