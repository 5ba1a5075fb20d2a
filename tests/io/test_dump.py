"""SVMlight text that is written reads back exactly."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from sklearn.datasets import load_svmlight_file

import bmrm
from bmrm.errors import DataError

NUMBERS = st.floats(allow_nan=False, allow_infinity=False)


@st.composite
def rows(draw):
    """Draw a dense matrix with zeros, its labels and queries."""
    m, d = draw(st.integers(1, 8)), draw(st.integers(1, 6))
    values = draw(st.lists(st.one_of(st.just(0.0), NUMBERS), min_size=m * d, max_size=m * d))
    y = draw(st.lists(NUMBERS, min_size=m, max_size=m))
    queries = draw(st.lists(st.integers(-(2**63), 2**63 - 1), min_size=m, max_size=m))
    return np.array(values).reshape(m, d), np.array(y), np.array(queries, np.int64)


@given(rows(), st.booleans(), st.booleans())
def test_what_is_written_is_read(tmp_path_factory, data, zero_based, sparse):
    X, y, queries = data
    path = tmp_path_factory.getbasetemp() / "dumped.svm"
    given_X = sp.csr_array(X) if sparse else X
    bmrm.dump_svmlight(given_X, y, path, query_id=queries, zero_based=zero_based)
    found, labels, qid = bmrm.load_svmlight(path, n_features=X.shape[1], zero_based=zero_based, query_id=True)
    assert np.array_equal(found.toarray(), X)
    assert np.array_equal(labels, y)
    assert np.array_equal(qid, queries)


def test_other_readers_read_it(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((9000, 7)) * (rng.random((9000, 7)) < 0.4)  # more than one block of rows
    y = rng.integers(0, 3, 9000)
    bmrm.dump_svmlight(X.astype(np.float32), y, tmp_path / "data.svm")
    found, labels = load_svmlight_file(str(tmp_path / "data.svm"), n_features=7, zero_based=False)
    assert np.array_equal(found.toarray(), X.astype(np.float32).astype(np.float64))
    assert np.array_equal(labels, y)


def test_stored_zeros_and_the_numbering_are_kept(tmp_path):
    (tmp_path / "first.svm").write_text("1 0:0 3:2\n-1\n")
    X, y = bmrm.load_svmlight(tmp_path / "first.svm")
    bmrm.dump_svmlight(X, y, tmp_path / "second.svm")
    assert (tmp_path / "second.svm").read_text() == "1 0:0 3:2\n-1\n"


def test_several_labels_and_comments(tmp_path):
    path = tmp_path / "data.svm"
    bmrm.dump_svmlight(np.eye(3), [(1.0, 2.5), (), (3.0,)], path, comment="one\ntwo")
    assert path.read_text() == "# one\n# two\n1,2.5 1:1\n 2:1\n3 3:1\n"
    assert bmrm.load_svmlight(path)[1] == [(1.0, 2.5), (), (3.0,)]


def test_no_rows_are_an_empty_file(tmp_path):
    bmrm.dump_svmlight(np.zeros((0, 3)), [], tmp_path / "data.svm")
    assert (tmp_path / "data.svm").read_bytes() == b""


@pytest.mark.parametrize(
    ("X", "y", "query_id", "message"),
    [
        (np.eye(2), [1.0], None, r"y: found shape \(1,\), expected \(2,\), one label per row of X"),
        (np.eye(2), [(1.0,)], None, "y: found 1 rows, expected 2, as in X"),
        (np.ones(2), [1, 1], None, "X: found 1 dimensions, expected 2"),
        (np.array([[np.nan]]), [1], None, "X: .*nan"),
        (np.array([[np.inf]]), [1], None, "X: .*inf"),
        (np.eye(2), [1, np.nan], None, "y: row 2 has nan, expected a finite number"),
        (np.eye(2), [1, "b"], None, "y: row 1 has 1, expected text like the others"),
        (np.eye(2), [1, 2], [1], r"query_id: found shape \(1,\), expected \(2,\), one per row of X"),
        (np.eye(2), [1, 2], [1.5, 2], "query_id: found float64 values, expected 64-bit integers"),
        (np.eye(2), [1, 2], np.array([2**63, 1], np.uint64), "query_id: found uint64 values"),
    ],
)
def test_bad_input_writes_nothing(tmp_path, X, y, query_id, message):
    with pytest.raises(DataError, match=message):
        bmrm.dump_svmlight(X, y, tmp_path / "data.svm", query_id=query_id)
    assert list(tmp_path.iterdir()) == []
