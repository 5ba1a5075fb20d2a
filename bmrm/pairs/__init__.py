"""Distance histograms, pair counts and neighbours of points, exact; functions of two points, compiled.

Names are loaded on first use.
"""

from bmrm.base.on_use import load_on_use

TYPE_CHECKING = False  # `typing` takes longer to load than all of this
if TYPE_CHECKING:
    from bmrm.formulas.language.functions import *  # noqa: F403 (those that a function of points may call)
    from bmrm.pairs.densities import Density as Density
    from bmrm.pairs.densities import kde as kde
    from bmrm.pairs.histograms import Histogram as Histogram
    from bmrm.pairs.histograms import count as count
    from bmrm.pairs.histograms import explain as explain
    from bmrm.pairs.histograms import histogram as histogram
    from bmrm.pairs.neighbours import nearest as nearest
    from bmrm.pairs.neighbours import within as within
    from bmrm.pairs.plan import PairPlan as PairPlan
    from bmrm.pairs.points import Points as Points
    from bmrm.pairs.statistics import Statistic as Statistic
    from bmrm.pairs.statistics import statistic as statistic

_HOMES = {
    "Points": "points",
    "histogram": "histograms",
    "count": "histograms",
    "explain": "histograms",
    "Histogram": "histograms",
    "Density": "densities",
    "nearest": "neighbours",
    "within": "neighbours",
    "PairPlan": "plan",
    "Statistic": "statistics",
    "kde": "densities",
    "statistic": "statistics",
}
"""The module of each public name that is not a function of the language, below ``bmrm.pairs``."""

__getattr__, __dir__ = load_on_use(
    __name__,
    _HOMES,
    table="bmrm.formulas.language.functions",
    omitted=("local",),  # a pair of points has no array
)
