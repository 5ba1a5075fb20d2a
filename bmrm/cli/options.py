"""The options of ``bmrm-train``: LIBLINEAR's short flags, long names for everything, a TOML file.

Only `TrainOptions` has the defaults. The parser leaves out options that were not given, so that the command
line overrides the configuration file, and the file overrides the defaults.
"""

from __future__ import annotations

import argparse
import dataclasses
import re
from collections.abc import Container, Iterable, Iterator, Sequence
from typing import Any

from bmrm.cli.exits import TRAIN_MEANINGS, epilog
from bmrm.cli.parsing import CommandParser, device, integer, is_number, positive, real
from bmrm.cli.solver_types import SOLVER_TYPES, translate
from bmrm.errors import ParameterError

PROGRAM = "bmrm-train"

DEFAULT_FOLDS = 5
"""Number of folds of ``-C`` and ``--calibrate``."""


@dataclasses.dataclass(frozen=True)
class TrainOptions:
    """Every option of ``bmrm-train``, under its long name; ``lam`` is ``--lambda``."""

    data: str = ""
    model: str | None = None
    config: str | None = dataclasses.field(default=None, compare=False)
    solver_type: int | None = None
    loss: str = "hinge"
    loss_params: dict[str, float] = dataclasses.field(default_factory=dict)
    reg: str = "l2"
    l1_ratio: float | None = None
    positive: bool = False
    feature_lambda: str | None = None
    prior: str | None = None
    lam: float = 1e-4
    cost: float | None = None
    bias: float = -1.0
    intercept: bool = False
    costs: str | None = None
    class_weight: dict[str, float] | str | None = None
    sample_weight: str | None = None
    offset: str | None = None
    solver: str = "ocas"
    tol: float = 1e-3
    tol_kind: str = "rel"
    max_iter: int = 10_000
    max_time: float | None = None
    cuts_per_pass: int | str = "auto"
    max_cuts: int | None = None
    warm_start: str | None = None
    resume: str | None = None
    folds: int | None = None
    select: bool = False
    lambdas: tuple[float, ...] | None = None
    metric: str | None = None
    rule: str = "best"
    calibrate: str | None = None
    format: str = "auto"
    label: str | None = None
    labels: str | None = None
    text_labels: bool = False
    drop: tuple[str, ...] = ()
    n_features: int | None = None
    zero_based: str = "auto"
    cache: bool = False
    device: str = "auto"
    gpu_mem: int | None = None
    dtype: str = "auto"
    threads: int | None = None
    weights: str = "auto"
    dry_run: bool = False
    export: str | None = None
    plot: str | None = None
    checkpoint: str | None = None
    allow_unconverged: bool = False
    json: bool = False
    log_jsonl: str | None = None
    quiet: bool = False
    verbose: int = 0

    @property
    def validates(self) -> bool:
        """Whether there is a cross validation."""
        return self.select or self.folds is not None or self.calibrate is not None

    @property
    def trains(self) -> bool:
        """Whether a model is written."""
        return self.select or self.calibrate is not None or self.folds is None

    @property
    def has_grid(self) -> bool:
        """Whether lambda is chosen from a grid."""
        return self.select or self.lambdas is not None

    def as_dict(self) -> dict[str, Any]:
        """Return the options under their long names, for JSON."""
        options = dataclasses.asdict(self)
        options.update(options.pop("loss_params"))
        options["lambda"] = options.pop("lam")
        options["drop"] = list(self.drop)
        options["verbose"] = self.verbose if self.verbose > 1 else self.verbose == 1
        return {name.replace("_", "-"): value for name, value in options.items()}


# Each pair contradicts each other: one on the command line overrides the other in the configuration file.
_EXCLUSIVE = [("cost", "lam"), ("bias", "intercept"), ("quiet", "verbose"), ("warm_start", "resume")]
_TRANSLATED = [("solver_type", "loss"), ("solver_type", "reg")]
_WITHOUT_FOLDS = ("warm_start", "resume", "checkpoint", "log_jsonl")
_FLAGS = {"cost": "--cost", "lam": "--lambda"} | {
    name: f"--{name.replace('_', '-')}"
    for name in ("bias", "intercept", "quiet", "verbose", "warm_start", "resume")
}


def parse(argv: Sequence[str]) -> TrainOptions:
    """Read the command line, and the configuration file it names.

    Raise `ParameterError` for bad options, with one line that names the option.

    Examples
    --------
    >>> options = parse(["-c", "2", "-w-1", "0.5", "--loss", "logistic", "a9a"])
    >>> options.cost, options.class_weight, options.loss, options.data
    (2.0, {'-1': 0.5}, 'logistic', 'a9a')
    """
    parser = build_parser()
    given = _namespace(parser, argv)
    config = given.get("config")
    if config is not None:
        from bmrm.cli.config import read_config

        filed = _namespace(parser, [*read_config(config, parser), "--", given["data"]])
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
            raise ParameterError(f"{_FLAGS[one]} and {_FLAGS[other]}: choose one")
    options = TrainOptions(**given)
    _check_validation(options, given)
    return options


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
            raise ParameterError(f"--{name.replace('_', '-')}: has no meaning in a cross validation")
    if options.export is not None and not options.trains:
        raise ParameterError("--export: has no meaning in a cross validation, which writes no model")
    if options.export is not None and options.calibrate is not None:
        raise ParameterError("--export: LIBLINEAR's model file has no place for --calibrate")
    if options.has_grid:
        for name in ("lam", "cost"):
            smallest = name == "cost" and options.solver_type is not None and options.lambdas is None
            if name in given and not smallest:
                raise ParameterError(f"{_FLAGS[name]}: not with a grid of lambda, which --lambdas sets")
    else:
        for name in ("metric", "rule", "plot"):
            if name in given:
                raise ParameterError(f"--{name}: only with -C or --lambdas")


def _namespace(parser: CommandParser, argv: Sequence[str]) -> dict[str, Any]:
    found = vars(parser.parse_words(_spell_out_levels(_spell_out_class_weights(argv))))
    found["loss_params"] = {
        name[len(_LOSS_PREFIX) :]: found.pop(name) for name in list(found) if name.startswith(_LOSS_PREFIX)
    }
    if "class_weight" in found:
        found["class_weight"] = _class_weights(found["class_weight"])
    return found


_LOSS_PREFIX = "loss parameter "
_SHORT_FLAGS = {"epsilon": ("-p",), "nu": ("-n",)}


_BRIEF = f"""\
  --loss NAME         hinge, logistic, squared, multiclass, ... (default: {TrainOptions.loss})
  --reg NAME          l2, l1 or elastic_net (default: {TrainOptions.reg})
  --lambda X          weight of the regularisation (default: {TrainOptions.lam:g})
  -c, --cost C        LIBLINEAR's C instead: lambda = 1/(C m) for m rows
  --intercept         add an unpenalised intercept
  -e, --tol X         certified relative gap to stop at (default: {TrainOptions.tol:g})
  --max-time SECONDS  stop after this time, with the best model so far
  -C                  choose lambda by cross validation, and train with it
  -v, --folds K       K-fold cross validation without a model
  --device WHERE      auto, cpu, cuda or cuda:N (default: {TrainOptions.device})
  --dry-run           print the memory that training needs, and exit
  --json              print one JSON object on stdout

examples:
  bmrm-train --loss logistic --label class train.csv train.model
  bmrm-train -C --metric auc train.svm.gz
  mpiexec -n 4 bmrm-train --lambda 1e-5 'part-*.svm' train.model

--help-all lists all options and the exit codes.\
"""
"""What ``--help`` prints besides usage and description; it fits a terminal of 24 lines and 80 columns."""

_SYNONYMS = {
    "--alpha": "--lambda",
    "--penalty": "--reg",
    "--regularization": "--reg",
    "--epochs": "--max-iter",
    "--iterations": "--max-iter",
    "--jobs": "--threads",
    "--n-jobs": "--threads",
    "--gpu": "--device cuda",
    "--cpu": "--device cpu",
    "--fit-intercept": "--intercept",
    "--cv": "--folds",
    "--timeout": "--max-time",
    "--output": "MODEL, the second file",
    "-o": "MODEL, the second file",
}


def build_parser() -> CommandParser:
    """Build the parser; the parameters of losses come from `bmrm.losses.PARAMETERS`."""
    from bmrm.losses import NAMES, PARAMETERS

    parser = CommandParser(
        PROGRAM,
        usage=f"{PROGRAM} [options] DATA [MODEL]",
        description="Train a regularised linear model, with a certified bound on its suboptimality.",
        epilog=epilog(TRAIN_MEANINGS),
        brief=_BRIEF,
        synonyms=_SYNONYMS,
    )
    parser.add_argument(
        "data",
        metavar="DATA",
        help="SVMlight text, CSV, Parquet, .mtx, .npz or .npy, also compressed; - is stdin; with mpiexec "
        "also a pattern",
    )
    parser.add_argument(
        "model", metavar="MODEL", nargs="?", help="file to write (default: DATA.model in the current folder)"
    )
    parser.add_argument(
        "--config", metavar="TOML", help="read options from a file; the command line overrides them"
    )

    problem = parser.add_argument_group("problem")
    _add(problem, "--loss", choices=NAMES, metavar="NAME", help="loss function: %(choices)s")
    _add(
        problem,
        "-s",
        "--solver-type",
        type=int,
        choices=SOLVER_TYPES,
        metavar="TYPE",
        help="loss and regularisation by LIBLINEAR's number: %(choices)s; -c is then 1 if not given",
    )
    for name, parameter in PARAMETERS.items():
        flags = [*_SHORT_FLAGS.get(name, ()), f"--{name.replace('_', '-')}"]
        problem.add_argument(
            *flags,
            dest=_LOSS_PREFIX + name,
            type=real("a number"),
            metavar="X",
            help=f"{parameter.help} ({', '.join(parameter.losses)}; default: {_default_text(parameter)})",
        )
    _add(problem, "--reg", choices=["l2", "l1", "elastic_net"], help="regularisation")
    _add(
        problem,
        "--l1-ratio",
        type=real("a number from 0 to 1", lambda value: 0 <= value <= 1),
        metavar="X",
        help="share of the l1 norm in the elastic net (default: 0.5)",
    )
    _add(problem, "--positive", action="store_true", help="constrain weights to be at least 0")
    _add(
        problem,
        "--feature-lambda",
        metavar="FILE",
        help="factors of lambda, one line per feature; 0 for no penalty",
    )
    _add(problem, "--prior", metavar="MODEL", help="regularise towards the weights of this model")
    _add(problem, "--lambda", dest="lam", type=positive, metavar="X", help="weight of the regularisation")
    _add(problem, "-c", "--cost", type=positive, metavar="C", help="LIBLINEAR's C: lambda = 1/(C m)")
    _add(
        problem,
        "-B",
        "--bias",
        type=real("a number"),
        metavar="B",
        help="add a feature of value B, with a penalised weight, to every row; none if B <= 0",
    )
    _add(problem, "--intercept", action="store_true", help="add an unpenalised intercept")
    problem.add_argument(
        "-R", dest="unpenalised_bias", action="store_true", help="LIBLINEAR's: -B 1 -R is --intercept"
    )
    _add(
        problem,
        "--costs",
        metavar="FILE",
        help="costs of wrong predictions (multiclass): one row per true class, one column per prediction",
    )
    _add(
        problem,
        "--class-weight",
        action="append",
        metavar="LABEL=WEIGHT",
        help="weight of the rows with this label, repeatable; or balanced; same as -wLABEL WEIGHT",
    )
    _add(problem, "--sample-weight", metavar="FILE", help="weights of rows, one number per line")
    _add(
        problem,
        "--offset",
        metavar="FILE|COLUMN",
        help="numbers added to the margins: a file, one per line; in CSV or Parquet a column",
    )

    solver = parser.add_argument_group("solver")
    _add(
        solver,
        "--solver",
        choices=["ocas", "bmrm"],
        help="line search and several cuts, or BMRM as published",
    )
    _add(solver, "-e", "--tol", type=positive, metavar="X", help="stop when the certified gap is below this")
    _add(solver, "--tol-kind", choices=["rel", "abs"], help="gap relative to the objective, or absolute")
    _add(solver, "--max-iter", type=integer(1), metavar="N", help="stop after N iterations")
    _add(solver, "--max-time", type=positive, metavar="SECONDS", help="stop after this time")
    _add(
        solver, "--cuts-per-pass", type=_cuts, metavar="N|auto", help="cutting planes per pass over the data"
    )
    _add(
        solver,
        "--max-cuts",
        type=integer(2),
        metavar="N",
        help="maximum number of cutting planes kept; limits the memory",
    )
    _add(solver, "--warm-start", metavar="MODEL", help="start from this model")
    _add(solver, "--resume", metavar="FILE", help="continue from a checkpoint of the same problem")

    choice = parser.add_argument_group("cross validation")
    _add(
        choice,
        "-v",
        "--folds",
        type=integer(2),
        metavar="K",
        help="K-fold cross validation without a model; with -C or --calibrate, their number of folds (5)",
    )
    _add(
        choice,
        "-C",
        "--select",
        action="store_true",
        help="find the best lambda of a grid by cross validation, and train with it on all rows",
    )
    _add(
        choice,
        "--lambdas",
        type=_lambdas,
        metavar="GRID",
        help="the grid: X,X,... or MIN:MAX:COUNT, evenly spaced logarithms (-C: 1e-6:10^-1.5:10)",
    )
    _add(
        choice,
        "--metric",
        choices=[
            *("accuracy", "auc", "mse", "mae", "deviance", "macro_f1", "micro_f1", "hamming_loss"),
            *("average_precision", "ranking_loss", "one_error", "ndcg", "mrr", "pairwise_error", "loss"),
        ],
        metavar="NAME",
        help="score of a fold: %(choices)s (default: the first that fits the loss)",
    )
    _add(
        choice,
        "--rule",
        choices=["best", "1se"],
        help="the lambda with the best mean score, or the largest within one standard error of it",
    )
    _add(
        choice,
        "--calibrate",
        choices=["platt", "isotonic"],
        help="fit probabilities to the values of held-out rows, and store the fit in the model",
    )

    data = parser.add_argument_group("data and machine")
    add_format(data)
    _add(
        data,
        "--text-labels",
        action="store_true",
        help="labels are text: the first word of a line (CSV and Parquet: automatic if some are not numbers)",
    )
    _add(data, "--n-features", type=integer(1), metavar="N", help="number of features (default: as found)")
    _add(data, "--zero-based", choices=["auto", "yes", "no"], help="whether feature numbers start at 0")
    _add(data, "--cache", action=argparse.BooleanOptionalAction, help="keep a binary copy next to the text")
    _add(data, "--device", type=device, metavar="auto|cpu|cuda|cuda:N", help="where to train")
    _add(
        data,
        "--gpu-mem",
        type=_gpu_mem,
        metavar="SIZE",
        help="GPU memory to use, such as 8G or 500M; other rows are streamed (default: all that is free)",
    )
    _add(
        data,
        "--dtype",
        choices=["auto", "float32", "float64"],
        help="type of the stored values; auto: float32 if that is accurate enough",
    )
    _add(data, "--threads", type=integer(1), metavar="N", help="threads (default: all cores)")
    _add(
        data,
        "--weights",
        choices=["auto", "replicated", "owned"],
        help="with mpiexec: all weights on every rank, or a part of them on each",
    )
    _add(data, "--dry-run", action="store_true", help="print the memory that training needs, and exit")

    output = parser.add_argument_group("output")
    _add(output, "--export", choices=["liblinear"], help="write MODEL in LIBLINEAR's text format")
    _add(output, "--plot", metavar="FILE", help="plot the scores over lambda: .png, .pdf, .svg, ...")
    _add(
        output,
        "--checkpoint",
        metavar="FILE",
        help="write the best model so far, and the cuts, to this file during training",
    )
    _add(output, "--allow-unconverged", action="store_true", help="exit with 0 even if a limit was hit")
    _add(
        output,
        "--json",
        action="store_true",
        help="print one JSON object on stdout, everything else on stderr",
    )
    _add(output, "--log-jsonl", metavar="FILE", help="write one JSON line per iteration")
    _add(output, "-q", "--quiet", action="store_true", help="print errors only")
    _add(
        output,
        "--verbose",
        nargs="?",
        const=1,
        type=_level,
        metavar="1|2",
        help="print every iteration, the time of each part, and tracebacks; 2: also the plan of the solve",
    )
    return parser


def add_format(group: Any) -> None:
    """Add the options that say how the rows of DATA and their labels are written."""
    add_columns(group)
    group.add_argument(
        "--labels", metavar="FILE", help="labels for data without labels (.mtx, .npy): one per line"
    )


def add_columns(group: Any) -> None:
    """Add the options that say in which format DATA is, and what its columns are."""
    from bmrm.io.formats import FORMATS

    group.add_argument(
        "--format", choices=FORMATS, metavar="NAME", help="%(choices)s (default: by the first bytes)"
    )
    group.add_argument("--label", metavar="COLUMN", help="column of the labels in CSV or Parquet")
    group.add_argument(
        "--drop",
        metavar="COLUMN,...",
        type=lambda text: tuple(text.split(",")),
        help="columns of CSV or Parquet that are not features",
    )


def _default_text(parameter: Any) -> str:
    """Return the default of a parameter, and that of losses for which it is not a number."""
    from bmrm.losses import LOSSES

    others = {name: LOSSES[name].default_text for name in parameter.losses}
    return ", ".join(
        [f"{parameter.default:g}", *(f"{name}: {text}" for name, text in others.items() if text)]
    )


def _add(group: argparse._ArgumentGroup, *flags: str, help: str, **keywords: Any) -> None:
    """Add an option; its help ends with its default, unless that is None or False."""
    name = keywords.get("dest") or flags[-1][2:].replace("-", "_")
    default = TrainOptions.__dataclass_fields__[name].default
    if default is not None and default is not False and name != "verbose":
        help += f" (default: {default:g})" if isinstance(default, float) else f" (default: {default})"
    group.add_argument(*flags, help=help, **keywords)


def _gpu_mem(text: str) -> int | None:
    from bmrm.matrix.gpu.memory import parse_memory_size

    try:
        return parse_memory_size(text)
    except ParameterError:
        raise argparse.ArgumentTypeError(
            f"found {text}, expected bytes, or a size such as 8G or 500M"
        ) from None


def _cuts(text: str) -> int | str:
    return "auto" if text == "auto" else integer(1)(text)


def _lambdas(text: str) -> tuple[float, ...]:
    """Read a grid: a list of numbers, or its ends and its length."""
    if text.count(":") == 2:
        first, last, count = text.split(":")
        low, high, steps = positive(first), positive(last), integer(2)(count) - 1
        if low < high and steps < _MAX_LAMBDAS:
            return tuple(low * (high / low) ** (k / steps) for k in range(steps + 1))
        raise argparse.ArgumentTypeError(
            f"found {text}, expected MIN:MAX:COUNT with MIN < MAX and COUNT <= {_MAX_LAMBDAS}"
        )
    grid = tuple(positive(word) for word in text.split(","))
    if len(set(grid)) < len(grid):
        raise argparse.ArgumentTypeError(f"found {text}, expected each number once")
    return grid


_MAX_LAMBDAS = 1000


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


def _level(text: str) -> int:
    if text not in _LEVELS:
        raise argparse.ArgumentTypeError(f"found {text}, expected 1 or 2")
    return int(text)


_LEVELS = ("1", "2")


def _spell_out_levels(argv: Iterable[str]) -> Iterator[str]:
    """Join ``--verbose`` and its level, so that no other word after it is mistaken for a level."""
    words = iter(argv)
    for word in words:
        if word == "--":
            yield word
            yield from words
        elif word == "--verbose":
            following = next(words, None)
            if following in _LEVELS:
                yield f"{word}={following}"
            else:
                yield f"{word}={_LEVELS[0]}"
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
