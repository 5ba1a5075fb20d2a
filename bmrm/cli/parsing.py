"""Argument parsers, made from the tables of `bmrm.cli.commands`.

Errors are one line, numbers are checked, and only full names are options.
"""

from __future__ import annotations

import argparse
import math
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Literal, NamedTuple, NoReturn

from bmrm.base.suggestions import did_you_mean, nearest
from bmrm.cli.exits import Exit, epilog
from bmrm.errors import ParameterError

SHELLS = ("bash", "zsh", "tcsh")
"""The shells for which ``--print-completion`` prints a script."""

FILE_METAVARS = ("DATA", "MODEL", "OUT", "EDGES", "FILE", "FILE|A,B", "POINTS", "POINTS2", "TOML")
"""What the help calls values that are names of files."""

FOLDER = "DIR"
"""What it calls the name of a folder."""

FEW_CHOICES = 8
"""Maximum number of choices that a message lists if none of them is similar to what was found."""


Kind = Literal["value", "optional", "append", "flag", "on-off", "const"]
"""A value; one that may be left out; one of several values; true; true or false; a constant."""


class Option(NamedTuple):
    """An option of a command, or a file: a row of its table."""

    names: str  # as in "-c --cost"; a name without dashes is that of a file
    help: str
    metavar: str | None = None
    type: Callable[[str], Any] | None = None
    choices: Sequence[Any] | Callable[[], Sequence[Any]] | None = None
    """The values; a function if they are in a module that the table does not load."""
    kind: Kind = "value"
    const: Any = None  # the value without one, or the constant
    default: Any = None
    dest: str | None = None  # its name in Python, if not the last of its names
    exclusive: str = ""  # of options with the same word here only one may be given
    says_default: bool = True  # the help ends with the default, if it is that of `Command.defaults`

    @property
    def spellings(self) -> list[str]:
        """All names on the command line."""
        names = self.names.split()
        return [*names, f"--no-{names[-1][2:]}"] if self.kind == "on-off" else names

    @property
    def key(self) -> str:
        """The name in Python."""
        return self.dest or self.names.split()[-1].lstrip("-").replace("-", "_")

    @property
    def takes_value(self) -> bool:
        """Whether a value may follow."""
        return self.kind in ("value", "optional", "append")

    @property
    def values(self) -> Sequence[Any]:
        """The choices, if there are any."""
        return self.choices() if callable(self.choices) else self.choices or ()


Rows = Sequence[Option | Callable[[], Iterable[Option]]]


class Command(NamedTuple):
    """A command: what its help says, and the table of its options.

    - ``about``: what it does, in a few words
    - ``usage``: ends with ``[options]`` and the files
    - ``meanings``: of its exit codes
    - ``options``: by the headings of the help, the first "" for those without
    - ``examples``: command lines that run in this order in the folder of ``bmrm samples``
    - ``brief``: what ``--help`` prints after usage and description, if all options are too many for a screen;
      ``--help-all`` prints those
    - ``synonyms``: options of other programs, by what they are called here
    - ``defaults``: for the help, if the parser is to leave out options that were not given
    """

    program: str
    about: str
    usage: str
    description: str
    meanings: Mapping[Exit, str]
    files: tuple[Option, ...]
    options: Mapping[str, Rows]
    examples: tuple[str, ...]
    brief: str = ""
    synonyms: Mapping[str, str] = MappingProxyType({})
    defaults: Mapping[str, Any] | None = None

    @property
    def common(self) -> list[Option]:
        """The options that every command has."""
        of_help = {"-h --help": "show all options"}
        if self.brief:
            of_help = {"-h --help": "show the main options", "--help-all": "show all options"}
        return [
            *(Option(names, text, kind="flag") for names, text in of_help.items()),
            Option("--version", "print the version and exit", kind="flag"),
            Option("--print-completion", "print a script for this shell", choices=SHELLS),
        ]

    def tables(self) -> Iterator[tuple[str, list[Option]]]:
        """Yield each heading with its options."""
        for heading, rows in self.options.items():
            found = [row for each in rows for row in ([each] if isinstance(each, Option) else each())]
            yield heading, list(map(self._with_default, found))

    def _with_default(self, row: Option) -> Option:
        """Return an option whose help ends with its default, unless that is None or False."""
        default = (self.defaults or {}).get(row.key)
        if default is None or default is False or not row.says_default:
            return row
        text = f"{default:g}" if isinstance(default, float) else default
        return row._replace(help=f"{row.help} (default: {text})")


_MORE = "--help-all lists all options and the exit codes.\n"


def _listed(examples: Sequence[str]) -> str:
    return "\n  ".join(["examples, with the files of `bmrm samples DIR`:", *examples])


class CommandParser(argparse.ArgumentParser):
    """An argument parser of a command that raises `ParameterError`."""

    def __init__(self, command: Command) -> None:
        self.files, self.synonyms = command.usage.partition("[options] ")[2], command.synonyms
        usage = f"{command.program} {command.usage}"
        super().__init__(
            prog=command.program,
            description=command.description,
            usage=usage,
            epilog=f"{_listed(command.examples)}\n\n{epilog(command.meanings)}",
            allow_abbrev=False,
            argument_default=argparse.SUPPRESS,
            formatter_class=_help_formatter(),
            add_help=False,
        )
        self._exclusive: dict[str, Any] = {}
        parts = (f"usage: {usage}", command.description, command.brief, _listed(command.examples), _MORE)
        self._brief = "\n\n".join(parts) if command.brief else ""
        self.named_files: list[argparse.Action] = []  # options and arguments that are names of files
        for row in command.common:
            self._add(self, row, **self._printing(row.key))
        for row in command.files:
            self._add(self, row)
        for heading, rows in command.tables():
            group = self.add_argument_group(heading) if heading else self
            for row in rows:
                self._add(group, row)
                if command.defaults is None:
                    self.set_defaults(**{row.key: False if row.kind == "flag" else row.default})

    def _add(self, group: Any, row: Option, **more: Any) -> None:
        """Add an option to the parser or to a group of it; ``more`` is what argparse is told besides."""
        if row.exclusive:
            if row.exclusive not in self._exclusive:
                self._exclusive[row.exclusive] = group.add_mutually_exclusive_group()
            group = self._exclusive[row.exclusive]
        given: dict[str, Any] = {"help": row.help, "metavar": row.metavar, "type": row.type}
        given |= {"choices": list(row.values) or None, "const": row.const}
        given |= {"dest": row.key} if row.names.startswith("-") else {}
        if row.kind == "optional":
            given["nargs"] = "?"
        elif row.kind != "value":
            given["action"] = _ACTIONS[row.kind]
        given = {name: value for name, value in {**given, **more}.items() if value is not None}
        action = group.add_argument(*row.names.split(), **given)
        if row.metavar in (FOLDER, *FILE_METAVARS):
            self.named_files.append(action)

    def _printing(self, key: str) -> dict[str, Any]:
        """Return how an option that every command has prints a text and ends."""
        if key == "version":
            return {}
        if key == "print_completion":
            return {"action": _PrintCompletion}
        if not self._brief:
            return {"action": "help"}
        return {"action": _Print, "text": (lambda: self._brief) if key == "help" else self.format_help}

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


_ACTIONS: dict[Kind, Any] = {
    "append": "append",
    "flag": "store_true",
    "on-off": argparse.BooleanOptionalAction,
    "const": "store_const",
}
"""What argparse calls the kinds of options."""


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

    def __call__(self, parser: Any, namespace: argparse.Namespace, shell: Any, *_: object) -> None:
        try:
            print(completion_script(parser, shell), end="")
        except ImportError:
            raise ParameterError("--print-completion needs shtab: pip install shtab") from None
        parser.exit()


_ZSH_OPTION = re.compile(r'^(  (?:"\*?|{-\w,)--[\w-]+)(}?"?\[(?:[^]\\]|\\.)*\]:)', re.MULTILINE)
"""An option with a value in shtab's script; to zsh, ``=`` after its name allows ``--name=VALUE`` too."""


def completion_script(parser: CommandParser, shell: str) -> str:
    """Return the script with which a shell completes options, choices and names of files."""
    import shtab

    for action in parser.named_files:
        action.complete = shtab.DIRECTORY if action.metavar == FOLDER else shtab.FILE  # type: ignore[attr-defined]
    script: str = shtab.complete(parser, shell)
    if shell == "zsh":
        script = _ZSH_OPTION.sub(r"\1=\2", script)
    return script.rstrip("\n") + "\n"


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
