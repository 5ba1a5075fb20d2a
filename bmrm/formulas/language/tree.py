"""The typed tree between the front end and the printers.

Types, conversions and the order of arguments are decided here, once, so that every printer says the same. A
number is a "bool", an "int" (64 bits) or a "real" (the type of the rows: float32 or float64). Before the
arguments of a call are known, an argument without an annotation has the type "any".
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

from bmrm.formulas.language.operators import ReductionOperator

Size: TypeAlias = "str | int"
"""A number of elements: a name that the arguments of a call give a value, or the number itself."""

Axis: TypeAlias = str
"""What rows are numbered along: the name that the function gives its row."""


class SourceLine(int):
    """The number of a line in its file, with the name of the function that it is in."""

    def __new__(cls, number: int, function: str) -> SourceLine:
        found = super().__new__(cls, number)
        found.function = function
        return found

    function: str


RANKS = {"bool": 0, "int": 1, "real": 2, "any": 3}
"""The types, each with room for those before it."""


def join_types(a: str, b: str) -> str:
    """Return the type that holds both.

    Examples
    --------
    >>> join_types("int", "real")
    'real'
    """
    return max(a, b, key=RANKS.__getitem__)


@dataclass(frozen=True, slots=True)
class Const:
    """A number in the text."""

    value: bool | int | float
    type: str


@dataclass(frozen=True, slots=True)
class Var:
    """A local number, or the counter of a loop."""

    name: str
    type: str


@dataclass(frozen=True, slots=True)
class Value:
    """An argument that is one number: the same for all rows, or one per row."""

    name: str
    type: str


@dataclass(frozen=True, slots=True)
class Load:
    """An element of an array argument or of a local array."""

    array: str
    index: tuple[Expr, ...]
    type: str
    line: int


@dataclass(frozen=True, slots=True)
class RowItem:
    """An element of the row of an axis."""

    axis: Axis
    index: Expr
    line: int
    type: str = "real"


@dataclass(frozen=True, slots=True)
class SizeOf:
    """A size as a number."""

    size: str
    type: str = "int"


@dataclass(frozen=True, slots=True)
class RowNumber:
    """The index of the row of an axis among all rows.

    Of the rows that run side by side it may also be that of the "first", or that after the last, their "end".
    """

    axis: Axis
    type: str = "int"
    of: str = ""


@dataclass(frozen=True, slots=True)
class Apply:
    """An operator or a function; its arguments have the type that it works on.

    "bool", "int" and "real" convert; "int" of a real drops the fraction. "select" takes a condition and two
    values. "min" and "max" take two: ``min(a, b)`` is b if ``b < a``, else a, as in Python.
    """

    op: str
    args: tuple[Expr, ...]
    type: str
    line: int


Expr: TypeAlias = Const | Var | Value | Load | RowItem | SizeOf | RowNumber | Apply


@dataclass(frozen=True, slots=True)
class Set:
    """Assign a local number, or a result that is one value per row."""

    name: str
    value: Expr


@dataclass(frozen=True, slots=True)
class SetItem:
    """Assign an element of an array of the row, or combine a value into one of a result of each row."""

    array: str
    index: tuple[Expr, ...]
    value: Expr
    line: int
    op: ReductionOperator | None = None


@dataclass(frozen=True, slots=True)
class Combine:
    """Combine a value into an element of a result of all rows.

    If the operator keeps a row, ``others`` are the results that are set together with it.
    """

    array: str
    op: ReductionOperator
    index: tuple[Expr, ...]
    value: Expr
    others: tuple[tuple[str, Expr], ...]
    line: int


@dataclass(frozen=True, slots=True)
class For:
    """Count from ``start`` to before ``stop``."""

    name: str
    start: Expr
    stop: Expr
    step: int
    body: tuple[Statement, ...]


@dataclass(frozen=True, slots=True)
class ForStored:
    """Visit the stored values of the row of an axis with their columns, in ascending order."""

    axis: Axis
    index: str
    value: str
    body: tuple[Statement, ...]


@dataclass(frozen=True, slots=True)
class While:
    """Repeat as long as a test holds; ``before`` computes what the test needs, in each iteration."""

    name: str
    before: tuple[Statement, ...]
    test: Expr
    body: tuple[Statement, ...]
    line: int


@dataclass(frozen=True, slots=True)
class Block:
    """Statements that run once, which `Leave` may end early: an iteration, or an inlined function."""

    name: str
    body: tuple[Statement, ...]


@dataclass(frozen=True, slots=True)
class Leave:
    """Go on after the loop or the block around this statement that has a name."""

    target: str


@dataclass(frozen=True, slots=True)
class If:
    """Two branches; the second may be empty."""

    test: Expr
    body: tuple[Statement, ...]
    orelse: tuple[Statement, ...]


Statement: TypeAlias = Set | SetItem | Combine | For | ForStored | While | Block | Leave | If

Loop: TypeAlias = For | ForStored | While


def name_of(node: Loop | Block) -> str:
    """Return the name by which a statement is left: of a loop with a counter, its counter."""
    return node.index if isinstance(node, ForStored) else node.name


def parts_of(statement: Statement) -> tuple[tuple[Statement, ...], ...]:
    """Return the statements in a statement: of a condition those of its branches."""
    match statement:
        case For(body=inner) | ForStored(body=inner) | Block(body=inner):
            return (inner,)
        case While(before=before, body=inner):
            return (before, inner)
        case If(body=inner, orelse=other):
            return (inner, other)
    return ()


@dataclass(frozen=True, slots=True)
class Argument:
    """An argument of a row function after the row.

    Attributes
    ----------
    name : str
    role : str
        "parameter", "output" (a result that is assigned), the name of the operator of a result, or "other"
        (set with a result whose operator keeps a row).
    dims : tuple of str or int
        Sizes, of what a row has if each has its own; empty for a number.
    type : str
    leader : str
        For "other": the result that decides.
    operator : ReductionOperator, optional
        Of a result that is combined over rows.
    axes : tuple of Axis
        Those along which each row has a value of its own; none if it is the same for all rows.
    """

    name: str
    role: str
    dims: tuple[Size, ...]
    type: str
    leader: str = ""
    operator: ReductionOperator | None = None
    axes: tuple[Axis, ...] = ()

    @property
    def combined_by(self) -> ReductionOperator:
        """The operator of a result that has one."""
        assert self.operator is not None
        return self.operator

    @property
    def keeps_row(self) -> bool:
        """Whether a result is kept with the number of its row, which decides between equal values."""
        return self.operator is not None and self.operator.keeps_row and not self.axes

    @property
    def wide(self) -> bool:
        """Whether real numbers are float64 where those of the rows are float32."""
        return self.operator is not None and self.type == "real" and not self.operator.order

    @property
    def rounds(self) -> bool:
        """Whether its last bits depend on the order in which rows are combined."""
        return self.wide and not self.axes

    @property
    def identity(self) -> float:
        """The result before anything is combined or assigned."""
        real = self.type == "real"
        if self.role == "output":
            return 0
        if self.operator is None:
            return math.nan if real else -1
        return self.operator.identity[0 if real else 1]


@dataclass(frozen=True, slots=True)
class Local:
    """An array of a row: a local one, a result of each row, or a parameter of each row.

    Attributes
    ----------
    dims : tuple of str or int
    type : str
    initial : float
        What all elements are at first.
    wide : bool
        See `Argument`.
    """

    dims: tuple[Size, ...]
    type: str
    initial: float = 0
    wide: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Program:
    """What the front end found in a row function; a key of what is remembered for it.

    Attributes
    ----------
    name : str
    axes : tuple of Axis
        Those of the rows that the function is given.
    width : str
        Name of the size of a row.
    arguments : dict of str to Argument
        In the order of the function; all except the row.
    locals : dict of str to str
        Type of each local number.
    arrays : dict of str to Local
        Those that a row writes: local ones, and results of each row that are not assigned as one number.
    body : tuple of Statement
    squares : tuple of str
        Parameters whose rows' sums of squares it needs, as the parameters ``NAME.squares``.
    """

    name: str
    axes: tuple[Axis, ...]
    width: str
    arguments: dict[str, Argument]
    locals: dict[str, str]
    arrays: dict[str, Local]
    body: tuple[Statement, ...]
    squares: tuple[str, ...]

    def results(self) -> list[Argument]:
        """Return the arguments that are results."""
        return [a for a in self.arguments.values() if a.role != "parameter"]

    def combined(self) -> list[Argument]:
        """Return the results that are one for all rows."""
        return [a for a in self.results() if not a.axes]

    def outputs(self) -> list[Argument]:
        """Return the results of which each row has its own."""
        return [a for a in self.results() if a.axes]

    def row_values(self) -> list[Argument]:
        """Return the parameters of which each row has its own."""
        return [a for a in self.arguments.values() if a.role == "parameter" and a.axes]

    def own_numbers(self) -> dict[str, str]:
        """Return the types of a row's own numbers: locals, and results that are assigned as one number."""
        return {**self.locals, **{a.name: a.type for a in self.outputs() if a.name not in self.arrays}}

    def own_arrays(self) -> dict[str, Local]:
        """Return the arrays of which each row has its own."""
        return {**self.arrays, **{a.name: Local(a.dims, a.type) for a in self.row_values() if a.dims}}

    def dims_of(self, array: str) -> tuple[Size, ...]:
        """Return the sizes of an array that is read, of what a row has if each has its own."""
        if array in self.arrays:
            return self.arrays[array].dims
        name = array.removesuffix(".squares")
        return self.arguments[name].dims[: -1 if name != array else None]

    def axes_of(self, array: str) -> tuple[Axis, ...]:
        """Return the axes along which each row has an array of its own."""
        return self.axes if array in self.arrays else self.arguments[array.removesuffix(".squares")].axes


def expressions(body: tuple[Statement, ...]) -> Iterator[Expr]:
    """Yield every expression of some statements, with those inside others."""
    for statement in statements(body):
        for expr in direct_expressions(statement):
            yield from parts(expr)


def direct_expressions(statement: Statement) -> tuple[Expr, ...]:
    """Return the expressions of a statement, without those of the statements in it."""
    match statement:
        case Set(_, value):
            return (value,)
        case SetItem(index=index, value=value):
            return (*index, value)
        case Combine(_, _, index, value, others, _):
            return (*index, value, *(other for _, other in others))
        case For(_, start, stop, _, _):
            return (start, stop)
        case If(test, _, _) | While(_, _, test, _, _):
            return (test,)
        case _:
            return ()


def statements(body: tuple[Statement, ...]) -> Iterator[Statement]:
    """Yield all statements, with those inside others."""
    for statement in body:
        yield statement
        for inner in parts_of(statement):
            yield from statements(inner)


def targets_left(body: tuple[Statement, ...]) -> set[str]:
    """Return the loops and blocks around some statements that these may leave."""
    found: set[str] = set()
    for statement in body:
        if isinstance(statement, Leave):
            found.add(statement.target)
        for inner in parts_of(statement):
            found |= targets_left(inner)
        if isinstance(statement, (Loop, Block)):
            found.discard(name_of(statement))
    return found


def repeated(
    body: tuple[Statement, ...], iterations: Callable[[Loop], float], times: float = 1
) -> Iterator[tuple[Statement, float]]:
    """Yield all statements, with those inside others, and how often each runs; both branches of a condition.

    ``iterations`` returns how often the body of a loop runs; it is asked for outer loops first.
    """
    for statement in body:
        inside = times * iterations(statement) if isinstance(statement, Loop) else times
        yield (
            statement,
            inside if isinstance(statement, While) else times,
        )  # its test is one of each iteration
        for inner in parts_of(statement):
            yield from repeated(inner, iterations, inside)


def names_in(*exprs: Expr) -> set[str]:
    """Return the locals and counters that expressions read."""
    return {p.name for expr in exprs for p in parts(expr) if isinstance(p, Var)}


def parts(expr: Expr) -> Iterator[Expr]:
    """Yield an expression and all expressions in it."""
    yield expr
    match expr:
        case Apply(args=inner) | Load(index=inner):
            for each in inner:
                yield from parts(each)
        case RowItem(index=one):
            yield from parts(one)
