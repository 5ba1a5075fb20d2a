"""Types of the compiled texts, which the readers parse."""

from typing import Self

import numpy as np
from numpy.typing import NDArray
from typing_extensions import Buffer

Bytes = Buffer | NDArray[np.uint8]

PADDING: int
"""Number of readable bytes, the first of them NUL, that must follow a text in memory."""
LONGEST_LINE: int
"""Maximum number of bytes of a line."""

class Text:
    """A text: that of a buffer, or of a file."""

class FileText(Text):
    """The first ``size`` bytes of a file: a text that is read in pieces, never as a whole."""

    def __new__(cls, descriptor: int, size: int) -> Self: ...
    def __len__(self) -> int: ...
    def read(self, start: int, stop: int) -> bytes:
        """Return the bytes ``[start, stop)``."""

class ChangedError(Exception):
    """A file has fewer bytes than when it was opened."""

class LongLineError(Exception):
    """A line is longer than ``LONGEST_LINE``."""

class TextError(Exception):
    """A fault of a text: its name, and the line, column (from 1) and offset of the token."""

    name: str
    line: int
    column: int
    offset: int
    def __init__(self, name: str, line: int, column: int, offset: int) -> None: ...

def read_into(descriptor: int, to: NDArray[np.uint8], offset: int) -> None:
    """Fill an array from a file, starting at an offset; raise `ChangedError` if the file is too short."""

def whole_lines(text: Bytes | FileText, start: int, size: int, length: int) -> int:
    """Return the end of the last line that ends in ``text[start:start + size]``, else of the next line.

    -1 if no line ends after ``start``.
    """
