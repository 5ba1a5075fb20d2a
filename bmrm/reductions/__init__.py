"""Reductions over the rows of a matrix: formulas in Python, compiled.

Names are loaded on first use.
"""

from bmrm.base.on_use import load_on_use

TYPE_CHECKING = False  # `typing` takes longer to load than all of this
if TYPE_CHECKING:
    from bmrm.formulas.language.functions import *  # noqa: F403 (those that a row function may call)
    from bmrm.reductions.facility import Reduction as Reduction
    from bmrm.reductions.facility import operator as operator
    from bmrm.reductions.facility import reduction as reduction

_HOMES = dict.fromkeys(("operator", "reduction", "Reduction"), "facility")
"""The module of each public name that is not a function of the language, below ``bmrm.reductions``."""

__getattr__, __dir__ = load_on_use(__name__, _HOMES, table="bmrm.formulas.language.functions")
