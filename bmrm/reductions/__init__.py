"""Reductions over the rows of a matrix: formulas in Python, compiled.

Names are loaded on first use.
"""

TYPE_CHECKING = False  # `typing` takes longer to load than all of this
if TYPE_CHECKING:
    from typing import Any

    from bmrm.formulas.language.functions import ceil as ceil
    from bmrm.formulas.language.functions import cos as cos
    from bmrm.formulas.language.functions import dot as dot
    from bmrm.formulas.language.functions import erf as erf
    from bmrm.formulas.language.functions import exp as exp
    from bmrm.formulas.language.functions import expm1 as expm1
    from bmrm.formulas.language.functions import floor as floor
    from bmrm.formulas.language.functions import inf as inf
    from bmrm.formulas.language.functions import isnan as isnan
    from bmrm.formulas.language.functions import lgamma as lgamma
    from bmrm.formulas.language.functions import local as local
    from bmrm.formulas.language.functions import log as log
    from bmrm.formulas.language.functions import log1p as log1p
    from bmrm.formulas.language.functions import log2 as log2
    from bmrm.formulas.language.functions import sin as sin
    from bmrm.formulas.language.functions import sqrt as sqrt
    from bmrm.formulas.language.functions import squared_distance as squared_distance
    from bmrm.formulas.language.functions import tanh as tanh
    from bmrm.reductions.facility import Reduction as Reduction
    from bmrm.reductions.facility import reduction as reduction

_FUNCTIONS = (
    "ceil", "cos", "dot", "erf", "exp", "expm1", "floor", "inf", "isnan", "lgamma", "local", "log", "log1p",
    "log2", "sin", "sqrt", "squared_distance", "tanh",
)  # fmt: skip
_MODULES = {
    **dict.fromkeys(("reduction", "Reduction"), "bmrm.reductions.facility"),
    **dict.fromkeys(_FUNCTIONS, "bmrm.formulas.language.functions"),
}
"""The module of each public name."""

__all__ = sorted(_MODULES)


def __getattr__(name: str) -> "Any":
    if name not in _MODULES:
        raise AttributeError(f"module 'bmrm.reductions' has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(_MODULES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
