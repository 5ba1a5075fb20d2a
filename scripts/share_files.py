"""Write man pages and completion scripts of the commands to docs/share, from where the wheel takes them.

python scripts/share_files.py

Completion scripts are made by shtab, whose versions differ in what they write: the tests compare them with
that of `SHTAB`.
"""

from __future__ import annotations

from pathlib import Path

from bmrm.cli import commands
from bmrm.cli.exits import epilog
from bmrm.cli.parsing import Command, CommandParser, Option, completion_script

SHARE = Path(__file__).parents[1] / "docs" / "share"
SHTAB = "1.13"
"""Version of shtab that wrote the scripts."""

COMPLETIONS = {"bash": "bash-completion/completions/{}", "zsh": "zsh/site-functions/_{}"}


def man_page(command: Command) -> str:
    """Return a man page in the macros of man(7)."""
    lines = [
        f'.TH "{command.program.upper()}" 1 "" "bmrm" "User Commands"',
        ".SH NAME",
        f"{_escaped(command.program)} \\- {_escaped(command.about)}",
        ".SH SYNOPSIS",
        f".B {_escaped(command.program)}",
        _escaped(command.usage),
        ".SH DESCRIPTION",
        _escaped(" ".join(command.description.split())),
    ]
    (_, first_rows), *others = command.tables()
    tables = [("files", command.files), ("options", [*command.common, *first_rows]), *others]
    for title, rows in tables:
        lines.append(f'.SH "{_escaped(title.upper())}"')
        for row in rows:
            lines += [".TP", _flags(row), _escaped(_help(command, row))]
    lines += [".SH EXAMPLES", "With the files of bmrm samples:", ".nf"]
    lines += [*map(_escaped, command.examples), ".fi"]
    title, *codes = epilog(command.meanings).splitlines()
    lines += [f'.SH "{title.rstrip(":").upper()}"']
    for code, _, meaning in (line.strip().partition(" ") for line in codes):
        lines += [".TP", f".B {code}", _escaped(meaning.strip())]
    every = ", ".join(f"{each.program}(1)" for each in commands.every())
    return "\n".join([*lines, ".SH SEE ALSO", _escaped(every)]) + "\n"


def _flags(row: Option) -> str:
    """Return the spellings of an option in bold, and its value in italics."""
    value = ""
    if row.takes_value:
        choices = ",".join(map(str, row.values))
        value = f"\\fI{_escaped(row.metavar or (f'{{{choices}}}' if choices else 'X'))}\\fR"
    if not row.names.startswith("-"):
        return value
    names = ", ".join(f"\\fB{_escaped(name)}\\fR" for name in row.spellings)
    return f"{names} {value}".rstrip()


def _help(command: Command, row: Option) -> str:
    return row.help % {"prog": command.program, "choices": ", ".join(map(str, row.values))}


def _escaped(text: str) -> str:
    """Escape what roff would interpret; characters beyond ASCII become their names."""
    text = text.replace("\\", "\\e").replace("-", "\\-").replace("'", "\\(aq")
    text = "".join(char if ord(char) < 128 else f"\\[u{ord(char):04X}]" for char in text)
    return f"\\&{text}" if text.startswith(".") else text


def files() -> dict[str, str]:
    """Return the content of each file, by its path under docs/share."""
    found = {}
    for command in commands.every():
        found[f"man/man1/{command.program}.1"] = man_page(command)
        for shell, path in COMPLETIONS.items():
            found[path.format(command.program)] = completion_script(CommandParser(command), shell)
    return found


if __name__ == "__main__":
    for name, text in files().items():
        path = SHARE / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    print(f"written to {SHARE}")
