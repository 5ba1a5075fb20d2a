"""What the estimators share: parameters as scikit-learn knows them, and checks of what users pass.

scikit-learn is not imported. Its tools (clone, Pipeline, GridSearchCV) ask an estimator for these methods
only.
"""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NoReturn, Self

import numpy as np
from numpy.typing import NDArray

from bmrm.base import arguments
from bmrm.base.constructors import check_names, parameter_names, with_known_names
from bmrm.base.progress import ProgressLine
from bmrm.base.vectors import Vector
from bmrm.errors import BmrmError, ConvergenceWarning, DataError, ParameterError
from bmrm.io.csr import Csr, check_layout
from bmrm.matrix.dataset import Dataset
from bmrm.matrix.device_arrays import read_back
from bmrm.matrix.resident import validate_matrix
from bmrm.reductions._reductions import dense_values
from bmrm.reductions.frames import Columns
from bmrm.reductions.host import reads_too_much
from bmrm.reductions.routing import Consumer
from bmrm.reductions.rows import DenseRows

MAX_ABSOLUTE_VALUE = 1e150
"""Values of float64 whose squares are far from overflow."""

READ_BYTES = 1 << 25
"""Size of rows of a mapped file that are validated before their pages are given back."""


class Estimator(Columns, Consumer):
    """Parameters by name, as given to the constructor, and a readable text."""

    n_features_in_: int

    def __init_subclass__(cls, **keywords: Any) -> None:
        super().__init_subclass__(**keywords)
        if "__init__" in vars(cls):
            setattr(cls, "__init__", with_known_names(cls, vars(cls)["__init__"]))  # noqa: B010

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters of the constructor by name; ``deep`` changes nothing."""
        return {name: getattr(self, name) for name in parameter_names(type(self))}

    def set_params(self, **params: Any) -> Self:
        """Set parameters by name and return the estimator."""
        check_names(type(self), params)
        for name, value in params.items():
            setattr(self, name, value)
        return self

    def __repr__(self) -> str:
        defaults = inspect.signature(type(self)).parameters
        shown = [
            f"{name}={value!r}"
            for name, value in self.get_params().items()
            if not (value is defaults[name].default or _equals(value, defaults[name].default))
        ]
        return f"{type(self).__name__}({', '.join(shown)})"

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "n_features_in_")

    def __sklearn_tags__(self) -> Any:
        """Describe the estimator to scikit-learn, which alone calls this."""
        from sklearn.utils import InputTags, Tags, TargetTags, TransformerTags

        return Tags(
            estimator_type=self._estimator_type,
            target_tags=TargetTags(required=False),
            transformer_tags=TransformerTags(),
            input_tags=InputTags(sparse=self._reads_sparse),
        )

    _estimator_type: str | None = None
    _reads_sparse = True

    def _check_fitted(self) -> None:
        if not self.__sklearn_is_fitted__():
            text = f"{type(self).__name__}: found no fitted model, expected a call of fit first"
            known = sys.modules.get("sklearn.exceptions")
            if known is None:
                raise BmrmError(text)
            raise type("NotFittedError", (BmrmError, known.NotFittedError), {})(text)

    def _read_new(self, X: Any) -> Csr | NDArray[Any]:
        """Validate rows that a fitted model is applied to; those on a GPU are copied to the host."""
        self._check_fitted()
        found = read_matrix(read_back(X))
        self._check_columns(X, found.shape[1])
        return found

    def _check_columns(self, X: Any, columns: int) -> None:
        """Raise `DataError` if rows have other columns, or names of columns, than those of fit."""
        self._check_names(X)
        expected = self.n_features_in_
        if columns != expected:
            text = f"X: found {columns} columns, expected {expected} as in fit"
            if "sklearn" in sys.modules:
                name = type(self).__name__
                text += f"; X has {columns} features, but {name} is expecting {expected} features as input"
            raise DataError(text)


def convergence_warning() -> type[Warning]:
    """Return the class of warnings about convergence; one of scikit-learn's too, if that is loaded."""
    known = sys.modules.get("sklearn.exceptions")
    return ConvergenceWarning if known is None else _convergence_warning_of(known.ConvergenceWarning)


@functools.cache
def _convergence_warning_of(other: type[Warning]) -> type[Warning]:
    return type("ConvergenceWarning", (ConvergenceWarning, other), {})


def read_matrix(X: Any) -> Csr | NDArray[Any]:
    """Return rows on the host, compressed or dense, of finite float32 or float64 values.

    Raise `DataError` for anything else, also for values whose squares overflow.
    """
    with words_for_scikit_learn(X):
        return _read_matrix(X)


@contextmanager
def words_for_scikit_learn(X: Any) -> Iterator[None]:
    """Add to errors of data what scikit-learn's checks of estimators look for, if it is loaded."""
    try:
        yield
    except DataError as error:
        if "sklearn" not in sys.modules or arguments.is_on_device(X):
            raise
        _raise_with_words(error, X)


def _raise_with_words(error: DataError, X: Any) -> NoReturn:
    try:
        found = np.asarray(X)
    except ValueError:  # rows of different lengths
        raise error from None
    text, kind = str(error), type(error)
    if found.dtype.kind == "c":
        text += "; Complex data not supported"
    elif found.dtype == object and not arguments.is_sparse(X):
        try:
            found.astype(np.float64)
        except TypeError as fault:
            text += f"; {fault}"
            kind = type(kind.__name__, (kind, TypeError), {})
        except ValueError:
            pass
    elif found.ndim == 1:
        text += "; Reshape your data: one row is X.reshape(1, -1), one column X.reshape(-1, 1)"
    elif found.ndim == 2 and found.shape[1] == 0:
        text += f"; 0 feature(s) (shape={found.shape}) while a minimum of 1 is required."
    elif "nan" in text:
        text += "; Input X contains NaN"
    elif "for a variance" in text and found.shape[:1] == (1,):
        text += "; n_samples = 1"
    elif "on the diagonal" in text and (found < 0.0).any():
        text += "; Negative values in data"
    raise kind(text) from None


def _read_matrix(X: Any) -> Csr | NDArray[Any]:
    found = validate_matrix(X)
    if isinstance(found, Csr):
        found = found.on_host()
        indices = np.ascontiguousarray(
            found.indices, np.int32 if found.indices.dtype == np.int32 else np.int64
        )
        data = None if found.data is None else np.ascontiguousarray(found.data)
        try:  # compiled loops trust the indices
            check_layout(found.indptr, indices, indices if data is None else data, found.shape)
        except DataError as error:
            raise DataError(f"X: {error}") from None
        found = Csr(np.ascontiguousarray(found.indptr, np.int64), indices, data, found.shape)
        values = data
    else:
        found = values = np.ascontiguousarray(found)
    if values is None:
        return found
    largest = _largest_value(values)
    if not largest < np.inf:  # NaN compares false
        if isinstance(found, Csr):
            at = int(np.argmin(np.isfinite(values)))
            row = int(np.searchsorted(found.indptr, at, "right"))
            raise DataError(f"X: row {row} has {values[at]}, expected finite numbers")
        arguments.check_finite("X", found)
    if largest > MAX_ABSOLUTE_VALUE:
        raise DataError(f"X: found {largest:.3g}, expected absolute values of at most {MAX_ABSOLUTE_VALUE:g}")
    return found


def _largest_value(values: NDArray[Any]) -> float:
    """Return the largest absolute value, NaN if there is one; pages of a large mapped file are given back."""
    rows = DenseRows(values) if values.ndim == 2 else None
    mapped = rows if rows is not None and reads_too_much(rows) else None
    size = len(values) if mapped is None else max(1, READ_BYTES * len(values) // mapped.nbytes)
    largest = 0.0
    for first in range(0, len(values), max(1, size)):
        block = values[first : first + size]
        found = max(-float(block.min(initial=0.0)), float(block.max(initial=0.0)))
        largest = found if not found < largest else largest  # NaN compares false
        if mapped is not None:
            mapped.give_back(first, first + len(block))
        if np.isnan(largest):
            break
    return largest


def read_rows(X: Any, sample_weight: Any) -> tuple[Csr | NDArray[Any], Vector | None]:
    """Return rows as `read_matrix` does, also those of a `bmrm.Dataset`, and their weights."""
    if not isinstance(X, Dataset):
        found = read_matrix(X)
        return found, read_weights(sample_weight, found.shape[0])
    values = dense_values(X.matrix)
    if values is None or X.group is not None:
        raise DataError(
            f"X: found a Dataset of {X.nnz} stored values, expected dense rows on the CPU, or a matrix"
        )
    given = X.weights if sample_weight is None else sample_weight
    return read_matrix(values), read_weights(given, X.shape[0])


def read_weights(given: Any, rows: int, *, zeros: bool = False) -> Vector | None:
    """Return the weights of rows, None if all are equal to 1.

    Raise `DataError` for weights of the wrong number, negative or not finite, or, unless ``zeros``, all 0.
    """
    if given is None:
        return None
    if isinstance(given, (int, float, np.generic)) or (isinstance(given, np.ndarray) and given.ndim == 0):
        given = np.full(rows, arguments.number("sample_weight", given, DataError))
    weights = np.ascontiguousarray(arguments.vector("sample_weight", given, rows))
    arguments.check_finite("sample_weight", weights)
    if weights.min() < 0.0:
        raise DataError(f"sample_weight: found {weights.min():g}, expected numbers of at least 0")
    if not (zeros or weights.any()):
        raise DataError("sample_weight: found only zeros, expected some positive weight")
    return None if (weights == 1.0).all() else weights


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
    """Validate a whole number of at least 1."""
    found = arguments.integer(what, given)
    if found < 1 or isinstance(given, (bool, np.bool_)):
        raise ParameterError(f"{what}: found {given}, expected a whole number of at least 1")
    return found


def nonnegative_number(what: str, given: Any) -> float:
    """Validate a finite number of at least 0."""
    found = arguments.number(what, given)
    if not 0.0 <= found < np.inf:
        raise ParameterError(f"{what}: found {given}, expected a finite number of at least 0")
    return found


def progress_line(verbose: Any) -> ProgressLine:
    """Return the line of progress that ``verbose`` asks for: 0 none, 1 on a terminal, 2 one line per step."""
    level = arguments.integer("verbose", verbose)
    if level < 0:
        raise ParameterError(f"verbose: found {verbose}, expected at least 0")
    return ProgressLine(sys.stderr, every_step=level > 1, quiet=level == 0)


def time_limit(given: Any) -> float:
    """Validate ``max_time`` in seconds; None means no limit."""
    if given is None:
        return np.inf
    found = arguments.number("max_time", given)
    if not found > 0.0:
        raise ParameterError(f"max_time: found {given}, expected a positive number of seconds or None")
    return found


def _equals(value: Any, default: Any) -> bool:
    return type(value) is type(default) and not isinstance(value, np.ndarray) and bool(value == default)
