"""Arrays and numbers taken in from outside: the one place for all functions that users call.

What comes out is what the ndarray of the same values gives; else one line names the argument and says what
was found.  NumPy itself converts more than that, without a word: it drops masks, reads text as numbers, makes
NaN of None and numbers of dates, cuts off imaginary parts, takes a generator or a set for one object, and
merges integers that float64 cannot tell apart.
"""

from __future__ import annotations

import operator
import sys
from collections.abc import Iterator, Mapping, MappingView, Sequence, Set
from decimal import Decimal
from numbers import Real
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from bmrm.base.vectors import Vector
from bmrm.errors import BmrmError, DataError, ParameterError

ErrorType = type[BmrmError]

MAX_EXACT_INTEGER = 2**53
"""Integers up to this size are numbers of float64; beyond it some are not."""

_REAL_KINDS = "fiub"  # kinds of dtype that hold real numbers
_SET_TYPES = (tuple, set, frozenset)
_MAX_SHOWN_CHARS = 40  # characters of a value in a message


def array(what: str, given: Any, error: ErrorType = DataError, expected: str = "an array") -> NDArray[Any]:
    """Take in an array of any shape and type.

    Raises
    ------
    error
        For masked values, for what has no order or is read only once (a set, a dict, a generator), for a
        sparse matrix, and for rows of unlike lengths.

    Examples
    --------
    >>> array("groups", ("a", "b")).shape
    (2,)
    >>> array("groups", {"a", "b"})
    Traceback (most recent call last):
    bmrm.errors.DataError: groups: found a set, expected an array
    """
    if type(given) is np.ndarray:
        return given
    if has_masked(given):
        raise error(f"{what}: found masked ones, expected a number in each place")
    if is_sparse(given):
        raise error(f"{what}: found a sparse matrix, expected {expected}")
    if isinstance(given, (Set, Mapping, MappingView, Iterator)):
        raise error(f"{what}: found a {type(given).__name__}, expected {expected}")
    try:
        found = np.asarray(given)
    except MemoryError:
        raise
    except Exception as fault:  # whatever the `__array__` of a foreign class raises
        raise error(f"{what}: {_join_lines(fault)}; expected {expected}") from None
    if found.ndim == 0 and found.dtype == object and not isinstance(given, (Real, Decimal)):
        raise error(f"{what}: found {_describe(given)}, expected {expected}")
    return found


def numbers(
    what: str,
    given: Any,
    error: ErrorType = DataError,
    *,
    exact: bool = False,
    each: str = "row",
    expected: str = "numbers",
) -> Vector:
    """Take in an array of real numbers, of any shape, as float64; NaN and infinities pass.

    Parameters
    ----------
    what : str
        Name of the argument, for messages.
    given : array_like
    error : exception class, default DataError
    exact : bool, default False
        Raise for an integer that float64 cannot hold, rather than take the nearest that it can: for labels,
        which would become the same.
    each : str, default "row"
        What an entry belongs to, for messages.
    expected : str, default "numbers"
        For messages.

    Returns
    -------
    ndarray of float64
        The array itself where it is one of float64: not to be written to.

    Examples
    --------
    >>> numbers("weights", [1, 2])
    array([1., 2.])
    >>> numbers("weights", ["one"])
    Traceback (most recent call last):
    bmrm.errors.DataError: weights: found text, expected numbers
    """
    found = array(what, given, error, expected)
    if found.dtype == np.float64:
        if (
            exact
            and not isinstance(given, np.ndarray)
            and np.abs(found).max(initial=0.0) >= MAX_EXACT_INTEGER
        ):
            found = np.array(given, dtype=object)  # as it was before NumPy rounded it
        else:
            return np.asarray(found)
    if exact:
        _check_exact(what, found, error, each)
    if found.dtype.kind in _REAL_KINDS:
        with np.errstate(over="ignore"):  # an infinity is for the caller to find
            return found.astype(np.float64)
    if found.dtype == object:
        return _objects_to_floats(what, found, error, each)
    if found.dtype.kind == "c":
        raise error(f"{what}: found complex ones; expected {expected}")
    if found.dtype.kind in "UST":
        raise error(f"{what}: found text, expected {expected}")
    raise error(f"{what}: found values of type {found.dtype}, expected {expected}")


def vector(
    what: str,
    given: Any,
    length: int,
    error: ErrorType = DataError,
    *,
    exact: bool = False,
    each: str = "row of X",
) -> Vector:
    """Take in real numbers, one for each of so many rows or features; see `numbers`."""
    found = numbers(what, given, error, exact=exact, each=each.partition(" ")[0])
    if found.shape != (length,):
        raise error(f"{what}: found shape {found.shape}, expected ({length},), one a {each}")
    return found


def check_finite(what: str, values: NDArray[Any], error: ErrorType = DataError, *, each: str = "row") -> None:
    """Raise for the first entry that is not finite.

    Examples
    --------
    >>> check_finite("values", np.array([1.0, np.nan]))
    Traceback (most recent call last):
    bmrm.errors.DataError: values: row 2 has nan, expected a finite number
    """
    finite = np.isfinite(values)
    if not finite.all():
        at = np.unravel_index(int(np.argmin(finite)), values.shape)
        raise error(f"{what}: {_describe_position(at, each)}has {values[at]}, expected a finite number")


def check_not_nan(what: str, values: Vector, error: ErrorType = DataError) -> None:
    """Raise for the first NaN; infinities pass, as where a decision value overflows."""
    unknown = np.isnan(values)
    if unknown.any():
        at = np.unravel_index(int(np.argmax(unknown)), values.shape)
        raise error(f"{what}: {_describe_position(at, 'row')}has nan, expected a number")


def matrix(what: str, given: Any, error: ErrorType = DataError) -> NDArray[Any]:
    """Take in a dense matrix as float32, where it is of that type, or float64; finite or not.

    Columns of a frame may be of unlike types, as long as each is one of numbers or truth values.

    Examples
    --------
    >>> matrix("X", np.array([[1.5, True]], object))
    array([[1.5, 1. ]])
    """
    if type(given) is not np.ndarray:
        if has_masked(given):
            raise error(f"{what}: found masked values, expected a number in each place")
        given = _merge_column_types(given)
    dense = array(what, given, error, "a matrix")
    if dense.ndim != 2 or dense.dtype.kind not in _REAL_KINDS + "O":
        raise error(f"{what}: found shape {dense.shape} of {dense.dtype}, expected a matrix of real numbers")
    if dense.dtype == object:
        return _objects_to_floats(what, dense, error, "row", _column_names(given))
    if dense.dtype in (np.float32, np.float64):
        return np.asarray(dense)
    with np.errstate(over="ignore"):
        return dense.astype(np.float64)


def label_sets(y: Any) -> Vector | list[tuple[Any, ...]]:
    """Take in several labels a row.

    Parameters
    ----------
    y : list of tuples or sets of labels, or a matrix of zeros and ones in any container
        A row that is no sequence is a single label.

    Returns
    -------
    ndarray of float64, shape (rows, K), or list of tuples
        Zeros and ones with a column a label; or the labels of each row, none of them twice.

    Raises
    ------
    DataError
        Among others for lists of zeros and ones that may be either.

    Examples
    --------
    >>> label_sets([(1, 2), (2,), ()])
    [(1, 2), (2,), ()]
    >>> label_sets([[1, 0, 0], [0, 1, 1]])
    array([[1., 0., 0.],
           [0., 1., 1.]])
    """
    if is_sparse(y):
        y = y.toarray()
    if not isinstance(y, (list, tuple)):
        y = array("labels", y)
        if y.ndim > 1:
            return _validate_indicators(y)
        y = list(np.atleast_1d(y))
    elif has_masked(y):
        raise DataError("labels: found masked ones, expected a number in each place")
    return _parse_label_rows(y)


def predictions(values: Any, columns: int | None = None) -> Vector:
    """Take in the values predicted of some rows, one for each or several; infinities may be among them."""
    found = numbers("values", values)
    if found.ndim != 1 + (columns is not None) or (columns is not None and found.shape[1] != columns):
        each = "a number" if columns is None else f"{columns} numbers"
        raise DataError(f"values: found shape {found.shape}, expected {each} for each row")
    check_not_nan("values", found)
    return found


def margins(given: Any, y: Any, columns: bool = False) -> tuple[Vector, Vector]:
    """Take in margins, NaN or not, and coded labels of the same rows; ``columns``: several margins each.

    Examples
    --------
    >>> margins([0.5, 2.0], [-1, 1])
    (array([0.5, 2. ]), array([-1.,  1.]))
    """
    z, labels = numbers("margins", given), numbers("labels", y)
    check_finite("labels", labels)
    wanted = 2 if columns else 1
    if z.ndim != wanted:
        raise DataError(f"margins: found shape {z.shape}, expected {wanted} dimensions")
    if labels.shape not in ((z.shape, z.shape[:1]) if columns else (z.shape,)):
        raise DataError(f"labels: found shape {labels.shape} beside margins of {z.shape}, expected as many")
    return np.ascontiguousarray(z), np.ascontiguousarray(labels)


def number(what: str, given: Any, error: ErrorType = ParameterError) -> float:
    """Take in one real number; NaN passes.

    Examples
    --------
    >>> number("lam", np.float32(0.5))
    0.5
    >>> number("lam", "0.5")
    Traceback (most recent call last):
    bmrm.errors.ParameterError: lam: found '0.5', expected a number
    """
    if isinstance(given, (Real, np.bool_)) or (
        isinstance(given, np.ndarray) and given.shape == () and given.dtype.kind in _REAL_KINDS
    ):
        try:
            if not has_masked(given):
                return float(given)
        except OverflowError:
            pass
    raise error(f"{what}: found {_describe(given)}, expected a number")


def integer(what: str, given: Any, error: ErrorType = ParameterError) -> int:
    """Take in one integer.

    Examples
    --------
    >>> integer("threads", np.int64(4))
    4
    >>> integer("threads", 1.5)
    Traceback (most recent call last):
    bmrm.errors.ParameterError: threads: found 1.5, expected an integer
    """
    try:
        return operator.index(given)
    except TypeError:
        raise error(f"{what}: found {_describe(given)}, expected an integer") from None


def flag(what: str, given: Any, expected: str = "True or False") -> bool:
    """Take in a yes or no: a truth value, 0 or 1; None is no.

    Examples
    --------
    >>> flag("positive", np.True_)
    True
    >>> flag("positive", "no")
    Traceback (most recent call last):
    bmrm.errors.ParameterError: positive: found 'no', expected True or False
    """
    if given is None or isinstance(given, (bool, np.bool_)) or (isinstance(given, int) and given in (0, 1)):
        return bool(given)
    raise ParameterError(f"{what}: found {_describe(given)}, expected {expected}")


def sequence(what: str, given: Any, error: ErrorType = DataError) -> Sequence[Any]:
    """Take in objects of any kind, in their order; text, sets and what is read only once are none.

    Examples
    --------
    >>> sequence("inputs", ["a b", "c"])
    ['a b', 'c']
    """
    odd = isinstance(given, (str, bytes, Set, Mapping, MappingView)) or getattr(given, "ndim", 1) == 0
    if odd or not (hasattr(given, "__len__") and hasattr(given, "__iter__")):
        raise error(f"{what}: found {_describe(given)}, expected a sequence")
    return given  # type: ignore[no-any-return]


def is_sparse(given: Any) -> bool:
    """Whether it is a sparse matrix or array, as far as can be seen without importing scipy."""
    return hasattr(given, "tocsr")


def has_masked(given: Any) -> bool:
    """Whether it is an array with masked values, or a list that has one in it.

    If it is, NumPy's module for them has been imported.
    """
    ma = sys.modules.get("numpy.ma")
    if ma is None:
        return False
    if isinstance(given, ma.MaskedArray):
        return bool(ma.is_masked(given))
    kinds = (list, tuple, ma.MaskedArray)
    return isinstance(given, (list, tuple)) and any(has_masked(x) for x in given if isinstance(x, kinds))


def is_missing(value: Any) -> bool:
    """Whether it stands for no value: None, NaN and NaT, and pandas' NA.

    Examples
    --------
    >>> [is_missing(value) for value in (None, float("nan"), np.datetime64("NaT"), "", 0)]
    [True, True, True, False, False]
    """
    if value is None:
        return True
    try:
        return bool(value != value)
    except (TypeError, ValueError):  # NA is unlike itself, but does not say so
        return True


def _parse_label_rows(y: Sequence[Any]) -> Vector | list[tuple[Any, ...]]:
    """Tell rows of labels from rows of zeros and ones; raise where they may be either."""
    rows = [row if isinstance(row, _SET_TYPES) else _as_list(row) for row in y]
    try:
        once = [tuple(dict.fromkeys(row)) for row in rows]
    except TypeError as fault:  # a label that is a list, say
        raise DataError(f"labels: {fault}; expected numbers") from None
    kinds, lengths = set(map(type, rows)), set(map(len, rows))
    if len(kinds) != 1 or len(lengths) > 1 or lengths == {0} or not kinds <= {tuple, list}:
        return once
    repeated = any(len(each) < len(row) for each, row in zip(once, rows, strict=True))
    truths = all(isinstance(label, (bool, np.bool_)) for row in rows for label in row)
    if kinds == {tuple} and not (repeated or truths):
        return once
    flat = numbers("labels", [label for row in rows for label in row], exact=True, each="label")
    if not np.isin(flat, (0.0, 1.0)).all():
        return once
    if kinds == {list} and (repeated or truths):
        return flat.reshape(len(rows), -1)
    raise DataError(
        "labels: found rows of zeros and ones, which may be labels or say which labels a row has; "
        "expected tuples of labels, none twice in a row, or a matrix of zeros and ones"
    )


def _as_list(row: Any) -> list[Any] | tuple[Any, ...]:
    """Return a row as a list, or as a tuple where it is a single label."""
    if isinstance(row, list):
        return row
    if isinstance(row, (str, bytes)) or np.ndim(row) == 0:
        return (row,)
    return array("labels", row).ravel().tolist()


def _validate_indicators(y: NDArray[Any]) -> Vector:
    """Check a matrix with a column a label that says which labels each row has."""
    found = numbers("labels", y)
    if found.ndim != 2:
        raise DataError(f"labels: found shape {found.shape}, expected a row for each row of X")
    if not np.isin(found, (0, 1)).all():
        raise DataError("labels: found a matrix, expected zeros and ones in it, a column a label")
    return found


def _objects_to_floats(
    what: str, found: NDArray[Any], error: ErrorType, each: str, names: Sequence[Any] | None = None
) -> Vector:
    """Make float64 of Python's numbers, which `astype` would make of text and None as well."""
    flat = found.ravel().tolist()
    if all(map(_is_real_type, set(map(type, flat)))):
        try:
            return found.astype(np.float64)
        except (OverflowError, ValueError):  # a huge integer; a signalling NaN of Decimal
            pass
    place = next(place for place, value in enumerate(flat) if not _is_real(value))
    where = _describe_position(np.unravel_index(place, found.shape), each, names)
    raise error(f"{what}: {where}has {_short_repr(flat[place])}, expected a number")


def _is_real(value: Any) -> bool:
    """Whether it is a number that fits float64."""
    if not _is_real_type(type(value)):
        return False
    try:
        float(value)
    except (OverflowError, ValueError):
        return False
    return True


def _is_real_type(kind: type) -> bool:
    return issubclass(kind, (Real, Decimal, np.bool_))


def _check_exact(what: str, found: NDArray[Any], error: ErrorType, each: str) -> None:
    """Raise for an integer that is no number of float64."""
    if found.dtype.kind in "iu" and found.dtype.itemsize == 8:
        large = np.flatnonzero(found.ravel() > MAX_EXACT_INTEGER)
        if found.dtype.kind == "i":
            large = np.union1d(large, np.flatnonzero(found.ravel() < -MAX_EXACT_INTEGER))
    elif found.dtype == object:
        large = np.arange(found.size)
    else:
        return
    values = found.ravel()[large].tolist()
    for place, value in zip(large.tolist(), values, strict=True):
        if isinstance(value, (int, np.integer)) and not _is_exact(int(value)):
            where = _describe_position(np.unravel_index(place, found.shape), each)
            raise error(f"{what}: {where}has {_short_repr(value)}, expected an integer that float64 can hold")


def _is_exact(value: int) -> bool:
    try:
        return abs(value) <= MAX_EXACT_INTEGER or int(float(value)) == value
    except OverflowError:
        return False


def _merge_column_types(given: Any) -> Any:
    """Return a pandas frame whose columns are of several types of numbers as an array of float64.

    NumPy would make an object of each number, of a hundred bytes in all.
    """
    if not (hasattr(given, "iloc") and hasattr(given, "dtypes") and hasattr(given, "to_numpy")):
        return given
    types = list(np.atleast_1d(np.asarray(given.dtypes, dtype=object)))
    if all(isinstance(kind, np.dtype) for kind in types) and len(set(types)) <= 1:
        return given
    if not all(getattr(kind, "kind", "O") in _REAL_KINDS for kind in types):
        return given
    return given.to_numpy(dtype=np.float64, na_value=np.nan)


def _column_names(given: Any) -> Sequence[Any] | None:
    """Names of a frame's columns, where it has some."""
    names = getattr(given, "columns", None)
    return None if names is None or callable(names) else list(names)


def _describe_position(at: Sequence[Any], each: str, names: Sequence[Any] | None = None) -> str:
    """Name a place in an array, counted from 1."""
    if not len(at):
        return ""
    if len(at) == 1:
        return f"{each} {int(at[0]) + 1} "
    column = int(at[1])
    name = f"column {column + 1}" if names is None else f"column {_short_repr(names[column])}"
    return f"row {int(at[0]) + 1}, {name} "


def _describe(given: Any) -> str:
    """Say what something is where it is no array: its value if that is short, else its type."""
    if given is None or isinstance(given, (str, bytes, Real, Decimal, np.generic)):
        return _short_repr(given)
    if isinstance(given, np.ndarray):
        return f"an array of shape {given.shape}"
    if is_sparse(given):
        return "a sparse matrix"
    name = type(given).__name__
    return f"{'an' if name[:1].lower() in 'aeiou' else 'a'} {name}"


def _short_repr(value: Any) -> str:
    """Return a value for a message: on one line, cut short."""
    if isinstance(value, np.generic):
        value = value.item()
    text = " ".join(repr(value).split())
    return text if len(text) <= _MAX_SHOWN_CHARS else f"{text[:_MAX_SHOWN_CHARS]}..."


def _join_lines(fault: Exception) -> str:
    return " ".join(str(fault).split()) or type(fault).__name__


def refuse(what: str, given: Any, expected: str, error: ErrorType = ParameterError) -> NoReturn:
    """Raise for an argument that is none of what is expected.

    Examples
    --------
    >>> refuse("loss", ["hinge"], "a name")
    Traceback (most recent call last):
    bmrm.errors.ParameterError: loss: found a list, expected a name
    """
    raise error(f"{what}: found {_describe(given)}, expected {expected}")
