"""Reductions over the rows of a matrix: formulas in Python, compiled.

Names are loaded on first use.
"""

TYPE_CHECKING = False  # `typing` takes longer to load than all of this
if TYPE_CHECKING:
    from typing import Any

    from bmrm.formulas.language.functions import *  # noqa: F403 (those that a row function may call)
    from bmrm.reductions.facility import Reduction as Reduction
    from bmrm.reductions.facility import operator as operator
    from bmrm.reductions.facility import reduction as reduction

_MODULES = {
    **dict.fromkeys(("operator", "reduction", "Reduction"), "bmrm.reductions.facility"),
}
"""The module of each public name that is not a function of the language."""


def __getattr__(name: str) -> "Any":
    from importlib import import_module

    if name in _MODULES:
        value = getattr(import_module(_MODULES[name]), name)
    else:
        functions = import_module("bmrm.formulas.language.functions")
        if name == "__all__":
            value = sorted({*_MODULES, *functions.PUBLIC})
        elif name in functions.PUBLIC:
            value = getattr(functions, name)
        else:
            raise AttributeError(f"module 'bmrm.reductions' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__getattr__("__all__")})
