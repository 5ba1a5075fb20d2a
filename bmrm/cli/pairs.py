"""``bmrm-pairs``: histograms of distances, pairs within radii, neighbours, densities, of points in files."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from bmrm.cli.exits import Exit, check_apart, reading, run_on_first_rank
from bmrm.cli.results import best_so_far, print_json, showing, showing_share, write_lines
from bmrm.errors import DataError, ParameterError, escape_unprintable

if TYPE_CHECKING:
    import argparse

    from bmrm.base.vectors import Vector
    from bmrm.cli.signals import CommandInterrupts
    from bmrm.pairs import Histogram, Points
    from bmrm.pairs.edges import Bins
    from bmrm.pairs.histograms import PairCall

PROGRAM = "bmrm-pairs"
TAKERS = {
    "--radius": ("radius", None, ("count", "join")),
    "--edges": ("edges", None, ("hist", "plan")),
    "--closed": ("closed", "last", ("hist", "plan")),
    "--images": ("images", None, ("hist", "count", "plan")),
    "--plan": ("plan", "auto", ("hist", "count", "plan")),
    "--metric": ("metric", "euclidean", ("knn", "join")),
    "-k": ("k", None, ("knn",)),
    "--bandwidth": ("bandwidth", None, ("kde",)),
    "--kernel": ("kernel", "gaussian", ("kde",)),
    "--weights": ("weights", None, ("kde",)),
    "--log": ("log", False, ("kde",)),
    "--tol": ("tol", None, ("kde",)),
    "-o": ("output", None, ("hist", "count", "knn", "join", "kde")),
}
"""Options that some tasks alone take: their names here, their defaults, and these tasks."""

MAX_NUMBER_FILE_BYTES = 1 << 30
"""Of a file of edges or weights as text, which is untrusted."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command as `run_on_first_rank` does."""
    return run_on_first_rank(PROGRAM, pairs, argv)


def pairs(argv: Sequence[str], interrupts: CommandInterrupts) -> int:
    """Run the command and return the exit code."""
    from bmrm.cli.pair_options import PAIRS
    from bmrm.cli.parsing import CommandParser

    options = CommandParser(PAIRS).parse_words(argv)
    vars(options).setdefault("points2", None)
    _check(options)
    interrupts.importing("bmrm.io", "bmrm.pairs.histograms", "bmrm.pairs.cpu", "bmrm.cli.reading_progress")
    began = time.perf_counter()
    if options.task == "kde":
        from bmrm.cli.pair_densities import find_densities

        with interrupts.opened():
            given = None if options.weights is None else _numbers_of_file(options.weights, "weights")
            points = _points(options)
        return find_densities(options, *points, given, began)
    if options.task in ("knn", "join"):
        from bmrm.cli.pair_neighbours import find_neighbours

        with interrupts.opened():
            points = _points(options)
        return find_neighbours(options, *points, began)
    with interrupts.opened():
        bins = _bins(options)  # before the points, which may be many
        call = _call(options, _points(options), bins)
    if options.task == "plan":
        return _explain(options, call)
    found = _count(options, call)
    if options.output is not None:
        _write(options, found)
    _report(options, found, time.perf_counter() - began)
    return Exit.OK if found.share == 1.0 else Exit.INTERRUPTED


def _points(options: argparse.Namespace) -> tuple[Points, Points | None]:
    x = _read(options, options.points)
    return x, None if options.points2 is None else _read(options, options.points2)


def _call(options: argparse.Namespace, points: tuple[Points, Points | None], bins: Bins) -> PairCall:
    """Return what is to be counted."""
    from bmrm.pairs.histograms import check_call
    from bmrm.pairs.points import read_points

    return check_call(read_points(*points, None, None, None), bins, options.images, options.plan)


def _bins(options: argparse.Namespace) -> Bins:
    from bmrm.pairs.edges import read_bins, read_radii

    if options.task == "count":
        return read_radii(options.radius)[0]
    return read_bins(_read_edges(options.edges), options.closed)


def _check(options: argparse.Namespace) -> None:
    """Raise for options that do not fit the task, or files that cannot be written, before all is read."""
    from bmrm.base.atomic import check_writable

    task = options.task
    if task == "count" and options.radius is None:
        raise ParameterError("count: found no --radius, expected one or several: --radius 0.1,0.2")
    if task == "join" and (options.radius is None or len(options.radius) > 1):
        raise ParameterError(f"join: found {len(options.radius or ())} numbers as --radius, expected one")
    if task == "knn" and options.k is None:
        raise ParameterError("knn: found no -k, expected how many neighbours: -k 10")
    if task == "kde" and options.bandwidth is None:
        raise ParameterError("kde: found no --bandwidth, expected a number, scott or silverman")
    if task in ("hist", "plan") and options.edges is None:
        raise ParameterError(f"{task}: found no --edges, expected FROM:TO:BINS, log:FROM:TO:BINS or a file")
    for name, (own, default, tasks) in TAKERS.items():
        if task not in tasks and getattr(options, own) != default:
            raise ParameterError(f"{name}: found with {task}, which does not take it")
    if options.output == "-" and options.json:
        raise ParameterError("--json: -o is stdout already, expected a file")
    if options.output not in (None, "-"):
        inputs = {
            "POINTS": _file_of(options.points),
            "--edges": options.edges,
            "--weights": options.weights,
        }
        if options.points2 is not None:
            inputs["POINTS2"] = _file_of(options.points2)
        check_apart(options.output, inputs)
        check_writable(options.output)


def _file_of(text: str) -> str:
    return _split(text)[0]


def _split(text: str) -> tuple[str, list[str]]:
    """Return the file of FILE or FILE:COLUMNS, and the columns."""
    path, colon, columns = text.rpartition(":")
    if not colon or not path or os.path.exists(text):
        return text, []
    return path, columns.split(",")


def _read(options: argparse.Namespace, given: str) -> Points:
    """Read points, those columns that are named."""
    import numpy as np

    from bmrm.cli.reading_progress import reading_step
    from bmrm.io import read_data
    from bmrm.io.csr import Csr
    from bmrm.io.row_storage import dense_rows
    from bmrm.pairs import Points

    path, columns = _split(given)
    name = escape_unprintable(path)
    with showing(options, reading_step(path)), reading(path):
        data = read_data(
            path, format=options.format, drop=options.drop, dtype=None, threads=options.threads, labels="none"
        )
    x: Any = data.X
    if isinstance(x, Csr):
        x = dense_rows(x, np.dtype(np.float64), name)
    if columns:
        x = x[:, _places(name, columns, data.feature_names, x.shape[1])]
    try:
        return Points(x, box=options.box, device=options.device, threads=options.threads)
    except DataError as error:
        raise DataError(f"{name}: {str(error).removeprefix('x: ')}") from None


def _places(name: str, columns: list[str], names: Sequence[str] | None, count: int) -> list[int]:
    """Return the places of columns, which are named, or numbered from 1."""
    found = []
    for column in columns:
        if names is not None and column in names:
            found.append(list(names).index(column))
        elif column.isascii() and column.isdecimal() and 1 <= int(column) <= count:
            found.append(int(column) - 1)
        else:
            known = f"one of {', '.join(names[:10])}, or " if names else ""
            raise ParameterError(
                f"{name}: found the column {escape_unprintable(column)!r}, "
                f"expected {known}a number from 1 to {count}"
            )
    return found


def _read_edges(text: str) -> Vector:
    """Return edges: FROM:TO:BINS, log:FROM:TO:BINS, or those of a file."""
    import numpy as np

    from bmrm.cli.parsing import is_number

    words = text.split(":")
    is_log = words[0] == "log"
    if (len(words) == 3 + is_log or is_number(text)) and not os.path.exists(text):
        try:
            low, high, bins = float(words[-3]), float(words[-2]), int(words[-1])
        except (ValueError, IndexError):
            bins = 0
        if bins < 1 or not np.isfinite([low, high]).all() or not low < high or (is_log and low <= 0.0):
            raise ParameterError(
                f"--edges: found {escape_unprintable(text)}, expected FROM:TO:BINS with FROM < TO and "
                "at least 1 bin; FROM above 0 after log:"
            )
        _check_bins(bins)
        return np.geomspace(low, high, bins + 1) if is_log else np.linspace(low, high, bins + 1)
    return _numbers_of_file(text, "edges")


def _check_bins(bins: int) -> None:
    from bmrm.base.host_memory import require_memory

    require_memory(8 * bins, f"{bins} bins")


def _numbers_of_file(path: str, what: str) -> Vector:
    import numpy as np

    from bmrm.io.npy import read_header
    from bmrm.io.regular import read_array

    name = escape_unprintable(path)
    with reading(path), open(path, "rb") as file:
        start = file.read(6)
        if start == np.lib.format.MAGIC_PREFIX:
            try:
                header = read_header(file, os.fstat(file.fileno()).st_size, 1)
                return read_array(file, header.dtype, header.shape, header.start).astype(np.float64)
            except DataError as error:
                raise DataError(f"{name}: {error}") from None
            except ValueError as error:
                raise DataError(f"{name}: found a damaged npy file ({error})") from None
        content = start + file.read(MAX_NUMBER_FILE_BYTES + 1)
    if len(content) > MAX_NUMBER_FILE_BYTES:
        raise DataError(f"{name}: found more than 1 GB of {what}, expected an npy file")
    try:
        return np.array([float(word) for word in content.replace(b",", b" ").split()])
    except ValueError as error:
        raise DataError(f"{name}: {error}; expected {what}, one number per line") from None


def _count(options: argparse.Namespace, call: PairCall) -> Histogram:
    """Count; return the result so far after an interrupt."""
    from bmrm.pairs.histograms import carry_out

    with showing_share(options, "counting pairs") as note:
        found: Histogram = best_so_far(lambda: carry_out(call, note))
    return found


def _explain(options: argparse.Namespace, call: PairCall) -> int:
    from dataclasses import asdict

    from bmrm.pairs.histograms import explain_call, prepare_call

    if options.json:
        print_json({"plan": asdict(prepare_call(call)[0].plan), "status": "planned"})
    else:
        print(explain_call(call))
    return Exit.OK


def _write(options: argparse.Namespace, found: Histogram) -> None:
    """Write an npz file, the counts alone as npy, or a line per bin."""
    from bmrm.base.atomic import atomic_write
    from bmrm.io.npy import write_array

    kind = os.path.splitext(options.output)[1]
    if kind not in (".npz", ".npy"):
        write_lines(options.output, (f"{line}\n" for line in _lines(options, found)))
        return
    if kind == ".npz" and options.task == "hist":
        found.save(options.output)
        return
    with atomic_write(options.output) as file:
        if kind == ".npz":
            import numpy as np

            np.savez(file, allow_pickle=False, radius=found.edges[1:], counts=found.counts.cumsum())
        else:
            write_array(file, found.counts if options.task == "hist" else found.counts.cumsum())


def _lines(options: argparse.Namespace, found: Histogram) -> list[str]:
    edges = [f"{edge!r}" for edge in found.edges.tolist()]
    if options.task == "count":
        return [
            f"{radius} {count}"
            for radius, count in zip(edges[1:], found.counts.cumsum().tolist(), strict=True)
        ]
    return [
        f"{low} {high} {count}"
        for low, high, count in zip(edges[:-1], edges[1:], found.counts.tolist(), strict=True)
    ]


def _report(options: argparse.Namespace, found: Histogram, seconds: float) -> None:
    """Print what was found; not among counts on stdout."""
    status = "counted" if found.share == 1.0 else "interrupted"
    if options.json:
        print_json(_facts(options, found) | {"seconds": seconds, "status": status})
        return
    if options.output == "-":
        return
    if options.output is None:
        print("\n".join(_lines(options, found)))
    share = "" if found.share == 1.0 else f", {found.share:.2%} of the work done"
    where = f"in {len(found.counts)} bins" if options.task == "hist" else f"within {found.edges[-1]:g}"
    print(
        f"{status}: {int(found.counts.sum())} of {found.pairs} pairs {where}{share}; "
        f"{found.rechecked:.2%} of {found.candidates:.4g} candidates decided in float64, "
        f"{_plan_text(found)}, {seconds:.3f} s",
        file=sys.stderr if options.output is None else sys.stdout,
    )


def _plan_text(found: Histogram) -> str:
    return "" if found.plan is None else f"{found.plan.kernel} on {found.plan.device}"


def _facts(options: argparse.Namespace, found: Histogram) -> dict[str, Any]:
    from dataclasses import asdict

    from bmrm.base.units import finite_or_none

    counts = found.counts.cumsum() if options.task == "count" else found.counts
    edges = [finite_or_none(edge) for edge in found.edges.tolist()]
    where = {"radius": edges[1:]} if options.task == "count" else {"edges": edges, "closed": found.closed}
    return where | {
        "counts": counts.tolist(),
        "pairs": found.pairs,
        "share": found.share,
        "rechecked": found.rechecked,
        "plan": None if found.plan is None else asdict(found.plan),
    }


if __name__ == "__main__":
    sys.exit(main())
