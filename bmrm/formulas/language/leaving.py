"""How statements end that `break`, `continue` or `return` may end early.

Each of these leaves a loop or a block around it (`tree.Leave`). Most iterations, and most functions, need no
block: what follows ``if c: continue`` may as well stand in the other branch.
"""

from __future__ import annotations

from bmrm.formulas.language.tree import Block, Const, If, Leave, Statement, While, targets_left


def ends(body: tuple[Statement, ...]) -> bool:
    """Return whether nothing that follows some statements is ever reached."""
    match body[-1:]:
        case (Leave(),):
            return True
        case (If(_, inner, other),):
            return ends(inner) and ends(other)
        case (Block(name, inner),):
            return ends(inner) and name not in targets_left(inner)
        case (While(name, _, test, inner),):
            return is_true(test) and name not in targets_left(inner)
    return False


def is_true(test: object) -> bool:
    """Return whether a test is a constant that is true."""
    return isinstance(test, Const) and bool(test.value)


def enclosed(name: str, body: tuple[Statement, ...]) -> tuple[Statement, ...]:
    """Return statements that may leave a block of a name: in the block, unless branches suffice."""
    moved = _moved(body, name)
    return (Block(name, moved),) if name in targets_left(moved) else moved


def _moved(body: tuple[Statement, ...], name: str) -> tuple[Statement, ...]:
    """Move what follows a branch that leaves into the other branch."""
    for place, statement in enumerate(body):
        before, rest = body[:place], body[place + 1 :]
        match statement:
            case Leave(target) if target == name:
                return before
            case If(test, inner, other) if _leaves(inner, name) or not rest:
                return (*before, If(test, _moved(inner, name), _moved((*other, *rest), name)))
            case If(test, inner, other) if _leaves(other, name):
                return (*before, If(test, _moved((*inner, *rest), name), _moved(other, name)))
    return body


def _leaves(body: tuple[Statement, ...], name: str) -> bool:
    """Return whether statements always end by leaving a block."""
    match body[-1:]:
        case (Leave(target),):
            return target == name
        case (If(_, inner, other),):
            return _leaves(inner, name) and _leaves(other, name)
    return False
