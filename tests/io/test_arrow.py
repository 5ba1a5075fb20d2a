"""CSV and Parquet: named columns, labels among them, and what is wrong with a table in one line."""

import gzip

import numpy as np
import pytest

from bmrm.errors import DataError, HostMemoryError, ParameterError
from bmrm.io import read_data

pyarrow = pytest.importorskip("pyarrow")
from pyarrow import parquet  # noqa: E402

CSV = "a,id,b,y\n1,7,0.5,1\n-2,8,1e-3,0\n"


def read(tmp_path, text: str | bytes, **keywords):
    path = tmp_path / "table"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return read_data(path, **{"label": "y", "dtype": "float64", **keywords})


@pytest.mark.parametrize("packed", [False, True])
def test_a_csv(tmp_path, packed):
    data = read(tmp_path, gzip.compress(CSV.encode()) if packed else CSV, drop=["id"])
    assert data.feature_names == ("a", "b")
    np.testing.assert_array_equal(data.X, [[1.0, 0.5], [-2.0, 1e-3]])
    np.testing.assert_array_equal(data.y, [1.0, 0.0])
    assert (data.zero_based, data.rounded) == (None, False)
    single = read(tmp_path, CSV, drop=["id"], dtype="float32")
    assert single.X.dtype == np.float32
    assert single.rounded


def test_a_csv_without_labels_is_read_by_its_format(tmp_path):
    data = read(tmp_path, CSV, label=None, format="csv")
    assert data.y is None
    assert data.X.shape == (2, 4)


@pytest.mark.parametrize("compression", ["none", "snappy", "zstd"])
def test_parquet_is_detected(tmp_path, compression):
    columns = {"y": [1, 2, 1], "flag": [True, False, True], "x": pyarrow.array([1.5, 2, 3], "float32")}
    columns["kind"] = pyarrow.array([4, 4, 5]).dictionary_encode()
    parquet.write_table(pyarrow.table(columns), tmp_path / "p", compression=compression)
    data = read_data(tmp_path / "p", label="y", dtype="float64")
    assert data.feature_names == ("flag", "x", "kind")
    np.testing.assert_array_equal(data.X, [[1, 1.5, 4], [0, 2, 4], [1, 3, 5]])
    np.testing.assert_array_equal(data.y, [1, 2, 1])


@pytest.mark.parametrize(
    ("text", "keywords", "message"),
    [
        (CSV, {"label": "z"}, "found no column 'z', expected one of 'a', 'id', 'b', 'y'"),
        (CSV, {"drop": ["ids"]}, "found no column 'ids', expected one of"),
        (
            CSV.replace("1e-3", "cat"),
            {},
            "column 'b': found 'cat' in row 2, expected numbers (drop=",
        ),
        (CSV.replace("1e-3", ""), {}, "column 'b': found no value in row 2, expected a number"),
        (CSV.replace("1e-3", "inf"), {}, "row 2, column 3 has inf, expected a finite number"),
        (CSV.replace(",0\n", ",inf\n"), {}, "label of row 2 has inf, expected a finite number"),
        ("1,2,3\n4,5,6\n", {"label": "3"}, "found the first line '1', '2', '3', expected names of columns"),
        (CSV.replace("id", "a"), {}, "found the column 'a' twice, expected each name once"),
        (CSV + "1,2\n", {}, "found a damaged csv file (CSV parse error"),
        ("", {"format": "csv"}, "found a damaged csv file"),
        (b"PAR1" + b"\0" * 99, {}, "found a damaged parquet file"),
        (b"\x93NUMPY\x01\0", {}, "found a npy file, whose columns have no names, expected a table"),
        (CSV, {"n_features": 7}, "found 3 columns, expected 7"),
        (CSV, {"query_id": True}, "found a csv file, which has no query ids"),
    ],
)
def test_what_is_wrong_with_a_table(tmp_path, text, keywords, message):
    with pytest.raises(DataError) as error:
        read(tmp_path, text, **keywords)
    assert message in str(error.value)
    assert str(tmp_path / "table") in str(error.value)
    assert "\n" not in str(error.value)


def test_a_truncated_parquet(tmp_path):
    parquet.write_table(pyarrow.table({"y": np.arange(500.0), "x": np.arange(500.0)}), tmp_path / "p")
    whole = (tmp_path / "p").read_bytes()
    for length in range(4, len(whole), 97):
        with pytest.raises(DataError, match="damaged parquet"):
            read(tmp_path, whole[:length])


def test_rows_that_a_header_claims_are_not_allocated(tmp_path, monkeypatch):
    column = pyarrow.array(np.zeros(1_000_000)).dictionary_encode()
    parquet.write_table(pyarrow.table({"y": column, "x": column}), tmp_path / "p")
    from bmrm.base import host_memory

    monkeypatch.setattr(host_memory, "MIN_CHECKED_BYTES", 0)
    monkeypatch.setattr(host_memory, "available_bytes", lambda: 1 << 20)
    assert (tmp_path / "p").stat().st_size < 100_000
    with pytest.raises(HostMemoryError, match=r"p: out of memory: .* for its columns"):
        read_data(tmp_path / "p", label="y")


def test_text_with_a_line_of_names_is_csv_if_no_labels_are_wanted(tmp_path):
    for text in (CSV, "\N{BYTE ORDER MARK}" + CSV, CSV.replace("\n", "\r\n")):
        assert read(tmp_path, text, label=None, labels="none").X.shape == (2, 4)
    for text in ("1,2 3:1\n2 1:1\n", "1,2\n1 1:1\n", "# a,b\n1 1:1\n1 2:1\n"):
        assert read(tmp_path, text, label=None, labels="none").X.shape[0] == 2


def test_lines_that_are_longer_than_a_block(tmp_path):
    names, row = ",".join("x" * 400 + str(j) for j in range(3000)), ",".join(["1"] * 3000)
    for packed in (False, True):
        text = f"{names}\n{row}\n".encode()
        found = read(tmp_path, gzip.compress(text, 1) if packed else text, label=None, format="csv")
        assert found.X.shape == (1, 3000)


@pytest.mark.parametrize("label", ["", None])
def test_the_empty_name(tmp_path, label):
    """Frames are written with a column of row numbers that has no name."""
    text = CSV.replace("id", "")
    if label is None:
        assert read(tmp_path, text, drop=[""]).feature_names == ("a", "b")
    else:
        np.testing.assert_array_equal(read(tmp_path, text, label="").y, [7.0, 8.0])
        with pytest.raises(ParameterError, match="label, drop: found '', expected one of 'a', 'id'"):
            read(tmp_path, CSV, label="")


def test_damaged_text_in_tables(tmp_path):
    with pytest.raises(DataError, match=r"found a damaged csv file \('utf-8' codec can't decode byte 0xff"):
        read(tmp_path, CSV.encode().replace(b"id", b"\xff"))
    names = pyarrow.array(["no", "\N{LATIN SMALL LETTER E WITH ACUTE}"])
    parquet.write_table(pyarrow.table({"x": [1.0, 2.0], "y": names}), tmp_path / "p", compression="none")
    (tmp_path / "p").write_bytes((tmp_path / "p").read_bytes().replace(b"\xc3\xa9", b"\xff\xff"))
    with pytest.raises(DataError, match=r"found a damaged parquet file \(.*[Uu][Tt][Ff]-?8"):
        read_data(tmp_path / "p", label="y")
