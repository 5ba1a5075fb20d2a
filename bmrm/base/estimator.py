"""What the estimators share: parameters as scikit-learn knows them, and checks of what users pass.

scikit-learn is not imported. Its tools (clone, Pipeline, GridSearchCV) ask an estimator for these methods
only.
"""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, NoReturn, Self

import numpy as np

from bmrm.base import arguments
from bmrm.base.answers import Answer, ShownTable, leading
from bmrm.base.constructors import check_names, parameter_names, with_known_names
from bmrm.base.frames import ColumnNames
from bmrm.base.routing import Consumer
from bmrm.base.threads import usable_cores
from bmrm.errors import BmrmError, ConvergenceWarning, DataError, ParameterError


class Estimator(ColumnNames, Consumer):
    """Parameters by name, as given to the constructor, and a readable text."""

    n_features_in_: int

    def __init_subclass__(cls, **keywords: Any) -> None:
        super().__init_subclass__(**keywords)
        if "__init__" in vars(cls):
            setattr(cls, "__init__", with_known_names(cls, vars(cls)["__init__"]))  # noqa: B010

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters of the constructor by name.

        Parameters
        ----------
        deep : bool, default True
            Changes nothing: no parameter is an estimator.

        Returns
        -------
        dict
        """
        return {name: getattr(self, name) for name in parameter_names(type(self))}

    def set_params(self, **params: Any) -> Self:
        """Set parameters by name.

        Parameters
        ----------
        **params
            Parameters of the constructor. They are validated in `fit`.

        Returns
        -------
        Estimator
            The estimator itself.
        """
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


def threads_or_jobs(threads: int | None, n_jobs: int | None) -> int | None:
    """Return the number of threads that an estimator is given, by our name or by scikit-learn's, if any.

    A negative ``n_jobs`` is joblib's: -1 means all cores, -2 all but one.

    Examples
    --------
    >>> threads_or_jobs(None, 3), threads_or_jobs(2, -1), threads_or_jobs(None, None)
    (3, 2, None)
    >>> threads_or_jobs(None, -1) >= 1
    True
    """
    if threads is not None or n_jobs is None:
        return threads
    found = arguments.integer("n_jobs", n_jobs)
    if found == 0:
        raise ParameterError("n_jobs: found 0, expected a positive number, or -1 for all cores")
    return found if found > 0 else max(1, usable_cores() + 1 + found)


class FittedAnswer(Estimator, Answer):
    """An estimator that prints what it has fitted: its parameters, facts, and a table."""

    def _title(self) -> str:
        return repr(self)

    def _tables(self) -> Iterable[ShownTable]:
        return [self._first_rows()] if hasattr(self, "n_features_in_") else []

    def _first_rows(self) -> ShownTable:
        return leading(self._columns())


def convergence_warning() -> type[Warning]:
    """Return the class of warnings about convergence; one of scikit-learn's too, if that is loaded."""
    known = sys.modules.get("sklearn.exceptions")
    return ConvergenceWarning if known is None else _convergence_warning_of(known.ConvergenceWarning)


@functools.cache
def _convergence_warning_of(other: type[Warning]) -> type[Warning]:
    return type("ConvergenceWarning", (ConvergenceWarning, other), {})


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


def _equals(value: Any, default: Any) -> bool:
    return type(value) is type(default) and not isinstance(value, np.ndarray) and bool(value == default)
