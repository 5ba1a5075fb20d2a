"""Data sources: regular files, pipes and standard input, compressed or not.

Compression is detected from the first bytes, not from the name, so renamed files and pipes work too.
"""

from __future__ import annotations

import contextlib
import io
import os
import stat
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, BinaryIO, cast

from bmrm.errors import DataError, escape_unprintable
from bmrm.io.regular import check_unchanged

HEAD_BYTES = 1 << 10  # of the decompressed content, from which formats are detected
_PIECE_BYTES = 1 << 16  # read at a time, and decompressed at a time
_ZSTD_SKIPPABLE_MAGICS = tuple(bytes([0x50 + i]) + b"\x2a\x4d\x18" for i in range(16))
_ZSTD_RLE_BLOCK = 1  # type of a block that repeats one byte


@dataclass
class Source:
    """An opened data source."""

    name: str  # its name in messages
    file: BinaryIO  # the decompressed bytes, from the start
    head: bytes  # the first bytes of ``file``, which has not been read past them
    status: os.stat_result | None  # status of a regular file, compressed or not; None for other sources
    compressed: bool  # whether ``file`` decompresses
    path: str | None  # path of a regular file

    @property
    def size(self) -> int:
        """Bytes of a regular file on the disk."""
        assert self.status is not None
        return self.status.st_size

    @property
    def is_plain(self) -> bool:
        """Whether it is a regular, uncompressed file, so that any bytes can be read at any time."""
        return self.status is not None and not self.compressed


@contextlib.contextmanager
def open_source(path: str | os.PathLike[str]) -> Iterator[Source]:
    """Open a file, or standard input for ``"-"``; regular files are positioned at the start.

    Raise `OSError` if the file is missing, a folder, or cannot be read. Raise `DataError` if the decompressor
    is not installed, or the compressed data are damaged at the start; or the file has changed by the end of
    the block.
    """
    with contextlib.ExitStack() as stack:
        name = os.fspath(path)
        if name == "-":
            name, raw = "<stdin>", sys.stdin.buffer
        else:
            raw = cast(Any, stack.enter_context(open(name, "rb")))
        status = os.fstat(raw.fileno()) if raw is not sys.stdin.buffer else None
        if status is not None and not stat.S_ISREG(status.st_mode):
            status = None
        regular_path = name if status is not None else None
        name = escape_unprintable(name)
        if status is not None:
            stack.enter_context(check_unchanged(raw.fileno(), status, name))
        head = _peek(raw)
        opener = next((make for magics, make in _DECOMPRESSORS.items() if head.startswith(magics)), None)
        if opener is None:
            yield Source(name, raw, head, status, False, regular_path)
            return
        counted = None if status is None else raw
        file = io.BufferedReader(_Decompressor(opener(raw, name), name, counted), 1 << 20)
        yield Source(name, cast(BinaryIO, file), _peek(file), status, True, regular_path)


def _peek(file: Any) -> bytes:
    """Return the first bytes of a buffered file; fewer if the file ends or a pipe has fewer ready."""
    return bytes(file.peek(HEAD_BYTES)[:HEAD_BYTES])


def unpacked_bytes() -> int:
    """Return the number of bytes of compressed regular files that this process has decompressed so far."""
    return _Decompressor.total


class _Decompressor(io.RawIOBase):
    """A file made of decompressed pieces; turns the errors of all decompressors into `DataError`.

    - ``counted``: the compressed file, whose position says how much of it is done; None if it has none
    """

    total = 0  # of all files; only the thread that reads adds to it

    def __init__(self, pieces: Iterator[bytes], name: str, counted: BinaryIO | None):
        self._pieces = pieces
        self._counted, self._position = counted, 0
        self._piece = memoryview(b"")
        self._name = name

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        try:
            while not self._piece:
                piece = next(self._pieces, None)
                self._count()
                if piece is None:
                    return 0
                self._piece = memoryview(piece)
        except OSError as error:
            if error.errno is not None:
                raise
            raise self._damaged(error) from None
        except (DataError, MemoryError):
            raise
        except Exception as error:
            # EOFError, and exceptions of zlib, lzma and zstandard, which need not be imported.
            raise self._damaged(error) from None
        count = min(len(buffer), len(self._piece))
        buffer[:count] = self._piece[:count]
        self._piece = self._piece[count:]
        return count

    def _count(self) -> None:
        """Add the compressed bytes since the last call to the total."""
        if self._counted is not None:
            before, self._position = self._position, self._counted.tell()
            _Decompressor.total += self._position - before

    def _damaged(self, error: Exception) -> DataError:
        text = " ".join(str(error).split()) or type(error).__name__
        return DataError(f"{self._name}: found damaged compressed data ({text})")


def _gzip(file: BinaryIO, name: str) -> Iterator[bytes]:
    import gzip

    # After a member, another member or zeros may follow, as for the program gzip.
    return iter(partial(gzip.GzipFile(fileobj=file, mode="rb").read1, _PIECE_BYTES), b"")


def _bz2(file: BinaryIO, name: str) -> Iterator[bytes]:
    import bz2

    return _decompress_streams(file, bz2.BZ2Decompressor)


def _xz(file: BinaryIO, name: str) -> Iterator[bytes]:
    import lzma

    return _decompress_streams(file, partial(lzma.LZMADecompressor, lzma.FORMAT_XZ), pad=4)


def _decompress_streams(file: BinaryIO, new_stream: Callable[[], Any], *, pad: int = 0) -> Iterator[bytes]:
    """Decompress consecutive streams; Python's own files would silently stop at damage between streams.

    With ``pad``, zeros in multiples of it may follow each stream.
    """
    rest = file.read(_PIECE_BYTES)
    while rest:
        stream = new_stream()
        while not stream.eof:
            yield stream.decompress(rest, _PIECE_BYTES)
            rest = file.read(_PIECE_BYTES) if stream.needs_input else b""
            if stream.needs_input and not rest:
                raise EOFError("the last stream is truncated")
        rest = stream.unused_data or file.read(_PIECE_BYTES)
        zeros = 0
        while pad and rest.startswith(b"\0"):
            after = rest.lstrip(b"\0")
            zeros += len(rest) - len(after)
            rest = after or file.read(_PIECE_BYTES)
        if pad and zeros % pad:
            raise EOFError(f"{zeros} zeros after a stream")


def _zstd(file: BinaryIO, name: str) -> Iterator[bytes]:
    try:
        import zstandard
    except ImportError:
        raise DataError(f"{name}: zstd data need zstandard: pip install zstandard") from None
    return _zstd_blocks(file, zstandard)


def _zstd_blocks(file: BinaryIO, zstandard: Any) -> Iterator[bytes]:
    """Decompress consecutive frames, one block of at most 128 KiB at a time (RFC 8878, section 3.1.1).

    Four bytes can store a whole block, so a piece that held many blocks could expand to any size. zstandard's
    own stream treats a truncated frame as the end of the file.
    """

    def take(count: int) -> bytes:
        data = file.read(count)
        if len(data) < count:
            raise EOFError("the last frame is truncated")
        return data

    decompressor = zstandard.ZstdDecompressor()
    while magic := file.read(4):
        if magic in _ZSTD_SKIPPABLE_MAGICS:
            left = int.from_bytes(take(4), "little")
            while left:
                left -= len(take(min(left, _PIECE_BYTES)))
            continue
        start = magic + take(1)
        checksum = 4 if start[-1] & 4 else 0
        frame = decompressor.decompressobj()
        frame.decompress(start + take(zstandard.frame_header_size(start) - len(start)))
        while not frame.eof:
            header = take(3)
            last, kind, size = header[0] & 1, header[0] >> 1 & 3, int.from_bytes(header, "little") >> 3
            stored = 1 if kind == _ZSTD_RLE_BLOCK else size
            yield frame.decompress(header + take(stored + checksum * last))


_DECOMPRESSORS: dict[tuple[bytes, ...], Callable[[BinaryIO, str], Iterator[bytes]]] = {
    (b"\x1f\x8b",): _gzip,
    (b"BZh",): _bz2,
    (b"\xfd7zXZ\x00",): _xz,
    (b"\x28\xb5\x2f\xfd", *_ZSTD_SKIPPABLE_MAGICS): _zstd,
}
