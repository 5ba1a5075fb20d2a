"""CUDA text of the operators that combine results: classes that ``operators.cuh`` lacks, and identities."""

from __future__ import annotations

import math
from collections.abc import Iterable

from bmrm.formulas.language.operators import GREATEST_INT, LEAST_INT, Operator
from bmrm.formulas.language.tree import Argument


def print_operators(operators: Iterable[Operator]) -> list[str]:
    """Return the text of the classes of some operators, each once, but for those of ``operators.cuh``."""
    return list(dict.fromkeys(_class_text(each) for each in operators if each.cuda or each.cuda_whole))


def _class_text(operator: Operator) -> str:
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
