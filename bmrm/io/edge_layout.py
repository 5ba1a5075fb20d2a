"""What the lines of an edge text look like, decided by its comments and its first two lines.

Everything that the text says of itself counts: names of columns, a column ``Type`` as Gephi writes it, the
attributes that NetworkX writes behind an edge, and the comments with which SNAP and KONECT begin.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from bmrm.errors import DataError, escape_unprintable
from bmrm.io.edge_columns import choose_columns, named_ends

SEPARATORS = ("\t", ";", ",")
"""Bytes that separate columns if the first line has one, the first of these before the others."""

_BLANKS = b" \t\r\x0b\x0c"
_INTEGER = re.compile(rb'-?[0-9]+|"-?[0-9]+"')
_NUMBER = re.compile(rb'"?[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?"?')
_QUOTED = re.compile(rb'"(?:[^"]|"")*"')
_REST = re.compile(rb"[ \t][#%]|[ \t,;]\{")  # a comment, or the attributes of an edge
_SNAP = re.compile(rb"^#\s*(un)?directed graph\b", re.IGNORECASE | re.MULTILINE)
_ARROWS = (b"->", b"--", b"=>", b"<-", b"|")
_MAX_SHOWN = 40  # bytes of a line that a message quotes
_KONECT = re.compile(rb"\A\s*%+\s*(sym|asym|bip)\s+([a-z]+)", re.IGNORECASE)


@dataclass(frozen=True)
class EdgeLayout:
    """The columns of an edge text; places start at 0.

    Attributes
    ----------
    names : bool
        Whether ids are names, else integers.
    separator : str
        Between columns; "" for blanks, or a comma.
    columns : int
        Number of columns that each line must have.
    source, target : int
    weight : int or None
    direction : int or None
        A column that says ``directed`` or ``undirected``, the same on each line.
    attributes : bool
        Whether the last column has the attributes of the edge, as NetworkX writes them.
    directed : bool or None
        What the text says of itself.
    has_header : bool
        Whether the first line names the columns.
    unread : bool
        Whether numbers in a third column without a name are not read.
    """

    names: bool = False
    separator: str = ""
    columns: int = 2
    source: int = 0
    target: int = 1
    weight: int | None = None
    direction: int | None = None
    attributes: bool = False
    directed: bool | None = None
    has_header: bool = False
    unread: bool = False


def decide_layout(
    first: bytes,
    second: bytes | None,
    comments: bytes,
    *,
    labels: str,
    weights: bool | None,
    columns: Sequence[str] | None,
) -> EdgeLayout:
    """Decide the layout of a text.

    Parameters
    ----------
    first, second : bytes
        The first lines that hold something; there may be no second.
    comments : bytes
        What stands before them.
    labels, weights, columns
        As for `bmrm.io.edges.read_edges`.

    Raises
    ------
    DataError
        If the text does not say which columns are which, or if it has two kinds of nodes.

    Examples
    --------
    >>> about = {"labels": "auto", "weights": None, "columns": None}
    >>> decide_layout(b"to;from;weight", b"Ann;New York;2", b"", **about).weight
    2
    """
    _check_is_edge(first, labels)
    separator = _separator(first)
    head = split_columns(first, separator)
    data = None if second is None else split_columns(second, separator)
    named = columns is not None and not all(name.isdigit() for name in columns)
    directed, is_weighted = _read_comments(comments)
    if named or _is_header(head, data, labels):
        return _with_header(head, data, separator, labels, weights, columns, directed)
    found = [0, 1] if columns is None else [int(name) - 1 for name in columns]
    if columns is not None and not 0 <= min(found) <= max(found) < len(head):
        raise DataError(f"found {len(head)} columns without names, expected columns= from 1 to {len(head)}")
    attributes = len(head) > 2 and head[-1].startswith(b"{")
    if (
        columns is None
        and not attributes
        and (weights or (weights is None and is_weighted and len(head) > 2))
    ):
        found.append(2)
    unread = weights is None and len(found) == 2 and len(head) > 2 and _NUMBER.fullmatch(head[2]) is not None
    return EdgeLayout(
        names=_are_names(labels, [head[place] for place in found[:2] if place < len(head)]),
        separator=separator,
        columns=max(len(head), *(place + 1 for place in found)),
        source=found[0],
        target=found[1],
        weight=found[2] if len(found) == 3 else None,
        attributes=attributes,
        directed=directed,
        unread=unread and columns is None,
    )


def _check_is_edge(line: bytes, labels: str) -> None:
    """Raise for a first line of another format: of JSON, XML, Pajek, a list of Python, or with arrows."""
    words = line.split()
    odd = words[0][:1] in (b"{", b"[", b"<", b"(", b"*") or (len(words) > 1 and words[1] in _ARROWS)
    if odd and labels != "string":
        found = escape_unprintable(line[:_MAX_SHOWN].decode(errors="replace").strip())
        raise DataError(f"found the line {found!r}, expected two ids (labels='string' reads any)")


def _with_header(
    head: list[bytes],
    data: list[bytes] | None,
    separator: str,
    labels: str,
    weights: bool | None,
    columns: Sequence[str] | None,
    directed: bool | None,
) -> EdgeLayout:
    names = [_unquoted(name) for name in head]
    found = choose_columns(names, columns, weights)
    row = [] if data is None else data
    direction = None
    for place, name in enumerate(names):
        word = _unquoted(row[place]).strip().lower() if place < len(row) else ""
        if name.lower() == "type" and word in ("directed", "undirected"):
            direction, directed = place, word == "directed"
    return EdgeLayout(
        names=_are_names(labels, [row[place] for place in found[:2] if place < len(row)]),
        separator=separator,
        columns=len(head),
        source=found.source,
        target=found.target,
        weight=found.weight,
        direction=direction,
        directed=directed,
        has_header=True,
    )


def split_columns(line: bytes, separator: str) -> list[bytes]:
    """Split a line as the compiled reader does; what it would refuse is split in some way.

    Examples
    --------
    >>> split_columns(b' a "b c" 1 # x', ""), split_columns(b"1, x y ,", ",")
    ([b'a', b'"b c"', b'1'], [b'1', b'x y', b''])
    """
    cut = separator.encode() or b","
    space = _BLANKS.replace(cut, b"")
    found: list[bytes] = []
    at, pending = _skip(line, 0, space), False
    while at < len(line) or pending:
        if len(found) >= 2 and line[at : at + 1] in (b"#", b"%") and not pending:
            break
        if len(found) >= 2 and line[at : at + 1] == b"{":
            return [*found, line[at:].rstrip(_BLANKS)]
        quoted = _QUOTED.match(line, at)
        end = quoted.end() if quoted else at
        while end < len(line) and line[end : end + 1] not in (cut if separator else _BLANKS + cut):
            end += 1
        found.append(line[at:end].rstrip(space))
        at = _skip(line, end, space)
        pending = line[at : at + 1] == cut
        at = _skip(line, at + 1, space) if pending else at
    return found


def _skip(line: bytes, at: int, blanks: bytes) -> int:
    return len(line) - len(line[at:].lstrip(blanks))


def _separator(line: bytes) -> str:
    """Return what separates the columns of a line; integers may mix blanks and commas."""
    rest = _REST.search(line)
    bare = _QUOTED.sub(
        b"", line[: rest.start() + (line[rest.end() - 1 : rest.end()] == b"{")] if rest else line
    )
    found = next((separator for separator in SEPARATORS if separator.encode() in bare.strip()), "")
    strict, loose = split_columns(line, found), split_columns(line, "")
    if found and len(loose) > 1 and all(map(_INTEGER.fullmatch, loose[:2])):
        mixed = len(strict) < 2 or not all(map(_INTEGER.fullmatch, strict[:2]))
        return "" if mixed or (len(strict) == 2 and found != ";") else found
    return found


def _is_header(head: list[bytes], data: list[bytes] | None, labels: str) -> bool:
    """Whether the first line names the columns: it says source and target, or lacks numbers of the next."""
    if len(head) < 2 or any(_INTEGER.fullmatch(word) for word in head[:2]):
        return False
    if _says_ends(head):
        return True
    if labels == "string" or data is None or len(data) < 2:
        return False
    if all(map(_INTEGER.fullmatch, data[:2])):
        return True
    if any(map(_NUMBER.fullmatch, head)) or any(word[:1] == b"{" for word in (*head, *data)):
        return False
    return len(head) == len(data) > 2 and any(map(_NUMBER.fullmatch, data))


def _says_ends(head: list[bytes]) -> bool:
    try:
        return named_ends([_unquoted(word) for word in head]) is not None
    except DataError:  # several columns of one side, which is an error later
        return True


def _are_names(labels: str, ids: list[bytes]) -> bool:
    if labels == "string":
        return True
    return labels == "auto" and not all(map(_INTEGER.fullmatch, ids))


def _unquoted(word: bytes) -> str:
    if len(word) > 1 and word[:1] == word[-1:] == b'"':
        word = word[1:-1].replace(b'""', b'"')
    return word.decode(errors="replace")


def _read_comments(comments: bytes) -> tuple[bool | None, bool]:
    """Return whether SNAP or KONECT says that edges are directed, and whether that they have weights."""
    konect = _KONECT.search(comments)
    if konect is not None:
        if konect[1].lower() == b"bip":
            raise DataError(
                "found a bipartite graph of KONECT, whose sides number their nodes each from 1, expected one "
                "set of nodes (without its first line the ids are read as they are)"
            )
        return konect[1].lower() == b"asym", konect[2].lower() != b"unweighted"
    snap = _SNAP.search(comments)
    return (None if snap is None else snap[1] is None), False
