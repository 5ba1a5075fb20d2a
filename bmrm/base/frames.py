"""Data frames: the columns that a model was fitted with, and frames as what a transformer returns.

This is the protocol of scikit-learn (``set_output``, ``get_feature_names_out``, ``feature_names_in_``), which
its pipelines use. A library of frames is imported only if a user asks for its frames.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from bmrm.base.columns import check_names, find_names
from bmrm.base.suggestions import check_choice
from bmrm.base.vectors import Vector
from bmrm.errors import DataError, ParameterError

OUTPUTS = ("default", "pandas", "polars")
"""What `Transformer.set_output` takes: arrays, or frames of a library."""

P = ParamSpec("P")
Model = TypeVar("Model", bound="Transformer")


class ColumnNames:
    """A model that remembers the names of the columns it was fitted with."""

    feature_names_in_: NDArray[np.object_]

    def _remember_columns(self, X: Any) -> None:
        """Keep the names of the columns of a frame; forget those of an earlier fit."""
        names = find_names(X)
        if names is not None:
            self.feature_names_in_ = np.array(names, object)
        elif hasattr(self, "feature_names_in_"):
            del self.feature_names_in_

    def _known_columns(self) -> list[str] | None:
        """Return the names of the columns that the model was fitted with, if they had some."""
        known = getattr(self, "feature_names_in_", None)
        return None if known is None else list(known)

    def _check_names(self, X: Any) -> None:
        """Raise `DataError` for a frame whose columns have other names or another order than in fit."""
        check_names("X", self._known_columns(), find_names(X))


class Transformer:
    """A model that makes new columns, as an array or as a frame."""

    _sklearn_output_config: dict[str, str]  # scikit-learn's clone copies an attribute of this name

    def _check_fitted(self) -> None:
        """Raise an error, scikit-learn's NotFittedError if that is loaded, before a fit."""
        raise NotImplementedError

    def _columns_out(self) -> int:
        """Return the number of columns of what `transform` returns."""
        raise NotImplementedError

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[np.object_]:
        """Return names of the columns that `transform` returns, as ``pca0``.

        Parameters
        ----------
        input_features : ignored

        Returns
        -------
        ndarray of object, shape (n_columns,)
        """
        self._check_fitted()
        prefix = type(self).__name__.lower()
        return np.array([f"{prefix}{j}" for j in range(self._columns_out())], object)

    def set_output(self, *, transform: str | None = None) -> Self:
        """Choose what `transform` and `fit_transform` return.

        Parameters
        ----------
        transform : {"default", "pandas", "polars"}, optional
            Arrays, or frames with the names of `get_feature_names_out`; those of pandas have the index of X.
            None changes nothing. Without a call of this, scikit-learn's ``set_config`` decides.

        Returns
        -------
        Transformer
            The estimator itself.

        Examples
        --------
        >>> from bmrm import PCA
        >>> places = PCA(1).set_output(transform="pandas").fit_transform([[1.0, 0.0], [0.0, 2.0], [1.0, 1.0]])
        >>> list(places.columns)
        ['pca0']
        """
        if transform is not None:
            if transform not in OUTPUTS:
                raise ParameterError(f"transform: found {transform!r}, expected one of {', '.join(OUTPUTS)}")
            self._sklearn_output_config = {"transform": transform}
        return self


class RowTransformer(Transformer):
    """A transformer of rows that may have weights."""

    def fit_transform(self: Any, X: Any, y: Any = None, sample_weight: Any = None) -> Any:
        """Fit the model to rows, and return what `transform` makes of them.

        Parameters
        ----------
        X, y, sample_weight : as for `fit`

        Returns
        -------
        ndarray, shape (n, n_columns)
        """
        return self.fit(X, sample_weight=sample_weight).transform(X)


def framed(
    method: Callable[Concatenate[Model, Any, P], Vector],
) -> Callable[Concatenate[Model, Any, P], Any]:
    """Make a method that computes an array return the frame that its user has asked for."""

    @functools.wraps(method)
    def returned(self: Model, X: Any, /, *words: P.args, **keywords: P.kwargs) -> Any:
        return _in_frame(self, X, method(self, X, *words, **keywords))

    return returned


def _in_frame(model: Transformer, X: Any, values: Vector) -> Any:
    kind = _wanted(model)
    if kind == "default":
        return values
    names: Sequence[str] = model.get_feature_names_out().tolist()
    if kind == "polars":
        return _library("polars").DataFrame(values, schema=names, orient="row")
    if kind == "pandas":
        pandas = _library("pandas")
        index = X.index if isinstance(X, pandas.DataFrame) else None
        return pandas.DataFrame(values, index=index, columns=names, copy=False)
    raise DataError(f"transform_output: found {kind!r}, expected one of {', '.join(OUTPUTS)}")


def frame_of(columns: Mapping[str, Any], library: str) -> Any:
    """Return columns, by their names, as a data frame of a library.

    Raise `ParameterError` for an unknown library, or if it is not installed.
    """
    check_choice("library", library, OUTPUTS[1:])
    frames = _library(library)
    if library == "pandas":
        return frames.DataFrame(dict(columns))
    # Polars has no columns of mixed objects: labels that are not all numbers or all text become text.
    return frames.DataFrame({name: _uniform(column) for name, column in columns.items()})


def _uniform(column: Any) -> Any:
    values = np.asarray(column)
    return [str(value) for value in values.tolist()] if values.dtype == object else values


def _library(name: str) -> Any:
    try:
        return import_module(name)
    except ImportError:
        raise ParameterError(f"a frame of {name} needs {name}: pip install {name}") from None


def _wanted(model: Transformer) -> str:
    """Return what a user wants: of this model, or else of all models of scikit-learn."""
    found = getattr(model, "_sklearn_output_config", {}).get("transform")
    if found is not None:
        return str(found)
    sklearn = sys.modules.get("sklearn")
    return "default" if sklearn is None else str(sklearn.get_config()["transform_output"])
