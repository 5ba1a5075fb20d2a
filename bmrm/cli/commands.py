"""The options of all commands, as tables: parsers, TOML files, completions and man pages are made from them.

`bmrm.cli.parsing` says what a row means. The order is that of ``--help``.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence

from bmrm.cli.exits import (
    BENCH_MEANINGS,
    CLUSTER_MEANINGS,
    FRONT_MEANINGS,
    GRAPH_MEANINGS,
    INFO_MEANINGS,
    PREDICT_MEANINGS,
    TRAIN_MEANINGS,
)
from bmrm.cli.pair_options import PAIRS
from bmrm.cli.parsing import FOLDER, Command, Option, device, integer, positive, real
from bmrm.cli.shared_options import (
    COLUMNS,
    CPU_SHARE,
    FORMAT,
    GPU_MEM,
    MACHINE,
    NO_PROGRESS,
    THREADS,
    TRACEBACK,
    json_option,
    quiet_option,
)
from bmrm.cli.solver_types import SOLVER_TYPES

LOSS_PREFIX = "loss parameter "
"""What the names of parameters of losses begin with in a parsed command line."""

LEVELS = ("1", "2")
"""The levels of ``--verbose``."""

_SHORT_NAMES = {"epsilon": "-p ", "nu": "-n "}

_MAX_LAMBDAS = 1000


def _losses() -> Sequence[str]:
    from bmrm.losses import NAMES

    return NAMES


def _loss_parameters() -> Iterator[Option]:
    """Yield an option for each parameter of a loss; its default is that of the losses that take it."""
    from bmrm.losses import LOSSES, PARAMETERS

    for name, parameter in PARAMETERS.items():
        others = {loss: LOSSES[loss].default_text for loss in parameter.losses}
        own = [f"{loss}: {text}" for loss, text in others.items() if text]
        default = ", ".join([f"{parameter.default:g}", *own])
        yield Option(
            f"{_SHORT_NAMES.get(name, '')}--{name.replace('_', '-')}",
            f"{parameter.help} ({', '.join(parameter.losses)}; default: {default})",
            metavar="X",
            type=real("a number"),
            dest=LOSS_PREFIX + name,
        )


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


def _level(text: str) -> int:
    if text not in LEVELS:
        raise argparse.ArgumentTypeError(f"found {text}, expected 1 or 2")
    return int(text)


_ZERO_BASED = ("auto", "yes", "no")

# bmrm-train

_PROBLEM = (
    Option("--loss", "loss function: %(choices)s", "NAME", choices=_losses),
    Option(
        "-s --solver-type",
        "loss and regularisation by LIBLINEAR's number: %(choices)s; -c is then 1 if not given",
        "TYPE",
        type=int,
        choices=tuple(SOLVER_TYPES),
    ),
    _loss_parameters,
    Option("--reg", "regularisation", choices=("l2", "l1", "elastic_net")),
    Option(
        "--l1-ratio",
        "share of the l1 norm in the elastic net (default: 0.5)",
        "X",
        type=real("a number from 0 to 1", lambda value: 0 <= value <= 1),
    ),
    Option("--positive", "constrain weights to be at least 0", kind="flag"),
    Option("--feature-lambda", "factors of lambda, one line per feature; 0 for no penalty", "FILE"),
    Option("--prior", "regularise towards the weights of this model", "MODEL"),
    Option("--lambda", "weight of the regularisation", "X", type=positive, dest="lam"),
    Option("-c --cost", "LIBLINEAR's C: lambda = 1/(C m)", "C", type=positive),
    Option(
        "-B --bias",
        "add a feature of value B, with a penalised weight, to every row; none if B <= 0",
        "B",
        type=real("a number"),
    ),
    Option("--intercept", "add an unpenalised intercept", kind="flag"),
    Option("-R", "LIBLINEAR's: -B 1 -R is --intercept", kind="flag", dest="unpenalised_bias"),
    Option(
        "--costs",
        "costs of wrong predictions (multiclass): one row per true class, one column per prediction",
        "FILE",
    ),
    Option(
        "--class-weight",
        "weight of the rows with this label, repeatable; or balanced; same as -wLABEL WEIGHT",
        "LABEL=WEIGHT",
        kind="append",
    ),
    Option("--sample-weight", "weights of rows, one number per line", "FILE"),
    Option(
        "--offset",
        "numbers added to the margins: a file, one per line; in CSV or Parquet a column",
        "FILE|COLUMN",
    ),
)

_SOLVER = (
    Option("--solver", "line search and several cuts, or BMRM as published", choices=("ocas", "bmrm")),
    Option("-e --tol", "stop when the certified gap is below this", "X", type=positive),
    Option("--tol-kind", "gap relative to the objective, or absolute", choices=("rel", "abs")),
    Option("--max-iter", "stop after N iterations", "N", type=integer(1)),
    Option("--max-time", "stop after this time", "SECONDS", type=positive),
    Option("--cuts-per-pass", "cutting planes per pass over the data", "N|auto", type=_cuts),
    Option("--max-cuts", "maximum number of cutting planes kept; limits the memory", "N", type=integer(2)),
    Option("--warm-start", "start from this model", "MODEL"),
    Option("--resume", "continue from a checkpoint of the same problem", "FILE"),
)

_CHOICE = (
    Option(
        "-v --folds",
        "K-fold cross validation without a model; with -C or --calibrate, their number of folds (5)",
        "K",
        type=integer(2),
    ),
    Option(
        "-C --select",
        "find the best lambda of a grid by cross validation, and train with it on all rows",
        kind="flag",
    ),
    Option(
        "--lambdas",
        "the grid: X,X,... or MIN:MAX:COUNT, evenly spaced logarithms (-C: 1e-6:10^-1.5:10)",
        "GRID",
        type=_lambdas,
    ),
    Option(
        "--metric",
        "score of a fold: %(choices)s (default: the first that fits the loss)",
        "NAME",
        choices=(
            *("accuracy", "auc", "mse", "mae", "deviance", "macro_f1", "micro_f1", "hamming_loss"),
            *("average_precision", "ranking_loss", "one_error", "ndcg", "mrr", "pairwise_error", "loss"),
        ),
    ),
    Option(
        "--rule",
        "the lambda with the best mean score, or the largest within one standard error of it",
        choices=("best", "1se"),
    ),
    Option(
        "--calibrate",
        "fit probabilities to the values of held-out rows, and store the fit in the model",
        choices=("platt", "isotonic"),
    ),
)

_DATA = (
    *(row._replace(says_default=False) for row in FORMAT),
    Option(
        "--text-labels",
        "labels are text: the first word of a line (CSV and Parquet: automatic if some are not numbers)",
        kind="flag",
    ),
    Option("--n-features", "number of features (default: as found)", "N", type=integer(1)),
    Option("--zero-based", "whether feature numbers start at 0", choices=_ZERO_BASED),
    Option("--cache", "keep a binary copy next to the text", kind="on-off"),
    Option(
        "--storage",
        "rows of text: dense if that takes less time and no more memory, or as given",
        choices=("auto", "sparse", "dense"),
    ),
    Option("--device", "where to train", "auto|cpu|cuda|cuda:N", type=device),
    GPU_MEM,
    CPU_SHARE,
    Option(
        "--dtype",
        "type of the stored values; auto: float32 if that is accurate enough",
        choices=("auto", "float32", "float64"),
    ),
    THREADS,
    Option(
        "--weights",
        "with mpiexec: all weights on every rank, or a part of them on each",
        choices=("auto", "replicated", "owned"),
    ),
    Option("--dry-run", "print the memory that training needs, and exit", kind="flag"),
)

_OUTPUT = (
    Option("--export", "write MODEL in LIBLINEAR's text format", choices=("liblinear",)),
    Option("--plot", "plot the scores over lambda: .png, .pdf, .svg, ...", "FILE"),
    Option("--checkpoint", "write the best model so far, and the cuts, to this file during training", "FILE"),
    Option("--allow-unconverged", "exit with 0 even if a limit was hit", kind="flag"),
    json_option("print one JSON object on stdout, everything else on stderr"),
    Option("--log-jsonl", "write one JSON line per iteration", "FILE"),
    quiet_option("print errors only"),
    Option(
        "--verbose",
        "print every iteration, the time of each part, and tracebacks; 2: also the plan of the solve",
        "1|2",
        type=_level,
        kind="optional",
        const=1,
        says_default=False,
    ),
)

_BRIEF = """\
  --loss NAME         hinge, logistic, squared, multiclass, ... (default: {loss})
  --reg NAME          l2, l1 or elastic_net (default: {reg})
  --lambda X          weight of the regularisation (default: {lam:g})
  -c, --cost C        LIBLINEAR's C instead: lambda = 1/(C m) for m rows
  --intercept         add an unpenalised intercept
  -e, --tol X         certified relative gap to stop at (default: {tol:g})
  --max-time SECONDS  stop after this time, with the best model so far
  -C                  choose lambda by cross validation, and train with it
  -v, --folds K       K-fold cross validation without a model
  --device WHERE      auto, cpu, cuda or cuda:N (default: {device})
  --dry-run           print the memory that training needs, and exit
  --json              print one JSON object on stdout\
"""
"""What ``--help`` prints besides usage, description and examples, with defaults to be put in.

All of it fits a terminal of 24 lines and 80 columns.
"""

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


def train() -> Command:
    """Return the command ``bmrm-train``; no other one loads `TrainOptions`, which has its defaults."""
    from bmrm.cli.train_options import TrainOptions

    defaults = {name: field.default for name, field in TrainOptions.__dataclass_fields__.items()}
    return Command(
        "bmrm-train",
        about="train a regularised linear model, with a certificate",
        usage="[options] DATA [MODEL]",
        description="Train a regularised linear model, with a certified bound on its suboptimality.",
        meanings=TRAIN_MEANINGS,
        files=(
            Option(
                "data",
                "SVMlight text, CSV, Parquet, .mtx, .npz or .npy, also compressed; - is stdin; with mpiexec "
                "also a pattern",
                "DATA",
            ),
            Option(
                "model", "file to write (default: DATA.model in the current folder)", "MODEL", kind="optional"
            ),
        ),
        options={
            "": (Option("--config", "read options from a file; the command line overrides them", "TOML"),),
            "problem": _PROBLEM,
            "solver": _SOLVER,
            "cross validation": _CHOICE,
            "data and machine": _DATA,
            "output": _OUTPUT,
        },
        examples=(
            "bmrm-train --loss logistic train.svm train.model",
            "bmrm-train -s 2 -c 1 train.svm",
            "bmrm-train --loss multiclass --label species --drop id flowers.csv",
            "mpiexec -n 2 bmrm-train train.svm train.model",
        ),
        brief=_BRIEF.format(**defaults),
        synonyms=_SYNONYMS,
        defaults=defaults,
    )


# The other commands

PREDICT = Command(
    "bmrm-predict",
    about="predict the rows of a file, and score the predictions",
    usage="[options] DATA MODEL OUT",
    description="Predict the rows of DATA, one line per row in OUT, and score the predictions by DATA's\n"
    "labels.",
    meanings=PREDICT_MEANINGS,
    files=(
        Option("data", "as for bmrm-train; lines of SVMlight text need a label", "DATA"),
        Option("model", "file written by bmrm-train, or LIBLINEAR's model text", "MODEL"),
        Option("out", "file to write; - is stdout", "OUT"),
    ),
    examples=(
        "bmrm-predict test.svm train.model predictions",
        "bmrm-predict --probability test.svm train.model -",
    ),
    options={
        "": (
            *FORMAT,
            Option(
                "--offset",
                "numbers added to x.w + b, as for bmrm-train; 0 adds nothing, for a model trained with "
                "offsets",
                "FILE|COLUMN|0",
            ),
            Option(
                "--decision-values", "write x.w + b, for any task", kind="flag", exclusive="what is written"
            ),
            Option(
                "--probability",
                "write probabilities: of the larger label (calibrated, logistic) or of each class (softmax)",
                kind="flag",
                exclusive="what is written",
            ),
            Option(
                "-b",
                "1: write labels and probabilities in the format of LIBLINEAR's predict -b 1",
                "0|1",
                type=int,
                choices=(0, 1),
                default=0,
                dest="estimates",
                exclusive="what is written",
            ),
            Option(
                "--zero-based",
                "whether feature numbers start at 0 (default: as in training)",
                choices=_ZERO_BASED,
            ),
            THREADS,
            json_option("print the metrics as one JSON object on stdout"),
            quiet_option("print errors only"),
            TRACEBACK,
        )
    },
)

INFO = Command(
    "bmrm-info",
    about="describe a model file",
    usage="[options] MODEL",
    description="Show what a model file says: what was trained, on what, with which certificate,\n"
    "and the largest weights.",
    meanings=INFO_MEANINGS,
    files=(Option("model", "model or checkpoint, or LIBLINEAR's model text", "MODEL"),),
    examples=("bmrm-info --top 3 train.model",),
    options={
        "": (
            Option("--top", "number of weights shown (default: 10)", "N", type=integer(0), default=10),
            json_option("print everything as one JSON object"),
            TRACEBACK,
        )
    },
)

BENCH = Command(
    "bmrm-bench",
    about="show how a GPU multiplies by a matrix, and what it chose",
    usage="spmv [options] DATA",
    description="Show how a GPU multiplies by the matrix of DATA and by its transpose: statistics, the\n"
    "predicted and measured time of each candidate kernel, and the choice.",
    meanings=BENCH_MEANINGS,
    files=(
        Option("what", "matrix times vector", "spmv", choices=("spmv",)),
        Option("data", "as for bmrm-train; labels are not needed", "DATA"),
    ),
    examples=("bmrm-bench spmv train.svm",),
    options={
        "": (
            Option("--device", "number of the GPU (default: 0)", "N", type=integer(0), default=0),
            Option("--all", "time every candidate, not only the promising ones", kind="flag"),
            Option(
                "--dtype",
                "type of the values (default: float32)",
                choices=("float32", "float64"),
                default="float32",
            ),
            THREADS._replace(help="threads for reading (default: all)"),
            json_option("print everything as one JSON object"),
            TRACEBACK,
        )
    },
)

_TASKS = ("pagerank", "rwr", "hits", "info")

_RANKING = (
    Option(
        "-d --damping",
        "probability to go on (default: .85, rwr: .9)",
        "D",
        type=real("a number of at least 0 and below 1", lambda value: 0 <= value < 1),
    ),
    Option("--tol", "error to be proven (default: 1e-8)", "E", type=positive, default=1e-8),
    Option("--top", "nodes to print (default: 20)", "K", type=integer(1), default=20),
    Option("--seeds", "pagerank: nodes at which the walk restarts; in FILE with weights", "FILE|A,B"),
    Option("--queries", "rwr: nodes from which the walks start", "FILE|A,B"),
)

_EDGES = (
    Option(
        "--weighted",
        "read weights, of text without names from the third column (default: if EDGES names them)",
        kind="on-off",
    ),
    Option(
        "--undirected",
        "edges count in both directions",
        kind="const",
        const=False,
        dest="directed",
        exclusive="direction",
    ),
    Option(
        "--directed",
        "edges count in one direction (default: what EDGES says, else directed)",
        kind="const",
        const=True,
        exclusive="direction",
    ),
    Option("--columns", "names or numbers of the columns source, target and weight", "S,T[,W]"),
    Option("--labels", "what ids are (default: auto)", choices=("auto", "integer", "string"), default="auto"),
    Option(
        "--format",
        "format of EDGES (default: auto)",
        choices=("auto", "edges", "mtx", "npz", "npy", "metis", "parquet", "arrow"),
        default="auto",
    ),
    Option("--cache", "keep a binary copy next to edge text", kind="on-off", default=False),
)

GRAPH = Command(
    "bmrm-graph",
    about="rank the nodes of a graph: PageRank, random walks, HITS",
    usage="pagerank|rwr|hits|info [options] EDGES",
    description="Rank the nodes of the graph in EDGES: pagerank and rwr (random walk with restart) to a\n"
    "proven error, hits (hubs and authorities); info prints figures of the graph.",
    meanings=GRAPH_MEANINGS,
    files=(
        Option("task", ", ".join(_TASKS), "TASK", choices=_TASKS),
        Option("edges", "edge text, Matrix Market, npz, npy, METIS, Parquet; - is standard input", "EDGES"),
    ),
    examples=(
        "bmrm-graph pagerank edges.txt",
        "bmrm-graph rwr --queries ann,bob edges.txt",
        "bmrm-graph hits -o scores.tsv edges.txt",
    ),
    options={
        "": (
            *_RANKING,
            *_EDGES,
            Option("--max-iter", "limit on iterations", "N", type=integer(1)),
            Option(
                "--method",
                "iteration (default: auto)",
                choices=("auto", "power", "anderson"),
                default="auto",
            ),
            Option("-o --output", "write all scores: .tsv, .npz or .parquet", "FILE"),
            Option("--plot", "pagerank, hits: draw scores by rank and by in-degree", "FILE"),
            *MACHINE,
            GPU_MEM._replace(help="GPU memory to use, such as 8G; other edges are streamed (default: all)"),
            CPU_SHARE._replace(
                help="share of the streamed edges that the CPU takes, in eighths, such as 0.5 (default: none)"
            ),
            Option("--dry-run", "predict the memory that the task takes, and end", kind="flag"),
            *NO_PROGRESS,
        )
    },
)

_CLUSTERING = (
    Option(
        "--method",
        "k-means, a mixture of normal distributions, principal components, or multidimensional scaling "
        "(default: kmeans)",
        choices=("kmeans", "mixture", "pca", "mds"),
        default="kmeans",
    ),
    Option(
        "-k --clusters",
        "clusters or components (default: 8); of pca and mds coordinates (default: 2)",
        "K",
        type=integer(1),
    ),
    Option("-o --output", "write labels, of pca and mds coordinates: .npy, else one line per row", "FILE"),
    Option(
        "--centers --model",
        "write centres, the mixture or the components: .npz or .safetensors",
        "FILE",
    ),
    Option("--apply", "kmeans: label rows by the centres in a file written by --model", "FILE"),
    Option(
        "--init",
        "first centres (default: k-means++), components (kmeans), or map (classical)",
        choices=("k-means++", "k-means||", "random", "kmeans", "classical", "landmark"),
    ),
    Option("--n-init", "starts (default: 1; kmeans: 10 from random rows)", "N", type=integer(1)),
    Option("--max-iter", "limit on steps (default: 300; mixture: 100)", "N", type=integer(1)),
    Option(
        "--tol",
        "when to stop: sum of squared moves, relative to the variance (kmeans, default: 1e-4); gain of the "
        "mean log likelihood (mixture, 1e-3); residual (pca, 1e-8); fall of the relative stress (mds, 1e-6)",
        "E",
        type=real("a number of at least 0", lambda value: value >= 0),
    ),
    Option("--seed", "seed of the random numbers (default: 0)", "N", type=integer(0), default=0),
    Option("--sample-weight", "weights of the rows, one number per line; not mds", "FILE"),
    Option("--certificate", "kmeans: bound the inertia of any K centres from below", kind="flag"),
    Option(
        "--covariance",
        "mixture: covariances of components (default: full)",
        choices=("full", "tied", "diag", "spherical"),
    ),
    Option(
        "--metric",
        "mds: distances of the rows (default: euclidean), or DATA is a square matrix of dissimilarities",
        choices=("euclidean", "precomputed"),
    ),
    Option("--dtype", "mds: what terms are computed in (default: float64)", choices=("float64", "float32")),
)

CLUSTER = Command(
    "bmrm-cluster",
    about="cluster rows; fit a mixture, principal components or a map",
    usage="[options] DATA",
    description="Cluster the rows of DATA by k-means, with labels that are exact in float64; or fit a\n"
    "mixture, principal components, or a map. Labels of DATA are ignored.",
    meanings=CLUSTER_MEANINGS,
    files=(Option("data", "SVMlight, npz, npy, Matrix Market, CSV, Parquet; - is standard input", "DATA"),),
    examples=(
        "bmrm-cluster -k 10 -o labels.txt rows.npy",
        "bmrm-cluster --method mixture -k 10 rows.npy",
        "bmrm-cluster --method pca -k 2 -o map.npy rows.npy",
    ),
    options={
        "": (
            *_CLUSTERING,
            *COLUMNS,
            Option("--zero-based", "whether feature numbers start at 0", choices=_ZERO_BASED, default="auto"),
            *MACHINE,
            CPU_SHARE,
            *NO_PROGRESS,
        )
    },
)


def _task(word: str) -> str:
    """Read what ``bmrm`` is to do; a program is named if it or its task is meant."""
    if word == "samples":
        return word
    meant = {task: f"{command.program} {task}" for command in _OTHERS for task in command.files[0].values}
    meant |= {
        program.removeprefix("bmrm-"): program for program in ("bmrm-train", *(c.program for c in _OTHERS))
    }
    hint = f"; did you mean {meant[word]}?" if word in meant else ", expected samples"
    raise argparse.ArgumentTypeError(f"found {word}{hint}")


_OTHERS = (PREDICT, INFO, BENCH, GRAPH, CLUSTER, PAIRS)


def front() -> Command:
    """Return the command ``bmrm``, whose help lists the others."""
    others = (train(), *_OTHERS)
    width = max(len(command.program) for command in others)
    lines = [f"  {command.program:{width}}  {command.about}" for command in others]
    samples = f"  {'samples DIR':{width}}  write small files, for the commands of README and docs, into DIR"
    return Command(
        "bmrm",
        about="list the commands, or write small files to try them with",
        usage="[options] samples DIR",
        description="Iterative statistics with proven bounds. Each command explains itself with --help.",
        meanings=FRONT_MEANINGS,
        files=(
            Option(
                "task",
                "write small files, for the commands of README and docs",
                "samples",
                _task,
                ("samples",),
            ),
            Option("folder", "the folder, made if it is not there", FOLDER),
        ),
        options={"": ()},
        examples=(
            "bmrm samples samples",
            "cd samples",
            "bmrm-train train.svm train.model",
            "bmrm-graph pagerank edges.txt",
            "bmrm-cluster -k 10 rows.npy",
            "bmrm-pairs hist --edges 0:1.7:10 points.npy",
        ),
        brief="\n".join([*lines, "", samples]),
    )


def every() -> tuple[Command, ...]:
    """Return all commands."""
    return (front(), train(), *_OTHERS)
