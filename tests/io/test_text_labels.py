"""Labels that are text: the reader in parts and blocks, the cache, the writer, tables, and faults."""

import gzip

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_array

from bmrm import dump_svmlight, load_svmlight
from bmrm.errors import DataError, ParameterError
from bmrm.io import cache, iter_svmlight, read_data
from bmrm.io.svmlight import join_parts
from bmrm.io.text import Grammar, Parser

GRAMMAR = Grammar.from_arguments(None, "auto", "float64", False, "error", "text")
WORDS = ["spam", "ham", "a,b", "1", "+1", "sports:football", "naïve", "日本", "x" * 300, "-", "nan", "1_0"]
LETTERS = st.characters(exclude_categories=("Cs", "Cc"), exclude_characters=" #:\ufeff")


def parse(text: bytes, threads: int = 1, block_bytes: int = 1 << 20):
    parser = Parser("text", GRAMMAR, threads, block_bytes)
    part = parser.parse(np.frombuffer(text + bytes(64), np.uint8), 0, len(text))
    parser.check()
    parser.check_content()
    return join_parts([part], parser)


@pytest.mark.parametrize("block_bytes", [1, 100, 1 << 20])
@pytest.mark.parametrize("threads", [1, 3])
def test_labels_come_back_in_any_number_of_blocks(block_bytes, threads):
    labels = [WORDS[i * i % len(WORDS)] for i in range(200)]
    text = "".join(f"\t{label} qid:3 {i + 1}:{i}.5# no:1\n#x\n" for i, label in enumerate(labels))
    X, y, _ = parse(text.encode(), threads, block_bytes)
    assert y.tolist() == labels
    assert X.data.tolist() == [i + 0.5 for i in range(200)]


def test_a_file_in_chunks_compressed_and_cached(tmp_path):
    text = "".join(f"{WORDS[i % len(WORDS)]} {i % 3}:1\n" for i in range(100))
    path, packed = tmp_path / "a", tmp_path / "a.gz"
    path.write_text(text, encoding="utf-8")
    packed.write_bytes(gzip.compress(text.encode()))
    X, y = load_svmlight(path, labels="text")
    assert y.tolist() == (WORDS * 9)[:100]
    for name in (path, packed):
        parts = list(iter_svmlight(name, rows_bytes=64, zero_based=True, labels="text"))
        assert np.concatenate([labels for _, labels in parts]).tolist() == y.tolist()
    first, second = (read_data(path, cache=True, labels="text") for _ in range(2))
    assert (first.from_cache, second.from_cache) == (False, True)
    assert (second.y == y).all()
    assert second.X.shape == X.shape
    with pytest.raises(DataError, match=r'a:1:1: found "spam", expected a label: a finite number \(labels='):
        read_data(path, cache=True)


def test_a_damaged_cache_of_labels_is_not_used(tmp_path, monkeypatch):
    path = tmp_path / "a"
    path.write_text("x 1:1\ny 1:1\n")
    read = cache._collect_arrays
    for codes in ([0.0, 2.0], [-1.0, 0.0], [np.nan, 0.0]):
        monkeypatch.setattr(
            cache, "_collect_arrays", lambda data, c=codes: read(data) | {"labels": np.array(c)}
        )
        path.with_name("a.bmrmcache").unlink(missing_ok=True)
        read_data(path, cache=True, labels="text")
        again = read_data(path, cache=True, labels="text")
        assert not again.from_cache
        assert again.y.tolist() == ["x", "y"]


@given(st.lists(st.text(LETTERS, min_size=1, max_size=5), min_size=1, max_size=5))
def test_what_is_written_is_read(tmp_path_factory, labels):
    path = tmp_path_factory.getbasetemp() / "labels"
    X = csr_array(np.ones((len(labels), 1)))
    dump_svmlight(X, labels, path)
    assert load_svmlight(path, labels="text")[1].tolist() == labels


@pytest.mark.parametrize(
    ("label", "row"),
    [("a b", 1), ("#a", 1), ("", 1), ("qid:1", 1), ("1:2", 1), ("a\n", 1), ("\ufeffa", 1), ("a\x00b", 1)],
)
def test_labels_that_no_line_can_hold_write_nothing(tmp_path, label, row):
    with pytest.raises(DataError, match=f"y: row {row + 1} has .*, expected a label without blanks"):
        dump_svmlight(np.ones((2, 1)), ["fine", label], tmp_path / "a")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"a 1:1\n1:1 2:2\n", '2:1: found "1:1", expected a label before the first index:value'),
        (b"qid:1 1:1\n", '1:1: found "qid:1", expected a label before'),
        (b"a 1:1\n\xff\xfe 1:1\n", r'2:1: found "\xff\xfe", expected a label: text in UTF-8 without control'),
        (b"\xef\xbb\xbfa 1:1\n", r'1:1: found "\xef\xbb\xbfa", expected a label: text in UTF-8'),
        (b"a\x01 1:1\n", r'1:1: found "a\x01", expected a label: text in UTF-8'),
        (b"a\x00 1:1\n", r'1:1: found "a\x00", expected a label: text in UTF-8'),
        (b"New York 1:1\n", '1:5: found "York", expected index:value (a label has no blanks in it)'),
        (b"a,1,2\nb,3,4\n", "found no index:value on any line"),
        (b"", "found an empty file"),
    ],
)
def test_faults(tmp_path, text, message):
    (tmp_path / "a").write_bytes(text)
    with pytest.raises(DataError) as caught:
        load_svmlight(tmp_path / "a", labels="text")
    assert message in str(caught.value)


def test_another_kind_of_labels_is_refused(tmp_path):
    with pytest.raises(ParameterError, match="labels: found 'words', expected one of numbers, text"):
        load_svmlight(tmp_path / "none", labels="words")


def test_labels_of_tables(tmp_path):
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    path = tmp_path / "a"
    path.write_text('x,kind\n1,"New York"\n2,NA\n3,07\n')
    assert read_data(path, label="kind").y.tolist() == ["New York", "NA", "07"]
    path.write_text("x,kind\n1,01\n2,1\n")
    assert read_data(path, label="kind").y.tolist() == [1.0, 1.0]
    assert read_data(path, label="kind", labels="text").y.tolist() == ["01", "1"]
    path.write_text("x,kind\n1,a\n2,\n")
    with pytest.raises(DataError, match="column 'kind': found no value in row 2, expected a label"):
        read_data(path, label="kind")
    codes = pyarrow.array(["b", "a", "b"]).dictionary_encode()
    numbers = pyarrow.array([2, 1, 2])
    parquet.write_table(pyarrow.table({"x": [1, 2, 3], "c": codes, "n": numbers}), path)
    assert read_data(path, label="c", drop=["n"]).y.tolist() == ["b", "a", "b"]
    assert read_data(path, label="n", drop=["c"], labels="text").y.tolist() == ["2", "1", "2"]
    parquet.write_table(pyarrow.table({"x": [1, 2], "n": [0.5, 1.5]}), path)
    with pytest.raises(DataError, match="column 'n': found double, expected text or integers"):
        read_data(path, label="n", labels="text")


def test_labels_of_npz(tmp_path):
    X = csr_array(np.eye(2))
    arrays = {"format": b"csr", "shape": X.shape, "indptr": X.indptr, "indices": X.indices, "data": X.data}
    for y in (np.array(["a", "b"]), np.array([1.0, 2.0])):
        np.savez(tmp_path / "a.npz", **arrays, y=y)
        assert read_data(tmp_path / "a.npz").y.tolist() == y.tolist()
    with pytest.raises(DataError, match="found a npz file whose labels are numbers, expected text"):
        read_data(tmp_path / "a.npz", labels="text")
