"""Invalid text: one line that names the position, the same for any number of threads."""

import pytest
from reference import parse

from bmrm.errors import DataError
from bmrm.io import iter_svmlight, load_svmlight, read_data

INDEX = "expected index:value with an index that is an integer and not negative"
VALUE = "expected index:value with a finite number"
LABEL = "expected a label: a finite number, or several joined by commas"
FAULTS = [
    (b"1 1:2\n1 -1:3\n", f'2:3: found "-1:3", {INDEX}'),
    (b"1 1099511627776:1\n", '1:3: found "1099511627776:1", expected an index from 0 to 2147483646'),
    (b"1 2147483647:1\n", '1:3: found "2147483647:1", expected an index from 0 to 2147483646'),
    (b"1 " + b"9" * 40 + b":1\n", f'1:3: found "{"9" * 40}"..., expected an index from 0 to 2147483646'),
    (b"1 1:1\n\n# x\n1 2:nan\n", f'4:3: found "2:nan", {VALUE}'),
    (b"1 2:inf\n", f'1:3: found "2:inf", {VALUE}'),
    (b"1 2:-inf\n", f'1:3: found "2:-inf", {VALUE}'),
    (b"1 2:1e999\n", f'1:3: found "2:1e999", {VALUE}'),
    (b"1 2:0x10\n", f'1:3: found "2:0x10", {VALUE}'),
    (b"1 2:1_0\n", f'1:3: found "2:1_0", {VALUE}'),
    (b"1 2:1,5\n", f'1:3: found "2:1,5", {VALUE}'),
    (b"1 1:1 3:\n", f'1:7: found "3:", {VALUE}'),
    (b"1 1:1 3:", f'1:7: found "3:", {VALUE}'),
    (b"1 1:1 3", '1:7: found "3", expected index:value'),
    (b"1 1:1 3 :2", '1:7: found "3", expected index:value'),
    (b"1 1:1 x:2", f'1:7: found "x:2", {INDEX}'),
    (b"1 1:1 1.5:2", '1:7: found "1.5:2", expected index:value'),
    (b"1 1:1 qid:2", f'1:7: found "qid:2", {INDEX}'),
    (b"1 qid:two 1:1", '1:3: found "qid:two", expected qid: and an integer'),
    (b"1 qid:9223372036854775808 1:1", '1:3: found "qid:9223372036854775808", expected qid: and an integer'),
    (
        b"1 qid:-9223372036854775809 1:1",
        '1:3: found "qid:-9223372036854775809", expected qid: and an integer',
    ),
    (
        b"1 qid:99999999999999999999 1:1",
        '1:3: found "qid:99999999999999999999", expected qid: and an integer',
    ),
    (b"spam 1:1\n", '1:1: found "spam", expected a label: a finite number (labels="text" or bmrm-train --te'),
    (b"nan 1:1\n", f'1:1: found "nan", {LABEL}'),
    (b"1e999 1:1\n", f'1:1: found "1e999", {LABEL}'),
    (b"1, 1:1\n", f'1:1: found "1,", {LABEL}'),
    (b"1,,2 1:1\n", f'1:1: found "1,,2", {LABEL}'),
    (b"1,nan 1:1\n", f'1:1: found "1,nan", {LABEL}'),
    (b"1 1:1\n 2:1 3:1\n", '2:2: found "2:1", expected a label before the first index:value'),
    (b"1 3:1 2:1 3:2\n", '1:11: found "3:2", expected each index once per row (duplicates="sum" would sum'),
    (b"1 3:1 3:1 2:2\n", '1:7: found "3:1", expected each index once'),
    (b"\x7fELF\x02\x01\x00\x00\n", rf'1:1: found "\x7fELF\x02\x01\x00\x00", {LABEL}'),
    (b'"\xc3\xa9\\ 1:1\n', rf'1:1: found "\x22\xc3\xa9\x5c", {LABEL}'),
    (b"1 1:1\x00", r'1:3: found "1:1\x00", ' + VALUE),
]


@pytest.mark.parametrize(("text", "message"), FAULTS)
def test_message(text, message):
    for threads, block_bytes in ((1, 1 << 20), (1, 1), (3, 4)):
        with pytest.raises(DataError) as found:
            parse(text, threads=threads, block_bytes=block_bytes)
        assert str(found.value).startswith(f"text:{message}")
        assert "\n" not in str(found.value)


def test_the_first_fault_is_reported_for_any_number_of_threads():
    text = b"1 1:1\n" * 500 + b"1 2:x\n" + b"1 1:1\n" * 500 + b"y\n1 0:nan\n"
    for threads in (1, 2, 3, 7):
        for block_bytes in (1, 50, 3000, 1 << 20):
            with pytest.raises(DataError, match=r'^text:501:3: found "2:x"'):
                parse(text, threads=threads, block_bytes=block_bytes)


def test_float32_overflow():
    assert parse(b"1 1:1e39\n")[0].data.tolist() == [1e39]
    with pytest.raises(DataError, match=r"1e39.* float32 can hold"):
        parse(b"1 1:1e39\n", dtype="float32")
    with pytest.raises(DataError, match=r"1:3e38.* float32 can hold"):
        parse(b"1 1:2e38 1:3e38\n", dtype="float32", duplicates="sum")


def test_index_zero_in_a_one_based_file():
    with pytest.raises(DataError, match='2:7: found "0:1", expected an index from 1 to 2147483646'):
        parse(b"1 1:1\n1 1:1 0:1\n", zero_based=False)


@pytest.mark.parametrize(
    ("zero_based", "text", "place"),
    [
        (False, b"1 3:1\n1 1:1 4:1\n", '2:7: found "4:1", expected an index from 1 to 3'),
        (True, b"1 2:1\n1 1:1 3:1\n", '2:7: found "3:1", expected an index from 0 to 2'),
        (
            "auto",
            b"1 3:1\n1 1:1 4:1\n",
            '2:7: found "4:1", expected an index from 1 to 3, or from 0 to 2',
        ),
        ("auto", b"1 2:1\n1 3:1 1:1\n1 3:1\n1 0:1", '2:3: found "3:1", expected an index from 0 to 2'),
    ],
)
def test_index_beyond_n_features(zero_based, text, place):
    for parts in (1, 3):
        with pytest.raises(DataError) as found:
            parse(text, zero_based=zero_based, n_features=3, parts=parts)
        assert str(found.value) == f"text:{place} (n_features=3)"


def test_query_id_missing():
    with pytest.raises(DataError, match="2:2: found the end of the line, expected qid: and an integer"):
        parse(b"1 qid:1 1:1\n1\n", query_id=True)


@pytest.mark.parametrize("text", [b"", b"\n", b"# only a comment", b" \r\n\n"])
def test_no_rows(tmp_path, text):
    path = tmp_path / "empty"
    path.write_bytes(text)
    for read in (read_data, load_svmlight, lambda path: list(iter_svmlight(path))):
        with pytest.raises(DataError, match=f"^{path}: found (an empty file|no rows), expected a label"):
            read(path)


def test_no_file(tmp_path):
    with pytest.raises(FileNotFoundError):
        read_data(tmp_path / "none")
    with pytest.raises(IsADirectoryError):
        read_data(tmp_path)


def test_unprintable_name(tmp_path):
    path = tmp_path / "two\nlines"
    path.write_bytes(b"x")
    with pytest.raises(DataError) as found:
        read_data(path)
    assert "\n" not in str(found.value)


@pytest.mark.parametrize("stream", [False, True])
def test_line_of_20_megabytes(tmp_path, stream, monkeypatch):
    """A valid one is read and a faulty one reported, both in linear time."""
    count = 1_400_000
    text = b"1 " + b"".join([b"%d:0.50000 " % index for index in range(1, count + 1)])
    assert len(text) > 20_000_000
    path = tmp_path / "long"
    path.write_bytes(text)
    if stream:
        monkeypatch.setattr("bmrm.io.sources.Source.is_plain", False)
    data = read_data(path)
    assert data.X.shape == (1, count)
    assert (data.X.data == 0.5).all()
    with path.open("ab") as file:
        file.write(b"oops")
    with pytest.raises(DataError, match=rf'^{path}:1:{len(text) + 1}: found "oops", expected index:value'):
        read_data(path)
    path.write_bytes(b"x" * 20_000_000)
    with pytest.raises(DataError, match=rf'^{path}:1:1: found "x{{40}}"\.\.\., expected a label'):
        read_data(path)


MISSING = "; leave out missing values"


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    ("value", "hint"),
    [
        (b"nan", MISSING),
        (b"", MISSING),
        (b"NA", MISSING),
        (b"?", MISSING),
        (b"0,5", " with a decimal point"),
        (b"0x1p3", " in decimals"),
        (b"inf", ""),
        (b"one", ""),
        (b"1_0", " in decimals"),
        (b"1e400", " that {} can hold"),
        (b"-" + b"9" * 400, " that {} can hold"),
    ],
)
def test_invalid_values_are_explained(value, hint, dtype):
    for end in (b"\n", b" 2:1\n", b"#\n", b""):
        with pytest.raises(DataError, match=r"^text:1:3: found ") as found:
            parse(b"1 1:" + value + end, dtype=dtype)
        assert str(found.value).endswith(f"expected index:value with a finite number{hint.format(dtype)}")


TABLES = [
    (b"1,0.5,0.25\n-1,1,2\n", "found no index:value on any line"),
    (b"x,y,z\n1,2,3\n", "expected a label and index:value pairs, not a table"),
    (b"1;0.5;0.25\n", "expected a label and index:value pairs, not a table"),
    (b"1,,2\n", "expected a label and index:value pairs, not a table"),
    (b"1 0.5 0.25\n", 'found "0.5", expected index:value'),
    (b"1\t0.5\t0.25\n", 'found "0.5", expected index:value'),
]


@pytest.mark.parametrize(("text", "message"), TABLES)
def test_a_table_is_recognised(tmp_path, text, message):
    path = tmp_path / "table.csv"
    path.write_bytes(text)
    for read in (load_svmlight, read_data, lambda path: list(iter_svmlight(path))):
        with pytest.raises(DataError) as found:
            read(path)
        assert str(path) in str(found.value)
        assert message in str(found.value)


def test_rows_without_pairs_are_kept(tmp_path):
    path = tmp_path / "rows"
    path.write_text("1\n-1\n")
    assert load_svmlight(path)[0].shape == (2, 0)
    path.write_text("1,2\n-1 1:1\n")
    assert load_svmlight(path)[0].shape == (2, 1)
