"""Figures of matplotlib, which the extra ``plot`` installs."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from bmrm.base.atomic import atomic_write
from bmrm.errors import ParameterError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DOTS_PER_INCH = 120
"""Resolution of pictures made of dots."""


def new_figure(size_inches: tuple[float, float]) -> Figure:
    """Make a figure without pyplot, so that no window system is needed.

    Raise `ParameterError` if matplotlib is missing.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise ParameterError("a plot needs matplotlib: pip install matplotlib") from None
    return Figure(figsize=size_inches, layout="constrained")


def check_suffix(path: str | os.PathLike[str]) -> str:
    """Return the format of a file's suffix; raise `ParameterError` if matplotlib has none, or is missing."""
    known = new_figure((1.0, 1.0)).canvas.get_supported_filetypes()
    suffix = os.path.splitext(os.fspath(path))[1].lstrip(".").lower()
    if suffix not in known:
        raise ParameterError(
            f"{os.fspath(path)}: found suffix {suffix!r}, expected one of {', '.join(sorted(known))}"
        )
    return suffix


def save_figure(figure: Figure, path: str | os.PathLike[str]) -> None:
    """Write a figure, whole or not at all, in the format of the file's suffix."""
    kind = check_suffix(path)
    with atomic_write(path) as file:
        figure.savefig(file, format=kind, dpi=DOTS_PER_INCH)
