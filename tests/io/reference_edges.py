"""The grammar of edge text in plain Python: a reference for the compiled reader."""

import contextlib
import re
from dataclasses import dataclass

import numpy as np
import pytest

from bmrm.errors import DataError
from bmrm.io._text import PADDING
from bmrm.io.edge_layout import decide_layout
from bmrm.io.edges import EdgeParser

BLANK = rb"[ \t\r\x0b\x0c]"
NUMBER = re.compile(rb"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
INTEGER = re.compile(rb"-?[0-9]+")
QUOTED = re.compile(rb'"((?:[^"]|"")*)"')
COMMENT = re.compile(rb"%b*(?:[#%%]|//|$)" % BLANK)
BLANK_LINE = re.compile(rb"%b*" % BLANK)


class FaultError(Exception):
    """A fault, with its line and column."""


class NoReferenceError(Exception):
    """The reference knows no attributes of edges."""


@dataclass
class Expected:
    """The meaning of a text in plain Python types."""

    edges: list  # of (source, target, weight), with ids as integers or strings
    strings: bool
    has_header: bool
    has_weights: bool


class Line:
    """One line, from which columns are taken."""

    def __init__(self, number, line, layout):
        self.number, self.line, self.layout = number, line, layout
        self.at, self.pending = 0, False
        self.blanks = b" \t\x0b\x0c".replace(layout.separator.encode() or b" ", b" ")
        self.separator = layout.separator.encode() or b","

    def fault(self, at):
        raise FaultError(self.number, at + 1)

    def skip(self):
        """Skip blanks; carriage returns are blanks only before the end of the line."""
        rest = self.line[self.at :]
        stripped = rest.lstrip(self.blanks)
        if stripped.startswith(b"\r"):
            while BLANK_LINE.match(rest)[0]:
                if rest[:1] == b"\r" and rest.strip(b"\r"):
                    break
                if rest[:1] not in (b"\r", *(bytes([c]) for c in self.blanks)):
                    break
                rest = rest[1:]
            stripped = rest
        self.at = len(self.line) - len(stripped)

    def is_token_end(self, at):
        found = self.line[at : at + 1]
        return not found or found == self.separator or found in b" \t\r\x0b\x0c"

    def is_over(self, ids_are_read):
        found = self.line[self.at : self.at + 1]
        return not self.pending and (not found or (ids_are_read and found in (b"#", b"%")))

    def token(self):
        """Return the next column as text, and where it is; a quoted one without its quotes."""
        at = self.at
        if self.line[at : at + 1] == b'"':
            quoted = QUOTED.match(self.line, at)
            if not quoted or not self.is_token_end(quoted.end()):
                self.fault(at)
            self.at = quoted.end()
            return quoted[1].replace(b'""', b'"'), at, True
        end = at
        while end < len(self.line):
            found = self.line[end : end + 1]
            if found in (self.separator, b"\r") or (not self.layout.separator and self.is_token_end(end)):
                break
            end += 1
        self.at = end
        return self.line[at:end], at, False

    def skipped(self, direction):
        """Skip a column; if it is that of the direction, it must be the one that the first edge has."""
        token, at, quoted = self.token()
        if b"\0" in token:
            self.fault(at if quoted else at + token.index(b"\0"))
        word = re.sub(rb'["\s]', b"", token).lower()
        if direction and word != (b"undirected" if self.layout.directed is False else b"directed"):
            self.fault(at)

    def next(self):
        """Go to the next column."""
        self.skip()
        self.pending = self.line[self.at : self.at + 1] == self.separator
        if self.pending:
            self.at += 1
            self.skip()
        elif self.layout.separator and self.line[self.at : self.at + 1] not in (b"", b"#", b"%"):
            self.fault(self.at)

    def id(self, column):
        if column > 0 and self.at == len(self.line):
            self.fault(self.at)
        if not self.layout.names:
            return self.number_of(
                INTEGER, lambda text: int(text) if -(1 << 63) <= int(text) < 1 << 63 else None
            )
        token, at, quoted = self.token()
        if self.layout.separator and not quoted:
            kept = token.rstrip(b" \t\r\x0b\x0c")
            self.at -= len(token) - len(kept)
            token = kept
            comment = re.search(rb"(?<=[ \t\x0b\x0c])[#%]", token)
            if comment:
                self.fault(at + comment.start())
        try:
            name = token.decode()
        except UnicodeDecodeError:
            self.fault(at)
        if not token or min(token) < 32:
            self.fault(at)
        return name

    def number_of(self, pattern, convert):
        """Read a number that a pattern describes, in quotes or not."""
        at, quoted = self.at, self.line[self.at : self.at + 1] == b'"'
        found = pattern.match(self.line, at + quoted)
        if not found or (quoted and self.line[found.end() : found.end() + 1] != b'"'):
            self.fault(at)
        self.at = found.end() + quoted
        value = convert(found[0]) if self.is_token_end(self.at) else None
        if value is None:
            self.fault(at)
        return value

    def weight(self):
        def convert(text):
            return float(text) if np.isfinite(float(text)) else None

        return self.number_of(NUMBER, convert)


def reference(text, *, labels="auto", weights=None, columns=None):
    """Parse a text, or raise `FaultError` at the first fault, or `DataError` if it says no layout."""
    text = text.removeprefix(b"\xef\xbb\xbf")
    numbered = [(i, line) for i, line in enumerate(text.split(b"\n"), 1)]
    held = [(i, line) for i, line in numbered if not COMMENT.match(line)]
    if not held:
        return Expected([], labels == "string", False, bool(weights))
    before = b"\n".join(line for i, line in numbered if i < held[0][0])
    second = held[1][1] if len(held) > 1 else None
    about = {"labels": labels, "weights": weights, "columns": columns}
    layout = decide_layout(held[0][1], second, before, **about)
    if layout.attributes:
        raise NoReferenceError
    edges = [edge_of(Line(i, line, layout)) for i, line in held[layout.has_header :]]
    return Expected(edges, layout.names, layout.has_header, layout.weight is not None)


def edge_of(line):
    """Return the source, the target and the weight of a line."""
    layout, found = line.layout, {}
    last = max(layout.source, layout.target)
    line.skip()
    column = 0
    while not line.is_over(column > last):
        if column == layout.columns:
            line.fault(line.at)
        if column in (layout.source, layout.target):
            found[column] = line.id(column)
        elif column == layout.weight:
            found[column] = line.weight()
        else:
            line.skipped(column == layout.direction)
        line.next()
        column += 1
    if column < layout.columns:
        line.fault(line.at)
    weight = None if layout.weight is None else found[layout.weight]
    return found[layout.source], found[layout.target], weight


def parse(text, *, threads=1, block_bytes=1 << 20, parts=1, labels="auto", weights=None, columns=None):
    """Run the compiled parser over a text in memory, in parts of whole lines."""
    parser = EdgeParser("text", labels, threads, weights=weights, columns=columns, block_bytes=block_bytes)
    lines = re.findall(rb"[^\n]*\n|[^\n]+", text) if parts > 1 else [text]
    pieces = [b"".join(lines[i * len(lines) // parts : (i + 1) * len(lines) // parts]) for i in range(parts)]
    for piece in pieces:
        parser.parse(piece + bytes(PADDING), 0, len(piece))
    return parser.finish()


def assert_agrees(text, options, **how):
    """Assert that the reader and the reference agree on a text, including faults."""
    try:
        expected = reference(text, **options)
    except DataError as error:
        with pytest.raises(DataError, match=f"^text: {re.escape(str(error))}$"):
            parse(text, **how, **options)
        return
    except NoReferenceError:
        with contextlib.suppress(DataError):
            parse(text, **how, **options)
        return
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
    if not expected.has_weights:
        assert edges.weights is None
        return
    assert edges.weights is not None
    assert edges.weights.tobytes() == np.array([edge[2] for edge in expected.edges], float).tobytes()
