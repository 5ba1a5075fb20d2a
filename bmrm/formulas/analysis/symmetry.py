"""Whether what a statistic adds to shared results stays the same if its two points are exchanged.

Shown on the tree: an expression is even if it stays the same, and odd if it becomes its negative, as
``x[f] - y[f]``. Numbers of the function have a parity too, which is found by repetition: all are even and
odd at first, and lose what some assignment contradicts. Sums and products are compared whatever the order of
their terms, so what is shown holds up to rounding. Of other functions nothing is shown: the author decides.
"""

from __future__ import annotations

from collections.abc import Iterator

from bmrm.formulas.language.tree import (
    Apply,
    Combine,
    Const,
    Expr,
    For,
    If,
    Leave,
    Load,
    Program,
    RowItem,
    RowNumber,
    Set,
    SizeOf,
    Statement,
    Value,
    Var,
    While,
    direct_expressions,
    parts,
    parts_of,
    statements,
)

EVEN, ODD = frozenset({1}), frozenset({-1})
BOTH, NEITHER = EVEN | ODD, frozenset[int]()

COMMUTATIVE = ("add", "mul", "min", "max", "eq", "ne", "and", "or", "bitand", "bitor", "bitxor")
ODD_FUNCTIONS = ("neg", "real", "int")
NOTHING = Const(0, "int")
TURNED = {"gt": "lt", "ge": "le"}


def find_asymmetry(program: Program, y: str, counter: str) -> int | None:
    """Return a line whose shared results are not known to be symmetric in x and y; None if all are.

    Parameters
    ----------
    program : Program
        A lowered statistic.
    y : str
        Name of the parameter with the second points.
    counter : str
        Name of the loop over them in the text.
    """
    loop = next(
        s for s in statements(program.body) if isinstance(s, For) and s.name.startswith(f"{counter}.")
    )
    return _Exchange(program, y, loop).first_failure()


class _Exchange:
    """Finds the parities of the numbers in the body of the loop over y."""

    def __init__(self, program: Program, y: str, loop: For) -> None:
        self.x, self.y, self.at, self.body = program.axes[0], y, loop.name, loop.body
        assigned = [s for s in statements(loop.body) if isinstance(s, Set)]
        self.parity = {s.name: BOTH for s in assigned}
        names = [s.name for s in assigned]
        self.once = {s.name: s.value for s in assigned if names.count(s.name) == 1}
        before = None
        while before != self.parity:
            before = dict(self.parity)
            for statement, is_even in self.visit(self.body, True):
                if isinstance(statement, Set):
                    found = self.of(statement.value) if is_even else NEITHER
                    self.parity[statement.name] &= found

    def first_failure(self) -> int | None:
        for statement, is_even in self.visit(self.body, True):
            if isinstance(statement, Leave) and not is_even:
                return next(s.line for s in statements(self.body) if isinstance(s, Combine))
            if isinstance(statement, Combine):
                said = (*statement.index, statement.value, *(value for _, value in statement.others))
                if not (is_even and all(1 in self.of(each) for each in said)):
                    return statement.line
        return None

    def visit(self, body: tuple[Statement, ...], is_even: bool) -> Iterator[tuple[Statement, bool]]:
        """Yield statements, and whether exchanged points come to them in the same way."""
        for statement in body:
            yield statement, is_even
            inside = is_even
            if isinstance(statement, (If, For, While)):
                inside = is_even and all(1 in self.of(each) for each in direct_expressions(statement))
            for inner in parts_of(statement):
                yield from self.visit(inner, inside)

    def of(self, expr: Expr) -> frozenset[int]:
        """Return the parities that an expression has."""
        if isinstance(expr, Const):
            return BOTH if expr.value == 0 else EVEN
        if isinstance(expr, Var) and self.parity.get(expr.name):
            return self.parity[expr.name]
        if self.text(expr, False) == self.text(expr, True):
            return EVEN
        if not isinstance(expr, Apply):
            return NEITHER
        if expr.op == "sub" and self.are_exchanged(*expr.args):
            return ODD
        found = [self.of(each) for each in expr.args]
        match expr.op:
            case "add" | "sub":
                return found[0] & found[1]
            case "mul" | "div":
                return frozenset(a * b for a in found[0] for b in found[1])
            case "select" if 1 in found[0]:
                return found[1] & found[2]
            case op if op in ODD_FUNCTIONS:
                return found[0]
            case "abs" if found[0]:
                return EVEN
        return EVEN if all(1 in each for each in found) else NEITHER

    def are_exchanged(self, a: Expr, b: Expr) -> bool:
        return self.text(a, True) == self.text(b, False) and self.text(a, False) == self.text(b, True)

    def text(self, expr: Expr, exchanged: bool) -> str:
        """Return an expression in a normal form; exchanged, with x for y."""
        one, other = ("y", "x") if exchanged else ("x", "y")
        match expr:
            case RowItem(index=index):
                return f"{one}[{self.text(index, exchanged)}]"
            case Load(array, (first, index)) if array == self.y and self.is_at(first):
                return f"{other}[{self.text(index, exchanged)}]"
            case Value(name) if name.startswith(f"{self.x}."):
                return f"{one}.{name.removeprefix(f'{self.x}.')}"
            case Load(array, (first,)) if array.startswith(f"{self.y}.") and self.is_at(first):
                return f"{other}.{array.removeprefix(f'{self.y}.')}"
            case RowNumber():
                return f"{one}.index"
            case Var(name):
                return f"{other}.index" if self.is_at(expr) else self.name_text(name, exchanged)
            case Const(value) | SizeOf(value):
                return repr(value)
            case Value(name):
                return name
            case Load(array, index):
                return f"{array}[{', '.join(self.text(each, exchanged) for each in index)}]"
            case Apply(op, args):
                terms = self.terms(expr) if op in ("add", "mul") else list(args)
                said = [self.text(each, exchanged) for each in terms]
                if op in TURNED:
                    op, said = TURNED[op], said[::-1]
                return f"{op}({', '.join(sorted(said) if op in COMMUTATIVE else said)})"
        raise AssertionError(expr)

    def is_at(self, expr: Expr) -> bool:
        """Return whether an expression is the index of y, also under a name of its own."""
        return isinstance(expr, Var) and (
            expr.name == self.at or self.is_at(self.once.get(expr.name, NOTHING))
        )

    def name_text(self, name: str, exchanged: bool) -> str:
        parity = self.parity.get(name, EVEN)
        if 1 in parity:
            return name
        if -1 in parity:
            return f"neg({name})" if exchanged else name
        value = self.once.get(name)
        if value is not None and self.stays(value):
            return self.text(value, exchanged)
        return f"{name} exchanged" if exchanged else name

    def stays(self, value: Expr) -> bool:
        """Return whether what an expression reads is assigned once, so that it may stand for its name."""
        names = {part.name for part in parts(value) if isinstance(part, Var)}
        return all(name in self.once or name not in self.parity for name in names)

    def terms(self, expr: Apply) -> list[Expr]:
        """Return the terms of a sum or the factors of a product."""
        found: list[Expr] = []
        for each in expr.args:
            same = isinstance(each, Apply) and (each.op, each.type) == (expr.op, expr.type)
            found += self.terms(each) if same and isinstance(each, Apply) else [each]
        return found
