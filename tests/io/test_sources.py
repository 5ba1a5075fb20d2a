"""Compressed files, pipes, standard input."""

import bz2
import gzip
import lzma
import os
import subprocess
import sys
import threading
import tracemalloc

import numpy as np
import pytest
import zstandard

from bmrm.errors import DataError
from bmrm.io import iter_svmlight, load_svmlight, read_data, text
from bmrm.io.sources import open_source

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
    """The content matters, not the name."""
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


@pytest.mark.parametrize("kind", COMPRESS)
@pytest.mark.parametrize("bit", [1, 128])
def test_damage_at_the_start_of_a_second_stream(tmp_path, kind, bit):
    path = tmp_path / "data"
    whole = COMPRESS[kind](TEXT)
    path.write_bytes(whole + bytes([whole[0] ^ bit]) + whole[1:])
    with pytest.raises(DataError, match=f"^{path}: found damaged compressed data"):
        read_data(path)


@pytest.mark.parametrize(
    ("kind", "zeros", "valid"),
    [("gz", 3, True), ("xz", 4, True), ("xz", 1 << 17, True), ("xz", 3, False), ("bz2", 4, False)],
)
@pytest.mark.parametrize("streams", [1, 2])
def test_zeros_after_a_stream(tmp_path, kind, zeros, valid, streams):
    path = tmp_path / "data"
    path.write_bytes((COMPRESS[kind](TEXT) + bytes(zeros)) * streams)
    if valid:
        assert load_svmlight(path)[0].shape == (2000 * streams, 3)
    else:
        with pytest.raises(DataError, match="found damaged compressed data"):
            load_svmlight(path)


@pytest.mark.parametrize("size", [0, 5, 1 << 17])
@pytest.mark.parametrize("number", [0x50, 0x5F])
def test_skippable_frames_of_zstd(tmp_path, number, size):
    path = tmp_path / "data"
    skipped = bytes([number]) + b"\x2a\x4d\x18" + size.to_bytes(4, "little") + bytes(size)
    frame = COMPRESS["zst"](TEXT)
    path.write_bytes(skipped + frame + skipped * 2 + frame + skipped)
    assert load_svmlight(path)[0].shape == (4000, 3)
    path.write_bytes(frame + (skipped + b"\0")[: 7 + size])
    with pytest.raises(DataError, match="the last frame is truncated"):
        load_svmlight(path)


@pytest.mark.parametrize(
    "options",
    [{"write_checksum": True}, {"write_content_size": False}, {"level": 19, "write_checksum": True}],
)
def test_frames_of_zstd_of_any_kind(tmp_path, options):
    """Blocks that are stored, compressed, or repeat one byte."""
    noise = np.random.default_rng(0).integers(1, 100_000, 40_000)
    text = b"".join(b"1 %d:1\n" % index for index in noise) + b"#" * 500_000 + b"\n"
    text += b"#" + np.random.default_rng(1).bytes(300_000).replace(b"\n", b" ")
    path = tmp_path / "data"
    path.write_bytes(zstandard.ZstdCompressor(**options).compress(text))
    with open_source(path) as source:
        assert source.file.read() == text


@pytest.mark.parametrize("kind", COMPRESS)
def test_memory_is_bounded_for_any_compression_ratio(tmp_path, kind):
    path = tmp_path / "data"
    path.write_bytes(COMPRESS[kind](bytes(1 << 24)))
    with open_source(path) as source:
        tracemalloc.start()
        try:
            while source.file.read(1 << 16):
                pass
            assert tracemalloc.get_traced_memory()[1] < 1 << 22
        finally:
            tracemalloc.stop()


def test_zstd_without_its_package(tmp_path, monkeypatch):
    path = tmp_path / "data"
    path.write_bytes(COMPRESS["zst"](TEXT))
    monkeypatch.setitem(sys.modules, "zstandard", None)
    with pytest.raises(DataError, match="zstd data need zstandard"):
        read_data(path)


def test_fault_in_a_late_chunk_has_its_line(tmp_path, monkeypatch):
    monkeypatch.setattr(text.read_chunks, "__defaults__", (100,))
    path = tmp_path / "data.gz"
    path.write_bytes(gzip.compress(TEXT + b"1 x"))
    with pytest.raises(DataError, match=f'^{path}:2001:3: found "x"'):
        read_data(path)


def test_the_base_is_decided_over_all_chunks(tmp_path, monkeypatch):
    monkeypatch.setattr(text.read_chunks, "__defaults__", (100,))
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
    with pytest.raises(DataError, match="found an index 0 after rows that were read as one-based"):
        list(iter_svmlight(path, rows_bytes=1000))
    assert len(list(iter_svmlight(path, rows_bytes=1000, zero_based=True))) == 20


@pytest.mark.parametrize("compress", [bytes, gzip.compress])
def test_rows_without_a_label_in_chunks(tmp_path, compress):
    """If a row has several labels, even in a later chunk, the chunks hold the same as the whole file."""
    path = tmp_path / "data"
    path.write_bytes(compress(b" 1:1\n2 1:1\n" * 100 + b"1,2 1:1\n"))
    chunks = [y for _, y in iter_svmlight(path, rows_bytes=100)]
    assert len(chunks) > 3
    assert [labels for y in chunks for labels in y] == load_svmlight(path)[1]
    with pytest.raises(DataError, match=f'^{path}:1:2: found "1:1", expected a label'):
        next(iter_svmlight(path, rows_bytes=100, one_label=True))
    path.write_bytes(compress(b"2 1:1\n 1:1\n" * 100))
    given = iter_svmlight(path, rows_bytes=100)
    assert next(given)[1][:2] == [(2,), ()]
    for read in (list, lambda _: load_svmlight(path)):
        with pytest.raises(DataError, match=f'^{path}:2:2: found "1:1", expected a label'):
            read(given)


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
    monkeypatch.setattr(text.read_chunks, "__defaults__", (16,))
    path = tmp_path / "data.gz"
    line = b"1 " + b" ".join(b"%d:2" % i for i in range(1, 1000))
    path.write_bytes(gzip.compress(b"\n".join([line] * 5)))
    data = read_data(path)
    assert data.X.shape == (5, 999)
    assert (data.X.data == 2).all()
    assert (np.diff(data.X.indptr) == 999).all()
    monkeypatch.setattr(text, "MAX_LINE_BYTES", 1000)
    with pytest.raises(DataError, match="found a line longer than 1000 bytes"):
        read_data(path)
