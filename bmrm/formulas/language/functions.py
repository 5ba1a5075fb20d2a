"""Functions that a row function may call, as plain Python: they work on numbers and rows of NumPy arrays.

What stands over a function is its row of the table (`function_table.py`).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from bmrm.errors import ReductionError
from bmrm.formulas.language.function_table import function, word
from bmrm.formulas.language.operators import ReductionOperator, row

inf = math.inf
"""Infinity."""


@function(math.exp, np.exp, vector="exp")
def exp(a: Any) -> Any:
    """Return e to the power of a.

    Parameters
    ----------
    a : number or array

    Returns
    -------
    number or array
        Of the type of ``a``.

    Examples
    --------
    >>> float(exp(0.0))
    1.0
    """
    return np.exp(a)


@function(math.log, np.log, vector="log")
def log(a: Any) -> Any:
    """Return the natural logarithm of a: -inf for 0, NaN for negative numbers.

    Parameters
    ----------
    a : number or array

    Returns
    -------
    number or array
        Of the type of ``a``.

    Examples
    --------
    >>> float(log(1.0))
    0.0
    """
    return np.log(a)


@function(math.log2, np.log2)
def log2(a: Any) -> Any:
    """Return the logarithm of a to the base of 2.

    Parameters
    ----------
    a : number or array

    Returns
    -------
    number or array
        Of the type of ``a``.

    Examples
    --------
    >>> float(log2(8.0))
    3.0
    """
    return np.log2(a)


@function(math.log1p, np.log1p)
def log1p(a: Any) -> Any:
    """Return the logarithm of 1 + a, also of small a.

    Parameters
    ----------
    a : number or array

    Returns
    -------
    number or array
        Of the type of ``a``.

    Examples
    --------
    >>> float(log1p(0.0))
    0.0
    """
    return np.log1p(a)


@function(math.expm1, np.expm1)
def expm1(a: Any) -> Any:
    """Return exp(a) - 1, also of small a.

    Parameters
    ----------
    a : number or array

    Returns
    -------
    number or array
        Of the type of ``a``.

    Examples
    --------
    >>> float(expm1(0.0))
    0.0
    """
    return np.expm1(a)


@function(math.sqrt, np.sqrt, intrinsic="sqrt")
def sqrt(a: Any) -> Any:
    """Return the square root of a; NaN for negative numbers.

    Parameters
    ----------
    a : number or array

    Returns
    -------
    number or array
        Of the type of ``a``.

    Examples
    --------
    >>> float(sqrt(9.0))
    3.0
    """
    return np.sqrt(a)


@function(math.sin, np.sin)
def sin(a: Any) -> Any:
    """Return the sine of a, in radians.

    Parameters
    ----------
    a : number or array

    Returns
    -------
    number or array
        Of the type of ``a``.

    Examples
    --------
    >>> float(sin(0.0))
    0.0
    """
    return np.sin(a)


@function(math.cos, np.cos)
def cos(a: Any) -> Any:
    """Return the cosine of a, in radians.

    Parameters
    ----------
    a : number or array

    Returns
    -------
    number or array
        Of the type of ``a``.

    Examples
    --------
    >>> float(cos(0.0))
    1.0
    """
    return np.cos(a)


@function(math.tanh, np.tanh)
def tanh(a: Any) -> Any:
    """Return the hyperbolic tangent of a.

    Parameters
    ----------
    a : number or array

    Returns
    -------
    number or array
        Of the type of ``a``.

    Examples
    --------
    >>> float(tanh(0.0))
    0.0
    """
    return np.tanh(a)


@function(np.floor, intrinsic="floor")
def floor(a: Any) -> Any:
    """Return the largest integer up to a, as a real number.

    Parameters
    ----------
    a : number or array

    Returns
    -------
    number or array
        Of the type of ``a``.

    Examples
    --------
    >>> float(floor(-1.5))
    -2.0
    """
    return np.floor(a)


@function(np.ceil, intrinsic="ceil")
def ceil(a: Any) -> Any:
    """Return the smallest integer from a, as a real number.

    Parameters
    ----------
    a : number or array

    Returns
    -------
    number or array
        Of the type of ``a``.

    Examples
    --------
    >>> float(ceil(-1.5))
    -1.0
    """
    return np.ceil(a)


@function(np.rint, intrinsic="rint")
def rint(a: Any) -> Any:
    """Return the integer nearest to a as a real number; of two the even one.

    Parameters
    ----------
    a : number or array

    Returns
    -------
    number or array
        Of the type of ``a``.

    Examples
    --------
    >>> float(rint(2.5))
    2.0
    """
    return np.rint(a)


@function(math.isnan, np.isnan, result="bool", instruction="fcmp uno {type} {0}, {0}", cuda="is_nan({0})")
def isnan(a: Any) -> Any:
    """Return whether a is NaN.

    Parameters
    ----------
    a : number

    Returns
    -------
    bool

    Examples
    --------
    >>> isnan(inf - inf)
    True
    """
    return bool(a != a)


@function(math.erf)
def erf(a: Any) -> Any:
    """Return the error function of a.

    Parameters
    ----------
    a : number

    Returns
    -------
    number
        Of the type of ``a``.

    Examples
    --------
    >>> float(erf(0.0))
    0.0
    """
    return type(a)(math.erf(a)) if isinstance(a, np.floating) else math.erf(a)


@function(math.lgamma)
def lgamma(a: Any) -> Any:
    """Return the logarithm of the absolute value of the gamma function; infinity at its poles.

    Parameters
    ----------
    a : number

    Returns
    -------
    number
        Of the type of ``a``.

    Examples
    --------
    >>> float(lgamma(1.0))
    0.0
    """
    try:
        found = math.lgamma(a)
    except (ValueError, OverflowError):
        found = math.inf
    return type(a)(found) if isinstance(a, np.floating) else found


@function(math.atan2, np.arctan2)
def atan2(a: Any, b: Any) -> Any:
    """Return the angle of the point (b, a) from the first axis, as `math.atan2` does.

    Parameters
    ----------
    a, b : number or array

    Returns
    -------
    number or array
        In radians, from -pi to pi.

    Examples
    --------
    >>> float(atan2(0.0, 1.0))
    0.0
    """
    return np.arctan2(a, b)


@function(math.fmod, np.fmod)
def fmod(a: Any, b: Any) -> Any:
    """Return the remainder of a divided by b, with the sign of a; NaN if b is 0.

    Parameters
    ----------
    a, b : number or array

    Returns
    -------
    number or array

    Examples
    --------
    >>> float(fmod(-5.0, 3.0))
    -2.0
    """
    return np.fmod(a, b)


@function(math.pow, name="pow")
def _pow(a: Any, b: Any) -> Any:
    return np.power(a, b)


@row(np.logaddexp, init=-inf, name="logsumexp", about="logarithm of a sum of exponentials")
def logaddexp(a: Any, b: Any) -> Any:
    """Return log(exp(a) + exp(b)) without overflow, for results: ``out = logaddexp(out, e)``.

    Parameters
    ----------
    a, b : number

    Returns
    -------
    number

    Examples
    --------
    >>> round(float(logaddexp(1000.0, 1000.0)), 4)
    1000.6931
    """
    equal = a == b  # infinities have no difference
    top, apart = max(a, b), 0.0 if equal else abs(a - b)
    return top + log1p(exp(-apart))


@word
def dot(row: Any, other: Any) -> Any:
    """Return the inner product of the row and a row of a parameter.

    Parameters
    ----------
    row : the row
        Of a row function, dense or sparse.
    other : array, shape (d,)
        A parameter, or a row of one.

    Returns
    -------
    number

    Examples
    --------
    >>> import numpy as np, bmrm
    >>> from bmrm.reductions import dot
    >>> @bmrm.reduction
    ... def squares(row, w: "d", out: float):
    ...     out += dot(row, w) ** 2
    >>> float(squares(np.eye(2), w=np.array([1.0, 2.0])).out)
    5.0
    """
    total = row.zero
    for f, v in row.stored():
        total = total + v * other[f]
    return total


@word
def squared_distance(row: Any, other: Any) -> Any:
    """Return the squared Euclidean distance of the row and a row of a parameter.

    Parameters
    ----------
    row : the row
        Of a row function, dense or sparse.
    other : array, shape (d,)
        A parameter, or a row of one.

    Returns
    -------
    number

    Examples
    --------
    >>> import numpy as np, bmrm
    >>> from bmrm.reductions import squared_distance
    >>> @bmrm.reduction
    ... def spread(row, centre: "d", out: float):
    ...     out += squared_distance(row, centre)
    >>> float(spread(np.eye(2), centre=np.zeros(2)).out)
    2.0
    """
    total = row.zero
    for f in range(len(row)):
        total = total + (row.item(f) - other[f]) ** 2
    return total


@word
def local(*sizes: Any) -> Any:
    """Return a local array of numbers for this row, all 0.

    Parameters
    ----------
    *sizes : int or str
        Numbers, or names of sizes in quotes: ``local("k")``.

    Returns
    -------
    array

    Raises
    ------
    ReductionError
        For a call outside of a row function.

    Examples
    --------
    >>> import numpy as np, bmrm
    >>> from bmrm.reductions import local
    >>> @bmrm.reduction
    ... def twice(row, out: "d"):
    ...     doubled = local("d")
    ...     for f in range(len(row)):
    ...         doubled[f] = 2 * row[f]
    ...     for f in range(len(row)):
    ...         out[f] += doubled[f]
    >>> twice(np.eye(2)).out
    array([2., 2.])
    """
    raise ReductionError("local: found a call outside of a row function, expected it in a reduction")


PUBLIC = {
    "inf",
    *(name for name, found in globals().items() if isinstance(found, ReductionOperator)),
    *(name for name, found in globals().items() if getattr(found, "__module__", "") == __name__),
} - {"_pow"}
"""Names that `bmrm.reductions` has of these."""
