"""Matrix Market, npz and npy files, good and bad."""

import gzip
import io
import itertools
import zipfile

import numpy as np
import pytest
import scipy.io
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from bmrm.errors import DataError
from bmrm.io import Csr, read_data


@pytest.fixture
def matrix():
    return sp.random(30, 20, 0.2, "csr", random_state=np.random.default_rng(0))


def assert_holds(data, matrix):
    assert isinstance(data.X, Csr)
    assert data.X.shape == matrix.shape
    assert (data.X.to_scipy().toarray() == matrix.astype(data.X.data.dtype).toarray()).all()
    assert data.X.to_scipy().has_sorted_indices


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_matrix_market(tmp_path, matrix, dtype):
    path = tmp_path / "x.mtx"
    scipy.io.mmwrite(path, matrix)
    data = read_data(path, dtype=dtype)
    assert_holds(data, matrix)
    assert data.y is None
    compressed = tmp_path / "other"
    compressed.write_bytes(gzip.compress(path.read_bytes()))
    assert_holds(read_data(compressed), matrix)


def test_matrix_market_kinds(tmp_path):
    path = tmp_path / "x.mtx"

    def read(text):
        path.write_text(f"%%MatrixMarket matrix {text}")
        return read_data(path, dtype="float64").X

    pattern = read("coordinate pattern general\n% a comment\n\n2 3 2\n2 3\n1 1\n")
    assert pattern.data is None
    assert pattern.to_scipy().toarray().tolist() == [[1, 0, 0], [0, 0, 1]]
    symmetric = read("coordinate real symmetric\n2 2 2\n1 1 3.5\n2 1 1e0\n")
    assert symmetric.to_scipy().toarray().tolist() == [[3.5, 1], [1, 0]]
    assert read("coordinate integer general\n2 2 1\n1 2 7\n").to_scipy().toarray().tolist() == [
        [0, 7],
        [0, 0],
    ]
    skew = read("coordinate real skew-symmetric\n2 2 1\n2 1 5\n")
    assert skew.to_scipy().toarray().tolist() == [[0, -5], [5, 0]]
    assert read("array real general\n2 3\n1\n2\n3\n4\n5\n6").tolist() == [[1, 3, 5], [2, 4, 6]]
    assert read("array real symmetric\n2 2\n1\n2\n3\n").tolist() == [[1, 2], [2, 3]]
    assert read("array real skew-symmetric\n2 2\n7\n").tolist() == [[0, -7], [7, 0]]
    assert read("coordinate real general\n3 2 0\n").to_scipy().toarray().tolist() == [[0, 0]] * 3


# SciPy is about to return another type by default, and its older releases cannot be asked for one.
@pytest.mark.filterwarnings("ignore:The default value for `spmatrix`:DeprecationWarning")
def test_published_matrices(real_data):
    files = sorted(real_data.glob("mtx/*"))
    assert files
    for file in files:
        data = read_data(file, dtype="float64")
        expected = sp.csr_matrix(scipy.io.mmread(file))
        assert data.X.shape == expected.shape
        assert (data.X.to_scipy() != expected).nnz == 0


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("coordinate complex general\n1 1 1\n1 1 1 1\n", "found complex values"),
        ("vector real general\n1\n1\n", "found another first line, expected '%%MatrixMarket matrix"),
        ("coordinate real general\n", "expected 3 integers"),
        ("coordinate real general\n2 2\n", "expected 3 integers"),
        ("coordinate real general\n2 2 -1\n", "expected 3 integers"),
        ("coordinate real general\n2 2 99999999999\n1 1 1\n", "expected 99999999999 entries"),
        ("coordinate real general\n99999999999 2 1\n1 1 1\n", "found a size of 99999999999 in a file"),
        (
            "coordinate real general\n2000000 2 1\n1 1 1\n",
            "found a size of 2000000 in a file of .*at most 104",
        ),
        ("coordinate real general\n2 2000000 1\n1 1 1\n", "found a size of 2000000 in a file"),
        ("array real general\n99999 99999\n1\n", "bytes after the sizes, expected"),
        ("coordinate real general\n2 2 2\n1 1 1\n", "line 4: found the end of the file, expected 2 entries"),
        ("coordinate real general\n2 2 1\n\n3 1 1\n", 'line 4: found "3", expected 1 entries: a row up to 2'),
        ("coordinate real general\n2 2 1\n0 1 1\n", 'line 3: found "0"'),
        ("coordinate real general\n2 2 1\n1 -1 1\n", 'line 3: found "-1"'),
        ("coordinate real general\n2 2 1\n1 1 x\n", 'line 3: found "x", .* and a finite number'),
        ("coordinate real general\n2 2 1\n1 1 nan\n", 'line 3: found "nan"'),
        ("coordinate real general\n2 2 1\n1 1\n", "line 3: found the end of the line"),
        ("coordinate real general\n2 2 1\n1 1 1 1\n", 'line 3: found "1"'),
        ("coordinate real general\n2 2 1\n1 1 1\n1 2 1\n", 'line 4: found "1"'),
        ("coordinate pattern general\n2 2 1\n1 1 1\n", 'line 3: found "1"'),
        ("coordinate real lopsided\n2 2 1\n1 1 1\n", "found the symmetry 'lopsided'"),
        ("array pattern general\n1 1\n1\n", "found pattern values"),
        ("coordinate real general\n2 2 1\n1 1 1e39\n", "expected a finite number"),
        ("coordinate real general\n2 2 2\n1 1 1\n1 1 1\n", "found an entry twice"),
        ("coordinate real symmetric\n2 3 1\n2 1 1\n", "symmetric"),
    ],
)
def test_bad_matrix_market(tmp_path, text, message):
    path = tmp_path / "x.mtx"
    path.write_text(f"%%MatrixMarket matrix {text}")
    with pytest.raises(DataError, match=f"^{path}: .*{message}"):
        read_data(path)


def test_most_rows_may_be_empty(tmp_path):
    path = tmp_path / "x.mtx"
    path.write_text("%%MatrixMarket matrix coordinate real general\n1000000 1000000 1\n7 1000000 1\n")
    assert read_data(path).X.shape == (1_000_000, 1_000_000)


def test_repeated_entries_are_summed_if_requested(tmp_path):
    path = tmp_path / "x.mtx"
    path.write_text("%%MatrixMarket matrix coordinate real general\n2 2 3\n1 2 1\n1 1 1\n1 2 3\n")
    data = read_data(path, duplicates="sum")
    assert data.X.to_scipy().toarray().tolist() == [[1, 4], [0, 0]]


@pytest.mark.parametrize("kind", ["i4", "i8"])
def test_npz_with_labels(tmp_path, matrix, kind):
    path = tmp_path / "x.npz"
    parts = {name: getattr(matrix, name).astype(kind) for name in ("indptr", "indices")}
    y = np.arange(30)
    np.savez_compressed(path, format="csr", shape=matrix.shape, data=matrix.data, y=y, **parts)
    data = read_data(path)
    assert_holds(data, matrix)
    assert data.y.tolist() == y.tolist()
    assert data.y.dtype == np.float64


def test_npz_of_scipy(tmp_path, matrix):
    path = tmp_path / "x.npz"
    matrix.indices, matrix.data = matrix.indices.copy(), matrix.data.copy()
    first = slice(*matrix.indptr[:2])  # unsorted indices are sorted
    matrix.indices[first], matrix.data[first] = matrix.indices[first][::-1], matrix.data[first][::-1]
    sp.save_npz(path, matrix)
    data = read_data(path, n_features=25, dtype="float64")
    assert data.X.shape == (30, 25)
    assert data.y is None
    assert (data.X.to_scipy()[:, :20].toarray() == matrix.toarray()).all()
    with pytest.raises(DataError, match=r"found 20 columns, expected 19 \(n_features=19\)"):
        read_data(path, n_features=19)
    with pytest.raises(DataError, match="has no query ids"):
        read_data(path, query_id=True)


GOOD = {
    "format": "csr",
    "shape": (2, 2),
    "indptr": [0, 1, 2],
    "indices": [0, 1],
    "data": [1.0, 2.0],
}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format": "csc"}, "CSR layout"),
        ({"format": None}, "CSR layout"),
        ({"data": None}, "found no array 'data'"),
        ({"shape": (2, 2, 2)}, "integers"),
        ({"shape": (2.0, 2.0)}, "integers"),
        ({"shape": np.array([2, 2], "m8[s]")}, "integers"),
        ({"indptr": np.array([0, 1, 2], "m8[s]")}, "integers"),
        ({"shape": (-1, 2)}, "sizes of at least 0"),
        ({"shape": (3, 2)}, "found 3 row pointers, expected 4"),
        ({"shape": (2, 1)}, "found the column 1, expected 0 to 0"),
        ({"shape": (2, 1 << 40)}, "found 1099511627776 columns, expected at most 4294967296"),
        ({"indptr": [0, 2, 1]}, "row pointers, expected them to rise"),
        ({"indptr": [0, 3, 2]}, "row pointers, expected them to rise"),
        ({"indptr": [[0, 1, 2]]}, "several dimensions"),
        ({"indices": [0, -1]}, "found the column -1"),
        ({"indices": [0]}, "found 1 indices and 2 values"),
        ({"indptr": [0, 2, 2], "indices": [1, 1]}, "found an entry twice"),
        ({"data": [1.0, np.nan]}, "expected a finite number"),
        ({"data": [1.0, 1e300]}, "expected a finite number"),
        ({"data": [1.0, 1j]}, "found values of type complex"),
        ({"data": ["a", "b"]}, "found values of type"),
        ({"data": [{}, 1]}, "found a damaged npz file .*pickle"),
        ({"y": [1.0]}, "found labels of shape"),
        ({"y": [1.0, np.inf]}, "expected a finite number"),
    ],
)
def test_bad_npz(tmp_path, change, message):
    path = tmp_path / "x.npz"
    arrays = {name: value for name, value in (GOOD | change).items() if value is not None}
    np.savez(path, allow_pickle=True, **{name: np.array(value) for name, value in arrays.items()})
    with pytest.raises(DataError, match=f"^{path}: .*{message}"):
        read_data(path)


@pytest.mark.parametrize("name", [*GOOD, "y"])
def test_npz_member_that_is_not_an_array(tmp_path, name):
    path = tmp_path / "x.npz"
    arrays = {**GOOD, "y": [1, 2]}
    np.savez(path, **{key: np.array(value) for key, value in arrays.items() if key != name})
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr(f"{name}.npy", "csr")
    with pytest.raises(DataError, match=f"^{path}: found a member '{name}' that is not an npy file"):
        read_data(path)


def test_npy(tmp_path):
    path = tmp_path / "x.npy"
    X = np.arange(6.0).reshape(2, 3)
    for stored in (X, np.asfortranarray(X), X.astype(np.int16), X > 2):
        np.save(path, stored)
        data = read_data(path, n_features=3)
        assert data.X.tolist() == stored.astype(float).tolist()
        assert data.X.dtype == np.float32
        assert data.X.flags.c_contiguous
        assert data.y is None
    with pytest.raises(DataError, match="found 3 columns, expected 4"):
        read_data(path, n_features=4)


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (np.zeros(3), "found an array of 1 dimensions"),
        (np.array([[1, np.nan]]), "row 1, column 2 has nan"),
        (np.array([["a"]]), "found values of type"),
        (np.array([[{}]]), "found a damaged npy file"),
        (np.array([[1e300]]), "row 1, column 1 has inf"),
    ],
)
def test_bad_npy(tmp_path, array, message):
    path = tmp_path / "x.npy"
    np.save(path, array)
    with pytest.raises(DataError, match=f"^{path}: {message}"):
        read_data(path)


@pytest.mark.parametrize("name", ["x.npy", "x.npz"])
def test_header_that_states_too_large_sizes(tmp_path, name):
    file = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        file, {"descr": "<f8", "fortran_order": False, "shape": (1 << 40, 1 << 10)}
    )
    path = tmp_path / name
    if name == "x.npy":
        path.write_bytes(file.getvalue())
    else:
        np.savez(path, **{key: np.array(value) for key, value in GOOD.items() if key != "data"})
        with zipfile.ZipFile(path, "a") as archive:
            archive.writestr("data.npy", file.getvalue())
    with pytest.raises(DataError, match=f"^{path}: found"):
        read_data(path)


def test_truncated_files(tmp_path, matrix):
    for name, save in (("x.npz", sp.save_npz), ("x.npy", lambda path, X: np.save(path, X.toarray()))):
        path = tmp_path / name
        save(path, matrix)
        whole = path.read_bytes()
        for length in (10, len(whole) // 2, len(whole) - 1):
            path.write_bytes(whole[:length])
            with pytest.raises(DataError, match=f"^{path}: found a damaged"):
                read_data(path)


def test_requested_format(tmp_path):
    path = tmp_path / "x"
    path.write_bytes(b"1 1:1\n")
    assert read_data(path, format="svmlight").X.shape == (1, 1)
    with pytest.raises(DataError):
        read_data(path, format="npy")


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("rows", [None, np.array([1, 0, 1])])
def test_repeated_ones_are_summed(dtype, rows):
    X = sp.csr_matrix((np.ones(5, dtype), [2, 0, 2, 1, 0], [0, 3, 5]), shape=(2, 3))
    X.has_canonical_format = True  # so that SciPy does not add them up before
    found = Csr.from_scipy(X, rows)
    expected = np.array([[1.0, 0.0, 2.0], [1.0, 1.0, 0.0]])
    np.testing.assert_array_equal(found.to_scipy().toarray(), expected if rows is None else expected[rows])
    assert found.data.dtype == dtype
    alone = Csr.from_scipy(X[1:], None if rows is None else np.array([0]))
    assert alone.data is None


@given(seed=st.integers(0, 10**6), values=st.sampled_from([np.float32, np.float64, None]))
@settings(max_examples=40, deadline=None)
def test_rows_are_sorted_and_can_be_taken_in_any_order(seed, values):
    rng = np.random.default_rng(seed)
    rows, columns = rng.integers(1, 40), rng.integers(1, 30)
    dense = rng.integers(-3, 4, (rows, columns)) * (rng.random((rows, columns)) < 0.4)
    dense = (dense != 0) if values is None else dense
    X = sp.csr_matrix(dense.astype(np.float64 if values is None else values))
    for i, j in itertools.pairwise(X.indptr):  # columns in no order
        shuffled = i + rng.permutation(j - i)
        X.indices[i:j], X.data[i:j] = X.indices[shuffled], X.data[shuffled]
    X.has_sorted_indices = False
    found = Csr.from_scipy(X)
    order = rng.integers(0, rows, 2 * rows)
    whole, some = (found, dense), dense[order]
    for taken, expected in (whole, (found.take(order), some), (Csr.from_scipy(X, order), some)):
        np.testing.assert_array_equal(taken.to_scipy().toarray(), expected)
        steps = np.diff(taken.indices) > 0
        steps[taken.indptr[1:-1][(taken.indptr[1:-1] > 0) & (taken.indptr[1:-1] < taken.nnz)] - 1] = True
        assert steps.all()
    assert found.take(np.array([], np.intp)).shape == (0, columns)
