"""The binary cache: used if it matches and is valid, else rebuilt, and never a reason to fail."""

import json
import logging
import os
from pathlib import Path

import numpy as np
import pytest

from bmrm.errors import DataError
from bmrm.io import _svmlight, _text, array_file, cache, read_data

TEXT = b"1 qid:1 1:0.5 3:1.5\n-1 qid:2 2:2\n1 qid:2\n"


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "data.svm"
    path.write_bytes(TEXT)
    return path


def cache_of(path):
    return Path(str(path) + cache.SUFFIX)


def assert_same(data, other):
    assert data.X.shape == other.X.shape
    assert data.zero_based == other.zero_based
    for mine, theirs in [*zip(data.X[:3], other.X[:3], strict=True), (data.qid, other.qid)]:
        assert (mine is None) == (theirs is None)
        if mine is not None:
            assert mine.dtype == theirs.dtype
            assert mine.tobytes() == theirs.tobytes()
    assert list(data.y) == list(other.y)


@pytest.mark.parametrize(
    ("text", "options"),
    [
        (TEXT, {}),
        (TEXT, {"dtype": "float64", "query_id": True, "n_features": 9}),
        (TEXT, {"zero_based": True}),
        (b"1 1:1 2:1\n", {}),
        (b"1 0:1 2:1 2:2\n", {"duplicates": "sum"}),
        (b"1,2 1:2\n 1:1\n3\n", {}),
        (b"1\n", {}),
    ],
)
def test_second_reading_comes_from_the_cache(path, text, options):
    path.write_bytes(text)
    plain = read_data(path, **options)
    first = read_data(path, cache=True, **options)
    second = read_data(path, cache=True, **options)
    assert (plain.from_cache, first.from_cache, second.from_cache) == (False, False, True)
    assert_same(plain, first)
    assert_same(plain, second)
    assert "cache" in second.seconds
    assert "parse" not in second.seconds


def test_no_cache_unless_asked_for(path):
    read_data(path)
    assert not cache_of(path).exists()


@pytest.mark.parametrize(
    "options",
    [
        {"dtype": "float64"},
        {"n_features": 9},
        {"zero_based": True},
        {"query_id": True},
        {"duplicates": "sum"},
    ],
)
def test_other_options_read_the_text_again(path, options):
    read_data(path, cache=True)
    data = read_data(path, cache=True, **options)
    assert not data.from_cache
    assert_same(data, read_data(path, **options))


def test_touched_or_changed_source_is_read_again(path):
    read_data(path, cache=True)
    status = path.stat()
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns + 1))
    assert not read_data(path, cache=True).from_cache
    assert read_data(path, cache=True).from_cache
    status = path.stat()
    path.write_bytes(TEXT.replace(b"0.5", b"0.7"))
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    data = read_data(path, cache=True)
    assert not data.from_cache
    assert data.X.data[0] == np.float32(0.7)


def test_every_damaged_byte_is_noticed(path):
    plain = read_data(path, query_id=True)
    read_data(path, cache=True, query_id=True)
    whole = cache_of(path).read_bytes()
    rng = np.random.default_rng(0)
    meaningful = np.flatnonzero(np.frombuffer(whole, np.uint8))
    for at in [*rng.choice(meaningful, 150), 0, len(whole) - 1]:
        damaged = bytearray(whole)
        damaged[at] ^= 1 << int(rng.integers(8))
        cache_of(path).write_bytes(damaged)
        data = read_data(path, cache=True, query_id=True)
        assert not data.from_cache, at
        assert_same(data, plain)
        assert cache_of(path).read_bytes() == whole


@pytest.mark.parametrize("length", [0, 7, 8, 23, 24, 100, 4095, 4096, -1, 1])
def test_truncated_or_longer_cache_is_rebuilt(path, length):
    read_data(path, cache=True)
    whole = cache_of(path).read_bytes()
    cache_of(path).write_bytes(whole + b"x" if length == 1 else whole[:length])
    assert not read_data(path, cache=True).from_cache
    assert cache_of(path).read_bytes() == whole


def rewrite_header(path, change):
    """Change the header of a cache and update its checksum."""
    whole = cache_of(path).read_bytes()
    length = int.from_bytes(whole[8:16], "little")
    header = json.loads(whole[24 : 24 + length])
    change(header)
    text = json.dumps(header).encode().ljust(length)
    assert len(text) == length
    checksum = _svmlight.checksum(text).to_bytes(8, "little")
    cache_of(path).write_bytes(whole[:16] + checksum + text + whole[24 + length :])


@pytest.mark.parametrize(
    "change",
    [
        lambda header: header.update(version=1),
        lambda header: header.pop("arrays"),
        lambda header: header.update(arrays=[]),
        lambda header: header.update(shape=[3]),
        lambda header: header.update(shape=[3, -1]),
        lambda header: header.update(shape=[2, 3]),
        lambda header: header.update(shape=[3, 2]),  # the largest index is 2
        lambda header: header.update(shape=[3, 2**31]),  # more columns than a text may have
        lambda header: header.update(shape=[3, 2**40]),
        lambda header: header["arrays"].pop("indptr"),
        lambda header: header["arrays"].pop("labels"),
        lambda header: header["arrays"]["indices"].update(count=1 << 60),
        lambda header: header["arrays"]["indices"].update(count=2),
        lambda header: header["arrays"]["indices"].update(offset=0),
        lambda header: header["arrays"]["indices"].update(dtype="|O"),
        lambda header: header["arrays"]["indices"].update(checksum=0),
        lambda header: header["arrays"]["indptr"].update(count="4"),
    ],
)
def test_header_is_checked_even_with_a_right_checksum(path, change):
    read_data(path, cache=True)
    rewrite_header(path, lambda header: None)
    assert read_data(path, cache=True).from_cache
    rewrite_header(path, change)
    assert not read_data(path, cache=True).from_cache
    assert read_data(path, cache=True).from_cache


def test_row_pointers_are_checked_even_with_a_right_checksum(path):
    read_data(path, cache=True)
    whole = bytearray(cache_of(path).read_bytes())
    length = int.from_bytes(whole[8:16], "little")
    section = json.loads(whole[24 : 24 + length])["arrays"]["indptr"]
    part = slice(section["offset"], section["offset"] + 8 * section["count"])
    whole[part] = np.array([0, 1 << 40, 3, 3]).tobytes()
    cache_of(path).write_bytes(whole)
    checksum = _svmlight.checksum(bytes(whole[part]))
    rewrite_header(path, lambda header: header["arrays"]["indptr"].update(checksum=checksum))
    assert not read_data(path, cache=True).from_cache


def test_unwritable_folder_gives_one_warning(path, monkeypatch, caplog):
    def refuse(path, **how):
        raise PermissionError(13, "Permission denied", path)

    monkeypatch.setattr(array_file, "atomic_write", refuse)
    plain = read_data(path)
    with caplog.at_level(logging.WARNING):
        assert_same(read_data(path, cache=True), plain)
        assert_same(read_data(path, cache=True), plain)
    assert [record.getMessage() for record in caplog.records] == [
        f"{cache_of(path)}: no cache written: Permission denied"
    ]
    assert not cache_of(path).exists()


def test_folder_with_the_name_of_the_cache(path, caplog):
    cache_of(path).mkdir()
    assert not read_data(path, cache=True).from_cache


def test_pipe_with_the_name_of_the_cache(path, caplog):
    """Nobody reads or writes it, so opening it would wait forever."""
    os.mkfifo(cache_of(path))
    with caplog.at_level(logging.WARNING):
        assert not read_data(path, cache=True).from_cache
    message = f"{cache_of(path)}: no cache written: not a regular file"
    assert [record.getMessage() for record in caplog.records] == [message]
    assert cache_of(path).is_fifo()


def test_faulty_text_leaves_no_cache(path):
    path.write_bytes(b"1 x\n")
    with pytest.raises(DataError):
        read_data(path, cache=True)
    assert not cache_of(path).exists()


def test_checksum_depends_on_every_byte_but_not_on_threads():
    data = np.random.default_rng(0).integers(0, 256, 1_000_003, np.uint8)
    expected = _svmlight.checksum(data)
    assert expected == _svmlight.checksum(data, threads=3)
    for at in (0, 7, 500_000, 999_999, 1_000_002):
        data[at] ^= 1
        assert _svmlight.checksum(data) != expected
        data[at] ^= 1
    assert _svmlight.checksum(data[:-1]) != expected
    assert len({_svmlight.checksum(bytes(count)) for count in range(300)}) == 300


@pytest.mark.parametrize("threads", [1, 3])
def test_bytes_are_checked_while_they_are_read(tmp_path, threads):
    indices = np.arange(100_000, dtype=np.int32)
    path = tmp_path / "indices"

    def read(columns, count=100_000):
        path.write_bytes(b"12345" + indices.tobytes())
        found = np.empty(4 * count, np.uint8)
        with open(path, "rb") as file:
            arrays = _svmlight.read_checked(file.fileno(), found, 5, columns=columns, threads=threads)
        assert found.tobytes() == indices.tobytes()
        return arrays

    expected = _svmlight.checksum(indices.view(np.uint8))
    assert read(None) == (expected, True)
    assert read(100_000) == (expected, True)
    assert read(99_999) == (expected, False)
    indices[5] = -1
    assert not read(100_000)[1]
    with pytest.raises(_text.ChangedError):
        read(None, 100_001)
