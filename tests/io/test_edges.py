"""Edge text: against the reference on random texts, faults, odd files, numbering of nodes."""

import bz2
import gzip
import lzma
import os
import threading

import numpy as np
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st
from reference_edges import assert_agrees, parse

from bmrm.errors import DataError, ParameterError
from bmrm.io import _edges, edges
from bmrm.io.edges import number_nodes, read_edges
from bmrm.io.text import read_chunks

BLANKS = st.sampled_from([b" ", b" ", b"\t", b",", b"  ", b" , ", b"\t\r ", b",\x0b"])
INTEGERS = st.one_of(
    st.integers(0, 9),
    st.integers(-50, 500),
    st.integers(-(1 << 63), (1 << 63) - 1),
    st.sampled_from([-(1 << 63), (1 << 63) - 1, 10**14, 10**15, 10**16, 10**17, 1 << 31]),
).map(lambda number: b"%d" % number)
NAMES = st.one_of(
    st.text(
        st.characters(exclude_characters=",", exclude_categories=["Cc", "Cs", "Zs"]), min_size=1, max_size=20
    )
    .map(str.encode)
    .filter(lambda name: not name.startswith((b"#", b"%", b"//"))),
    st.sampled_from([b"a", b"b", b"node_12345678", b"node_12345679", b"x" * 40, b"7", b"007"]),
)
NUMBERS = st.one_of(st.floats(allow_nan=False, allow_infinity=False).map(repr), st.integers(-9, 9).map(str))
OPTIONS = st.fixed_dictionaries(
    {
        "labels": st.sampled_from(["auto", "auto", "integer", "string"]),
        "weights": st.sampled_from([None, True, False]),
    }
)
HOW = st.fixed_dictionaries(
    {"threads": st.sampled_from([1, 2, 3, 7]), "block_bytes": st.sampled_from([1, 5, 40, 1 << 20])}
)


@st.composite
def lines(draw, ids, extra):
    """A valid line with so many columns after the ids."""
    tokens = [draw(ids), draw(ids), *(draw(NUMBERS).encode() for _ in range(extra))]
    text = draw(st.sampled_from([b"", b"", b" "])) + tokens[0]
    for token in tokens[1:]:
        text += draw(BLANKS) + token
    return text + draw(st.sampled_from([b"", b"", b"", b" ", b"\r", b" # a comment", b" %x", b"\t"]))


@st.composite
def texts(draw):
    """A text that is mostly valid with weights if all lines have some, and its options."""
    ids, extra = draw(st.sampled_from([INTEGERS, NAMES])), draw(st.sampled_from([0, 0, 1, 2]))
    options = {"labels": draw(st.sampled_from(["auto", "auto", "string"])), "weights": extra > 0}
    silent = st.sampled_from([b"", b" ", b"\r", b"# 1 2", b"% x", b" // 1 2"])
    kinds = [lines(ids, extra)] * 6 + [silent]
    if draw(st.integers(0, 4)) == 0:
        options = draw(OPTIONS)
        kinds += [
            lines(ids, 0),
            lines(NAMES, 1),
            st.sampled_from([b"id,id,weight", b"1 2", b"a", b"1 2 3 4 5"]),
        ]
    found = draw(st.lists(st.one_of(kinds), max_size=9))
    end = draw(st.sampled_from([b"", b"\n", b"\r\n"]))
    return draw(st.sampled_from([b"", b"", b"\xef\xbb\xbf"])) + b"\n".join(found) + end, options


PIECES = st.sampled_from(
    b"1|0|12| |\t|\n|\n|,|-|+|.|e|5|#|%|/|//|\r|\x00|\x01|nan|inf|1e999|9223372036854775807|x|\xff|\xc3\xa9"
    b"|9223372036854775808|\xed\xa0\x80|\n1 2\n|\n1 2 3\n|\n1,2\n|0000000000000000000001|\x7f"
    b'|\xef\xbb\xbf|"|""|"a b"|;|\t|source|target|weight|\n"1"|\nx;y|\nsource,target\n|type|directed'.split(
        b"|"
    )
)
CELLS = st.sampled_from(
    [
        b"1",
        b"-2",
        b"x",
        b"New York",
        b'"a, b"',
        b'"say ""hi"""',
        b"",
        b" 3 ",
        b"0.5",
        b"a#b",
        b"#",
        b'"',
        b"1e3",
        b"\r",
    ]
)
COLUMNS = st.sampled_from(
    [b"source", b"target", b"weight", b"from", b"to", b"id", b"time", b"a", b"w", b"Type"]
)


@st.composite
def tables(draw):
    """A table with one separator, with names of columns or without."""
    separator, width = draw(st.sampled_from([b",", b";", b"\t"])), draw(st.integers(1, 5))
    rows = [[draw(CELLS) for _ in range(width)] for _ in range(draw(st.integers(0, 4)))]
    if draw(st.booleans()):
        rows.insert(0, draw(st.lists(COLUMNS, min_size=width, max_size=width)))
    columns = draw(st.sampled_from([None, None, None, ("source", "target"), ("id", "to", "w"), ("2", "1")]))
    options = {"labels": draw(st.sampled_from(["auto", "string"])), "columns": columns}
    if columns is None or len(columns) == 2:
        options["weights"] = draw(st.sampled_from([None, None, True, False]))
    return draw(st.sampled_from([b"\n", b"\r\n"])).join(separator.join(row) for row in rows), options


@settings(max_examples=150, deadline=None)
@given(texts(), HOW)
def test_plausible_texts(case, how):
    assert_agrees(*case, **how)


@settings(max_examples=100, deadline=None)
@given(st.lists(PIECES, max_size=30).map(b"".join), OPTIONS, HOW)
def test_texts_of_pieces(text, options, how):
    assert_agrees(text, options, **how)


@settings(max_examples=150, deadline=None)
@given(tables(), HOW)
def test_tables(case, how):
    assert_agrees(*case, **how)


@settings(max_examples=150, deadline=None)
@given(st.binary(max_size=200), OPTIONS, HOW)
def test_random_bytes(text, options, how):
    assert_agrees(text, options, **how)


def outcome(text, **options):
    """What a text gives, or its error, in a form that can be compared."""
    try:
        found = parse(text, **options)
    except DataError as error:
        return str(error)
    labels = None if found.labels is None else found.labels.tolist()
    weights = None if found.weights is None else found.weights.tobytes()
    return found.sources.tobytes(), found.targets.tobytes(), weights, labels, found.n_nodes


@pytest.mark.parametrize("labels", ["integer", "string"])
@pytest.mark.parametrize("spread", [1, 1 << 40])
def test_threads_blocks_and_parts_do_not_matter(labels, spread):
    rng = np.random.default_rng(3)
    ids = (rng.zipf(1.3, (4000, 2)) % 5000) * spread
    text = b"".join(b"%d\t%d %r\n" % (*pair, 0.5) for pair in ids.tolist())
    text = text.replace(b"\n7", b"\n# 7")
    expected = outcome(text, labels=labels, weights=True)
    assert not isinstance(expected, str)
    for threads in (1, 2, 3, 8):
        for block_bytes in (30, 1000, 1 << 20):
            how = {"threads": threads, "block_bytes": block_bytes, "weights": True, "labels": labels}
            assert outcome(text, **how) == expected
            assert outcome(text, parts=3, **how) == expected


AS_STRINGS = ' (labels="string" reads any id)'
INTEGER = f"expected an id that is an integer{AS_STRINGS}"
WEIGHT = "expected a weight: a finite number"
FAULTS = [
    (b"1 2\n3 x\n", {}, f'2:3: found "x", {INTEGER}'),
    (b"1 2\n3 4.5\n", {}, f'2:3: found "4.5", {INTEGER}'),
    (b"# c\n\n1 2\n  x 3\n", {}, f'4:3: found "x", {INTEGER}'),
    (b"1 9223372036854775808\n", {}, '1:3: found "9223372036854775808", expected an id from -2^63 to 2^63'),
    (b"-9223372036854775809 1\n", {}, '1:1: found "-9223372036854775809", expected an id from'),
    (b"1\n", {"labels": "integer"}, "1:2: found the end of the line, expected a second id"),
    (b"a\n", {}, "1:2: found the end of the line, expected a second id"),
    (b"1 2\n1,\n", {}, "2:3: found the end of the line, expected a second id"),
    (b"1 2\n1,,2\n", {}, f'2:3: found ",2", {INTEGER}'),
    (b"1,2,\n", {"weights": True}, f"1:5: found the end of the line, {WEIGHT}"),
    (b"1 2 x\n", {"weights": True}, f'1:5: found "x", {WEIGHT}'),
    (b"1 2 nan\n", {"weights": True}, f'1:5: found "nan", {WEIGHT}'),
    (b"1 2 -inf\n", {"weights": True}, f'1:5: found "-inf", {WEIGHT}'),
    (b"1 2 1e999\n", {"weights": True}, f'1:5: found "1e999", {WEIGHT}'),
    (b"1 2 1\n1 2 # 7\n", {"weights": True}, "2:5: found the end of the line, expected a weight"),
    (b"1 2\n1 2 3\n", {}, '2:5: found "3", expected 2 columns on each line, as on the first'),
    (b"1 2 3\n1 2\n", {}, "2:4: found the end of the line, expected 3 columns on each line"),
    (b"a,b,c\nd,e,f,g\n", {}, '2:7: found "g", expected 3 columns'),
    (b"Ann Bob\nNew York Rome\n", {}, '2:10: found "Rome", expected 2 columns'),
    (b'a,b\n"c d,e\n', {}, "2:1: found"),
    (b'a,b\n"c"d,e\n', {}, "2:1: found"),
    (b"a,b\nc #1,d\n", {}, "2:3: found"),
    (b"a b\nc\rd e\n", {}, "2:2: found"),
    (b"a b {}\nc d {'weight': 'x'}\n", {}, "2:16: found"),
    (b"a b {}\nc d {'weight': 1\n", {}, "2:16: found"),
    (b"a b {}\nc d {'w': 1\n", {}, "2:5: found"),
    (b"a b {}\nc d 3\n", {}, '2:5: found "3", expected the attributes of an edge'),
    (b"a b\n,c d\n", {}, '2:1: found ",c", expected an id without blanks, commas and control characters'),
    (b"a b\x01\n", {}, r'1:3: found "b\x01", expected an id without blanks, commas and control characters'),
    (b"a b\n\xe9 c\n", {}, r'2:1: found "\xe9", expected an id in UTF-8'),
    (b"a,b\n1,2\x00\n", {}, r'2:3: found "2\x00", expected an id without control characters'),
    (b"1 2\x00\n", {"labels": "integer"}, rf'1:3: found "2\x00", {INTEGER}'),
    (b"from,to\n1,2\n3,x\n", {}, f'3:3: found "x", {INTEGER}'),
]


@pytest.mark.parametrize(("text", "options", "message"), FAULTS)
def test_message(text, options, message):
    for threads, block_bytes in ((1, 1 << 20), (1, 1), (3, 4)):
        with pytest.raises(DataError) as found:
            parse(text, threads=threads, block_bytes=block_bytes, **options)
        assert str(found.value).startswith(f"text:{message}")
        assert "\n" not in str(found.value)


def test_the_first_fault_is_reported_for_any_number_of_threads():
    text = b"1 1\n" * 500 + b"1 y\n" + b"1 1\n" * 500 + b"z\n1 nan\n"
    for threads in (1, 2, 3, 7):
        for block_bytes in (1, 50, 3000, 1 << 20):
            for parts in (1, 4):
                with pytest.raises(DataError, match=r'^text:501:3: found "y"'):
                    parse(text, threads=threads, block_bytes=block_bytes, parts=parts)


@pytest.mark.parametrize("text", [b"", b"\n", b"# only\n% comments\n// here\n", b"\xef\xbb\xbf", b" \r\n"])
@pytest.mark.parametrize("labels", ["auto", "integer", "string"])
def test_no_edges(tmp_path, text, labels):
    path = tmp_path / "none"
    path.write_bytes(text)
    for weights in (False, True):
        found = read_edges(path, labels=labels, weights=weights)
        assert (found.n_nodes, found.n_edges) == (0, 0)
        assert found.labels is None or len(found.labels) == 0
        assert (found.weights is not None) == weights


def test_ids_keep_what_they_are(tmp_path):
    path = tmp_path / "graph"
    path.write_bytes(b"0 0\n2 1\n2 1")
    found = read_edges(path)
    assert found.labels is None
    assert found.n_nodes == 3
    assert list(zip(found.sources.tolist(), found.targets.tolist(), strict=True)) == [(0, 0), (2, 1), (2, 1)]
    path.write_bytes(b"30\t-5\r\n-5\t9223372036854775807\r\n")
    found = read_edges(path)
    assert found.labels.tolist() == [-5, 30, 9223372036854775807]
    assert found.sources.tolist() == [1, 0]
    path.write_bytes(b"zoe,\xc3\xa9va\nada,zoe\n")
    assert read_edges(path).labels.tolist() == ["zoe", "éva", "ada"]


def test_a_header_is_no_edge(tmp_path):
    path = tmp_path / "graph.csv"
    path.write_bytes(b"# by a program\nsource,target,weight\n1,2,0.5\n2,3,1.5\n")
    found = read_edges(path, weights=True)
    assert found.has_header
    assert found.labels.tolist() == [1, 2, 3]
    assert found.weights.tolist() == [0.5, 1.5]
    for text in (b"root 1\n1 2\n", b"a b\nc 2\n", b"a b\n"):  # any of them may be an edge
        path.write_bytes(text)
        found = read_edges(path)
        assert not found.has_header
        assert found.n_edges == text.count(b"\n")


COMPRESS = {
    "gz": gzip.compress,
    "bz2": bz2.compress,
    "xz": lzma.compress,
    "zst": lambda data: zstandard.ZstdCompressor().compress(data),
}


@pytest.mark.parametrize("kind", COMPRESS)
@pytest.mark.parametrize("spelling", [b"%d %d\n", b"n%d\tn%d\n"])
def test_compressed_files_in_chunks(tmp_path, monkeypatch, kind, spelling):
    monkeypatch.setattr(edges, "CHUNK_BYTES", 1000)
    monkeypatch.setattr(edges, "read_chunks", lambda file, name: read_chunks(file, name, 1000))
    text = b"# c\n" * 300 + b"".join(spelling % (i * 7919 % 1009, i * i % 5000) for i in range(3000))
    plain, packed = tmp_path / "plain", tmp_path / "packed"
    plain.write_bytes(text)
    packed.write_bytes(COMPRESS[kind](text))
    first, second = read_edges(plain), read_edges(packed, threads=3)
    assert first.n_edges == second.n_edges == 3000
    for name in ("sources", "targets", "labels"):
        assert (getattr(first, name) == getattr(second, name)).all()
    packed.write_bytes(COMPRESS[kind](text)[:-20])
    with pytest.raises(DataError, match=f"^{packed}: found damaged compressed data"):
        read_edges(packed)


def test_other_formats_are_not_edges(tmp_path):
    path = tmp_path / "matrix"
    path.write_bytes(b"%%MatrixMarket matrix coordinate pattern general\n2 2 1\n1 2\n")
    with pytest.raises(DataError, match="found a file of the format mtx, expected two ids per line"):
        read_edges(path)


@pytest.mark.parametrize("labels", ["integer", "string"])
@pytest.mark.parametrize(
    "content", [b"", b"1 2\n", b"7 7\n" * 4000, b"1" * 9000, b"\n" * 9000, b"a b c d\n" * 900]
)
def test_a_text_that_changes_between_the_passes(tmp_path, monkeypatch, labels, content):
    path = tmp_path / "graph"
    path.write_bytes(b"1 2\n" * 2000)
    reserve = edges.EdgeParser._reserve

    def change(parser, count):
        reserve(parser, count)
        with open(path, "r+b") as file:
            file.write(content)
            file.truncate(max(len(content), 1))
        os.utime(path, ns=(1, 1))

    monkeypatch.setattr(edges.EdgeParser, "_reserve", change)
    for threads in (1, 3):
        path.write_bytes(b"1 2\n" * 2000)
        with pytest.raises(DataError, match="expected a file that does not change while it is read"):
            read_edges(path, labels=labels, threads=threads)


def test_a_pipe(tmp_path):
    path = tmp_path / "pipe"
    os.mkfifo(path)
    writer = threading.Thread(target=lambda: path.write_bytes(b"\xef\xbb\xbfa b\nb c"))
    writer.start()
    found = read_edges(path)
    writer.join()
    assert found.labels.tolist() == ["a", "b", "c"]


def test_arguments(tmp_path):
    path = tmp_path / "graph"
    path.write_bytes(b"1 2\n")
    for wrong in ({"labels": "int"}, {"weights": 2}, {"threads": 0}):
        with pytest.raises(ParameterError, match=next(iter(wrong))):
            read_edges(path, **wrong)
    with pytest.raises(FileNotFoundError):
        read_edges(tmp_path / "none")


IDS = st.one_of(
    st.integers(0, 40), st.integers(-(1 << 63), (1 << 63) - 1), st.integers(1 << 40, (1 << 40) + 300)
)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(IDS, IDS), max_size=60), st.sampled_from([1, 2, 5]))
def test_nodes_are_numbered_in_the_order_of_their_ids(pairs, threads):
    ids = np.array(pairs, np.int64).reshape(-1, 2)
    sources, targets, labels = number_nodes(ids[:, 0], ids[:, 1], threads=threads)
    unique, expected = np.unique(ids, return_inverse=True)
    assert np.array_equal(np.stack([sources, targets], axis=1), expected.reshape(-1, 2))
    are_numbers = unique.tolist() == list(range(len(unique)))
    assert labels is None if are_numbers else np.array_equal(labels, unique)


@pytest.mark.parametrize("spread", [1, 50, 1 << 35])
def test_many_nodes_are_numbered(spread):
    rng = np.random.default_rng(0)
    ids = rng.integers(-100_000, 100_000, (2, 300_000)) * spread + 17
    unique, expected = np.unique(ids, return_inverse=True)
    for threads in (1, 3):
        sources, targets, labels = number_nodes(*ids, threads=threads)
        assert np.array_equal(np.stack([sources, targets]), expected.reshape(ids.shape))
        assert np.array_equal(labels, unique)


def test_arrays_that_are_no_ids():
    with pytest.raises(ParameterError, match="sources: found float64"):
        number_nodes([0.5], [1])
    with pytest.raises(ParameterError, match="targets: found 1 ids, expected 2"):
        number_nodes([1, 2], [1])
    with pytest.raises(DataError, match="found the id 9223372036854775808"):
        number_nodes(np.array([1 << 63], np.uint64), [1])


def test_ids_that_change_while_they_are_numbered_do_no_harm():
    """Ids outside the range that was measured get some number, and nothing else is touched."""
    ids = np.array([3, 1 << 60, -5, 4], np.int64)
    numbers, labels = _edges.number([ids], low=3, high=4, threads=2)
    assert labels.tolist() == [3, 4]
    assert all(0 <= number < 2 for number in numbers[0])
