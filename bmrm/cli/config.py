"""The ``--config`` file: TOML whose keys are long option names without the dashes.

The file is converted to command-line words and parsed by the command's own parser, so that an option
means the same in both places and is checked by the same code.
"""

from __future__ import annotations

import argparse
import tomllib
from typing import Any

from bmrm.errors import ParameterError


def read_config(path: str, parser: argparse.ArgumentParser) -> list[str]:
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
    actions = {
        name: action
        for action in parser._actions
        for name in action.option_strings
        if name.startswith("--") and not name.startswith("--no-")  # --no-cache is cache = false
    }
    words: list[str] = []
    for key, value in table.items():
        option = f"--{key}"
        if option not in actions or key in ("config", "help", "version"):
            raise ParameterError(f"--config {path}: found the key {key!r}, expected a long option name")
        try:
            words += _words(option, actions[option], value)
        except (TypeError, ValueError) as error:
            raise ParameterError(f"--config {path}: {key}: {error}") from None
    return words


def _words(option: str, action: argparse.Action, value: Any) -> list[str]:
    if action.nargs == 0:
        if not isinstance(value, bool):
            raise TypeError(f"found {value!r}, expected true or false")
        if isinstance(action, argparse.BooleanOptionalAction):
            return [option if value else f"--no-{option[2:]}"]
        return [option] if value else []
    if action.nargs == "?" and isinstance(value, bool):  # an option that may stand alone
        return [f"{option}={action.const}"] if value else []
    if isinstance(value, dict) and action.dest == "class_weight":  # class-weight = {"1" = 2.0, "-1" = 0.5}
        return [f"{option}={key}={_text(number)}" for key, number in value.items()]
    return [f"{option}={_text(value)}"]


def _text(value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        found = "a table" if isinstance(value, dict) else repr(value)
        raise TypeError(f"found {found}, expected a number or a string")
    if "\0" in (text := str(value)):
        raise ValueError(f"found {text!r}, expected a string without null characters")
    return text
