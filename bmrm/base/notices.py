"""Warnings that name the line of the user's that called the package."""

from __future__ import annotations

import sys
import warnings
from pathlib import Path

PACKAGE = str(Path(__file__).parents[1]) + "/"
"""Folder of the package: frames of files in it are not the user's."""


def warn(text: str, category: type[Warning] = UserWarning) -> None:
    """Warn at the innermost line outside of the package.

    How many functions of the package lie between, with the wrappers of decorators, does not matter. By
    default Python shows a warning once per line of the caller.

    Examples
    --------
    >>> import warnings
    >>> with warnings.catch_warnings(record=True) as seen:
    ...     warnings.simplefilter("always")
    ...     warn("the column is taken as a vector")
    >>> seen[0].filename.startswith(PACKAGE)
    False
    """
    level, frame = 2, sys._getframe(1)
    while frame.f_code.co_filename.startswith(PACKAGE) and frame.f_back is not None:
        level, frame = level + 1, frame.f_back
    warnings.warn(text, category, stacklevel=level)
