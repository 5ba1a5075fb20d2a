"""The command line of ``bmrm-train``: LIBLINEAR's short flags, long names for everything, a TOML file.

Only `TrainOptions` has the defaults. The parser leaves out options that were not given, so that the command
line overrides the configuration file, and the file overrides the defaults.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Iterator, Sequence
from typing import Any

from bmrm.cli.commands import LEVELS, LOSS_PREFIX, train
from bmrm.cli.parsing import CommandParser, is_number
from bmrm.cli.solver_types import translate
from bmrm.cli.train_options import TrainOptions
from bmrm.errors import ParameterError

# Each pair contradicts each other: one on the command line overrides the other in the configuration file.
_EXCLUSIVE = [("cost", "lam"), ("bias", "intercept"), ("quiet", "verbose"), ("warm_start", "resume")]
_TRANSLATED = [("solver_type", "loss"), ("solver_type", "reg")]
_WITHOUT_FOLDS = ("warm_start", "resume", "checkpoint", "log_jsonl")


def parse(argv: Sequence[str]) -> TrainOptions:
    """Read the command line, and the configuration file it names.

    Raise `ParameterError` for bad options, with one line that names the option.

    Examples
    --------
    >>> options = parse(["-c", "2", "-w-1", "0.5", "--loss", "logistic", "a9a"])
    >>> options.cost, options.class_weight, options.loss, options.data
    (2.0, {'-1': 0.5}, 'logistic', 'a9a')
    """
    command = train()
    parser = CommandParser(command)
    given = _namespace(parser, argv)
    config = given.get("config")
    if config is not None:
        from bmrm.cli.config import read_config

        filed = _namespace(parser, [*read_config(config, command), "--", given["data"]])
        for pair in _EXCLUSIVE + _TRANSLATED:
            if any(name in given for name in pair):
                for name in pair:
                    filed.pop(name, None)
        if "loss" in given:  # parameters in the file may be those of another loss
            filed["loss_params"] = _parameters_of(given["loss"], filed["loss_params"])
        filed["loss_params"].update(given["loss_params"])
        given = {**filed, **given, "loss_params": filed["loss_params"]}
    given = translate(given)
    for one, other in _EXCLUSIVE:
        if one in given and other in given and not (one == "bias" and given["bias"] <= 0):
            raise ParameterError(f"{_flag(one)} and {_flag(other)}: choose one")
    options = TrainOptions(**given)
    _check_validation(options, given)
    return options


def _flag(name: str) -> str:
    """Return the option that sets a field of `TrainOptions`."""
    return "--lambda" if name == "lam" else f"--{name.replace('_', '-')}"


def _parameters_of(loss: str, given: dict[str, float]) -> dict[str, float]:
    """Return the parameters that a loss takes."""
    from bmrm.losses import PARAMETERS

    return {name: value for name, value in given.items() if loss in PARAMETERS[name].losses}


def _check_validation(options: TrainOptions, given: Container[str]) -> None:
    if not options.validates:
        for name in ("lambdas", "metric", "rule", "plot"):
            if name in given:
                raise ParameterError(f"--{name}: only with -C, -v or --calibrate")
        return
    for name in _WITHOUT_FOLDS:
        if name in given:
            raise ParameterError(f"{_flag(name)}: has no meaning in a cross validation")
    if options.export is not None and not options.trains:
        raise ParameterError("--export: has no meaning in a cross validation, which writes no model")
    if options.export is not None and options.calibrate is not None:
        raise ParameterError("--export: LIBLINEAR's model format cannot store --calibrate")
    if options.has_grid:
        for name in ("lam", "cost"):
            smallest = name == "cost" and options.solver_type is not None and options.lambdas is None
            if name in given and not smallest:
                raise ParameterError(f"{_flag(name)}: not with a grid of lambda, which --lambdas sets")
    else:
        for name in ("metric", "rule", "plot"):
            if name in given:
                raise ParameterError(f"--{name}: only with -C or --lambdas")


def _namespace(parser: CommandParser, argv: Sequence[str]) -> dict[str, Any]:
    found = vars(parser.parse_words(_spell_out_levels(_spell_out_class_weights(argv))))
    found["loss_params"] = {
        name[len(LOSS_PREFIX) :]: found.pop(name) for name in list(found) if name.startswith(LOSS_PREFIX)
    }
    if "class_weight" in found:
        found["class_weight"] = _class_weights(found["class_weight"])
    return found


def _spell_out_class_weights(argv: Iterable[str]) -> Iterator[str]:
    """Replace LIBLINEAR's ``-wLABEL WEIGHT`` by ``--class-weight=LABEL=WEIGHT``.

    A label that is no number needs a number after it: without one, the word may be a misspelt option.
    """
    words = iter(argv)
    for word in words:
        if word == "--":
            yield word
            yield from words
        elif word.startswith("-w") and word != "-w":
            weight, is_numeric = next(words, None), re.fullmatch(r"-w[+-]?[0-9.].*", word)
            if weight is not None and (is_numeric or is_number(weight)):
                yield f"--class-weight={word[2:]}={weight}"
            elif is_numeric:
                raise ParameterError(f"{word}: expected a weight after it")
            else:
                yield word
                if weight is not None:
                    yield from _spell_out_class_weights([weight, *words])
        else:
            yield word


def _spell_out_levels(argv: Iterable[str]) -> Iterator[str]:
    """Join ``--verbose`` and its level, so that no other word after it is mistaken for a level."""
    words = iter(argv)
    for word in words:
        if word == "--":
            yield word
            yield from words
        elif word == "--verbose":
            following = next(words, None)
            if following in LEVELS:
                yield f"{word}={following}"
            else:
                yield f"{word}={LEVELS[0]}"
                if following is not None:
                    yield from _spell_out_levels([following, *words])
        else:
            yield word


def _class_weights(entries: Sequence[str]) -> dict[str, float] | str:
    if "balanced" in entries:
        if len(entries) > 1:
            raise ParameterError("--class-weight: found balanced with other weights, expected it alone")
        return "balanced"
    weights = {}
    for entry in entries:
        label, _, weight = entry.rpartition("=")
        try:
            value = float(weight)
        except ValueError:
            raise ParameterError(
                f"--class-weight: found {entry}, expected LABEL=WEIGHT or balanced"
            ) from None
        if not label:
            raise ParameterError(f"--class-weight: found {entry}, expected LABEL=WEIGHT or balanced")
        if not 0 < value < float("inf"):
            raise ParameterError(f"--class-weight: found weight {weight}, expected a positive number")
        weights[label] = value
    return weights
