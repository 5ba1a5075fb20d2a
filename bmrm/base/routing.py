"""Metadata routing: which arguments of its methods, as ``sample_weight``, an estimator asks scikit-learn for.

Searches and pipelines of scikit-learn pass weights on to steps that have asked for them, if a user has
switched this on (``sklearn.set_config(enable_metadata_routing=True)``). Nothing else here needs scikit-learn.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Self

from bmrm.base.suggestions import suggest
from bmrm.errors import BmrmError, ParameterError

METHODS = ("fit", "predict", "predict_proba", "score", "transform")
"""Methods whose arguments scikit-learn routes."""

UNCHANGED = "$UNCHANGED$"
"""scikit-learn's word for an argument whose request stays as it is."""


class RoutingError(BmrmError, RuntimeError):
    """Metadata routing is switched off."""


class Consumer:
    """An estimator with ``set_fit_request`` and its like, for arguments of its methods besides X and y."""

    _metadata_request: Any  # scikit-learn's clone copies an attribute of this name

    if TYPE_CHECKING:  # made for each subclass, if its method has such arguments

        def set_fit_request(self, **requests: bool | str | None) -> Self: ...

        def set_score_request(self, **requests: bool | str | None) -> Self: ...

    def __init_subclass__(cls, **keywords: Any) -> None:
        super().__init_subclass__(**keywords)
        for method, names in _routed(cls).items():
            if names:
                setattr(cls, f"set_{method}_request", _setter(cls, method, names))

    def get_metadata_routing(self) -> Any:
        """Return scikit-learn's ``MetadataRequest``, with what each method asks for."""
        from sklearn.utils.metadata_routing import MetadataRequest, get_routing_for_object

        if hasattr(self, "_metadata_request"):
            return get_routing_for_object(self._metadata_request)
        found = MetadataRequest(owner=type(self).__name__)
        for method, names in _routed(type(self)).items():
            for name in names:
                getattr(found, method).add_request(param=name, alias=None)
        return found

    def _get_metadata_request(self) -> Any:
        """Return what `get_metadata_routing` does, by the name that scikit-learn uses inside."""
        return self.get_metadata_routing()


def _routed(kind: type) -> dict[str, list[str]]:
    """Return the arguments, besides X and y, of each method."""
    found = {}
    for method in METHODS:
        words = list(inspect.signature(getattr(kind, method)).parameters)[1:] if hasattr(kind, method) else []
        found[method] = [name for name in words if name not in ("X", "y")]
    return found


def _setter(kind: type, method: str, names: list[str]) -> Callable[..., Any]:
    """Make ``set_METHOD_request``."""

    def set_request(self: Any, **requests: bool | str | None) -> Any:
        from sklearn import get_config

        if not get_config().get("enable_metadata_routing"):
            raise RoutingError(
                "metadata routing: found it switched off, expected "
                "sklearn.set_config(enable_metadata_routing=True) first"
            )
        found = self.get_metadata_routing()
        for name, request in requests.items():
            if name not in names:
                raise ParameterError(f"{name}: no argument of {method}{suggest(name, names)}")
            if request != UNCHANGED:
                getattr(found, method).add_request(param=name, alias=request)
        self._metadata_request = found
        return self

    set_request.__name__ = f"set_{method}_request"
    set_request.__qualname__ = f"{kind.__name__}.{set_request.__name__}"
    set_request.__doc__ = f"""Choose which arguments of `{method}` scikit-learn's meta-estimators pass on.

        Parameters
        ----------
        {", ".join(names)} : bool, str or None
            True: passed on if given. False: not passed on. None: it is an error to give it. A text: passed on
            if given under this name.

        Returns
        -------
        {kind.__name__}
            The estimator itself.
        """
    itself = inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    words = [inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=UNCHANGED) for name in names]
    set_request.__signature__ = inspect.Signature([itself, *words])  # type: ignore[attr-defined]
    return set_request
