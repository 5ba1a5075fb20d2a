"""Warnings that name the line of the user's that called the package."""

from __future__ import annotations

import sys
import warnings
from pathlib import Path

PACKAGE = str(Path(__file__).parents[1]) + "/"
"""Folder of the package: frames of files in it are not the user's."""

CALLERS = ("sklearn", "joblib")
"""Packages that call estimators for a user: pipelines, searches, and decorators of methods."""


def warn(text: str, category: type[Warning] = UserWarning) -> None:
    """Warn at the innermost line outside of the package, and of those that call it for a user.

    How many functions lie between, with the wrappers of decorators, does not matter. By default Python shows
    a warning once per line of the caller.

    Examples
    --------
    >>> import warnings
    >>> with warnings.catch_warnings(record=True) as seen:
    ...     warnings.simplefilter("always")
    ...     warn("the column is taken as a vector")
    >>> seen[0].filename.startswith(PACKAGE)
    False
    """
    loaded = (getattr(sys.modules.get(name), "__file__", None) for name in CALLERS)
    folders = (PACKAGE, *(str(Path(file).parent) + "/" for file in loaded if file))
    level, frame = 2, sys._getframe(1)
    while frame.f_code.co_filename.startswith(folders) and frame.f_back is not None:
        level, frame = level + 1, frame.f_back
    warnings.warn(text, category, stacklevel=level)
