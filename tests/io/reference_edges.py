"""The grammar of edge text in plain Python: a reference for the compiled reader."""

import re
from dataclasses import dataclass

import numpy as np
import pytest

from bmrm.errors import DataError
from bmrm.io._text import PADDING
from bmrm.io.edges import EdgeParser

BLANK = rb"[ \t\r\x0b\x0c]"
COLUMN_END = re.compile(rb"%b*(,?)%b*" % (BLANK, BLANK))
NUMBER = re.compile(rb"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
INTEGER = re.compile(rb"-?[0-9]+")
TOKEN = re.compile(rb"[^ \t\r\x0b\x0c,]*")
COMMENT = re.compile(rb"%b*(?:[#%%]|//|$)" % BLANK)


class FaultError(Exception):
    """A fault, with its line and column."""


@dataclass
class Expected:
    """The meaning of a text in plain Python types."""

    edges: list  # of (source, target, weight), with ids as integers or strings
    strings: bool
    has_header: bool


def columns_of(line):
    """Return the columns of an edge, as (token, position); one is empty if a comma stands where it should."""
    found, at, comma = [], len(line) - len(line.lstrip(b" \t\r\x0b\x0c")), False
    while at < len(line) or comma:
        if len(found) >= 2 and line[at : at + 1] in (b"#", b"%") and not comma:
            break
        token = TOKEN.match(line, at)[0]
        found.append((token, at))
        end = COLUMN_END.match(line, at + len(token))
        comma, at = bool(end[1]), end.end()
    return found


def reference(text, *, labels="auto", weights=False):
    """Parse a text, or raise `FaultError` at the first fault."""
    text = text.removeprefix(b"\xef\xbb\xbf")
    numbered = [(i, line) for i, line in enumerate(text.split(b"\n"), 1) if not COMMENT.match(line)]
    looks = [
        [bool(INTEGER.fullmatch(token)) for token, _ in [*columns_of(line), (b"", 0)][:2]]
        for _, line in numbered[:2]
    ]
    first = looks[0] if looks else [True, True]
    has_header = labels != "string" and not any(first) and len(looks) > 1 and all(looks[1])
    strings = labels == "string" or (labels == "auto" and not all(first) and not has_header)
    edges = []
    for number, line in numbered[has_header:]:
        columns = columns_of(line)
        ids = [_id_of(token, strings, (number, at + 1)) for token, at in columns[:1]]
        if len(columns) == 1 or (not columns[1][0] and columns[1][1] == len(line)):
            raise FaultError(number, len(line) + 1)
        ids += [_id_of(token, strings, (number, at + 1)) for token, at in columns[1:2]]
        values = []
        for token, at in columns[2:4]:
            if not NUMBER.fullmatch(token) or not np.isfinite(float(token)):
                raise FaultError(number, at + 1)
            values.append(float(token))
        if len(columns) > 4:
            raise FaultError(number, columns[4][1] + 1)
        if weights and not values:
            raise FaultError(number, None)
        edges.append((*ids, values[0] if weights else None))
    return Expected(edges, strings, has_header)


def _id_of(token, strings, place):
    if not strings:
        if not INTEGER.fullmatch(token) or not -(1 << 63) <= int(token) < 1 << 63:
            raise FaultError(*place)
        return int(token)
    try:
        name = token.decode()
    except UnicodeDecodeError:
        raise FaultError(*place) from None
    if not token or min(token) < 32:
        raise FaultError(*place)
    return name


def parse(text, *, threads=1, block_bytes=1 << 20, parts=1, labels="auto", weights=False):
    """Run the compiled parser over a text in memory, in parts of whole lines."""
    parser = EdgeParser("text", labels, threads, weights=weights, block_bytes=block_bytes)
    lines = re.findall(rb"[^\n]*\n|[^\n]+", text) if parts > 1 else [text]
    pieces = [b"".join(lines[i * len(lines) // parts : (i + 1) * len(lines) // parts]) for i in range(parts)]
    for piece in pieces:
        parser.parse(piece + bytes(PADDING), 0, len(piece))
    return parser.finish()


def assert_agrees(text, options, **how):
    """Assert that the reader and the reference agree on a text, including faults."""
    try:
        expected = reference(text, **options)
    except FaultError as fault:
        line, column = fault.args
        with pytest.raises(DataError) as found:
            parse(text, **how, **options)
        place = re.match(r"text:(\d+):(\d+): found ", str(found.value))
        assert int(place[1]) == line, (text, options, how, str(found.value))
        assert column is None or int(place[2]) == column, (text, options, how, str(found.value))
        return
    edges = parse(text, **how, **options)
    ids = [id for edge in expected.edges for id in edge[:2]]
    labels = list(dict.fromkeys(ids)) if expected.strings else sorted(set(ids))
    number = {label: i for i, label in enumerate(labels)}
    assert edges.has_header == expected.has_header, (text, options)
    assert edges.n_nodes == len(labels), (text, options)
    found = list(range(edges.n_nodes)) if edges.labels is None else edges.labels.tolist()
    assert found == labels, (text, options, how)
    assert (edges.labels is None) == (not expected.strings and labels == list(range(len(labels))))
    assert edges.sources.dtype == edges.targets.dtype == np.int32
    assert edges.sources.tolist() == [number[edge[0]] for edge in expected.edges], (text, options, how)
    assert edges.targets.tolist() == [number[edge[1]] for edge in expected.edges], (text, options, how)
    if not options.get("weights"):
        assert edges.weights is None
        return
    assert edges.weights.tobytes() == np.array([edge[2] for edge in expected.edges], float).tobytes()
