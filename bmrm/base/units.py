"""Format numbers, sizes and times for people."""

from __future__ import annotations

import math


def number_text(value: float) -> str:
    """Return the shortest decimal form that reads back as the same number; integers get no point.

    Examples
    --------
    >>> number_text(1234567.0), number_text(0.1)
    ('1234567', '0.1')
    """
    if isinstance(value, int):
        return str(value)
    return f"{int(value)}" if value.is_integer() and abs(value) < 1e15 else f"{value!r}"


def size_text(count: float) -> str:
    """Format a number of bytes in decimal units.

    Examples
    --------
    >>> size_text(512), size_text(2_340_000)
    ('512 B', '2.34 MB')
    """
    if count < 1000:
        return f"{count:.0f} B"
    for unit in ("kB", "MB", "GB", "TB"):
        count /= 1000
        if count < 999.5:
            return f"{count:.3g} {unit}"
    return f"{count / 1000:.3g} PB"


def time_text(seconds: float) -> str:
    """Format a duration in a suitable unit.

    Examples
    --------
    >>> time_text(0.0123), time_text(3.21), time_text(125), time_text(7260)
    ('12 ms', '3.2 s', '2 min 05 s', '2 h 01 min')
    """
    if seconds < 0.9995:
        return f"{seconds * 1e3:.0f} ms"
    if seconds < 99.95:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest:02d} s"
    return f"{minutes // 60} h {minutes % 60:02d} min"


def finite_or_none(value: float) -> float | None:
    """Replace an infinity or NaN by None, since JSON has neither."""
    return float(value) if math.isfinite(value) else None
