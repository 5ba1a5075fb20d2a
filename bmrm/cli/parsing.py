"""The common part of the commands' argument parsers: errors in one line, checked numbers, full names only."""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Iterable, Mapping
from typing import NoReturn

from bmrm.errors import ParameterError


class CommandParser(argparse.ArgumentParser):
    """An argument parser that raises `ParameterError` and leaves out options that were not given.

    - ``usage``: ends with ``[options]`` and the files
    - ``hints``: for unknown options, by their first characters
    """

    def __init__(
        self,
        program: str,
        *,
        description: str,
        usage: str,
        epilog: str,
        hints: Mapping[str, str] | None = None,
    ) -> None:
        self.files, self.hints = usage.partition("[options] ")[2], hints or {}
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
        """Parse options and files in any order; all words after ``--`` are files.

        `parse_intermixed_args` drops ``--`` and parses the other words again (Python 3.11). So a file that
        looks like an option gets the prefix ``./``; ``-`` does not look like one.
        """
        given = list(words)
        for i in range(given.index("--") + 1 if "--" in given else len(given), len(given)):
            if given[i].startswith("-") and given[i] != "-":
                given[i] = f"./{given[i]}"
        for word in given[: given.index("--")] if "--" in given else given:
            self._check_option(word)
        found, others = self.parse_known_intermixed_args(given)
        if others:
            self.error(f"{others[0]}: found one file too many, expected {self.prog} {self.files}")
        return found

    def _check_option(self, word: str) -> None:
        """Raise for an unknown option; argparse would blame the files after it."""
        name = word.partition("=")[0]
        if not name.startswith("-") or name == "-" or " " in word or _is_number(word):
            return
        known = self._option_string_actions
        if name in known or (not name.startswith("--") and name[:2] in known):
            return
        hint = next((text for start, text in self.hints.items() if name.startswith(start)), "")
        self.error(f"{name}: found no such option{hint}")

    def error(self, message: str) -> NoReturn:
        """Raise instead of printing the usage, so that an error stays one line."""
        raise ParameterError(f"{message} (see {self.prog} --help)")


def _is_number(word: str) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return True


def real(expected: str, accept: Callable[[float], bool] = lambda value: True) -> Callable[[str], float]:
    """Return an argparse type for the finite numbers that ``accept`` accepts."""

    def convert(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if not (math.isfinite(value) and accept(value)):
            raise argparse.ArgumentTypeError(f"found {text}, expected {expected}")
        return value

    return convert


def integer(minimum: int) -> Callable[[str], int]:
    """Return an argparse type for integers from ``minimum`` to 2^63 - 1."""

    def convert(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            value = minimum - 1
        if not minimum <= value < 2**63:
            raise argparse.ArgumentTypeError(f"found {text}, expected an integer of at least {minimum}")
        return value

    return convert


positive = real("a positive number", lambda value: value > 0)
