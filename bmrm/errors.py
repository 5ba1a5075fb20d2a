"""Exceptions of the package; the command line maps each to one exit code."""

from __future__ import annotations

import contextlib

TYPE_CHECKING = False  # `typing` takes a while to load, and the commands load this first
if TYPE_CHECKING:
    from typing import Any


def escape_unprintable(text: str) -> str:
    r"""Return text that any terminal takes: what is not printable, line ends among it, becomes an escape.

    Whatever a message quotes of names and data goes through here, so that neither sends a terminal commands.

    Examples
    --------
    >>> shown("naïve file"), shown("no\x1b[31msuch"), shown("two\nlines\udcff")
    ('naïve file', 'no\\x1b[31msuch', 'two\\nlines\\xff')
    """
    if text.isprintable():
        return text
    with contextlib.suppress(UnicodeEncodeError):  # bytes of a name that Python could not decode
        text = text.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


class BmrmError(Exception):
    """Base of every error that the package raises on purpose; its text is one line of what is printable."""

    exit_code = 1

    def __init__(self, *args: object) -> None:
        super().__init__(*(escape_unprintable(arg) if isinstance(arg, str) else arg for arg in args))


class ParameterError(BmrmError, ValueError):
    """An option or argument out of its range, or a combination that makes no sense."""

    exit_code = 2


class DataError(BmrmError, ValueError):
    """Data, labels, weights or a model file that cannot be used as they are."""

    exit_code = 3


class Float32Error(DataError):
    """A number of a file that float32 cannot hold; float64 may."""


class DeviceMemoryError(BmrmError, MemoryError):
    """The device has too little memory for the problem."""

    exit_code = 5


class HostMemoryError(BmrmError, MemoryError):
    """Main memory has too little room, which is said before it is taken."""


class Interrupted(KeyboardInterrupt):
    """Ctrl-C, or what else raises `KeyboardInterrupt`, with the best that was reached until then.

    Attributes
    ----------
    result : Result, Path, Selection or None
        What the function would have returned, so far: the certified model of `bmrm.solve`, those of
        `bmrm.path` with the one that was at work last, the lam of `bmrm.select` that are scored. None where
        there is nothing yet.

    Examples
    --------
    >>> Interrupted().result is None
    True
    """

    exit_code = 130

    def __init__(self, result: Any = None) -> None:
        super().__init__("interrupted" if result is None else "interrupted; `result` has the best so far")
        self.result = result

    def __reduce__(self) -> tuple[type[Interrupted], tuple[Any]]:
        return type(self), (self.result,)
