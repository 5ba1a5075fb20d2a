"""Names of the columns of frames, which a model remembers, so that it refuses columns in another order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bmrm.errors import DataError

Names = tuple[str, ...]


def find_names(X: Any) -> Names | None:
    """Return the names of the columns of a frame or an Arrow table; None unless all of them are text.

    Examples
    --------
    >>> class Frame:
    ...     columns = ["age", "height"]
    >>> find_names(Frame())
    ('age', 'height')
    """
    names = getattr(X, "column_names", None)  # of Arrow, whose `columns` are the columns themselves
    if names is None:
        names = getattr(X, "columns", None)
    if names is None or callable(names) or not hasattr(names, "__iter__"):
        return None
    found = tuple(names)
    return tuple(map(str, found)) if found and all(isinstance(name, str) for name in found) else None


def check_names(what: str, known: Sequence[str] | None, found: Sequence[str] | None) -> None:
    """Raise `DataError` if there are two lists of names that differ, or have another order.

    Examples
    --------
    >>> check_names("X", ("age", "height"), ("height", "age"))
    Traceback (most recent call last):
    bmrm.errors.DataError: X: found 'height' as column 1, expected 'age' as in training
    """
    if known is None or found is None or tuple(known) == tuple(found):
        return
    missing, more = (
        [name for name in some if name not in others]
        for some, others in ((known, set(found)), (found, set(known)))
    )
    if missing:
        others = f", and {len(missing) - 1} others are missing" if len(missing) > 1 else ""
        raise DataError(f"{what}: found no column {missing[0]!r}{others}, expected the columns of training")
    if more:
        others = f" and {len(more) - 1} others" if len(more) > 1 else ""
        raise DataError(f"{what}: found a column {more[0]!r}{others}, expected the columns of training alone")
    place = next((k for k, pair in enumerate(zip(known, found, strict=False)) if pair[0] != pair[1]), None)
    if place is None:
        raise DataError(f"{what}: found {len(found)} columns, expected {len(known)} as in training")
    raise DataError(
        f"{what}: found {found[place]!r} as column {place + 1}, expected {known[place]!r} as in training"
    )
