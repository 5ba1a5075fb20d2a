"""Text parsed into dense rows has the values of sparse rows; the choice rests on density and rates."""

import os
import threading

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reference import parse
from test_faults import FAULTS
from test_properties import HOW, OPTIONS, PIECES, TEXTS

from bmrm.base import host_memory
from bmrm.errors import DataError, HostMemoryError, ParameterError
from bmrm.io import Csr, read_data
from bmrm.io import cache as text_cache
from bmrm.io.row_storage import MIN_VALUES, Costs, StorageRule, dense_rows, sparse_rows

MAX_COLUMNS = 5000


class DenseIfNarrow(StorageRule):
    """Dense rows, unless a random text has too large an index."""

    def choose(self, rows, stored, columns, value_bytes):
        found = super().choose(rows, stored, columns, value_bytes)
        return found._replace(dense=columns <= MAX_COLUMNS)


DENSE = DenseIfNarrow("dense")


def outcome(text, **how):
    """Return the content or the fault of a text in a form that `==` compares bit by bit."""
    try:
        X, y, query, zero_based = parse(text, **how)
    except DataError as error:
        return str(error)
    if isinstance(X, Csr) and X.shape[1] <= MAX_COLUMNS:
        X = dense_rows(X, np.dtype(how["dtype"]), "text")
    values = X.indices.tobytes() if isinstance(X, Csr) else (X + 0.0).tobytes()  # -0.0 where it is stored
    return X.shape, values, repr(y), repr(query), zero_based


@settings(max_examples=200, deadline=None)
@given(TEXTS, OPTIONS, HOW)
def test_plausible_texts(text, options, how):
    assert outcome(text, rule=DENSE, **how, **options) == outcome(text, **options)


@settings(max_examples=200, deadline=None)
@given(st.lists(PIECES, max_size=30).map(b"".join), OPTIONS, HOW)
def test_texts_of_pieces(text, options, how):
    assert outcome(text, rule=DENSE, **how, **options) == outcome(text, **options)


@pytest.mark.parametrize("text", [text for text, _ in FAULTS])
def test_faults_are_those_of_sparse_rows(text):
    many = b"1 1:1\n" * 200 + text + b"\n" + b"1 1:1\n" * 200 + b"oops\n"
    for threads in (1, 3):
        found = outcome(many, rule=DENSE, threads=threads, block_bytes=10, dtype="float64")
        assert found == outcome(many, dtype="float64")


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        (b"1 1:2 2:3\n", [[2, 3]]),
        (b"1 1:1 2:1\n1 1:1 2:1\n", [[1, 1], [1, 1]]),  # all values are 1
        (b"1 1:1 2:1\n1 1:1 2:4\n", [[1, 1], [1, 4]]),
        (b"1\n1 2:3\n1\n", [[0, 0], [0, 3], [0, 0]]),
        (b"1 3:1 1:2\n1 2:5\n", [[2, 0, 1], [0, 5, 0]]),
        (b"1 9:1 1:2\n1 2:5\n", [[2, 0, 0, 0, 0, 0, 0, 0, 1], [0, 5, 0, 0, 0, 0, 0, 0, 0]]),
        (b"1 2:1 0:2\n1 1:5\n", [[2, 0, 1], [0, 5, 0]]),  # a zero that no row begins with
        (b"1 1:2 # 0:1 7:1\n", [[2]]),
        (b"1 qid:0 1:2\n1 qid:3 2:4\n", [[2, 0], [0, 4]]),
        (b"\n# 1:1\n1 1:7\n\n", [[7]]),
    ],
)
@pytest.mark.parametrize("block_bytes", [1, 1 << 20])
def test_by_example(text, rows, block_bytes):
    X, *_ = parse(text, rule=DENSE, block_bytes=block_bytes)
    assert isinstance(X, np.ndarray)
    assert X.tolist() == rows


def test_labels_that_look_like_pairs_mislead_only_the_first_look():
    X, y, _, zero_based = parse(b"a 2:3\nx 1:1\n", rule=DENSE, labels="text")
    assert (X.tolist(), y.tolist(), zero_based) == ([[0, 3], [1, 0]], ["a", "x"], False)


def test_repeated_indices_are_summed_and_rounded_once():
    text = b"1 2:1e-8 1:1 2:1 2:1\n"
    with pytest.raises(DataError, match="each index once"):
        parse(text, rule=DENSE)
    X, *_ = parse(text, rule=DENSE, duplicates="sum", dtype="float32")
    assert X.tolist() == [[1, 2]]


def full_text(rows=2000, columns=600, seed=0):
    values = np.random.default_rng(seed).integers(1, 999, (rows, columns))
    return b"\n".join(
        b"%d " % (i % 2) + b" ".join(b"%d:0.%d" % pair for pair in enumerate(row, 1))
        for i, row in enumerate(values.tolist())
    )


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    name = tmp_path_factory.mktemp("dense") / "full.svm"
    name.write_bytes(full_text())
    return name


SLOW_SPARSE = StorageRule("auto", lambda *size: Costs((9.0, 1.0), (9.0, 1.0)))
SLOW_DENSE = StorageRule("auto", lambda *size: Costs((1.0, 9.0), (1.0, 9.0)))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_reader_asks_the_rule(path, dtype):
    sparse = read_data(path, dtype=dtype)
    assert isinstance(sparse.X, Csr)
    assert (sparse.storage.name, sparse.storage.reason) == ("sparse", "as given")
    for storage in ("dense", "auto", SLOW_SPARSE):
        dense = read_data(path, dtype=dtype, storage=storage)
        assert dense.X.dtype == dtype
        assert dense.X.tobytes() == sparse.X.to_scipy().toarray().tobytes()
        assert (dense.storage.name, dense.rounded) == ("dense", sparse.rounded)
        assert (dense.zero_based, dense.checksum) == (sparse.zero_based, sparse.checksum)
        assert dense.y.tobytes() == sparse.y.tobytes()
    assert "1 of the values are stored" in dense.storage.reason
    assert isinstance(read_data(path, dtype=dtype, storage=SLOW_DENSE).X, Csr)


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_threads_change_neither_choice_nor_values(path, threads):
    one, some = (read_data(path, storage="auto", threads=count) for count in (1, threads))
    assert one.storage == some.storage
    assert one.X.tobytes() == some.X.tobytes()


def test_auto_keeps_few_values_and_thin_rows_sparse(tmp_path):
    name = tmp_path / "some.svm"
    name.write_bytes(full_text(20, 30))
    assert isinstance(read_data(name, storage=SLOW_SPARSE).X, Csr)
    name.write_bytes(b"1 1:2 4:5 9:3\n" * (MIN_VALUES // 4))
    assert isinstance(read_data(name, storage=SLOW_SPARSE).X, Csr)
    assert read_data(name, storage="dense").X.shape == (MIN_VALUES // 4, 9)


def test_dense_rows_never_take_more_memory():
    rows = 100_000
    for item, least in ((4, 0.5), (8, 2 / 3)):
        chosen = [
            SLOW_SPARSE.choose(rows, int(share * rows * 100), 100, item).dense
            for share in (least - 0.01, least + 0.01)
        ]
        assert chosen == [False, True]


@pytest.mark.parametrize("kind", ["gz", "pipe"])
def test_streams(path, tmp_path, kind):
    if kind == "gz":
        import gzip

        name = tmp_path / "full.svm.gz"
        name.write_bytes(gzip.compress(path.read_bytes(), 1))
        found = read_data(name, storage="dense")
    else:
        name = tmp_path / "pipe"
        os.mkfifo(name)
        writer = threading.Thread(target=lambda: name.write_bytes(path.read_bytes()))
        writer.start()
        found = read_data(name, storage="auto")
        writer.join()
    assert found.X.tobytes() == read_data(path, storage="dense").X.tobytes()
    assert found.storage.dense


def test_the_cache_keeps_the_choice(path, tmp_path):
    name = tmp_path / "cached.svm"
    name.write_bytes(path.read_bytes())
    first, again = (read_data(name, cache=True, storage="auto") for _ in range(2))
    assert (first.from_cache, again.from_cache) == (False, True)
    assert again.X.tobytes() == first.X.tobytes()
    assert again.storage == first.storage
    assert read_data(name, cache=True, storage="dense").from_cache
    # Another device has other rates, and so may have another choice.
    assert not read_data(name, cache=True, storage=SLOW_DENSE).from_cache
    assert isinstance(read_data(name, cache=True, storage=SLOW_DENSE).X, Csr)
    assert read_data(name, cache=True, storage="sparse").from_cache
    # Whether "auto" would have looked at the text is not known if it was not asked.
    assert not read_data(name, cache=True, storage="dense").from_cache
    assert not read_data(name, cache=True, storage="auto").from_cache


@pytest.mark.parametrize("part", ["shape", "counted", "asked"])
def test_a_damaged_header_of_dense_rows(tmp_path, part):
    from test_cache import rewrite_header

    name = tmp_path / "cached.svm"
    name.write_bytes(b"1 1:2 2:3\n")
    read_data(name, cache=True, storage="dense")
    assert os.path.exists(f"{name}{text_cache.SUFFIX}")
    damaged = {"shape": [1, 1], "counted": [1], "asked": "none"}[part]
    rewrite_header(name, lambda header: header.update({part: damaged}))
    data = read_data(name, cache=True, storage="dense")
    assert data.X.tolist() == [[2, 3]]
    assert data.from_cache == (part == "asked")  # that counts for "auto" alone


def test_dense_rows_that_do_not_fit(path, tmp_path, monkeypatch):
    monkeypatch.setattr(host_memory, "MIN_CHECKED_BYTES", 0)
    monkeypatch.setattr(host_memory, "available_bytes", lambda: 1000)
    with pytest.raises(
        HostMemoryError, match=r"needs .* for 2000 dense rows of 600 columns of .*full.svm"
    ) as found:
        read_data(path, storage="dense")
    assert "\n" not in str(found.value)


def test_auto_takes_sparse_rows_if_dense_ones_do_not_fit(path, monkeypatch):
    def refuse(rows, columns, value_bytes, name):
        raise HostMemoryError("out of memory")

    monkeypatch.setattr("bmrm.io.text.require_dense_memory", refuse)
    data = read_data(path, storage=SLOW_SPARSE)
    assert isinstance(data.X, Csr)
    assert data.storage.reason == "dense rows do not fit into memory"


@pytest.mark.parametrize("storage", ["", "Dense", None, 1, ["auto"]])
def test_unknown_storage(path, storage):
    with pytest.raises(ParameterError, match=r"storage: found .*, expected one of auto, sparse, dense"):
        read_data(path, storage=storage)


@settings(max_examples=50, deadline=None)
@given(st.lists(st.lists(st.sampled_from([0.0, 1.0, -2.5]), min_size=3, max_size=3), max_size=5))
def test_there_and_back(rows):
    X = np.array(rows, np.float32).reshape(len(rows), 3)
    sparse = sparse_rows(X)
    assert dense_rows(sparse, X.dtype, "X").tobytes() == X.tobytes()
    assert (sparse.data is None) == bool((X[X != 0] == 1).all())
