"""Data sources: a regular file, a pipe or standard input, compressed or not.

Compression is told by the first bytes, not by the name, so a renamed file and a pipe work as well.
"""

from __future__ import annotations

import contextlib
import io
import os
import stat
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO, cast

from bmrm.errors import DataError

HEAD_BYTES = 16
_ZSTD_BYTES = 1 << 16  # compressed bytes at a time: what they decompress to is held at once


@dataclass
class Source:
    """An opened data source.

    Attributes
    ----------
    name : str
        What error messages call it.
    file : buffered binary file
        The decompressed bytes, from the first on.
    head : bytes
        The first bytes of ``file``, which are still to be read from it.
    status : os.stat_result or None
        Of a regular file, compressed or not.
    compressed : bool
        Whether ``file`` decompresses.
    path : str or None
        Of a regular file.
    """

    name: str
    file: BinaryIO
    head: bytes
    status: os.stat_result | None
    compressed: bool
    path: str | None

    @property
    def size(self) -> int:
        """Bytes of a regular file, as it is on the disk."""
        assert self.status is not None
        return self.status.st_size

    @property
    def mappable(self) -> bool:
        """Whether the file can be mapped as it is."""
        return self.status is not None and not self.compressed


@contextlib.contextmanager
def open_source(path: str | os.PathLike[str]) -> Iterator[Source]:
    """Open a file, or standard input for ``"-"``; regular files stay at their start.

    Raises
    ------
    OSError
        The file is missing, a folder, or cannot be read.
    DataError
        Its decompressor is not installed, or the compressed data are damaged from the start.
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
        name = name if name.isprintable() else ascii(name)
        head = _peek(raw)
        opener = next((make for magic, make in _FORMATS.items() if head.startswith(magic)), None)
        if opener is None:
            yield Source(name, raw, head, status, False, regular_path)
            return
        file = io.BufferedReader(_Decompressor(opener(raw, name), name), 1 << 20)
        yield Source(name, cast(BinaryIO, file), _peek(file), status, True, regular_path)


def _peek(file: Any) -> bytes:
    """First bytes of a buffered file, fewer only where a pipe gives fewer at once or the file ends."""
    return bytes(file.peek(HEAD_BYTES)[:HEAD_BYTES])


class _Decompressor(io.RawIOBase):
    """Turns what each decompressor raises for damaged data into one `DataError`."""

    def __init__(self, file: Any, name: str):
        self._file = file
        self._name = name

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        try:
            return int(self._file.readinto(buffer))
        except OSError as error:
            if error.errno is not None:
                raise
            raise self._damaged(error) from None
        except (DataError, MemoryError):
            raise
        except Exception as error:
            # EOFError, and classes of zlib, lzma and zstandard, which are not all imported.
            raise self._damaged(error) from None

    def _damaged(self, error: Exception) -> DataError:
        text = " ".join(str(error).split()) or type(error).__name__
        return DataError(f"{self._name}: found damaged compressed data ({text})")


def _gzip(file: BinaryIO, name: str) -> Any:
    import gzip

    return gzip.GzipFile(fileobj=file, mode="rb")


def _bz2(file: BinaryIO, name: str) -> Any:
    import bz2

    return bz2.BZ2File(file)


def _xz(file: BinaryIO, name: str) -> Any:
    import lzma

    return lzma.LZMAFile(file)


def _zstd(file: BinaryIO, name: str) -> Any:
    try:
        import zstandard
    except ImportError:
        raise DataError(
            f"{name}: found zstd data, expected the package zstandard to be installed (pip install zstandard)"
        ) from None
    return _ZstdFile(file, zstandard.ZstdDecompressor().decompressobj)


class _ZstdFile:
    """Frames one after the other; zstandard's own stream takes a cut frame for the end of the file."""

    def __init__(self, file: BinaryIO, new_frame: Callable[[], Any]):
        self._file = file
        self._new_frame = new_frame
        self._frame: Any = None
        self._compressed = b""
        self._ready = memoryview(b"")

    def readinto(self, buffer: Any) -> int:
        while not self._ready:
            if not self._compressed:
                self._compressed = self._file.read(_ZSTD_BYTES)
            if not self._compressed:
                if self._frame is not None:
                    raise EOFError("the last frame is cut short")
                return 0
            if self._frame is None:
                self._frame = self._new_frame()
            self._ready = memoryview(self._frame.decompress(self._compressed))
            self._compressed = self._frame.unused_data
            if self._frame.eof:
                self._frame = None
        count = min(len(buffer), len(self._ready))
        buffer[:count] = self._ready[:count]
        self._ready = self._ready[count:]
        return count


_FORMATS: dict[bytes, Callable[[BinaryIO, str], Any]] = {
    b"\x1f\x8b": _gzip,
    b"BZh": _bz2,
    b"\xfd7zXZ\x00": _xz,
    b"\x28\xb5\x2f\xfd": _zstd,
}
