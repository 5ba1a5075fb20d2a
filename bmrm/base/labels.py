"""Labels of rows: one class per row, of any type that sorts, or a set of labels per row.

Classes may be numbers, booleans or text, and keep their type: models predict what was in ``y``. NumPy alone
would merge labels that differ: it makes text of everything in a list that has one text, and floats of
integers that float64 cannot tell apart. Bytes are refused, because a model file cannot hold them; so are
missing labels, and text among numbers.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bmrm.base.arguments import (
    MAX_EXACT_INTEGER,
    array,
    check_finite,
    describe_position,
    has_masked,
    is_missing,
    is_sparse,
    numbers,
    short_repr,
)
from bmrm.base.distinct import distinct_values
from bmrm.base.host_memory import require_memory
from bmrm.base.notices import warn
from bmrm.base.sparse_tensors import as_scipy
from bmrm.base.vectors import Vector
from bmrm.errors import DataConversionWarning, DataError

Labels = NDArray[Any]
"""Labels as an array of floats, integers, booleans or text."""

_EXPECTED = "numbers or text"
_INTEGER_TYPES = (np.int64, np.uint64)
_SET_TYPES = (tuple, set, frozenset)  # a row of one of these types lists the labels of the row


def label_array(what: str, given: Any, *, each: str = "row") -> Labels:
    """Convert labels of any shape to an array of floats, integers, booleans or text; NaN is allowed.

    - ``each``: what a label belongs to, for messages

    Raise `DataError` for labels of other types, missing labels, text among numbers, and integers among floats
    that float64 cannot hold. An array of one of these types is returned as it is, so do not write to the
    result.

    Examples
    --------
    >>> label_array("labels", ["yes", "no"])
    array(['yes', 'no'], dtype='<U3')
    >>> label_array("labels", ["yes", 1])
    Traceback (most recent call last):
    bmrm.errors.DataError: labels: row 2 has 1, expected text like the others
    """
    found = array(what, given, DataError, _EXPECTED)
    kind, is_array = found.dtype.kind, isinstance(given, np.ndarray)
    if kind == "S" or (kind == "O" and any(isinstance(label, bytes) for label in found.ravel().tolist())):
        raise DataError(f"{what}: found bytes, expected {_EXPECTED}")
    if kind == "U" and isinstance(given, Sequence) and not isinstance(given, str):
        _check_alike(what, np.array(given, object), each)
    if kind in "iub" or (kind == "U" and found.ndim):
        return found.astype(found.dtype.newbyteorder("="), copy=False)
    if kind == "f" and found.dtype.itemsize <= np.dtype(np.float64).itemsize and (is_array or not found.size):
        return found.astype(found.dtype.newbyteorder("="), copy=False)
    if kind == "f" and not is_array and np.abs(found).max(initial=0.0) < MAX_EXACT_INTEGER:
        return found.astype(found.dtype.newbyteorder("="), copy=False)
    if kind == "f" and not is_array and found.dtype == np.float64:
        found, kind = np.array(given, dtype=object), "O"  # the integers, before NumPy rounds them
    if kind in "OT" and found.ndim:
        return _of_objects(what, found.astype(object), each)
    return numbers(what, given, exact=True, each=each, expected=_EXPECTED)


def _of_objects(what: str, found: NDArray[Any], each: str) -> Labels:
    """Convert an array of Python objects to one of a single type."""
    flat = found.ravel().tolist()
    types = set(map(type, flat))
    if any(issubclass(kind, str) for kind in types):
        if types != {str}:
            _check_alike(what, found, each)
        return np.array(flat, dtype=str).reshape(found.shape)
    if types and all(issubclass(kind, (bool, np.bool_)) for kind in types):
        return found.astype(bool)
    if types and all(issubclass(kind, (int, np.integer, np.bool_)) for kind in types):
        low, high = int(min(flat)), int(max(flat))
        for dtype in _INTEGER_TYPES:
            if np.iinfo(dtype).min <= low and high <= np.iinfo(dtype).max:
                return found.astype(dtype)
    return numbers(what, found, exact=True, each=each, expected=_EXPECTED)


def _check_alike(what: str, found: NDArray[Any], each: str) -> None:
    """Raise unless all labels are text; missing ones are reported first."""
    flat = found.ravel().tolist()
    for is_wrong, expected in ((is_missing, "a label"), (_is_other, "text like the others")):
        for place, label in enumerate(flat):
            if is_wrong(label):
                where = describe_position(np.unravel_index(place, found.shape), each)
                raise DataError(f"{what}: {where}has {short_repr(label)}, expected {expected}")


def _is_other(label: object) -> bool:
    return not isinstance(label, str)


def label_vector(what: str, given: Any, length: int, *, each: str = "row of X") -> Labels:
    """Convert ``length`` labels of classes, one per row; see `label_array`. NaN and infinities are errors.

    Examples
    --------
    >>> label_vector("labels", [3, 5, 3], 3)
    array([3, 5, 3])
    """
    found = take_column(what, label_array(what, given))
    if found.shape != (length,):
        raise DataError(f"{what}: found shape {found.shape}, expected ({length},), one per {each}")
    if found.dtype.kind == "f":
        check_finite(what, found)
    return found


def take_column(what: str, found: NDArray[Any]) -> NDArray[Any]:
    """Return the only column of a matrix as a vector, with a warning; return other arrays unchanged."""
    if found.ndim != 2 or found.shape[1] != 1:
        return found
    text = f"{what}: found shape {found.shape}, expected ({len(found)},); the column is taken as a vector"
    warn(text, DataConversionWarning)
    return found[:, 0]


def spread_texts(names: Sequence[str], codes: NDArray[Any], whose: str) -> NDArray[np.str_]:
    """Return the name of each code; every element takes the memory of the longest name.

    - ``whose``: what the labels belong to, for messages

    Raise `HostMemoryError` before memory runs out.

    Examples
    --------
    >>> spread_texts(["spam", "ham"], np.array([1, 0, 1]), "data.svm")
    array(['ham', 'spam', 'ham'], dtype='<U4')
    """
    known = np.array(names, dtype=str)
    require_memory(known.dtype.itemsize * len(codes), f"{len(codes)} labels of {whose}")
    return known[codes.astype(np.intp)]


def label_text(label: Any) -> str:
    """Return a label for messages.

    Examples
    --------
    >>> label_text(2.0), label_text(np.int64(2**53 + 1)), label_text("a")
    ('2', '9007199254740993', "'a'")
    """
    return str(label).removesuffix(".0") if isinstance(label, (float, np.floating)) else short_repr(label)


def distinct(labels: Iterable[Labels]) -> Labels:
    """Return the distinct labels of all arrays, ascending, in a type that holds all of them.

    Raise `DataError` if some arrays have text and others numbers, or integers that no one type holds.

    Examples
    --------
    >>> distinct([np.array([5, 3], np.int8), np.array([3, 400])])
    array([  3,   5, 400])
    """
    found = list(labels)
    if len({each.dtype.kind == "U" for each in found}) > 1:
        raise DataError("labels: found text on one rank and numbers on another")
    if not found:
        return np.empty(0)
    common = np.result_type(*found)
    if common.kind == "f" and all(each.dtype.kind in "iub" for each in found):
        return np.unique(label_array("labels", [label for each in found for label in each.tolist()]))
    return distinct_values(np.concatenate(found))


def append(labels: Labels, more: Labels) -> Labels:
    """Join labels in a type that holds both exactly; raise for text and numbers together.

    Examples
    --------
    >>> append(np.array([1], np.uint8), np.array([-1]))
    array([ 1, -1])
    """
    return np.concatenate([comparable(labels, more), more]) if more.size else labels


def comparable(labels: Labels, classes: Labels) -> Labels:
    """Return labels in a type whose comparison with the classes is exact; raise for text among numbers.

    Examples
    --------
    >>> comparable(np.array([1.0, 2.0]), np.array(["a", "b"]))
    Traceback (most recent call last):
    bmrm.errors.DataError: labels: found numbers, expected text like the classes
    """
    kinds = labels.dtype.kind, classes.dtype.kind
    if (kinds[0] == "U") != (kinds[1] == "U") and labels.size:
        found, expected = ("text", "numbers") if kinds[0] == "U" else ("numbers", "text")
        raise DataError(f"labels: found {found}, expected {expected} like the classes")
    if kinds in (("i", "u"), ("u", "i")) and np.result_type(labels, classes).kind == "f":
        return labels.astype(object)  # int64 and uint64: float64 would merge some
    return labels


def label_sets(y: Any) -> Vector | list[tuple[Any, ...]]:
    """Convert labels of which a row may have several: a list of tuples or sets, or zeros and ones.

    Return zeros and ones, shape (rows, K), with one column per label; or tuples with the labels of each row,
    without repetitions. A row that is not a sequence is a single label. Raise `DataError` also for rows of
    zeros and ones that could mean either.

    Examples
    --------
    >>> label_sets([(1, 2), (2,), ()])
    [(1, 2), (2,), ()]
    >>> label_sets([[1, 0, 0], [0, 1, 1]])
    array([[1., 0., 0.],
           [0., 1., 1.]])
    """
    if is_sparse(y):
        y = as_scipy("labels", y).toarray()
    if not isinstance(y, (list, tuple)):
        y = array("labels", y)
        if y.ndim > 1:
            return _validate_indicators(y)
        y = list(np.atleast_1d(y))
    elif has_masked(y):
        raise DataError("labels: found masked values, expected a label in each place")
    return _parse_label_rows(y)


def _parse_label_rows(y: Sequence[Any]) -> Vector | list[tuple[Any, ...]]:
    """Distinguish rows of labels from rows of zeros and ones; raise if they could be either."""
    rows = [row if isinstance(row, _SET_TYPES) else _as_list(row) for row in y]
    try:
        once = [tuple(dict.fromkeys(row)) for row in rows]
    except TypeError as fault:  # for example a label that is a list
        raise DataError(f"labels: {fault}; expected numbers or text") from None
    kinds, lengths = set(map(type, rows)), set(map(len, rows))
    if len(kinds) != 1 or len(lengths) > 1 or lengths == {0} or not kinds <= {tuple, list}:
        return once
    repeated = any(len(each) < len(row) for each, row in zip(once, rows, strict=True))
    truths = all(isinstance(label, (bool, np.bool_)) for row in rows for label in row)
    if kinds == {tuple} and not (repeated or truths):
        return once
    flat = label_array("labels", [label for row in rows for label in row], each="label")
    if flat.dtype.kind == "U" or not np.isin(flat, (0, 1)).all():
        return once
    if kinds == {list} and (repeated or truths):
        return flat.astype(np.float64).reshape(len(rows), -1)
    raise DataError(
        "labels: found rows of zeros and ones, which could be labels or flags for labels; "
        "expected tuples of labels, each at most once per row, or a matrix of zeros and ones"
    )


def _as_list(row: Any) -> list[Any] | tuple[Any, ...]:
    """Return a row as a list, or as a tuple if it is a single label."""
    if isinstance(row, list):
        return row
    if isinstance(row, (str, bytes)) or np.ndim(row) == 0:
        return (row,)
    return array("labels", row).ravel().tolist()


def _validate_indicators(y: NDArray[Any]) -> Vector:
    """Validate a matrix of zeros and ones with one column per label."""
    found = numbers("labels", y)
    if found.ndim != 2:
        raise DataError(f"labels: found shape {found.shape}, expected two dimensions, one row per row of X")
    if not np.isin(found, (0, 1)).all():
        raise DataError(
            "labels: found a matrix of other values, expected zeros and ones, one column per label"
        )
    return found


def is_number(text: str) -> bool:
    """Return whether Python reads a text as a number."""
    try:
        float(text)
    except ValueError:
        return False
    return True
