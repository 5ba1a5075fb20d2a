"""Distance histograms and pair counts of points, exact on CPU and GPU.

Names are loaded on first use.
"""

TYPE_CHECKING = False  # `typing` takes longer to load than all of this
if TYPE_CHECKING:
    from typing import Any

    from bmrm.pairs.histograms import Histogram as Histogram
    from bmrm.pairs.histograms import count as count
    from bmrm.pairs.histograms import explain as explain
    from bmrm.pairs.histograms import histogram as histogram
    from bmrm.pairs.plan import PairPlan as PairPlan
    from bmrm.pairs.points import Points as Points

_MODULES = {
    "Points": "points",
    "histogram": "histograms",
    "count": "histograms",
    "explain": "histograms",
    "Histogram": "histograms",
    "PairPlan": "plan",
}
"""The module of each public name, below ``bmrm.pairs``."""

__all__ = sorted(_MODULES)


def __getattr__(name: str) -> "Any":
    if name not in _MODULES:
        raise AttributeError(f"module 'bmrm.pairs' has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(f"bmrm.pairs.{_MODULES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
