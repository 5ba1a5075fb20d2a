"""The grammar by example, the public functions, and published files."""

import os
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
from reference import parse
from sklearn.datasets import dump_svmlight_file, load_svmlight_file

import bmrm
from bmrm.errors import ParameterError
from bmrm.io import Csr, is_text, iter_svmlight, load_svmlight, read_data


@pytest.fixture
def write(tmp_path):
    def write(text):
        path = tmp_path / "data.svm"
        path.write_bytes(text)
        return path

    return write


def test_grammar_by_example(write):
    path = write(
        b"# a header\r\n"
        b"+1 qid:3 1:0.5 3:-2.5e-1 # 9:9 is no feature\r\n"
        b"\n"
        b"-1.5e0 qid:-4 4:.5 2:1.#touching\n"
        b" \t \n"
        b"7 qid:5\n"
        b"0 qid:5 \t 0002:+3E+0 "
    )
    X, y, qid = load_svmlight(path, query_id=True)
    assert X.toarray().tolist() == [
        [0.5, 0, -0.25, 0],
        [0, 1, 0, 0.5],
        [0, 0, 0, 0],
        [0, 3, 0, 0],
    ]
    assert X.has_sorted_indices
    assert y.tolist() == [1, -1.5, 7, 0]
    assert qid.tolist() == [3, -4, 5, 5]
    assert len(load_svmlight(path)) == 2


def test_load_svmlight_is_public():
    assert bmrm.load_svmlight is load_svmlight


def test_index_and_value_types(write):
    path = write(b"1 1:0.1 2:1\n")
    X, y = load_svmlight(path)
    assert (X.dtype, X.indices.dtype, X.indptr.dtype, y.dtype) == (
        np.float64,
        np.int32,
        np.int32,
        np.float64,
    )
    assert load_svmlight(path, dtype=np.float32)[0].dtype == np.float32
    data = read_data(path)
    assert (data.X.data.dtype, data.X.indices.dtype, data.X.indptr.dtype) == (np.float32, np.int32, np.int64)


def test_values_of_one_stay_implicit(write):
    data = read_data(write(b"1 1:1 2:1.0\n-1 3:10e-1\n"))
    assert data.X.data is None
    X, _ = load_svmlight(write(b"1 1:1 2:1.0\n-1 3:10e-1\n"))
    assert X.toarray().tolist() == [[1, 1, 0], [0, 0, 1]]


def test_explicit_zeros_are_kept(write):
    X, _ = load_svmlight(write(b"1 1:0 2:-0\n"))
    assert X.nnz == 2
    assert np.signbit(X.data).tolist() == [False, True]


def test_base_is_zero_exactly_if_an_index_zero_occurs(write):
    assert read_data(write(b"1 1:1\n1 0:1\n")).X.indices.tolist() == [1, 0]
    assert read_data(write(b"1 1:1\n1 2:1\n")).X.indices.tolist() == [0, 1]
    forced = read_data(write(b"1 1:1\n1 2:1\n"), zero_based=True)
    assert (forced.X.indices.tolist(), forced.X.shape, forced.zero_based) == ([1, 2], (2, 3), True)


def test_n_features_makes_files_agree(write):
    assert load_svmlight(write(b"1 2:1\n"), n_features=9)[0].shape == (1, 9)


def test_rows_without_features_are_kept(write):
    X, y = load_svmlight(write(b"1\n2\n3 1:5\n4\n"))
    assert X.shape == (4, 1)
    assert y.tolist() == [1, 2, 3, 4]
    assert load_svmlight(write(b"1\n2\n"))[0].shape == (2, 0)


def test_several_labels(write):
    X, y = load_svmlight(write(b"1,3,5 1:2\n 2:1\n4 1:1\n"))
    assert y == [(1, 3, 5), (), (4,)]
    assert X.shape == (3, 2)


def test_repeated_indices_are_summed_if_requested(write):
    X, _ = load_svmlight(write(b"1 3:1 1:1 3:2\n1 2:1\n"), duplicates="sum")
    assert X.toarray().tolist() == [[1, 0, 3], [0, 1, 0]]
    values = np.array([1.07812, 0.1, 1.0], np.float32)  # rounded after each addition, the sum is 2.1781201
    X, _ = load_svmlight(write(b"1 1:1.07812 1:.1 1:1\n"), duplicates="sum", dtype="float32")
    assert X.data == np.float32(values.sum(dtype=np.float64)) != np.float32(2.1781201)


def test_long_row_out_of_order():
    indices = np.random.default_rng(0).permutation(50_000)
    text = b"1 " + b" ".join(b"%d:%d" % (index, index + 2) for index in indices)
    X, *_ = parse(text)
    assert (X.indices == np.arange(50_000)).all()
    assert (X.data == X.indices + 2).all()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_same_bits_for_any_threads_and_blocks(dtype):
    rng = np.random.default_rng(1)
    rows = []
    for i in range(300):
        columns = rng.choice(500, rng.integers(0, 30), replace=False)
        values = [b"1"] * len(columns) if i % 3 else [b"%.12g" % v for v in rng.standard_normal(len(columns))]
        rows.append(b"%d " % i + b" ".join(b"%d:%s" % p for p in zip(columns, values, strict=True)))
    text = b"\n".join(rows)
    X, y, *_ = parse(text, dtype=dtype)
    for threads in (1, 2, 3, 7):
        for block_bytes in (1, 100, 4096):
            X2, y2, *_ = parse(text, dtype=dtype, threads=threads, block_bytes=block_bytes)
            assert X.indptr.tobytes() == X2.indptr.tobytes()
            assert X.indices.tobytes() == X2.indices.tobytes()
            assert X.data.tobytes() == X2.data.tobytes()
            assert y.tobytes() == y2.tobytes()


@pytest.mark.parametrize("size", [4096, 8192])
def test_file_that_ends_on_a_page_boundary(write, size):
    text = b"1 1:2 #" + b"x" * (size - 13) + b"\n1 2:7"
    assert len(text) == size
    assert load_svmlight(write(text))[0].toarray().tolist() == [[2, 0], [0, 7]]


def test_files_that_scikit_learn_writes(tmp_path):
    rng = np.random.default_rng(2)
    X = (
        rng.standard_normal((40, 30))
        * (rng.random((40, 30)) < 0.3)
        * 10.0 ** rng.integers(-300, 300, (40, 1))
    )
    y = rng.standard_normal(40)
    dump_svmlight_file(X, y, str(tmp_path / "x"), zero_based=False, comment="of scikit-learn")
    ours, labels = load_svmlight(tmp_path / "x", n_features=30)
    theirs, their_labels = load_svmlight_file(str(tmp_path / "x"), n_features=30)
    assert (ours.toarray() == theirs.toarray()).all()
    assert (labels == their_labels).all()


@pytest.mark.parametrize("rows_bytes", [1, 30, 10_000])
@pytest.mark.parametrize("base", [0, 1])
def test_chunks_of_rows_make_the_file(write, rows_bytes, base):
    rng = np.random.default_rng(3)
    lines = [b"%d %d:%d" % (i, rng.integers(3) + base if i < 99 else base, i) for i in range(100)]
    lines[::10] = [b"# nothing"] * 10
    path = write(b"\n".join(lines))
    whole = read_data(path)
    chunks = list(iter_svmlight(path, rows_bytes=rows_bytes, n_features=4))
    assert (len(chunks) == 1) == (rows_bytes == 10_000)
    assert np.concatenate([y for _, y in chunks]).tolist() == whole.y.tolist()
    assert np.concatenate([X.indices for X, _ in chunks]).tolist() == whole.X.indices.tolist()
    assert all(X.shape == (len(y), 4) for X, y in chunks)


def test_chunks_find_a_late_index_zero_but_not_in_a_comment(write):
    text = b"1 1:1 # 0:1\n" * 50
    assert {X.indices[0] for X, _ in iter_svmlight(write(text), rows_bytes=12)} == {0}
    assert {X.indices[0] for X, _ in iter_svmlight(write(text + b"1 00:1\n"), rows_bytes=12)} == {0, 1}


@pytest.mark.parametrize(
    "options",
    [
        {"threads": 0},
        {"threads": 1 << 40},
        {"dtype": "int32"},
        {"dtype": "what"},
        {"zero_based": "maybe"},
        {"duplicates": "keep"},
        {"n_features": 0},
        {"n_features": 1 << 40},
        {"format": "arff"},
    ],
)
def test_arguments_out_of_range(write, options):
    with pytest.raises(ParameterError, match=next(iter(options))):
        read_data(write(b"1 1:1\n"), **options)


def test_csr_of_scipy_and_back(write):
    X, _ = load_svmlight(write(b"1 1:0.5 3:1\n2 2:1\n"))
    ours = Csr.from_scipy(X.tocoo())
    assert (ours.to_scipy() != X).nnz == 0
    assert ours.to_scipy(np.float32).dtype == np.float32


def test_query_ids_of_64_bits(write):
    path = write(b"1 qid:-9223372036854775808 1:1\n1 qid:9223372036854775807\n")
    assert load_svmlight(path, query_id=True)[2].tolist() == [-(2**63), 2**63 - 1]


def test_is_text(write, tmp_path):
    assert is_text(write(b"1 1:1\n"))
    np.save(tmp_path / "x.npy", np.eye(2))
    assert not is_text(tmp_path / "x.npy")


def test_reading_does_not_import_scipy(write):
    path = write(b"1 1:1\n")
    code = f"import sys, bmrm.io; bmrm.io.read_data({str(path)!r}); assert 'scipy' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_an_interrupt_ends_reading():
    """An exception of a signal handler propagates during parsing, not after it."""
    shuffled = np.random.default_rng(4).permutation(1000)
    text = (b"1 " + b" ".join(b"%d:0.5" % index for index in shuffled) + b"\n") * 6000
    started = time.perf_counter()
    parse(text)
    whole = time.perf_counter() - started

    def stop(signum, frame):
        raise TimeoutError

    def interrupted():
        timer.start()
        parse(text)

    previous = signal.signal(signal.SIGUSR1, stop)
    timer = threading.Timer(0.01, os.kill, (os.getpid(), signal.SIGUSR1))
    started = time.perf_counter()
    try:
        with pytest.raises(TimeoutError):
            interrupted()
        assert time.perf_counter() - started < 0.6 * whole
    finally:
        timer.join()
        signal.signal(signal.SIGUSR1, previous)


def test_published_files(real_data):
    files = [*real_data.glob("svm/*"), *real_data.glob("rank/*")]
    assert files
    for file in files:
        several = "yeast" in file.name
        query = "qid" in file.name
        ours = load_svmlight(file, query_id=query)
        theirs = load_svmlight_file(str(file), multilabel=several, query_id=query)
        assert ours[0].shape == theirs[0].shape
        assert (ours[0] != theirs[0]).nnz == 0
        assert len(ours) == len(theirs)
        for mine, other in zip(ours[1:], theirs[1:], strict=True):
            assert list(mine) == list(other)
