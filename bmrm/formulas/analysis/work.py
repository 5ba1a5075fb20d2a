"""The work of statements: how much of what they do, counted by walking the tree."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from bmrm.formulas.language.function_table import calls_of
from bmrm.formulas.language.tree import (
    Apply,
    Combine,
    For,
    ForStored,
    If,
    Statement,
    direct_expressions,
    parts,
)


@dataclass
class Work:
    """Numbers of statements, arithmetic operations, calls of library functions, and updates of results."""

    statements: float = 0
    operations: float = 0
    calls: float = 0
    updates: float = 0


def count_work(body: tuple[Statement, ...], iterations: Callable[[For | ForStored], float]) -> Work:
    """Count the work of statements, both branches of a condition among them.

    ``iterations`` returns how often the body of a loop runs; it is asked for outer loops first.
    """
    work = Work()

    def visit(body: tuple[Statement, ...], times: float) -> None:
        for statement in body:
            work.statements += times
            for expr in direct_expressions(statement):
                applied = [calls_of(part.op) for part in parts(expr) if isinstance(part, Apply)]
                work.calls += times * sum(applied)
                work.operations += times * applied.count(0)
            match statement:
                case Combine():
                    work.updates += times
                case For(body=inner) | ForStored(body=inner):
                    visit(inner, times * iterations(statement))
                case If(body=inner, orelse=other):
                    visit(inner, times)
                    visit(other, times)

    visit(body, 1)
    return work
