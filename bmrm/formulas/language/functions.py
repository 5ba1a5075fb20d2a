"""Functions that a row function may call, as plain Python: they work on numbers and rows of NumPy arrays.

`bmrm.formulas.language.front` knows them by identity, so that a row function may use them under any name;
those of `math` and NumPy with the same meaning are known too.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from bmrm.errors import ReductionError

inf = math.inf
"""Infinity."""


def exp(a: Any) -> Any:
    """Return e to the power of a."""
    return np.exp(a)


def log(a: Any) -> Any:
    """Return the natural logarithm of a: -inf for 0, NaN for negative numbers."""
    return np.log(a)


def log2(a: Any) -> Any:
    """Return the logarithm of a to the base of 2."""
    return np.log2(a)


def log1p(a: Any) -> Any:
    """Return the logarithm of 1 + a."""
    return np.log1p(a)


def expm1(a: Any) -> Any:
    """Return exp(a) - 1."""
    return np.expm1(a)


def sqrt(a: Any) -> Any:
    """Return the square root of a; NaN for negative numbers."""
    return np.sqrt(a)


def sin(a: Any) -> Any:
    """Return the sine of a, in radians."""
    return np.sin(a)


def cos(a: Any) -> Any:
    """Return the cosine of a, in radians."""
    return np.cos(a)


def tanh(a: Any) -> Any:
    """Return the hyperbolic tangent of a."""
    return np.tanh(a)


def floor(a: Any) -> Any:
    """Return the largest whole number up to a, as a real number."""
    return np.floor(a)


def ceil(a: Any) -> Any:
    """Return the smallest whole number from a, as a real number."""
    return np.ceil(a)


def isnan(a: Any) -> Any:
    """Return whether a is NaN."""
    return bool(a != a)


def erf(a: Any) -> Any:
    """Return the error function of a."""
    return type(a)(math.erf(a)) if isinstance(a, np.floating) else math.erf(a)


def lgamma(a: Any) -> Any:
    """Return the logarithm of the absolute value of the gamma function; infinity at its poles."""
    try:
        found = math.lgamma(a)
    except (ValueError, OverflowError):
        found = math.inf
    return type(a)(found) if isinstance(a, np.floating) else found


def dot(row: Any, other: Any) -> Any:
    """Return the inner product of the row and a row of a parameter."""
    total = row.zero
    for f, v in row.stored():
        total = total + v * other[f]
    return total


def squared_distance(row: Any, other: Any) -> Any:
    """Return the squared Euclidean distance of the row and a row of a parameter."""
    total = row.zero
    for f in range(len(row)):
        total = total + (row.item(f) - other[f]) ** 2
    return total


def local(*sizes: Any) -> Any:
    """Return an array of numbers of this row's own, all 0.

    A size is a number, or the name of a size in quotes: ``local("k")``.
    """
    raise ReductionError("local: found a call outside of a row function, expected it in a reduction")


MATH: dict[str, Callable[..., Any]] = {
    "exp": exp,
    "log": log,
    "log2": log2,
    "log1p": log1p,
    "expm1": expm1,
    "sqrt": sqrt,
    "sin": sin,
    "cos": cos,
    "tanh": tanh,
    "floor": floor,
    "ceil": ceil,
    "isnan": isnan,
    "erf": erf,
    "lgamma": lgamma,
}
"""Functions of one real number."""


def _known_functions() -> dict[int, str]:
    """Map the identity of each function that a row function may call to its name here."""
    own: dict[str, Callable[..., Any]] = {
        **MATH,
        "dot": dot,
        "squared_distance": squared_distance,
        "local": local,
    }
    found = {id(function): name for name, function in own.items()}
    foreign = (
        "exp", "log", "log2", "log1p", "expm1", "sqrt", "sin", "cos", "tanh", "isnan", "erf", "lgamma",
    )  # fmt: skip
    for name in foreign:
        found[id(getattr(math, name))] = name
        if hasattr(np, name):
            found[id(getattr(np, name))] = name
    # `math.floor` gives a whole number, NumPy's a real one.
    found |= {id(np.floor): "floor", id(np.ceil): "ceil", id(math.fabs): "abs", id(np.abs): "abs"}
    found |= {id(math.floor): "whole floor", id(math.ceil): "whole ceil", id(math.pow): "pow"}
    found |= {id(function): function.__name__ for function in (abs, min, max, int, float, bool, len, range)}
    return found


KNOWN = _known_functions()
