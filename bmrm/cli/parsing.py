"""The common part of the commands' argument parsers: errors in one line, checked numbers, full names only."""

from __future__ import annotations

import argparse
import math
import os
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NoReturn

from bmrm.base.suggestions import did_you_mean, nearest
from bmrm.errors import ParameterError

SHELLS = ("bash", "zsh", "tcsh")
"""The shells for which ``--print-completion`` prints a script."""

FILE_METAVARS = ("DATA", "MODEL", "OUT", "EDGES", "FILE", "FILE|A,B", "TOML")
"""What the help calls values that are names of files."""

FEW_CHOICES = 8
"""Maximum number of choices that a message lists if none of them is similar to what was found."""


class CommandParser(argparse.ArgumentParser):
    """An argument parser that raises `ParameterError` and leaves out options that were not given.

    - ``usage``: ends with ``[options]`` and the files
    - ``brief``: what ``--help`` prints after usage and description, if all options are too many for a screen;
      ``--help-all`` prints those
    - ``synonyms``: options of other programs, by what they are called here
    """

    def __init__(
        self,
        program: str,
        *,
        description: str,
        usage: str,
        epilog: str,
        brief: str = "",
        synonyms: Mapping[str, str] | None = None,
    ) -> None:
        self.files, self.synonyms = usage.partition("[options] ")[2], synonyms or {}
        super().__init__(
            prog=program,
            description=description,
            usage=usage,
            epilog=epilog,
            allow_abbrev=False,
            argument_default=argparse.SUPPRESS,
            formatter_class=_help_formatter(),
            add_help=False,
        )
        if brief:
            start = f"usage: {usage}\n\n{description}\n\n{brief}\n"
            self.add_argument("-h", "--help", action=_Print, text=lambda: start, help="show the main options")
            self.add_argument("--help-all", action=_Print, text=self.format_help, help="show all options")
        else:
            self.add_argument("-h", "--help", action="help", help="show all options")
        self.add_argument("--version", action="store_true", help="print the version and exit")
        self.add_argument(
            "--print-completion",
            action=_PrintCompletion,
            choices=SHELLS,
            help="print a script for this shell",
        )

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
        if not name.startswith("-") or name == "-" or " " in word or is_number(word):
            return
        known = self._option_string_actions
        if name in known or (not name.startswith("--") and name[:2] in known):
            return
        long = [option for option in known if option.startswith("--")]
        near = [self.synonyms[name]] if name in self.synonyms else nearest(name, long)
        self.error(f"{name}: found no such option{did_you_mean(near)}")

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        """Raise for a value that is not among the choices, and name the most similar ones."""
        choices = action.choices
        if choices is None or value in choices:
            return
        names = [str(choice) for choice in choices]
        hint = did_you_mean(nearest(str(value), names))
        if not hint and len(names) > FEW_CHOICES:
            option = "--help-all" if "--help-all" in self._option_string_actions else "--help"
            hint = f"; {self.prog} {option} lists them"
        hint = hint or f", expected one of {', '.join(names)}"
        raise argparse.ArgumentError(action, f"found {value}{hint}")

    def error(self, message: str) -> NoReturn:
        """Raise instead of printing the usage, so that an error stays one line."""
        raise ParameterError(f"{message} (see {self.prog} --help)")


def _help_formatter() -> type[argparse.HelpFormatter]:
    """Return the formatter of rich-argparse, for colours on a terminal, or else that of argparse."""
    if sys.stdout is not None and sys.stdout.isatty() and "NO_COLOR" not in os.environ:
        try:
            from rich_argparse import RawDescriptionRichHelpFormatter
        except ImportError:
            pass
        else:
            formatter: type[argparse.HelpFormatter] = RawDescriptionRichHelpFormatter
            return formatter
    return argparse.RawDescriptionHelpFormatter


class _Print(argparse.Action):
    """Print a text and end with exit code 0."""

    def __init__(
        self, option_strings: Sequence[str], dest: str, *, default: Any, text: Callable[[], str], help: str
    ) -> None:
        super().__init__(option_strings, dest, nargs=0, default=default, help=help)
        self._text = text

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        sys.stdout.write(self._text())
        parser.exit()


class _PrintCompletion(argparse.Action):
    """Print the completion script of a shell, made by the package shtab."""

    def __call__(
        self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, shell: Any, *_: object
    ) -> None:
        try:
            print(completion_script(parser, shell), end="")
        except ImportError:
            raise ParameterError(
                "--print-completion: needs the package shtab (pip install bmrm[cli])"
            ) from None
        parser.exit()


_ZSH_OPTION = re.compile(r'^(  (?:"\*?|{-\w,)--[\w-]+)(}?"?\[(?:[^]\\]|\\.)*\]:)', re.MULTILINE)
"""An option with a value in shtab's script; to zsh, ``=`` after its name allows ``--name=VALUE`` too."""


def completion_script(parser: argparse.ArgumentParser, shell: str) -> str:
    """Return the script with which a shell completes options, choices and names of files."""
    import shtab

    for action in parser._actions:
        if action.metavar in FILE_METAVARS:
            action.complete = shtab.FILE  # type: ignore[attr-defined]
    script: str = shtab.complete(parser, shell)
    if shell == "zsh":
        script = _ZSH_OPTION.sub(r"\1=\2", script)
    return script.rstrip("\n") + "\n"


def add_output(parser: CommandParser, *, json: str, quiet: str | None = None) -> None:
    """Add the options that say what is printed, with the help of two of them."""
    parser.set_defaults(json=False, quiet=False, verbose=False)
    parser.add_argument("--json", action="store_true", help=json)
    if quiet is not None:
        parser.add_argument("-q", "--quiet", action="store_true", help=quiet)
    parser.add_argument("--verbose", action="store_true", help="print the traceback of an unexpected failure")


def add_machine(parser: CommandParser) -> None:
    """Add the options that say where to compute, and for how long."""
    parser.set_defaults(max_time=math.inf, threads=None, device="auto")
    parser.add_argument("--max-time", type=positive, metavar="S", help="limit on seconds")
    parser.add_argument("--threads", type=integer(1), metavar="N", help="threads (default: all cores)")
    parser.add_argument(
        "--device", type=device, metavar="auto|cpu|cuda|cuda:N", help="where to compute (default: auto)"
    )


def is_number(word: str) -> bool:
    """Return whether a word is a number, as Python reads it."""
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


_DEVICES = ("auto", "cpu", "cuda")


def device(text: str) -> str:
    """Read the name of a device."""
    if text not in _DEVICES and not re.fullmatch(r"cuda:[0-9]+", text):
        near = [] if text.startswith("cuda:") else nearest(text, _DEVICES)
        hint = did_you_mean(near) or f", expected {', '.join(_DEVICES)} or cuda:N"
        raise argparse.ArgumentTypeError(f"found {text}{hint}")
    return text
