"""Validate arrays and numbers that users pass in: one place for all public functions.

Each function returns what an ndarray of the same values would give, or raises an error whose one line names
the argument and what was found.  NumPy alone silently converts more: it drops masks, reads text as numbers,
turns None into NaN and dates into numbers, drops imaginary parts, treats a generator or a set as one object,
and merges integers that float64 cannot tell apart.
"""

from __future__ import annotations

import operator
import os
import sys
from collections.abc import Iterator, Mapping, MappingView, Sequence, Set
from decimal import Decimal
from numbers import Real
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from bmrm.base import _dlpack, arguments
from bmrm.base.vectors import Vector
from bmrm.errors import BmrmError, DataError, ParameterError

ErrorType = type[BmrmError]

MAX_EXACT_INTEGER = 2**53
"""float64 holds every integer up to this absolute value."""

_REAL_KINDS = "fiub"  # dtype kinds of real numbers
_MAX_SHOWN_CHARS = 40  # of a value that a message quotes
_HOST_DEVICES = (1, 3, 11, 13)  # DLPack's numbers of memory that the CPU reads: its own, pinned, managed
_UNKNOWN_DEVICE = (0, 0)  # DLPack counts kinds of devices from 1


def array(what: str, given: Any, error: ErrorType = DataError, expected: str = "an array") -> NDArray[Any]:
    """Convert to an array of any shape and type.

    An array of another library shares its memory, through ``__array__`` or ``__dlpack__``.

    Raise ``error`` for masked values; for a container without order or one that can be read only once (a set,
    a dict, a generator); for a sparse matrix; for an array on a device; and for rows of different lengths.

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
        raise error(f"{what}: found masked values, expected a number in each place")
    if is_sparse(given):
        raise error(f"{what}: found a sparse matrix, expected {expected}")
    if isinstance(given, (Set, Mapping, MappingView, Iterator)):
        raise error(f"{what}: found a {type(given).__name__}, expected {expected}")
    if is_on_device(given):
        raise error(
            f"{what}: found an array on a GPU or another device, expected {expected} in main memory "
            "(PyTorch's `cpu()` and CuPy's `get()` copy it)"
        )
    try:
        only_dlpack = hasattr(given, "__dlpack__") and not hasattr(given, "__array__")
        found = np.from_dlpack(given) if only_dlpack else np.asarray(given)
    except MemoryError:
        raise
    except Exception as fault:  # whatever the `__array__` of a foreign class raises
        text = " ".join(str(fault).split()) or type(fault).__name__
        raise error(f"{what}: {text}; expected {expected}") from None
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
    """Convert real numbers of any shape to float64; NaN and infinities are allowed.

    - ``exact``: raise for an integer that float64 cannot hold instead of rounding it. For labels, since
      rounding could merge two of them.
    - ``each``: what an entry belongs to, for messages
    - ``expected``: what the message says was expected

    An array of float64 is returned as it is, so do not write to the result.

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
            found = np.array(given, dtype=object)  # the integers, before NumPy rounds them
        else:
            return np.asarray(found)
    if exact:
        _check_exact(what, found, error, each)
    if found.dtype.kind in _REAL_KINDS:
        with np.errstate(over="ignore"):  # the caller checks for infinities
            return found.astype(np.float64)
    if found.dtype == object:
        return _objects_to_floats(what, found, error, each)
    if found.dtype.kind == "c":
        raise error(f"{what}: found complex numbers, expected {expected}")
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
    """Convert ``length`` real numbers to float64, one per row or feature; see `numbers`."""
    found = numbers(what, given, error, exact=exact, each=each.partition(" ")[0])
    if found.shape != (length,):
        raise error(f"{what}: found shape {found.shape}, expected ({length},), one per {each}")
    return found


def check_finite(what: str, values: NDArray[Any], error: ErrorType = DataError, *, each: str = "row") -> None:
    """Raise for the first entry that is not finite.

    Examples
    --------
    >>> check_finite("values", np.array([1.0, np.nan]))
    Traceback (most recent call last):
    bmrm.errors.DataError: values: row 2 has nan, expected a finite number
    """
    with np.errstate(over="ignore", invalid="ignore"):
        total = values.sum()  # of finite numbers it may overflow, of others it is never finite
    if not np.isfinite(total) and not (finite := np.isfinite(values)).all():
        at = np.unravel_index(int(np.argmin(finite)), values.shape)
        raise error(f"{what}: {describe_position(at, each)}has {values[at]}, expected a finite number")


def check_not_nan(what: str, values: Vector, error: ErrorType = DataError) -> None:
    """Raise for the first NaN; infinities are allowed, since decision values may overflow."""
    unknown = np.isnan(values)
    if unknown.any():
        at = np.unravel_index(int(np.argmax(unknown)), values.shape)
        raise error(f"{what}: {describe_position(at, 'row')}has nan, expected a number")


def matrix(what: str, given: Any, error: ErrorType = DataError) -> NDArray[Any]:
    """Convert a dense matrix to float64, or leave it as float32; values need not be finite.

    The columns of a data frame may have different types if all of them are numbers or booleans.

    Examples
    --------
    >>> matrix("X", np.array([[1.5, True]], object))
    array([[1.5, 1. ]])
    """
    if type(given) is not np.ndarray:
        if has_masked(given):
            raise error(f"{what}: found masked values, expected a number in each place")
        if isinstance(given, str | os.PathLike):
            raise error(f"{what}: found text, expected a matrix; bmrm.io.read_data reads files")
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


def predictions(values: Any, columns: int | None = None) -> Vector:
    """Convert predicted values, one or ``columns`` per row; infinities are allowed."""
    found = numbers("values", values)
    if found.ndim != 1 + (columns is not None) or (columns is not None and found.shape[1] != columns):
        each = "one number" if columns is None else f"{columns} numbers"
        raise DataError(f"values: found shape {found.shape}, expected {each} per row")
    check_not_nan("values", found)
    return found


def margins(given: Any, y: Any, columns: bool = False) -> tuple[Vector, Vector]:
    """Convert margins, which may be NaN, and the coded labels of the same rows.

    With ``columns``, each row has several margins.

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
        raise DataError(f"labels: found shape {labels.shape}, expected that of the margins, {z.shape}")
    return np.ascontiguousarray(z), np.ascontiguousarray(labels)


def number(what: str, given: Any, error: ErrorType = ParameterError) -> float:
    """Convert one real number to float; NaN is allowed.

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
    """Validate one integer and return it as int.

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
    """Convert a boolean, 0 or 1 to bool; None counts as False.

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
    """Validate a sequence of any objects; text, sets and iterators do not count as one.

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
    """Return whether the object looks like a sparse matrix; no library is imported to find out."""
    return hasattr(given, "tocsr") or is_sparse_tensor(given)


def is_sparse_tensor(given: Any) -> bool:
    """Return whether the object is a sparse tensor of PyTorch, see `bmrm.base.sparse_tensors`."""
    return str(getattr(given, "layout", "")).startswith("torch.sparse_")


def is_on_device(given: Any) -> bool:
    """Return whether the object is an array whose memory the CPU cannot read."""
    return find_device(given) is not None


def find_device(given: Any) -> tuple[int, int] | None:
    """Return kind and number, as DLPack's, of the device of an array; None if the CPU reads its memory."""
    ask = getattr(given, "__dlpack_device__", None)
    if ask is None:
        return (_dlpack.CUDA, 0) if hasattr(given, "__cuda_array_interface__") else None
    try:
        kind, number = ask()
        return None if int(kind) in _HOST_DEVICES else (int(kind), int(number))
    except (TypeError, ValueError):  # a device that DLPack does not know, such as PyTorch's "meta"
        return _UNKNOWN_DEVICE


def read_foreign(what: str, given: Any) -> Any:
    """Return a dense array of another library, with ``__dlpack__``, as NumPy's; return all else unchanged.

    The libraries' own arrays have other methods and other rules for indices.

    Examples
    --------
    >>> read_foreign("labels", [1, 2])
    [1, 2]
    """
    if isinstance(given, np.ndarray) or not hasattr(given, "__dlpack__") or is_sparse(given):
        return given
    return given if hasattr(given, "null_count") else array(what, given)  # Arrow's may have missing values


def has_masked(given: Any) -> bool:
    """Return whether the object is an array with masked values, or a list that contains one."""
    ma = sys.modules.get("numpy.ma")  # nobody can have a masked array before this is imported
    if ma is None:
        return False
    if isinstance(given, ma.MaskedArray):
        return bool(ma.is_masked(given))
    kinds = (list, tuple, ma.MaskedArray)
    return isinstance(given, (list, tuple)) and any(has_masked(x) for x in given if isinstance(x, kinds))


def is_missing(value: Any) -> bool:
    """Return whether the value means "missing": None, NaN, NaT or pandas' NA.

    Examples
    --------
    >>> [is_missing(value) for value in (None, float("nan"), np.datetime64("NaT"), "", 0)]
    [True, True, True, False, False]
    """
    if value is None:
        return True
    try:
        return bool(value != value)
    except (TypeError, ValueError):  # comparing pandas' NA gives NA, which has no truth value
        return True


def _objects_to_floats(
    what: str, found: NDArray[Any], error: ErrorType, each: str, names: Sequence[Any] | None = None
) -> Vector:
    """Convert Python numbers to float64; `astype` alone would also convert text and None."""
    flat = found.ravel().tolist()
    if all(map(_is_real_type, set(map(type, flat)))):
        try:
            return found.astype(np.float64)
        except (OverflowError, ValueError):  # a huge integer; a signalling NaN of type Decimal
            pass
    place = next(place for place, value in enumerate(flat) if not _is_real(value))
    where = describe_position(np.unravel_index(place, found.shape), each, names)
    raise error(f"{what}: {where}has {short_repr(flat[place])}, expected a number")


def _is_real(value: Any) -> bool:
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
            where = describe_position(np.unravel_index(place, found.shape), each)
            raise error(f"{what}: {where}has {short_repr(value)}, expected an integer that float64 can hold")


def _is_exact(value: int) -> bool:
    try:
        return abs(value) <= MAX_EXACT_INTEGER or int(float(value)) == value
    except OverflowError:
        return False


def _merge_column_types(given: Any) -> Any:
    """Convert a data frame whose columns have different numeric types to an array of float64.

    NumPy would make every number an object, which takes about a hundred bytes.
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
    names = getattr(given, "columns", None)
    return None if names is None or callable(names) else list(names)


def describe_position(at: Sequence[Any], each: str, names: Sequence[Any] | None = None) -> str:
    """Describe a position in an array, counted from 1, for a message."""
    if not len(at):
        return ""
    if len(at) == 1:
        return f"{each} {int(at[0]) + 1} "
    column = int(at[1])
    name = f"column {column + 1}" if names is None else f"column {short_repr(names[column])}"
    return f"row {int(at[0]) + 1}, {name} "


def _describe(given: Any) -> str:
    """Describe an unexpected object for a message: a scalar by its value, others by their type."""
    if given is None or isinstance(given, (str, bytes, Real, Decimal, np.generic)):
        return short_repr(given)
    if isinstance(given, np.ndarray):
        return f"an array of shape {given.shape}"
    if is_sparse(given):
        return "a sparse matrix"
    name = type(given).__name__
    return f"{'an' if name[:1].lower() in 'aeiou' else 'a'} {name}"


def short_repr(value: Any) -> str:
    """Return the repr of a value on one line, shortened, for a message."""
    if isinstance(value, np.generic):
        value = value.item()
    text = " ".join(repr(value).split())
    return text if len(text) <= _MAX_SHOWN_CHARS else f"{text[:_MAX_SHOWN_CHARS]}..."


def refuse(what: str, given: Any, expected: str, error: ErrorType = ParameterError) -> NoReturn:
    """Raise for an argument that is not what is expected.

    Examples
    --------
    >>> refuse("loss", ["hinge"], "a name")
    Traceback (most recent call last):
    bmrm.errors.ParameterError: loss: found a list, expected a name
    """
    raise error(f"{what}: found {_describe(given)}, expected {expected}")


def random_generator(given: Any) -> np.random.Generator:
    """Return the generator of ``random_state``: a number, a generator of NumPy of either kind, or None."""
    if isinstance(given, np.random.RandomState):
        return np.random.default_rng(given.randint(0, 2**31, size=4))
    if given is None or isinstance(given, np.random.Generator):
        return np.random.default_rng(given)
    seed = arguments.integer("random_state", given)
    if seed < 0:
        raise ParameterError(f"random_state: found {seed}, expected at least 0")
    return np.random.default_rng(seed)


def positive_integer(what: str, given: Any) -> int:
    """Validate an integer of at least 1."""
    found = arguments.integer(what, given)
    if found < 1 or isinstance(given, (bool, np.bool_)):
        raise ParameterError(f"{what}: found {given}, expected an integer of at least 1")
    return found


def nonnegative_number(what: str, given: Any) -> float:
    """Validate a finite number of at least 0."""
    found = arguments.number(what, given)
    if not 0.0 <= found < np.inf:
        raise ParameterError(f"{what}: found {given}, expected a finite number of at least 0")
    return found


def time_limit(given: Any) -> float:
    """Validate ``max_time`` in seconds; None means no limit."""
    if given is None:
        return np.inf
    found = arguments.number("max_time", given)
    if not found > 0.0:
        raise ParameterError(f"max_time: found {given}, expected a positive number of seconds or None")
    return found
