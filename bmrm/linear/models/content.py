"""The checksum of a model file's content, stored in the file itself to detect damage.

It is the key ``checksum``, 16 hexadecimal digits, of the model's description (``model_file.py``). The content
is taken with zeros in place of these digits. The header and each piece of the rest have a checksum
(``svmlight/checksum.h``); the checksum of the file is that of all these. It protects against damage, not
malice.
"""

from __future__ import annotations

import re

import numpy as np

from bmrm.errors import DataError
from bmrm.io import _svmlight
from bmrm.io.tensors import Tensors

KEY = "checksum"
"""Key of the checksum in a model's description."""

UNKNOWN = "0" * 16
"""The digits in place of the checksum while the checksum is computed."""

_PATTERN = re.compile(rb'(?:\{|, )\\"checksum\\": \\"([0-9a-f]{16})\\"')
"""The key as it stands in the header: JSON in a string of JSON. Within a name it has more backslashes."""

_PIECE_BYTES = 1 << 24
_LENGTH_BYTES = 8  # size of the header's length, with which the file starts


def sealed(content: bytes) -> tuple[bytes, memoryview]:
    """Replace `UNKNOWN` in a file's content by the checksum; return the header and the rest."""
    end = _LENGTH_BYTES + int.from_bytes(content[:_LENGTH_BYTES], "little")
    header, body = content[:end], memoryview(content)[end:]
    pieces = (body[at : at + _PIECE_BYTES] for at in range(0, len(body), _PIECE_BYTES))
    first, last = _place(header)
    return header[:first] + _checksum(header, pieces) + header[last:], body


def check(file: Tensors) -> str | None:
    """Verify the checksum of a model file and return it; None if it has none, like files of earlier versions.

    Raise `DataError` if the content is not what was written. Raise `ChangedError` if the file has become
    shorter since it was opened.
    """
    header = file.bytes(0, file.start).tobytes()
    if not _PATTERN.search(header):
        return None
    first, last = _place(header)
    found = header[first:last]
    blank = header[:first] + UNKNOWN.encode() + header[last:]
    starts = range(file.start, file.size, _PIECE_BYTES)
    pieces = (file.bytes(at, min(at + _PIECE_BYTES, file.size)) for at in starts)
    if _checksum(blank, pieces) != found:
        raise DataError("damaged model file: its content does not match its checksum")
    return found.decode()


def _place(header: bytes) -> tuple[int, int]:
    places = [match.span(1) for match in _PATTERN.finditer(header)]
    if len(places) != 1:
        raise DataError(f"damaged model file: found {len(places)} checksums, expected one")
    return places[0]


def _checksum(header: bytes, pieces: object) -> bytes:
    sums = [_svmlight.checksum(part) for part in (header, *pieces)]  # type: ignore[misc]
    return b"%016x" % _svmlight.checksum(np.array(sums, "<u8").tobytes())
