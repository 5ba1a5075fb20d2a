"""The ``--config`` file: TOML whose keys are long option names without the dashes.

The file is converted to command-line words by the table of the command, and parsed by its parser, so that an
option means the same in both places and is checked by the same code.
"""

from __future__ import annotations

import tomllib
from typing import Any

from bmrm.cli.parsing import Command, Option
from bmrm.errors import ParameterError


def read_config(path: str, command: Command) -> list[str]:
    """Return the command-line words for the options in a TOML file.

    Raise `ParameterError` if the file cannot be read or is not TOML, or a key is not a long option.
    """
    try:
        with open(path, "rb") as file:
            table = tomllib.load(file)
    except OSError as error:
        raise ParameterError(f"--config {path}: {error.strerror}") from None
    except ValueError as error:  # not TOML, not UTF-8, or an integer with more digits than Python accepts
        raise ParameterError(f"--config {path}: {error}") from None
    except RecursionError:
        raise ParameterError(f"--config {path}: found arrays nested too deeply, expected options") from None
    options = {
        name: option
        for _, rows in command.tables()
        for option in rows
        for name in option.names.split()  # --no-cache is cache = false
        if name.startswith("--")
    }
    words: list[str] = []
    for key, value in table.items():
        option = f"--{key}"
        if option not in options or key == "config":
            raise ParameterError(f"--config {path}: found the key {key!r}, expected a long option name")
        try:
            words += _words(option, options[option], value)
        except (TypeError, ValueError) as error:
            raise ParameterError(f"--config {path}: {key}: {error}") from None
    return words


def _words(name: str, option: Option, value: Any) -> list[str]:
    if not option.takes_value:
        if not isinstance(value, bool):
            raise TypeError(f"found {value!r}, expected true or false")
        if option.kind == "on-off":
            return [name if value else f"--no-{name[2:]}"]
        return [name] if value else []
    if option.kind == "optional" and isinstance(value, bool):  # an option that may stand alone
        return [f"{name}={option.const}"] if value else []
    if isinstance(value, dict) and option.kind == "append":  # class-weight = {"1" = 2.0, "-1" = 0.5}
        return [f"{name}={key}={_text(number)}" for key, number in value.items()]
    return [f"{name}={_text(value)}"]


def _text(value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        found = "a table" if isinstance(value, dict) else repr(value)
        raise TypeError(f"found {found}, expected a number or a string")
    if "\0" in (text := str(value)):
        raise ValueError(f"found {text!r}, expected a string without null characters")
    return text
