"""Which locals and expressions may differ from row to row."""

from __future__ import annotations

from bmrm.formulas.language.tree import (
    Expr,
    For,
    ForStored,
    If,
    Load,
    Program,
    RowItem,
    RowNumber,
    Set,
    Statement,
    Value,
    Var,
    parts,
)


def varying_names(program: Program, sparse: bool) -> set[str]:
    """Return the locals that may differ from row to row, or be assigned for some rows only."""
    found: set[str] = {a.name for a in program.results() if a.role == "output"}

    def varies(expr: Expr) -> bool:
        return depends_on_row(program, expr, found)

    def visit(body: tuple[Statement, ...], masked: bool) -> None:
        for statement in body:
            match statement:
                case Set(name, value):
                    if masked or varies(value):
                        found.add(name)
                case For(name, start, stop, _, inner):
                    wide = masked or varies(start) or varies(stop)
                    if wide:
                        found.add(name)
                    visit(inner, wide)
                case ForStored(index, value, inner):
                    found.update((index, value))
                    visit(inner, True)
                case If(test, inner, other):
                    wide = masked or varies(test)
                    visit(inner, wide)
                    visit(other, wide)

    count = -1
    while count < len(found):
        count = len(found)
        visit(program.body, False)
    return found


def depends_on_row(program: Program, expr: Expr, varying: set[str]) -> bool:
    """Return whether an expression may differ from row to row, if these locals may."""
    for part in parts(expr):
        match part:
            case RowItem() | RowNumber():
                return True
            case Var(name, _) if name in varying:
                return True
            case Value(name, _) if program.arguments[name].role == "row value":
                return True
            case Load(array, _, _, _) if array in program.arrays:
                return True
    return False
