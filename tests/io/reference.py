"""The grammar of SVMlight text in plain Python: a reference for the compiled reader."""

import re
from dataclasses import dataclass

import numpy as np
import pytest

from bmrm.errors import DataError
from bmrm.io._svmlight import MAX_INDEX
from bmrm.io._text import PADDING
from bmrm.io.row_storage import SPARSE
from bmrm.io.svmlight import join_parts
from bmrm.io.text import Grammar, Parser

NUMBER = rb"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?"
LABELS = re.compile(rb"%b(?:,%b)*" % (NUMBER, NUMBER))
UNLABELLED = re.compile(rb"%b:" % NUMBER)
PAIR = re.compile(rb"([0-9]+):(%b)" % NUMBER)
QUERY = re.compile(rb"qid:(-?[0-9]{1,19})")


class FaultError(Exception):
    """A fault, with its line."""


@dataclass
class Expected:
    """The meaning of a text in plain Python types."""

    labels: list
    query: list
    rows: list  # of lists of (column, value)
    zero_based: bool


def reference(
    text,
    *,
    zero_based="auto",
    n_features=None,
    dtype="float64",
    query_id=False,
    duplicates="error",
    labels="numbers",
):
    """Parse a text, or raise `FaultError` with the line of the first fault."""
    largest = MAX_INDEX if n_features is None else n_features - (zero_based is True)
    as_text, labels, query, rows, unlabelled, at_limit = labels == "text", [], [], [], [], []
    for number, line in enumerate(text.split(b"\n"), 1):
        tokens = line.split(b"#")[0].split()
        if not tokens:
            continue
        if as_text:
            if UNLABELLED.match(tokens[0]) or not _is_text(tokens[0]):
                raise FaultError(number)
            labels.append((tokens.pop(0).decode(),))
        elif LABELS.fullmatch(tokens[0]):
            labels.append(tuple(map(float, tokens.pop(0).split(b","))))
        elif UNLABELLED.match(tokens[0]):
            labels.append(())
            unlabelled.append(number)
        else:
            raise _first(number, unlabelled, labels)
        row, fine = [], as_text or all(map(np.isfinite, labels[-1]))
        if tokens and tokens[0].startswith(b"qid:"):
            match = QUERY.fullmatch(tokens.pop(0))
            fine &= match is not None and -(1 << 63) <= int(match[1]) < 1 << 63
            query.append(match and int(match[1]))
        elif query_id:
            fine = False
        for token in tokens:
            match = PAIR.fullmatch(token)
            fine &= match is not None
            if match:
                row.append((int(match[1]), _value(match[2], dtype)))
        smallest = int(zero_based is False)
        fine &= all(smallest <= index <= largest and np.isfinite(value) for index, value in row)
        added = {}
        for index, value in row:
            added[index] = float(value) if index not in added else added[index] + float(value)
        added = {index: _value(value, dtype) for index, value in added.items()}  # rounded once
        fine &= len(added) == len(row) or (duplicates == "sum" and all(map(np.isfinite, added.values())))
        if not fine:
            raise _first(number, unlabelled, labels)
        at_limit += [number] * (largest in added)
        rows.append(sorted(added.items()))
    if unlabelled and not any(len(some) > 1 for some in labels):
        raise FaultError(unlabelled[0])
    is_zero_based = any(row and row[0][0] == 0 for row in rows) if zero_based == "auto" else zero_based
    if zero_based == "auto" and is_zero_based and n_features is not None and at_limit:
        raise FaultError(at_limit[0])
    shifted = [[(index - (not is_zero_based), value) for index, value in row] for row in rows]
    return Expected(labels, query, shifted, is_zero_based)


def _is_text(token):
    if token.startswith((b"qid:", b"\xef\xbb\xbf")) or re.search(rb"[\x00-\x1f\x7f]", token):
        return False
    try:
        token.decode()
    except UnicodeDecodeError:
        return False
    return True


def _first(number, unlabelled, labels):
    has_lists = any(len(some) > 1 for some in labels)
    return FaultError(min([number, *([] if has_lists else unlabelled)]))


def _value(text, dtype):
    with np.errstate(over="ignore"):
        return np.dtype(dtype).type(float(text))


def parse(text, *, threads=1, block_bytes=1 << 20, parts=1, land=None, rule=SPARSE, **options):
    """Run the compiled parser over a text in memory; return its X, y, qid and base."""
    settings = {"n_features": None, "zero_based": "auto", "dtype": "float64", "query_id": False}
    grammar = Grammar.from_arguments(**{**settings, "duplicates": "error", **options})
    parser = Parser("text", grammar, threads, block_bytes, rule)
    lines = re.findall(rb"[^\n]*\n|[^\n]+", text) if parts > 1 else [text]
    pieces = [b"".join(lines[i * len(lines) // parts : (i + 1) * len(lines) // parts]) for i in range(parts)]
    parsed = [parser.parse(piece + bytes(PADDING), 0, len(piece), land) for piece in pieces]
    parser.check()
    return *join_parts(parsed, parser), parser.zero_based


def _expected(text, options):
    """Return what the reference reads, or the line of the fault."""
    try:
        return reference(text, **options)
    except FaultError as fault:
        return fault.args[0]


def assert_agrees(text, options, **how):
    """Assert that the reader and the reference agree on a text, including faults."""
    expected = _expected(text, options)
    if isinstance(expected, int):
        with pytest.raises(DataError) as found:
            parse(text, **how, **options)
        line = re.match(r"text:(\d+):\d+: found ", str(found.value))[1]
        assert int(line) == expected, (text, options, how, str(found.value))
        return
    X, y, query, zero_based = parse(text, **how, **options)
    labels = y if isinstance(y, list) else [(label,) for label in y]
    assert repr(labels) == repr(expected.labels) or labels == expected.labels
    assert zero_based == expected.zero_based
    assert X.shape[0] == len(expected.rows)
    if options.get("query_id"):
        assert query.tolist() == expected.query
    dtype = np.dtype(options.get("dtype", "float64"))
    flat = [value for row in expected.rows for _, value in row]
    data = np.ones(X.nnz, dtype) if X.data is None else X.data
    assert data.dtype == dtype
    assert data.tobytes() == np.array(flat, dtype).tobytes(), (text, options, how)
    # Values that have to be added up may add up to 1.
    assert X.data is None or options.get("duplicates") == "sum" or not (data == 1).all()
    assert X.indices.tolist() == [column for row in expected.rows for column, _ in row], (text, options, how)
    assert X.indptr.tolist() == np.cumsum([0, *map(len, expected.rows)]).tolist()
