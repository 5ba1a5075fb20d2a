"""What both commands' argument parsers share: errors in one line, checked numbers, long names only."""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Iterable
from typing import NoReturn

from bmrm.errors import ParameterError


class Parser(argparse.ArgumentParser):
    """An argument parser that raises `ParameterError` and leaves out what was not given."""

    def __init__(self, program: str, *, description: str, usage: str, epilog: str) -> None:
        super().__init__(
            prog=program,
            description=description,
            usage=usage,
            epilog=epilog,
            allow_abbrev=False,
            argument_default=argparse.SUPPRESS,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        self.add_argument("--version", action="store_true", help="print the version and exit")

    def parse_words(self, words: Iterable[str]) -> argparse.Namespace:
        """Parse options and files in any order; behind ``--`` there are files only.

        `parse_intermixed_args` loses that word and parses the others once more (Python 3.11), so a file that
        could then be taken for an option gets its folder; ``-`` is no option.
        """
        given = list(words)
        for place in range(given.index("--") + 1 if "--" in given else len(given), len(given)):
            if given[place].startswith("-") and given[place] != "-":
                given[place] = f"./{given[place]}"
        return self.parse_intermixed_args(given)

    def error(self, message: str) -> NoReturn:
        """Raise instead of printing the usage, so that an error stays one line."""
        raise ParameterError(f"{message} (see {self.prog} --help)")


def real(expected: str, accept: Callable[[float], bool] = lambda value: True) -> Callable[[str], float]:
    """Return an argparse type for the finite numbers that ``accept`` takes."""

    def convert(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if not (math.isfinite(value) and accept(value)):
            raise argparse.ArgumentTypeError(f"found {text}, expected {expected}")
        return value

    return convert


def integer(least: int) -> Callable[[str], int]:
    """Return an argparse type for integers from ``least`` to the largest that fits 63 bits."""

    def convert(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            value = least - 1
        if not least <= value < 2**63:
            raise argparse.ArgumentTypeError(f"found {text}, expected an integer of at least {least}")
        return value

    return convert


positive = real("a positive number", lambda value: value > 0)
