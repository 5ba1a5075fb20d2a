"""A checksum of a model file's content, in the file itself: damage is told from what was written.

The description of a model (``model_file.py``) has it as its key ``checksum``, 16 hexadecimal digits. It is
the checksum (``svmlight/checksum.h``) of the file as it would be with zeros in the place of these digits: of
the header, of the rest in pieces, and then of those sums. It is against damage, not against malice.
"""

from __future__ import annotations

import re

import numpy as np

from bmrm.errors import DataError
from bmrm.io import _svmlight
from bmrm.io.tensors import Tensors

KEY, UNKNOWN = "checksum", "0" * 16
_PLACE = re.compile(rb'(?:\{|, )\\"checksum\\": \\"([0-9a-f]{16})\\"')
"""The key as it is in the header: JSON in a string of JSON. In a name it would have more backslashes."""

_PIECE = 1 << 24
_LENGTH = 8  # bytes, in which the header's length is


def sealed(content: bytes) -> tuple[bytes, memoryview]:
    """Put the checksum into a file's content that has `UNKNOWN` there; return the header and the rest."""
    end = _LENGTH + int.from_bytes(content[:_LENGTH], "little")
    header, body = content[:end], memoryview(content)[end:]
    pieces = (body[at : at + _PIECE] for at in range(0, len(body), _PIECE))
    first, last = _place(header)
    return header[:first] + _checksum(header, pieces) + header[last:], body


def check(file: Tensors) -> str | None:
    """Hold a model file against its checksum.

    Parameters
    ----------
    file : Tensors
        Open.

    Returns
    -------
    str or None
        The checksum; None where the file has none, as those of earlier versions.

    Raises
    ------
    DataError
        The content is not what was written.
    ChangedError
        The file is shorter than it was when it was opened.
    """
    header = file.bytes(0, file.start).tobytes()
    if not _PLACE.search(header):
        return None
    first, last = _place(header)
    found = header[first:last]
    blank = header[:first] + UNKNOWN.encode() + header[last:]
    pieces = (file.bytes(at, min(at + _PIECE, file.size)) for at in range(file.start, file.size, _PIECE))
    if _checksum(blank, pieces) != found:
        raise DataError("damaged model file: its content does not have its checksum")
    return found.decode()


def _place(header: bytes) -> tuple[int, int]:
    places = [match.span(1) for match in _PLACE.finditer(header)]
    if len(places) != 1:
        raise DataError(f"damaged model file: it has {len(places)} checksums, expected one")
    return places[0]


def _checksum(header: bytes, pieces: object) -> bytes:
    sums = [_svmlight.checksum(part) for part in (header, *pieces)]  # type: ignore[misc]
    return b"%016x" % _svmlight.checksum(np.array(sums, "<u8").tobytes())
