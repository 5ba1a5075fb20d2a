"""CUDA text of the operators that combine results: classes that ``operators.cuh`` lacks, and identities."""

from __future__ import annotations

import math
from collections.abc import Callable

from bmrm.formulas.language.operators import GREATEST_INT, LEAST_INT, FunctionOperator, ReductionOperator
from bmrm.formulas.language.tree import Argument, Program


def print_operators(program: Program, print_function: Callable[[FunctionOperator], list[str]]) -> list[str]:
    """Return the text of the classes of the operators of a program, each once.

    ``print_function`` prints the body of one that is a function of ``a`` and ``b``.
    """
    found: dict[str, None] = {}
    for result in program.results():
        operator = result.operator
        if isinstance(operator, FunctionOperator):
            kind = "double" if operator.type == "real" else "whole"
            head = [
                f"struct {struct_of(program, operator)} {{",
                f"  static __device__ {kind} of({kind} a, {kind} b) {{",
            ]
            body = [f"    {line}" for line in print_function(operator)]
            found["\n".join([*head, *body, "  }", "};"])] = None
        elif operator is not None and (operator.cuda or operator.cuda_whole):
            found[_class_text(operator)] = None
    return list(found)


def struct_of(program: Program, operator: ReductionOperator) -> str:
    """Return the name of the class of an operator of a program."""
    if not isinstance(operator, FunctionOperator):
        return operator.struct
    own = [each.operator for each in program.results() if isinstance(each.operator, FunctionOperator)]
    return f"Own{own.index(operator)}"


def _class_text(operator: ReductionOperator) -> str:
    of = []
    if operator.cuda:
        of.append(f"template <class A> static __device__ A of(A a, A b) {{ return {operator.cuda}; }}")
    if operator.cuda_whole:
        of.append(f"static __device__ whole of(whole a, whole b) {{ return {operator.cuda_whole}; }}")
    inner = f" {of[0]} " if len(of) == 1 else "".join(f"\n  {each}" for each in of) + "\n"
    return f"struct {operator.struct} {{{inner}}};"


def identity_text(result: Argument) -> str:
    """Return the value of a result of no rows, as text of the type in which it is combined."""
    value = result.identity
    if result.type != "real":
        return {GREATEST_INT: "GREATEST_WHOLE", LEAST_INT: "LEAST_WHOLE"}.get(int(value), str(int(value)))
    if math.isnan(value):
        return "NOT_A_NUMBER"
    if math.isinf(value):
        return "INF" if value > 0 else "-INF"
    return "0" if value == 0 else float(value).hex()
