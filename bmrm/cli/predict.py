"""``bmrm-predict``: predict the rows of a data file, one prediction per line, in bounded memory.

Rankings are the exception: all rows are read at once, because the rows of a query may be anywhere.
"""

from __future__ import annotations

import contextlib
import re
import sys
import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, BinaryIO, Literal

from bmrm.base.interrupts import HELD
from bmrm.base.units import number_text
from bmrm.cli.exits import Exit, check_apart, reading, run_on_first_rank
from bmrm.errors import DataError, ParameterError, escape_unprintable

if TYPE_CHECKING:
    import argparse

    import numpy as np
    import numpy.typing as npt

    from bmrm.base.vectors import Vector
    from bmrm.cli.loading import OffsetLines
    from bmrm.cli.signals import CommandInterrupts
    from bmrm.io import Csr, Data, Labels
    from bmrm.linear.models.model import Model

    Dense = npt.NDArray[np.floating[Any]]

PROGRAM = "bmrm-predict"

_NO_LINE = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
"""Control characters, ends of lines, and halves of characters, none of which a line of text can hold."""

_NO_OFFSET = "0"
"""The value of --offset that adds nothing."""

_CHUNK_ROWS = 1 << 16  # rows of a dense array that are read at a time, and lines that are formatted at a time


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command as `run_on_first_rank` does."""
    return run_on_first_rank(PROGRAM, predict, argv)


def predict(argv: Sequence[str], interrupts: CommandInterrupts) -> int:
    """Run the command and return the exit code."""
    from bmrm.cli.commands import PREDICT
    from bmrm.cli.parsing import CommandParser

    options = CommandParser(PREDICT).parse_words(argv)
    interrupts.importing(
        "bmrm.matrix._cpu",
        "bmrm.io.formats",
        "bmrm.losses",
        "bmrm.linear.models.metrics",
        "bmrm.cli.reading_progress",
        "bmrm.cli.results",
    )
    with interrupts.opened():
        return _predict(options, interrupts)


def _predict(options: argparse.Namespace, interrupts: CommandInterrupts) -> int:
    from bmrm.base.atomic import atomic_write
    from bmrm.cli.reading_progress import reading_step
    from bmrm.cli.results import showing
    from bmrm.linear.models import metrics
    from bmrm.linear.models.model import Model

    started = time.perf_counter()
    to_stdout = options.out == "-"
    if to_stdout and options.json:
        raise ParameterError("--json: OUT is stdout already, expected a file")
    if not to_stdout:
        inputs = {"DATA": options.data, "MODEL": options.model, "--labels": options.labels}
        check_apart(options.out, inputs | {"--offset": options.offset})
    with reading(options.model):
        model = Model.load(options.model)
    offsets = _Offsets(options, model)
    with_probabilities = options.probability or options.estimates == 1
    if with_probabilities and not model.has_probabilities:
        raise ParameterError(
            f"{'--probability' if options.probability else '-b 1'}: found a model with the loss {model.loss} "
            "and no calibration, expected one trained with --calibrate, or with the loss logistic or softmax"
        )
    if options.estimates == 1 and model.label_type == "str":
        _check_words(model)
    ranking = None
    if model.task == "ranking":
        with showing(options, reading_step(options.data)):
            ranking = _read_ranking(options, model)
    groups = None if ranking is None else ranking.qid
    scores = metrics.for_task(
        model.task,
        model.classes,
        model.loss_params,
        groups,
        probabilities=model.loss == "softmax",
        at_positives=model.loss == "recall_at_k",
    )
    fit = None
    if with_probabilities and model.task == "binary" and model.classes is not None:
        fit = metrics.ProbabilityMetrics((model.classes[0], model.classes[1]))
    ignored = 0
    base = _Base(options, model)
    target = contextlib.nullcontext(sys.stdout.buffer) if to_stdout else atomic_write(options.out)
    # Predictions on the terminal show by themselves how far the work is.
    lines_shown = to_stdout and sys.stdout.isatty()
    step = reading_step(options.data, lambda: "predicting")
    with target as out, contextlib.nullcontext() if lines_shown else showing(options, step):
        if options.estimates == 1 and model.classes is not None:
            # The order in which `_write` writes the probabilities.
            order = model.classes[::-1] if model.task == "binary" else model.classes
            out.write(f"labels {' '.join(map(_label_text, order))}\n".encode())
        if ranking is None:
            chunks = _chunks(options, model, base)
        else:
            base.numbered(ranking.zero_based)
            chunks = iter([(ranking.X, _labels(ranking, model), None)])
        for X, y, column in chunks:
            base.see(X)
            X, dropped = _match_width(X, model.n_features)
            ignored += dropped
            offset = offsets.of(X.shape[0], column)
            values = model.decision_function(X, offset=offset, threads=options.threads)
            for start in range(0, len(values), _CHUNK_ROWS):
                _write(out, model, values[start : start + _CHUNK_ROWS], options)
            if y is not None:
                scores.update(metrics.scored(model, values), y)
                if fit is not None and not isinstance(y, list):
                    fit.update(model.probabilities(values), y)
        offsets.end()
        out.flush()
        interrupts.mode = HELD  # until the file has its name and the metrics are printed
    found = scores.report() | ({} if fit is None else fit.report())
    base.report()
    _report(options, model, found, ignored, time.perf_counter() - started)
    return Exit.OK


def _check_words(model: Model) -> None:
    """Raise for labels that would be several words of a line."""
    for label in map(str, model.classes or ()):
        if len(label.split()) != 1:
            raise ParameterError(
                f"-b 1: found label '{escape_unprintable(label)}', expected labels without blanks"
            )


class _Offsets:
    """The numbers added to the margins, those of some rows after those of others."""

    def __init__(self, options: argparse.Namespace, model: Model) -> None:
        from bmrm.linear.models.model import CLASS_LOSSES

        self._given: str | None = options.offset
        if self._given is None and model.has_offset:
            raise ParameterError(
                "--offset: found none for a model trained with offsets, expected FILE, COLUMN, or 0 for none"
            )
        if self._given not in (None, _NO_OFFSET) and model.loss in CLASS_LOSSES:
            raise ParameterError(
                f"--offset: one number per row shifts all classes of the loss {model.loss} alike; "
                "Model.predict takes one per class"
            )
        self._lines: OffsetLines | None = None

    def of(self, rows: int, column: Vector | None) -> Vector | float | None:
        """Return those of the next rows: of a column of DATA, or the next lines of the file."""
        if self._given is None or column is not None:
            return column
        if self._given == _NO_OFFSET:
            return 0.0
        if self._lines is None:
            from bmrm.cli.loading import OffsetLines

            self._lines = OffsetLines(self._given)
        return self._lines.take(rows)

    def end(self) -> None:
        """Raise if the file has more lines than DATA has rows."""
        if self._lines is not None:
            self._lines.end()


class _Base:
    """Notes whether DATA, read with features numbered from 1, could also be numbered from 0.

    It could if neither the model nor an option says which, DATA has no feature 0, and the model has more
    features than DATA.
    """

    def __init__(self, options: argparse.Namespace, model: Model) -> None:
        self.quiet, self.n_features = options.quiet, model.n_features
        self.guessed = options.zero_based is None and model.zero_based is None
        self.one_based = False
        self.largest = -1

    def numbered(self, zero_based: bool | None) -> None:
        """Note how text was read; None for other formats."""
        self.one_based = zero_based is False

    def see(self, X: Csr | Dense) -> None:
        """Note the largest feature of a chunk of DATA."""
        from bmrm.io import Csr

        if self.guessed and isinstance(X, Csr):
            self.largest = max(self.largest, int(X.indices.max(initial=-1)))

    def report(self) -> None:
        """Print a note on stderr if the numbering is ambiguous."""
        if self.guessed and self.one_based and 0 <= self.largest < self.n_features - 1:
            from bmrm.base.progress import print_notice

            text = (
                "the model does not say whether features are numbered from 0 or 1; DATA has no feature 0 and "
                "was read as numbered from 1 (choose with --zero-based yes or no)"
            )
            print_notice(f"{PROGRAM}: note: {text}", quiet=self.quiet)


def _chunks(
    options: argparse.Namespace, model: Model, base: _Base
) -> Iterator[tuple[Csr | Dense, Labels | None, Vector | None]]:
    """Read the rows in chunks, with labels, and offsets of a column.

    A format other than text and row-major dense arrays is read at once.
    """
    from bmrm.cli.loading import LABEL_SET_TASKS, PATTERNS, label_kind, with_labels
    from bmrm.io import Csr, is_text, iter_svmlight, read_data
    from bmrm.io.formats import iter_dense_rows
    from bmrm.io.sources import open_source

    zero_based, text = _zero_based(options, model), model.label_type == "str"
    named = options.label is not None or bool(options.drop)
    chunks: Iterator[Dense] | None = None
    with reading(options.data, PATTERNS):
        if options.labels is None and not named and options.format == "auto" and is_text(options.data):
            for X, y in iter_svmlight(
                options.data,
                zero_based=zero_based,
                dtype="float64",
                threads=options.threads,
                labels=label_kind(text),
                one_label=model.task not in LABEL_SET_TASKS,
                numbered=base.numbered,
            ):
                yield X, _checked(y, model, X), None
            return
        if options.labels is None and not named and options.format == "auto":
            with open_source(options.data) as source:
                chunks = iter_dense_rows(source, _CHUNK_ROWS)
                for chunk in chunks or ():
                    yield chunk, None, None
        if chunks is not None:
            return
        data = read_data(
            options.data,
            format=options.format,
            label=options.label,
            drop=options.drop,
            offset=None if options.offset == _NO_OFFSET else options.offset,
            zero_based=zero_based,
            dtype=None,
            threads=options.threads,
            labels=label_kind(text),
        )
    _check_columns(model, data, options.data)
    data = with_labels(data, options.labels, text=text)
    base.numbered(data.zero_based)
    labels = _labels(data, model)
    if isinstance(data.X, Csr):
        yield data.X, labels, data.offset
        return
    for start in range(0, data.X.shape[0], _CHUNK_ROWS):
        rows = slice(start, start + _CHUNK_ROWS)
        offset = None if data.offset is None else data.offset[rows]
        yield data.X[rows], None if labels is None else labels[rows], offset


def _check_columns(model: Model, data: Data, path: str) -> None:
    """Raise for a table whose columns are not those of training, in their order."""
    from bmrm.base.columns import check_names

    name = escape_unprintable(path)
    known = None if model.feature_names is None else set(model.feature_names)
    for column in data.feature_names or ():
        if known is not None and column not in known:
            raise DataError(
                f"{name}: found the column {column!r}, expected those of training "
                "(--label or --drop excludes it)"
            )
    check_names(name, model.feature_names, data.feature_names)


def _read_ranking(options: argparse.Namespace, model: Model) -> Data:
    from bmrm.cli.loading import PATTERNS
    from bmrm.io import read_data

    with reading(options.data, PATTERNS):
        return read_data(
            options.data,
            zero_based=_zero_based(options, model),
            dtype=None,
            query_id=True,
            threads=options.threads,
        )


def _zero_based(options: argparse.Namespace, model: Model) -> bool | Literal["auto"]:
    from bmrm.cli.loading import ZERO_BASED

    if options.zero_based is not None:
        return ZERO_BASED[options.zero_based]
    return ZERO_BASED["auto"] if model.zero_based is None else model.zero_based


def _labels(data: Data, model: Model) -> Labels | None:
    return None if data.y is None else _checked(data.y, model, data.X)


def _checked(y: Labels, model: Model, X: Csr | Dense) -> Labels:
    from bmrm.cli.loading import LABEL_SET_TASKS, split_texts

    if model.task in LABEL_SET_TASKS:
        sets: Labels = split_texts(y)
        return sets
    if isinstance(y, list):
        from bmrm.io.csr import Csr
        from bmrm.io.text import NO_PAIRS

        if isinstance(X, Csr) and not X.nnz:
            raise DataError(NO_PAIRS)
        raise DataError("found rows with several labels, expected one label per row")
    return y


def _match_width(X: Csr | Dense, n_features: int) -> tuple[Csr | Dense, int]:
    """Give X the width of the model; return also the number of values dropped, as by LIBLINEAR."""
    import numpy as np

    from bmrm.io.csr import Csr

    rows, columns = X.shape
    if not isinstance(X, Csr):
        if columns < n_features:
            X = np.hstack([X, np.zeros((rows, n_features - columns), X.dtype)])
        return np.ascontiguousarray(X[:, :n_features]), rows * max(0, columns - n_features)
    if columns <= n_features:
        return X._replace(shape=(rows, n_features)), 0
    known = X.indices < n_features
    ends = np.concatenate([[0], np.cumsum(known)])
    data = None if X.data is None else X.data[known]
    narrowed = Csr(ends[X.indptr], X.indices[known], data, (rows, n_features))
    return narrowed, X.nnz - narrowed.nnz


def _write(out: BinaryIO, model: Model, values: Vector, options: argparse.Namespace) -> None:
    """Write the predictions of a chunk, in the shortest decimal form that reads back as the same number.

    Several labels of a row are separated by commas, as in the data, and several values by blanks.
    """
    import numpy as np

    if options.estimates == 1:
        p = model.probabilities(values)
        table = np.column_stack([p, 1.0 - p]) if p.ndim == 1 else p
        for label, row in zip(np.asarray(model.predictions(values)).tolist(), table.tolist(), strict=True):
            out.write(f"{_label_text(label)} {' '.join(map(repr, row))}\n".encode())
        return
    if options.probability:
        values = model.probabilities(values)
    rows = values if options.probability or options.decision_values else model.predictions(values)
    if isinstance(rows, list):
        out.write("".join(",".join(map(_label_text, row)) + "\n" for row in rows).encode())
    elif rows.ndim == 2:
        out.write("".join(" ".join(map(number_text, row)) + "\n" for row in rows.tolist()).encode())
    else:
        out.write("".join(_label_text(value) + "\n" for value in rows.tolist()).encode())


def _label_text(label: Any) -> str:
    """Return a label, or a predicted number, as written; text is as it is unless no line can hold it."""
    if isinstance(label, float):
        return number_text(label)
    text = str(label)
    return escape_unprintable(text) if _NO_LINE.search(text) else text


def _report(
    options: argparse.Namespace,
    model: Model,
    report: dict[str, float | int | None],
    ignored: int,
    seconds: float,
) -> None:
    from bmrm.base.progress import print_notice
    from bmrm.cli.report import finite_metrics, metrics_text

    if ignored:
        text = f"{PROGRAM}: note: ignored {ignored} values of features beyond the model's {model.n_features}"
        print_notice(text, quiet=options.quiet)
    if options.json:
        import json

        document = {
            "task": model.task,
            **finite_metrics(report),
            "ignored_values": ignored,
            "seconds": seconds,
        }
        print(json.dumps(document, allow_nan=False))
    elif not options.quiet and (text := metrics_text(model.task, report)):
        print(text, file=sys.stderr if options.out == "-" else sys.stdout)


if __name__ == "__main__":
    sys.exit(main())
