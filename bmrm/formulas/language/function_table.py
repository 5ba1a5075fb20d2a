"""The table of the functions that a row function may call: what a row of it says.

A row stands over the Python function that computes the same (`functions.py`), so that name, text for users
and meaning are in one place. The front end knows functions by identity: a row function may use them under any
name, and those of `math` and NumPy with the same meaning. What has rules of its own in the front end, as
`min` of whole and of real numbers, is a word of the language.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True)
class Function:
    """A function of real numbers.

    Attributes
    ----------
    plain : function
        Computes it for numbers of the type of the rows.
    arguments : int
    result : {"real", "bool"}
    library : str
        Its name in the C library, which compiled code calls lane by lane; that for float32 has an f after it.
    intrinsic : str
        LLVM's name, if LLVM computes it for numbers and vectors.
    instruction : str
        LLVM's text, if one instruction computes it: of ``{type}``, and the arguments ``{0}``, ``{1}``.
    vector : str
        The method of `bmrm.formulas.cpu.vector_math.VectorMath` that computes it for vectors.
    cuda : str
        CUDA's text of the arguments ``{0}``, ``{1}``; ``{f}`` is an f for float32.
    """

    plain: Callable[..., Any]
    arguments: int
    result: str
    library: str
    intrinsic: str
    instruction: str
    vector: str
    cuda: str

    @property
    def calls(self) -> int:
        """How many calls of the C library it costs; what calls none costs as much as an operator."""
        return 1 if self.library else 0


FUNCTIONS: dict[str, Function] = {}
"""The functions by name."""

KNOWN: dict[int, str] = {
    **{id(each): each.__name__ for each in (abs, min, max, int, float, bool, len, range)},
    **dict.fromkeys((id(math.fabs), id(np.abs)), "abs"),
    # `math.floor` gives an integer, NumPy's a real one.
    id(math.floor): "whole floor",
    id(math.ceil): "whole ceil",
}
"""Maps the identity of each function that a row function may call to its name."""


def function(
    *same: Callable[..., Any],
    name: str = "",
    result: str = "real",
    library: str = "",
    intrinsic: str = "",
    instruction: str = "",
    vector: str = "",
    cuda: str = "",
) -> Callable[[F], F]:
    """Add a row to the table; ``same`` are the functions of other modules with the same meaning.

    The others are fields of `Function`. Without them it is a function of the C library, which CUDA has too.
    """

    def add(plain: F) -> F:
        word = name or plain.__name__
        count = plain.__code__.co_argcount
        in_c = "" if intrinsic or instruction else library or word
        arguments = ", ".join(f"{{{each}}}" for each in range(count))
        text = cuda or f"{in_c or intrinsic}{{f}}({arguments})"
        FUNCTIONS[word] = Function(plain, count, result, in_c, intrinsic, instruction, vector, text)
        KNOWN.update(dict.fromkeys(map(id, (plain, *same)), word))
        return plain

    return add


def word(plain: F) -> F:
    """Make a function a word of the language, for which the front end has rules."""
    KNOWN[id(plain)] = plain.__name__
    return plain


def calls_of(op: str) -> int:
    """Return how many calls of the C library an operator or a function of the tree costs."""
    return FUNCTIONS[op].calls if op in FUNCTIONS else 0


def callable_names() -> str:
    """Return the names of all that a row function may call, for messages."""
    return ", ".join(sorted({each for each in KNOWN.values() if " " not in each} - {"range"}))
