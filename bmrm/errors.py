"""Exceptions of the package; the command line maps each to one exit code."""

from __future__ import annotations

import contextlib

TYPE_CHECKING = False  # `typing` takes a while to load, and the commands load this first
if TYPE_CHECKING:
    from typing import Any


def escape_unprintable(text: str) -> str:
    r"""Replace unprintable characters, including line ends, by escapes.

    Every name and value that a message quotes goes through here, so that it cannot send commands to a
    terminal.

    Examples
    --------
    >>> escape_unprintable("naïve file")
    'naïve file'
    >>> escape_unprintable("no\x1b[31msuch"), escape_unprintable("two\nlines\udcff")
    ('no\\x1b[31msuch', 'two\\nlines\\xff')
    """
    if text.isprintable():
        return text
    with contextlib.suppress(UnicodeEncodeError):  # bytes of a name that Python could not decode
        text = text.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


class BmrmError(Exception):
    """Base of every error that the package raises on purpose; its text is one printable line."""

    exit_code = 1

    def __init__(self, *args: object) -> None:
        super().__init__(*(escape_unprintable(arg) if isinstance(arg, str) else arg for arg in args))


class ParameterError(BmrmError, ValueError):
    """An option or argument is out of range, or a combination makes no sense."""

    exit_code = 2


class ReductionError(BmrmError, TypeError):
    """A row function is not one that can be compiled, or its arguments do not fit it."""

    exit_code = 2


class DataError(BmrmError, ValueError):
    """Data, labels, weights or a model file cannot be used as they are."""

    exit_code = 3


class Float32Error(DataError):
    """A file has a number that float32 cannot hold; float64 may."""


class DataConversionWarning(UserWarning):
    """Data had to be converted in a way that may not be what was meant."""


class ConvergenceWarning(UserWarning):
    """A method has ended in a way that its user may not have expected."""


class DeviceCodeError(BmrmError):
    """The build has no code for a GPU; building it again with ``BMRM_CUDA_ARCH`` gives it some."""


class DeviceMemoryError(BmrmError, MemoryError):
    """The device has too little memory for the problem."""

    exit_code = 5


class HostMemoryError(BmrmError, MemoryError):
    """Main memory is too small; raised before the memory is allocated."""


class Interrupted(KeyboardInterrupt):
    """Ctrl-C, or another `KeyboardInterrupt`, with the best result so far.

    Attributes
    ----------
    result : Result, Path, Selection, Histogram or None
        What the function would have returned, as far as it got: the certified model of `bmrm.solve`; the
        models of `bmrm.path`, including the unfinished one; the scored values of lam of `bmrm.select`; the
        pairs that `bmrm.pairs.histogram` has counted. None if there is no result yet.

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
