"""Tables in plain text, for `str()` and the commands."""

from __future__ import annotations

from collections.abc import Sequence


def format_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Format rows under a header, with columns aligned to the right.

    Examples
    --------
    >>> print(format_table(["lam", "passes"], [["0.1", "7"], ["0.01", "12"]]))
     lam  passes
     0.1       7
    0.01      12
    """
    widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
    lines = ("  ".join(map(str.rjust, row, widths)).rstrip() for row in [head, *rows])
    return "\n".join(lines)
