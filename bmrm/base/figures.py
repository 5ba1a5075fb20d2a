"""Figures of matplotlib, which the extra ``plot`` installs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bmrm.errors import ParameterError

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def require_matplotlib() -> None:
    """Raise `ParameterError` if matplotlib is missing."""
    try:
        import matplotlib.figure  # noqa: F401
    except ImportError:
        raise ParameterError("a plot needs matplotlib: pip install 'bmrm[plot]'") from None


def new_figure(size_inches: tuple[float, float]) -> Figure:
    """Make a figure without pyplot, so that no window system is needed."""
    require_matplotlib()
    from matplotlib.figure import Figure

    return Figure(figsize=size_inches, layout="constrained")
