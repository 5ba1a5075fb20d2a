"""The input of ``bmrm-train``: data, row weights, a model to start from."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from bmrm.base.columns import check_names
from bmrm.base.labels import spread_texts
from bmrm.base.progress import ProgressLine, ProgressStep, print_log
from bmrm.cli.exits import reading
from bmrm.cli.reading_progress import reading_step
from bmrm.errors import DataError, ParameterError, escape_unprintable

if TYPE_CHECKING:
    from bmrm.cli.train_options import TrainOptions
    from bmrm.distributed import Group
    from bmrm.io import Data, Labels
    from bmrm.io._svmlight import Land
    from bmrm.io.text import LabelKind
    from bmrm.linear.models.checkpoint import Checkpoint
    from bmrm.linear.models.model import Model
    from bmrm.matrix.dataset import Dataset

PATTERNS = " (a pattern is for bmrm-train with mpiexec: each rank reads a part of the files)"
ZERO_BASED: dict[str, bool | Literal["auto"]] = {"auto": "auto", "yes": True, "no": False}
LABEL_SET_TASKS = ("multilabel", "label_ranking")  # their rows may have several labels or none
_MAX_COST_LINE_BYTES = 1 << 20  # a line of a cost matrix
_MAX_NUMBER_LINE_BYTES = 4096  # a line with one number, of an untrusted file


def read(options: TrainOptions, land: Land | None = None) -> Data:
    """Read the data; ``land`` as for `bmrm.io.read_data`."""
    from bmrm import losses
    from bmrm.io import read_data
    from bmrm.matrix.row_storage import storage_rule

    with reading(options.data, PATTERNS):
        data = read_data(
            options.data,
            format=options.format,
            label=options.label,
            drop=options.drop,
            offset=options.offset,
            n_features=options.n_features,
            zero_based=ZERO_BASED[options.zero_based],
            dtype=options.dtype,
            threads=options.threads,
            cache=options.cache,
            query_id=losses.LOSSES[options.loss].needs_groups,
            land=land,
            storage=storage_rule(options.storage, options.device),
            labels=label_kind(options.text_labels),
        )
    data = with_labels(data, options.labels, text=options.text_labels)
    if data.offset is None:  # otherwise it was a column
        data.offset = offsets(options, data.X.shape[0])
    if losses.LOSSES[options.loss].task in LABEL_SET_TASKS:
        data.y = split_texts(data.y)
    _check_columns(options, data)
    return data


def _check_columns(options: TrainOptions, data: Data) -> None:
    """Raise if a model that the options name was trained on columns with other names than the data's."""
    if data.feature_names is not None:
        for option, path in (("--warm-start", options.warm_start), ("--prior", options.prior)):
            model = model_of(path)
            if model is not None:
                check_names(option, model.feature_names, data.feature_names)


def label_kind(text: bool) -> LabelKind:
    """Return how `bmrm.io` is to read labels."""
    return "text" if text else "numbers"


def split_texts(y: Labels | None) -> Any:
    """Split texts that list several labels of a row, joined by commas; return other labels as they are."""
    if not isinstance(y, np.ndarray) or y.dtype.kind != "U":
        return y
    rows = [tuple(text.split(",")) for text in y.tolist()]
    for row, labels in enumerate(rows):
        if not all(labels):
            found = escape_unprintable(",".join(labels))
            raise DataError(f"labels: row {row + 1} has {found!r}, expected labels joined by commas")
    return rows


def read_shown(options: TrainOptions) -> Data:
    """Read the data, and show progress."""
    line = ProgressLine(sys.stderr, every_step=options.verbose > 0, quiet=options.quiet)
    with line.show_during(reading_step(options.data)):
        return read(options)


def with_labels(data: Data, path: str | None, *, text: bool) -> Data:
    """Add the labels of a file, one number or ``text`` per line, to data that have none."""
    if path is None:
        return data
    if data.y is not None:
        raise DataError("--labels: found labels in DATA too, expected none there")
    rows = data.X.shape[0]
    data.y = _texts(path, rows) if text else numbers(path, rows, "label", "rows", low=-np.inf)
    return data


def _texts(path: str, rows: int) -> npt.NDArray[np.str_]:
    """Read labels that are text, one per line."""
    found = []
    for number, line in _lines(path, _MAX_NUMBER_LINE_BYTES):
        try:
            found.append(line.decode().strip())
        except UnicodeDecodeError:
            raise DataError(
                f"{escape_unprintable(path)}:{number}: found bytes that are not UTF-8, expected a label"
            ) from None
        if not found[-1] or "\0" in found[-1]:
            what = "a null character" if found[-1] else "an empty line"
            raise DataError(f"{escape_unprintable(path)}:{number}: found {what}, expected a label")
    if len(found) != rows:
        raise DataError(
            f"{escape_unprintable(path)}: found {len(found)} labels, expected one for each of the {rows} rows"
        )
    names, codes = np.unique(np.array(found, dtype=object), return_inverse=True)
    return spread_texts(names.tolist(), codes, escape_unprintable(path))


def load(options: TrainOptions, group: Group | None = None) -> Dataset:
    """Read the data and make the resident data set; each of several ranks reads its rows."""
    if group is not None:
        return _load_rows(options, group)
    from bmrm.matrix.dataset import Dataset
    from bmrm.matrix.upload import Landing

    line = ProgressLine(sys.stderr, every_step=options.verbose > 0, quiet=options.quiet)
    landing = Landing(
        device=options.device,
        dtype=options.dtype,
        tol=options.tol,
        threads=options.threads,
        gpu_mem=options.gpu_mem,
    )
    with landing:
        doing = reading_step(options.data, lambda: "parsing and uploading" if landing.used else "reading")
        with line.show_during(doing):
            data = read(options, landing)
        began = time.perf_counter()
        with print_log(options.verbose), line.show_during(lambda: ProgressStep(("preparing the matrix",))):
            dataset = Dataset(data, tol=options.tol, **placement(options, data))
            if landing.used and (options.checkpoint or options.resume):
                dataset.take_checksum(data.X)
    data.seconds["resident"] = time.perf_counter() - began
    return dataset


def placement(options: TrainOptions, data: Data) -> dict[str, Any]:
    """Return the arguments of a `Dataset` besides the data that were read."""
    weights = numbers(options.sample_weight, data.X.shape[0], "weight", "rows")
    return {"sample_weight": weights, **_besides_weights(options, data)}


def offsets(options: TrainOptions, rows: int) -> npt.NDArray[np.float64] | None:
    """Read the offsets of all rows from a file."""
    return numbers(options.offset, rows, "offset", "rows", low=-np.inf)


def class_weights(options: TrainOptions, y: Labels | None) -> dict[Any, float] | str | None:
    """Return the weights of classes by labels of the type of ``y``."""
    given = options.class_weight
    if not isinstance(given, dict) or (isinstance(y, np.ndarray) and y.dtype.kind == "U"):
        return given
    weights = {}
    for label, weight in given.items():
        number = _number(label.encode())
        if np.isnan(number):
            raise ParameterError(
                f"--class-weight: found label {escape_unprintable(label)}, expected a number like the labels "
                "of DATA (--text-labels reads words)"
            )
        weights[number] = weight
    return weights


def _besides_weights(options: TrainOptions, data: Data) -> dict[str, Any]:
    return {
        "class_weight": class_weights(options, data.y),
        "device": options.device,
        "threads": options.threads,
        "gpu_mem": options.gpu_mem,
        "cpu_share": options.cpu_share,
    }


def _load_rows(options: TrainOptions, group: Group) -> Dataset:
    from bmrm import losses
    from bmrm.distributed import Shard, read_rows
    from bmrm.distributed.weight_layout import resolve_weight_layout, why_not_owned

    with reading(options.data):
        data, first, total = read_rows(
            options.data,
            group,
            n_features=options.n_features,
            zero_based=ZERO_BASED[options.zero_based],
            dtype=options.dtype,
            threads=options.threads,
            query_id=losses.LOSSES[options.loss].needs_groups,
            labels=label_kind(options.text_labels),
        )
    if losses.LOSSES[options.loss].task in LABEL_SET_TASKS:
        data.y = split_texts(data.y)
    began = time.perf_counter()
    columns = data.X.shape[1]
    with group.together():
        weights, offset = numbers(options.sample_weight, total, "weight", "rows"), offsets(options, total)
        factors = numbers(options.feature_lambda, columns, "factor", "features")
        form = resolve_weight_layout(
            options.weights,
            why_not_owned(options.reg, positive=options.positive, feature_lambda=factors),
            whole_cuts=factors is not None or options.prior is not None,
            columns=columns,
            device=options.device,
        )
    here = slice(first, first + data.X.shape[0])
    data.offset = None if offset is None else offset[here]
    with print_log(options.verbose):
        dataset = Shard(
            data,
            comm=group,
            tol=options.tol,
            sample_weight=None if weights is None else weights[here],
            weights=form,
            **_besides_weights(options, data),
        )
    dataset.wanted_by = "first"
    data.seconds["resident"] = time.perf_counter() - began
    return dataset


def numbers(
    path: str | None, count: int, what: str, each: str, *, low: float = 0.0
) -> npt.NDArray[np.float64] | None:
    """Read finite numbers from ``low``, one per line: a ``what`` for each of ``count`` ``each``, say rows."""
    if path is None:
        return None
    found = np.empty(count)
    number = 0
    for number, value in _numbers(path, what, low):
        if number <= count:
            found[number - 1] = value
    if number != count:
        raise DataError(
            f"{escape_unprintable(path)}: found {number} {what}s, expected one for each of the {count} {each}"
        )
    return found


def _numbers(path: str, what: str, low: float) -> Iterator[tuple[int, float]]:
    """Read numbered lines with a finite number from ``low`` each."""
    article = "an" if what[0] in "aeiou" else "a"
    for number, line in _lines(path, _MAX_NUMBER_LINE_BYTES):
        value = _number(line)
        if not (low <= value < np.inf and value > -np.inf):
            one = f"{article} {what}"
            expected = f"{one} of at least {low:g}" if low > -np.inf else f"{one}: a finite number"
            text = line[:40].decode("ascii", "backslashreplace").strip()
            raise DataError(f"{escape_unprintable(path)}:{number}: found {text!r}, expected {expected}")
        yield number, value


class OffsetLines:
    """The offsets of a file, one per line, taken some rows at a time."""

    def __init__(self, path: str) -> None:
        self._path, self._numbers, self._rows = path, _numbers(path, "offset", -np.inf), 0

    def take(self, rows: int) -> npt.NDArray[np.float64]:
        """Return those of the next rows; raise if the file ends before."""
        found = np.fromiter((value for _, value in islice(self._numbers, rows)), np.float64)
        self._rows += len(found)
        if len(found) < rows:
            raise DataError(
                f"{escape_unprintable(self._path)}: found {self._rows} offsets, expected one for each row"
            )
        return found

    def end(self) -> None:
        """Raise if there are more."""
        if next(self._numbers, None) is not None:
            raise DataError(
                f"{escape_unprintable(self._path)}: found more offsets than the {self._rows} rows"
            )


def read_costs(path: str) -> npt.NDArray[np.float64]:
    """Read a cost matrix, one row per line, with numbers separated by blanks or commas."""
    from bmrm.losses.multiclass import validate_costs

    rows: list[list[float]] = []
    for number, line in _lines(path, _MAX_COST_LINE_BYTES):
        row = [_number(word) for word in line.replace(b",", b" ").split()]
        if not row or np.isnan(row).any() or (rows and len(row) != len(rows[0])):
            wanted = f"{len(rows[0])} numbers" if rows else "numbers"
            text = line[:40].decode("ascii", "backslashreplace").strip()
            raise DataError(f"{escape_unprintable(path)}:{number}: found {text!r}, expected {wanted}")
        rows.append(row)
        if len(rows) > len(rows[0]):
            break
    if not rows or len(rows) != len(rows[0]):
        columns = len(rows[0]) if rows else 0
        raise DataError(
            f"{escape_unprintable(path)}: found {len(rows)} rows of {columns} costs, expected a square matrix"
        )
    try:
        return validate_costs(rows)
    except ParameterError as error:
        raise DataError(f"{escape_unprintable(path)}: {error}") from None


def _lines(path: str, limit: int) -> Iterator[tuple[int, bytes]]:
    """Read numbered lines of a file; raise for a line that is not shorter than ``limit`` bytes."""
    with reading(path), open(path, "rb") as file:
        for number, line in enumerate(iter(lambda: file.readline(limit), b""), 1):
            if len(line) == limit:
                raise DataError(
                    f"{escape_unprintable(path)}:{number}: "
                    f"found a line of {limit} bytes or more, expected fewer"
                )
            yield number, line


def _number(word: bytes) -> float:
    """Convert a word to a number; NaN if it is not one, such as ``1_0``, which Python reads as 10."""
    try:
        return np.nan if b"_" in word else float(word)
    except ValueError:
        return np.nan


def model_of(path: str | None) -> Model | None:
    """Load a model to start from or to regularise towards."""
    if path is None:
        return None
    from bmrm.linear.models.model import Model

    with reading(path):
        return Model.load(path)


def warm_start(options: TrainOptions) -> Model | Checkpoint | None:
    """Load the model to start from, or the checkpoint to continue from."""
    if options.resume is None:
        return model_of(options.warm_start)
    from bmrm.linear.models.checkpoint import Checkpoint

    with reading(options.resume):
        return Checkpoint.load(options.resume)
