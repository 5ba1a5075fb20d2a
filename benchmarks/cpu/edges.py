"""Loading edge text: the reader, and other loaders of two columns.

    python -m benchmarks.cpu.edges [--scale 20] [--repeats 3] [--out FILE]

The graph is an R-MAT graph with 8 edges per node (parameters 0.57, 0.19, 0.19), written as integers, as
integers far apart, as names, and as integers with weights. Times are CPU seconds of one thread, medians over
rounds in which all loaders take turns; the pages of the files are in memory.

reader   `bmrm.io.edges.read_edges`: the parsed text with its nodes numbered
parser   the reader without the numbering of the nodes
numpy    `numpy.loadtxt`; it gives columns, not numbered nodes, as the following two do
pandas   `pandas.read_csv` with its C engine; and with `factorize`, which numbers the nodes
polars   `polars.read_csv`, if it is installed

A second figure is the speed of two threads over one, in wall time.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np

from benchmarks.common import report
from bmrm.io.edges import EdgeParser, read_edges
from bmrm.io.sources import open_source

os.environ["POLARS_MAX_THREADS"] = "1"
EDGES_PER_NODE = 8
TARGETS = {"parsed_mb_per_s": 300, "numbered_mb_per_s": 200}


SECTIONS = """
## Loading edges

{edges} edges; CPU seconds of one thread. Two threads against one, in wall time:
{figures[two_threads_over_one]:.2f} times. Only the reader and the loaders marked "numbered" return
numbered nodes; the others return columns.

[rows]
ids = {ids} | loader = {loader} | seconds = {seconds:.3f} | MB/s = {text_bytes/seconds:.0f MB}

[aims]
"""


def rmat(scale: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the ends of the edges of an R-MAT graph."""
    rng = np.random.default_rng(0)
    sources, targets = (np.zeros(EDGES_PER_NODE << scale, np.int64) for _ in range(2))
    for _ in range(scale):
        draw = rng.random(len(sources))
        sources = 2 * sources + (draw >= 0.76)
        targets = 2 * targets + (((draw >= 0.57) & (draw < 0.76)) | (draw >= 0.95))
    return sources, targets


def write_files(folder: Path, scale: int) -> dict[str, Path]:
    """Write the graph in all spellings."""
    sources, targets = rmat(scale)
    far = np.random.default_rng(1).integers(-(1 << 62), 1 << 62, 1 << scale)
    weights = np.random.default_rng(2).random(len(sources)).round(6)
    columns = {
        "integers": ("%d\t%d\n", sources, targets),
        "far integers": ("%d\t%d\n", far[sources], far[targets]),
        "names": ("node_%d\tnode_%d\n", sources, targets),
        "weights": ("%d\t%d\t%r\n", sources, targets, weights),
    }
    paths = {}
    for name, (line, *arrays) in columns.items():
        paths[name] = folder / name.replace(" ", "_")
        with open(paths[name], "w") as file:
            for first in range(0, len(sources), 1 << 18):
                parts = [array[first : first + (1 << 18)].tolist() for array in arrays]
                file.write("".join([line % row for row in zip(*parts, strict=True)]))
    return paths


def parse_only(path: Path) -> None:
    """Parse integers without numbering the nodes."""
    with open_source(path) as source:
        EdgeParser(source.name, "integer", 1, weights=False).parse_file(source)


def loaders(name: str, path: Path) -> dict[str, Callable[[], object]]:
    """Return the loaders of a file."""
    weighted = name == "weights"
    found: dict[str, Callable[[], object]] = {"reader": lambda: read_edges(path, threads=1, weights=weighted)}
    if name in ("integers", "far integers"):
        found["parser"] = lambda: parse_only(path)
    if name == "integers":
        found["numpy"] = lambda: np.loadtxt(path, np.int64)
    if importlib.util.find_spec("pandas"):
        import pandas

        def frame():
            return pandas.read_csv(path, sep="\t", header=None, engine="c")

        found["pandas"] = frame
        if not weighted:
            found["pandas, numbered"] = lambda: pandas.factorize(frame().to_numpy().ravel())
    if importlib.util.find_spec("polars"):
        import polars

        found["polars"] = lambda: polars.read_csv(path, separator="\t", has_header=False)
    return found


def seconds_of(run: Callable[[], object], clock: Callable[[], float]) -> float:
    """Return the seconds of one call by a clock, not counting the release of its result."""
    start = clock()
    result = run()
    seconds = clock() - start
    del result
    return seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--scale", type=int, default=20)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--out", type=Path, default=report.RESULTS / "edges.json")
    arguments = parser.parse_args()
    times: dict[str, dict[str, float]] = {}
    sizes: dict[str, int] = {}
    with tempfile.TemporaryDirectory() as folder:
        paths = write_files(Path(folder), arguments.scale)
        for name, path in paths.items():
            sizes[name] = path.stat().st_size
            runs = loaders(name, path)
            rounds = [
                {loader: seconds_of(run, time.process_time) for loader, run in runs.items()}
                for _ in range(arguments.repeats)
            ]
            times[name] = {loader: statistics.median(each[loader] for each in rounds) for loader in runs}
        path = paths["integers"]
        walls = [
            [seconds_of(partial(read_edges, path, threads=n), time.perf_counter) for n in (1, 2)]
            for _ in range(arguments.repeats)
        ]
    figures = {
        "parsed_mb_per_s": sizes["integers"] / 1e6 / times["integers"]["parser"],
        "numbered_mb_per_s": sizes["integers"] / 1e6 / times["integers"]["reader"],
        "two_threads_over_one": statistics.median(one / two for one, two in walls),
    }
    for name, found in times.items():
        for loader, seconds in found.items():
            print(f"{name:14} {loader:18} {seconds:8.3f} s  {sizes[name] / 1e6 / seconds:8.0f} MB/s")
    for name, value in figures.items():
        target = f"  (at least {TARGETS[name]})" if name in TARGETS else ""
        print(f"{name:24} {value:8.2f}{target}")
    report.write(
        arguments.out,
        SECTIONS,
        scale=arguments.scale,
        edges=EDGES_PER_NODE << arguments.scale,
        rows=[
            {"ids": name, "loader": loader, "seconds": seconds, "text_bytes": sizes[name]}
            for name, found in times.items()
            for loader, seconds in found.items()
        ],
        figures=figures,
        aims=[
            report.aim("MB/s parsed", figures["parsed_mb_per_s"], TARGETS["parsed_mb_per_s"]),
            report.aim(
                "MB/s with numbered nodes", figures["numbered_mb_per_s"], TARGETS["numbered_mb_per_s"]
            ),
        ],
    )


if __name__ == "__main__":
    main()
