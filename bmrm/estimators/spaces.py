"""Arrays of other libraries, as scikit-learn's ``array_api_dispatch`` lets estimators take and return them.

The core computes with NumPy arrays in main memory. What is fitted or predicted is returned in the library
and on the device of X, without a copy if that is main memory. While the dispatch is off nothing here does
anything, as scikit-learn then converts all arguments to NumPy arrays itself.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, NamedTuple, TypeVar, cast

import numpy as np
from sklearn import get_config
from sklearn.utils import _array_api

Array = TypeVar("Array", bound="np.ndarray[Any, Any]")
F = TypeVar("F", bound=Callable[..., Any])

_NOT_IN_THE_STANDARD = "OUSMm"  # kinds of dtypes: objects, text, dates


class Space(NamedTuple):
    """The library and the device of an array; None for NumPy's arrays and all that become such."""

    xp: Any
    device: Any

    @classmethod
    def of(cls, X: Any) -> Space:
        """Return where an argument is."""
        if not get_config()["array_api_dispatch"]:
            return cls(None, None)
        xp, _, device = _array_api.get_namespace_and_device(X)
        return cls(None, None) if _array_api._is_numpy_namespace(xp) else cls(xp, device)

    @property
    def float_dtypes(self) -> list[Any]:
        """Types of numbers that the core takes."""
        xp = np if self.xp is None else self.xp
        return [xp.float64, xp.float32]

    def give(self, array: Array) -> Array:
        """Return a NumPy array as one of the library; text and other types that it lacks stay NumPy's.

        For type checkers it is an array of NumPy, as without the dispatch.
        """
        if self.xp is None or array.dtype.kind in _NOT_IN_THE_STANDARD:
            return array
        own = np.require(array, requirements=("C", "W"))
        return cast(Array, self.xp.asarray(own, device=self.device))


def fits_in_space(fit: F) -> F:
    """Give the arrays that a method ``fit`` fits in the space of X, also if Ctrl-C ends it."""

    @wraps(fit)
    def fit_and_give(self: Any, X: Any, *args: Any, **keywords: Any) -> Any:
        space = Space.of(X)
        try:
            return fit(self, X, *args, **keywords)
        finally:
            for name, value in list(vars(self).items()):
                if name.endswith("_") and isinstance(value, np.ndarray):
                    setattr(self, name, space.give(value))

    return cast(F, fit_and_give)


def to_numpy(array: Any) -> Any:
    """Return an array of any library as NumPy's; return all else, such as a sparse matrix, unchanged."""
    if not get_config()["array_api_dispatch"]:
        return array
    xp, _ = _array_api.get_namespace(array)
    return array if _array_api._is_numpy_namespace(xp) else _array_api._convert_to_numpy(array, xp)


def check_same_space(estimator: Any, X: Any, method: str) -> None:
    """Raise if X is not in the library and on the device of the training data: scikit-learn >= 1.9."""
    if hasattr(_array_api, "check_same_namespace"):
        _array_api.check_same_namespace(X, estimator, attribute="coef_", method=method)
