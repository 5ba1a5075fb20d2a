"""Results of two parts combined, an array with another."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bmrm.formulas.cpu import native
from bmrm.formulas.cpu.operator_text import print_merge
from bmrm.formulas.language.operators import FunctionOperator, ReductionOperator
from bmrm.formulas.language.plain import plain_operator

MAX_OPERATORS = 64
"""Number of operators whose compiled functions are kept."""


def combine_arrays(operator: ReductionOperator, old: NDArray[Any], new: NDArray[Any]) -> None:
    """Combine new values into those that are there; both arrays are contiguous."""
    with np.errstate(all="ignore"):
        if not isinstance(operator, FunctionOperator):
            old[...] = operator.combine(old, new)
        elif native.can_compile():
            table = np.array([old.ctypes.data, new.ctypes.data, old.size], np.int64)
            _compiled(operator)(table.ctypes.data)
        else:
            old[...] = np.frompyfunc(plain_operator(operator), 2, 1)(old, new)


@functools.lru_cache(MAX_OPERATORS)
def _compiled(operator: FunctionOperator) -> Any:
    return native.compile_text(print_merge(operator))
