"""Constructors of estimators: names that are no parameters get a suggestion."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from bmrm.base.suggestions import require_known

Idle = Mapping[str, Callable[[Any, Mapping[str, Any]], bool]]
"""Parameters of other libraries' estimators: whether a value, beside the other arguments, changes nothing."""


def parameter_names(kind: type) -> list[str]:
    """Return the names of the parameters of a class."""
    return [name for name in inspect.signature(kind).parameters if name != "self"]


def check_names(kind: type, given: Iterable[str]) -> None:
    """Raise `ParameterError` for names that are no parameters of an estimator."""
    require_known(given, parameter_names(kind), f"parameter of {kind.__name__}")


def with_known_names(
    kind: type, constructor: Callable[..., None], idle: Idle | None = None
) -> Callable[..., None]:
    """Make the constructor of a class check names of arguments before Python does, without idle ones."""
    if any(each.kind is each.VAR_KEYWORD for each in inspect.signature(constructor).parameters.values()):
        return constructor

    @functools.wraps(constructor)
    def construct(self: Any, *words: Any, **keywords: Any) -> None:
        known = parameter_names(kind)
        for name, is_idle in (idle or {}).items():
            if name in keywords and name not in known and is_idle(keywords[name], keywords):
                del keywords[name]
        check_names(kind, keywords)
        constructor(self, *words, **keywords)

    return construct
