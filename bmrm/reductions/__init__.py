"""Reductions over the rows of a matrix: formulas in Python, compiled, and estimators with loops of their own.

Names are loaded on first use.
"""

TYPE_CHECKING = False  # `typing` takes longer to load than all of this
if TYPE_CHECKING:
    from typing import Any

    from bmrm.formulas.functions import ceil as ceil
    from bmrm.formulas.functions import cos as cos
    from bmrm.formulas.functions import dot as dot
    from bmrm.formulas.functions import erf as erf
    from bmrm.formulas.functions import exp as exp
    from bmrm.formulas.functions import expm1 as expm1
    from bmrm.formulas.functions import floor as floor
    from bmrm.formulas.functions import inf as inf
    from bmrm.formulas.functions import isnan as isnan
    from bmrm.formulas.functions import lgamma as lgamma
    from bmrm.formulas.functions import local as local
    from bmrm.formulas.functions import log as log
    from bmrm.formulas.functions import log1p as log1p
    from bmrm.formulas.functions import log2 as log2
    from bmrm.formulas.functions import sin as sin
    from bmrm.formulas.functions import sqrt as sqrt
    from bmrm.formulas.functions import squared_distance as squared_distance
    from bmrm.formulas.functions import tanh as tanh
    from bmrm.reductions.facility import Reduction as Reduction
    from bmrm.reductions.facility import reduction as reduction
    from bmrm.reductions.kmeans import KMeans as KMeans
    from bmrm.reductions.mds import MDS as MDS
    from bmrm.reductions.mixture import GaussianMixture as GaussianMixture
    from bmrm.reductions.pca import PCA as PCA
    from bmrm.reductions.pca import TruncatedSVD as TruncatedSVD

_FUNCTIONS = (
    "ceil", "cos", "dot", "erf", "exp", "expm1", "floor", "inf", "isnan", "lgamma", "local", "log", "log1p",
    "log2", "sin", "sqrt", "squared_distance", "tanh",
)  # fmt: skip
_MODULES = {
    **dict.fromkeys(("reduction", "Reduction"), "bmrm.reductions.facility"),
    "GaussianMixture": "bmrm.reductions.mixture",
    "KMeans": "bmrm.reductions.kmeans",
    "MDS": "bmrm.reductions.mds",
    **dict.fromkeys(("PCA", "TruncatedSVD"), "bmrm.reductions.pca"),
    **dict.fromkeys(_FUNCTIONS, "bmrm.formulas.functions"),
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
