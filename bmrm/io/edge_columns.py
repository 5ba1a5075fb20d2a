"""Which columns of a table of edges hold sources, targets and weights: by their names.

Columns that no name tells are never guessed: they are an error that asks for `columns`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from bmrm.errors import DataError, ParameterError

SOURCES, TARGETS = ("source", "src"), ("target", "tgt", "dst", "dest", "destination")
"""First words of names, after which any others may follow, as in ``source_id`` and ``targetNode``."""

BEGINNINGS, ENDS = ("from", "start", "tail"), ("to", "end", "head")
"""Such words after which only `ID_WORDS` may follow: from_date is no source."""

ID_WORDS = frozenset({"id", "ids", "node", "nodes", "vertex", "user", "name"})
WEIGHTS = ("weight", "weights", "w")
HINT = "columns= or --columns names them"

_NO_NAME = re.compile(r"(|f|V|X|column_?)[0-9]+")  # of columns that have no names of their own
_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+|[0-9]+")
_MAX_SHOWN = 10  # names that a message lists


class EdgeColumns(NamedTuple):
    """Places of the columns, from 0; no ``weight`` is None."""

    source: int
    target: int
    weight: int | None


def check_columns(columns: Sequence[str] | None, weights: bool | None) -> None:
    """Raise for names of columns that no table can have."""
    if columns is None:
        return
    is_list = isinstance(columns, Sequence) and not isinstance(columns, (str, bytes))
    if not is_list or len(columns) not in (2, 3) or not all(isinstance(name, str) for name in columns):
        raise ParameterError(f"columns: found {columns!r}, expected the names of source, target[, weight]")
    if len(set(columns)) < len(columns):
        raise ParameterError(f"columns: found {', '.join(columns)}, expected different names")
    if len(columns) == 3 and weights is not None and not weights:
        raise ParameterError("columns: found a column of weights with weights=False, expected two columns")


def choose_columns(
    names: Sequence[str],
    columns: Sequence[str] | None = None,
    weights: bool | None = None,
    weight: str | None = None,
) -> EdgeColumns:
    """Find the columns of a table.

    Parameters
    ----------
    names : sequence of str
        Of all columns.
    columns : sequence of str, optional
        Names of source, target and maybe weight. Default: names that say so; else two columns, besides one
        of weights, are source and target in their order, and so are the first two of columns without names.
    weights : bool, optional
        Whether weights are wanted; None means if a name says that they are there.
    weight : str, optional
        Name of the column of weights.

    Raises
    ------
    DataError
        No names, or several, say which columns are which.

    Examples
    --------
    >>> choose_columns(["id", "target", "source", "weight"])
    EdgeColumns(source=2, target=1, weight=3)
    >>> choose_columns(["a", "b", "c"], ("c", "a"))
    EdgeColumns(source=2, target=0, weight=None)
    """
    if columns is not None:
        places = [_find(names, name) for name in columns]
        if weight is not None and len(places) == 3:
            raise ParameterError(
                "columns, weight: found both a third column and weight, expected one of them"
            )
        third = places[2] if len(places) == 3 else None
        return EdgeColumns(
            places[0], places[1], third if third is not None else _weight(names, weights, weight)
        )
    found = _weight(names, None if weights else weights, weight)  # a third may be one without a name
    ends = named_ends(names)
    if ends is None:
        others = [place for place in range(len(names)) if place != found]
        if all(map(_NO_NAME.fullmatch, names)):
            del others[2 + bool(weights) :]
        if weights and found is None and len(others) == 3:
            found = others.pop()
        ends = _by_position(names, others)
    if weights and found is None:
        raise DataError(
            f"found no column of weights among {_listed(names)}, expected one named weight ({HINT})"
        )
    return EdgeColumns(*ends, found)


def named_ends(names: Sequence[str]) -> tuple[int, int] | None:
    """Return the only columns whose names say source and target; None if no such names are there.

    Examples
    --------
    >>> named_ends(["FromNodeId", "ToNodeId"]), named_ends(["target", "source", "source_url"])
    ((0, 1), (1, 0))
    """
    found = [
        _best(names, words, more, side)
        for words, more, side in ((SOURCES, BEGINNINGS, "sources"), (TARGETS, ENDS, "targets"))
    ]
    if found[0] is None or found[1] is None:
        return None
    return found[0], found[1]


def _best(names: Sequence[str], words: Sequence[str], more: Sequence[str], side: str) -> int | None:
    """Return the only column of one side: a name of one word is preferred to longer ones."""
    ranks: dict[int, list[int]] = {}
    for place, name in enumerate(names):
        parts = [word.lower() for word in _WORD.findall(name)]
        if parts and (parts[0] in words or (parts[0] in more and ID_WORDS.issuperset(parts[1:]))):
            ranks.setdefault((len(parts) > 1) + 2 * (parts[0] in more), []).append(place)
    if not ranks:
        return None
    best = ranks[min(ranks)]
    if len(best) > 1:
        raise DataError(
            f"found several columns of {side}: {_listed([names[i] for i in best])}, expected one ({HINT})"
        )
    return best[0]


def _weight(names: Sequence[str], weights: bool | None, weight: str | None) -> int | None:
    if weights is not None and not weights:
        return None
    if weight is not None:
        return _find(names, weight)
    found = [place for place, name in enumerate(names) if name.strip().lower() in WEIGHTS]
    if len(found) > 1:
        raise DataError(
            f"found several columns of weights: {_listed([names[i] for i in found])}, expected one ({HINT})"
        )
    if weights and not found:
        raise DataError(
            f"found no column of weights among {_listed(names)}, expected one named weight ({HINT})"
        )
    return found[0] if found else None


def _by_position(names: Sequence[str], others: list[int]) -> tuple[int, int]:
    """Return the ends of a table whose only two columns, besides weights, are not both named."""
    if len(others) != 2:
        raise DataError(f"found the columns {_listed(names)}, expected some named source and target ({HINT})")
    first = _best(names, TARGETS, ENDS, "targets") == others[0]
    last = _best(names, SOURCES, BEGINNINGS, "sources") == others[1]
    return (others[1], others[0]) if first or last else (others[0], others[1])


def _find(names: Sequence[str], name: str) -> int:
    if list(names).count(name) > 1:
        raise DataError(f"found the column {name!r} twice, expected it once")
    if name not in names:
        raise DataError(f"found no column {name!r}, expected one of {_listed(names)}")
    return list(names).index(name)


def _listed(names: Sequence[str]) -> str:
    more = len(names) - _MAX_SHOWN
    shown = ", ".join(repr(name[:40]) for name in names[:_MAX_SHOWN])
    return shown + (f" and {more} more" if more > 0 else "")
