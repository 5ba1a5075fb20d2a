"""Compressed files, pipes, standard input."""

import bz2
import gzip
import lzma
import os
import subprocess
import sys
import threading

import numpy as np
import pytest
import zstandard

from bmrm.errors import DataError
from bmrm.io import iter_svmlight, load_svmlight, read_data, text

COMPRESS = {
    "gz": gzip.compress,
    "bz2": bz2.compress,
    "xz": lzma.compress,
    "zst": lambda data: zstandard.ZstdCompressor().compress(data),
}
TEXT = b"1 1:0.5 2:1\n-1 3:2\n" * 1000


@pytest.mark.parametrize("kind", COMPRESS)
@pytest.mark.parametrize("suffix", [True, False])
def test_compressed(tmp_path, kind, suffix):
    """What counts is the content, whatever the name."""
    path = tmp_path / (f"data.svm.{kind}" if suffix else "data")
    path.write_bytes(COMPRESS[kind](TEXT))
    X, y = load_svmlight(path)
    assert X.shape == (2000, 3)
    assert y.sum() == 0
    assert X.sum() == 3500


@pytest.mark.parametrize("kind", COMPRESS)
def test_several_members(tmp_path, kind):
    path = tmp_path / "data"
    path.write_bytes(COMPRESS[kind](TEXT) + COMPRESS[kind](TEXT))
    assert load_svmlight(path)[0].shape == (4000, 3)


@pytest.mark.parametrize("kind", COMPRESS)
def test_damaged(tmp_path, kind):
    path = tmp_path / "data"
    whole = COMPRESS[kind](TEXT)
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(DataError, match=f"^{path}: found damaged compressed data"):
        read_data(path)
    middle = len(whole) // 2
    path.write_bytes(whole[:middle] + bytes([whole[middle] ^ 0xFF]) + whole[middle + 1 :])
    with pytest.raises(DataError):
        read_data(path)


def test_zstd_without_its_package(tmp_path, monkeypatch):
    path = tmp_path / "data"
    path.write_bytes(COMPRESS["zst"](TEXT))
    monkeypatch.setitem(sys.modules, "zstandard", None)
    with pytest.raises(DataError, match="expected the package zstandard to be installed"):
        read_data(path)


def test_fault_in_a_late_chunk_has_its_line(tmp_path, monkeypatch):
    monkeypatch.setattr(text.chunks, "__defaults__", (100,))
    path = tmp_path / "data.gz"
    path.write_bytes(gzip.compress(TEXT + b"1 x"))
    with pytest.raises(DataError, match=f'^{path}:2001:3: found "x"'):
        read_data(path)


def test_base_is_told_over_all_chunks(tmp_path, monkeypatch):
    monkeypatch.setattr(text.chunks, "__defaults__", (100,))
    path = tmp_path / "data.gz"
    path.write_bytes(gzip.compress(TEXT + b"2,3 0:1\n 1:1\n"))
    data = read_data(path)
    assert data.zero_based
    assert data.X.shape == (2002, 4)
    assert data.X.indices[:3].tolist() == [1, 2, 3]
    assert data.y[-3:] == [(-1,), (2, 3), ()]


def test_iterating_over_a_stream(tmp_path):
    path = tmp_path / "data.gz"
    path.write_bytes(gzip.compress(TEXT))
    chunks = list(iter_svmlight(path, rows_bytes=1000, n_features=3))
    assert len(chunks) == 20
    assert sum(len(y) for _, y in chunks) == 2000
    path.write_bytes(gzip.compress(TEXT + b"1 0:1\n"))
    with pytest.raises(DataError, match="found an index 0 behind rows that were read as one-based"):
        list(iter_svmlight(path, rows_bytes=1000))
    assert len(list(iter_svmlight(path, rows_bytes=1000, zero_based=True))) == 20


def test_standard_input():
    code = (
        "from bmrm.io import read_data; import sys; d = read_data('-'); print(d.X.shape)\n"
        "from bmrm.errors import DataError\n"
        "try: read_data('-')\n"
        "except DataError as error: print(error)\n"
    )
    for data in (TEXT, gzip.compress(TEXT)):
        run = subprocess.run([sys.executable, "-c", code], input=data, capture_output=True, check=True)
        assert run.stdout.decode().splitlines()[0] == "(2000, 3)"
        assert run.stdout.decode().splitlines()[1].startswith("<stdin>: found an empty file")


def test_named_pipe(tmp_path):
    path = tmp_path / "pipe"
    os.mkfifo(path)
    writer = threading.Thread(target=lambda: path.write_bytes(TEXT))
    writer.start()
    assert read_data(path).X.shape == (2000, 3)
    writer.join()


def test_endless_zeros():
    with pytest.raises(DataError, match=r'^/dev/zero:1:1: found "\\x00'):
        read_data("/dev/zero")


def test_line_longer_than_a_chunk(tmp_path, monkeypatch):
    monkeypatch.setattr(text.chunks, "__defaults__", (16,))
    path = tmp_path / "data.gz"
    line = b"1 " + b" ".join(b"%d:2" % i for i in range(1, 1000))
    path.write_bytes(gzip.compress(b"\n".join([line] * 5)))
    data = read_data(path)
    assert data.X.shape == (5, 999)
    assert (data.X.data == 2).all()
    assert (np.diff(data.X.indptr) == 999).all()
    monkeypatch.setattr(text, "LONGEST_LINE", 1000)
    with pytest.raises(DataError, match="found a line longer than 1000 bytes"):
        read_data(path)
