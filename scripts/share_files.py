"""Write man pages and completion scripts of the commands to docs/share, from where the wheel takes them.

python scripts/share_files.py

Completion scripts are made by shtab, whose versions differ in what they write: the tests compare them with
that of `SHTAB`.
"""

from __future__ import annotations

import argparse
from importlib import import_module
from pathlib import Path

from bmrm.cli.options import build_parser
from bmrm.cli.parsing import CommandParser, completion_script

SHARE = Path(__file__).parents[1] / "docs" / "share"
COMMANDS = ("train", "predict", "info", "bench", "graph", "cluster")
SHTAB = "1.13"
"""Version of shtab that wrote the scripts."""

COMPLETIONS = {"bash": "bash-completion/completions/{}", "zsh": "zsh/site-functions/_{}"}


def parser_of(command: str) -> CommandParser:
    """Return the parser of a command."""
    if command == "train":
        return build_parser()
    parser: CommandParser = import_module(f"bmrm.cli.{command}").build_parser()
    return parser


def man_page(parser: CommandParser) -> str:
    """Return a man page in the macros of man(7)."""
    first, *_ = parser.description.split(".")
    summary = " ".join(first.split())
    usage = parser.usage.removeprefix(parser.prog).strip()
    lines = [
        f'.TH "{parser.prog.upper()}" 1 "" "bmrm" "User Commands"',
        ".SH NAME",
        f"{_escaped(parser.prog)} \\- {_escaped(summary[0].lower() + summary[1:])}",
        ".SH SYNOPSIS",
        f".B {_escaped(parser.prog)}",
        _escaped(usage),
        ".SH DESCRIPTION",
        _escaped(" ".join(parser.description.split())),
    ]
    for group in parser._action_groups:
        if not group._group_actions:
            continue
        title = "FILES" if group.title == "positional arguments" else (group.title or "options").upper()
        lines.append(f'.SH "{_escaped(title)}"')
        for action in group._group_actions:
            lines += [".TP", _flags(action), _escaped(_help(parser, action))]
    title, *codes = parser.epilog.splitlines()
    lines += [f'.SH "{title.rstrip(":").upper()}"']
    for code, _, meaning in (line.strip().partition(" ") for line in codes):
        lines += [".TP", f".B {code}", _escaped(meaning.strip())]
    lines += [".SH SEE ALSO", _escaped(", ".join(f"bmrm-{command}(1)" for command in COMMANDS))]
    return "\n".join(lines) + "\n"


def _flags(action: argparse.Action) -> str:
    """Return the spellings of an option in bold, and its value in italics."""
    value = ""
    if action.nargs != 0:
        name = action.metavar or ("{" + ",".join(map(str, action.choices)) + "}" if action.choices else "X")
        value = f"\\fI{_escaped(str(name))}\\fR"
    if not action.option_strings:
        return value or _escaped(action.dest)
    names = ", ".join(f"\\fB{_escaped(flag)}\\fR" for flag in action.option_strings)
    return f"{names} {value}".rstrip()


def _help(parser: CommandParser, action: argparse.Action) -> str:
    facts = {**vars(action), "prog": parser.prog, "choices": ", ".join(map(str, action.choices or ()))}
    return (action.help or "") % facts


def _escaped(text: str) -> str:
    """Escape what roff would interpret; characters beyond ASCII become their names."""
    text = text.replace("\\", "\\e").replace("-", "\\-").replace("'", "\\(aq")
    text = "".join(char if ord(char) < 128 else f"\\[u{ord(char):04X}]" for char in text)
    return f"\\&{text}" if text.startswith(".") else text


def files() -> dict[str, str]:
    """Return the content of each file, by its path under docs/share."""
    found = {}
    for command in COMMANDS:
        parser = parser_of(command)
        found[f"man/man1/{parser.prog}.1"] = man_page(parser)
        for shell, path in COMPLETIONS.items():
            found[path.format(parser.prog)] = completion_script(parser, shell)
    return found


if __name__ == "__main__":
    for name, text in files().items():
        path = SHARE / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    print(f"written to {SHARE}")
