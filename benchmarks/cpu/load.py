"""Loading a text-like SVMlight file of 230 MB: the reader, its cache, its memory, and other loaders.

    python -m benchmarks.cpu.load [--text FILE] [--out FILE] [--repeats 5]

All loaders read one file whose pages are in memory (textdata.py writes it unless --text names it). They take
turns, so that each round has the same conditions. The figures are medians over the rounds, and ratios within
a round.

reader        `bmrm.io.read_data` in float32, on one thread and on two
control       two processes at once, each loading the file on one thread: what two cores of this machine give
              to independent loaders
cache         the same with cache=True, including every check of the cache
scikit-learn  `load_svmlight_file` against `bmrm.load_svmlight`; their matrices are checked to be equal
liblinear     Debian's `liblinear-train -e 0`, which reads its data and then refuses the tolerance: loader
              and start of the process; and once the Python loader of liblinear-official, if it is installed
memory        peak of the anonymous pages of a process that loads, less what it had before, by sampling; this
              includes the buffers for pieces of the text
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import select
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from benchmarks.common import report
from benchmarks.common.textdata import make_text
from bmrm.io import load_svmlight, read_data
from bmrm.io.cache import SUFFIX

TARGETS = {
    "one_thread_mb_per_s": 300,
    "two_threads_over_one": 1.8,
    "over_scikit_learn": 8,
    "over_liblinear": 3,
    "cache_over_text": 10,
}
PEAK_TARGET = 1.4
NAMES = {
    "one_thread_mb_per_s": "MB/s of one thread",
    "two_threads_over_one": "two threads over one",
    "over_scikit_learn": "`load_svmlight`, scikit-learn / bmrm",
    "over_liblinear": "LIBLINEAR's reader in C / bmrm",
    "cache_over_text": "text / cache",
}
SLOW = ("scikit-learn", "liblinear, C")
CONTROL = "control, two processes"
LOAD_REPEATEDLY = """
import sys, time
from bmrm.io import read_data
read_data(sys.argv[1], threads=1)
print("ready", flush=True)
for line in sys.stdin:
    start = time.perf_counter()
    data = read_data(sys.argv[1], threads=1)
    print(time.perf_counter() - start, flush=True)
"""
LOAD_AND_WAIT = """
import sys
import numpy as np
import bmrm.io.svmlight
if sys.argv[2] == "scipy": import scipy.sparse
print("ready", flush=True); sys.stdin.readline()
if sys.argv[2] == "scipy":
    X, y = bmrm.io.load_svmlight(sys.argv[1])
    parts = [X.indptr, X.indices, X.data, y]
else:
    data = bmrm.io.read_data(sys.argv[1], dtype=sys.argv[2])
    parts = [*data.X[:3], data.y]
print(sum(part.nbytes for part in parts), flush=True); sys.stdin.readline()
"""


SECTIONS = """
## Loading
headline: loading SVMlight text, two threads | scikit-learn | . | figures[over_scikit_learn] | {machine[cpu]}

A text of {text_bytes:.0f MB} MB; medians over rounds in which all loaders alternate.

[rows]
loader = {loader} | seconds = {seconds:.3f} | MB/s = {text_bytes/seconds:.0f MB}

[aims]

Two independent processes are {figures[control_two_processes_over_one]:.2f} times as fast as one. Peak
memory over the result: float32 {memory[float32][peak_over_result]:.2f}, float64
{memory[float64][peak_over_result]:.2f}, scipy {memory[scipy][peak_over_result]:.2f}.
"""


def timed(run: Callable[[], object]) -> float:
    """Return the seconds of one call, not counting the release of its result."""
    start = time.perf_counter()
    result = run()
    seconds = time.perf_counter() - start
    del result
    return seconds


def liblinear_load(path: Path) -> None:
    """Make LIBLINEAR's C program read the file and stop."""
    run = subprocess.run(
        ["liblinear-train", "-s", "0", "-e", "0", path, "/dev/null"], capture_output=True, text=True
    )
    if "eps <= 0" not in run.stderr:
        raise SystemExit(f"liblinear-train: found {run.stderr!r}, expected it to refuse the tolerance")


def rounds(path: Path, repeats: int) -> dict[str, list[float]]:
    """Return the seconds of every loader, in turns."""
    from sklearn.datasets import load_svmlight_file

    runs: dict[str, Callable[[], object]] = {
        "reader, one thread": lambda: read_data(path, threads=1),
        "reader, two threads": lambda: read_data(path, threads=2),
        "cache, two threads": lambda: read_data(path, threads=2, cache=True),
        "load_svmlight, one thread": lambda: load_svmlight(path, threads=1),
        "load_svmlight, two threads": lambda: load_svmlight(path, threads=2),
        "scikit-learn": lambda: load_svmlight_file(str(path)),
    }
    if shutil.which("liblinear-train"):
        runs["liblinear, C"] = lambda: liblinear_load(path)
    read_data(path, threads=2, cache=True)
    if not read_data(path, threads=2, cache=True).from_cache:
        raise SystemExit("the cache is not used")
    times: dict[str, list[float]] = {name: [] for name in [*runs, CONTROL]}
    pair = Pair(path)
    for _ in range(repeats):
        for name, run in runs.items():
            # The cheap ones are as short as a hiccup of the machine: the best of three counts.
            times[name].append(min(timed(run) for _ in range(1 if name in SLOW else 3)))
        times[CONTROL].append(min(pair.load() for _ in range(3)))
    pair.close()
    if importlib.util.find_spec("liblinear"):
        from liblinear.commonutil import svm_read_problem

        times["liblinear, Python"] = [timed(lambda: svm_read_problem(str(path), return_scipy=True))]
    return times


def check_equal(path: Path) -> None:
    """Fail unless scikit-learn reads the same matrix."""
    from sklearn.datasets import load_svmlight_file

    (X, y), (X2, y2) = load_svmlight(path), load_svmlight_file(str(path))
    same = all((getattr(X, name) == getattr(X2, name)).all() for name in ("indptr", "indices", "data"))
    if not (same and (y == y2).all()):
        raise SystemExit("the loaders disagree")


def peak_over_result(path: Path, kind: str) -> dict[str, float]:
    """Return the peak anonymous memory of loading, as a multiple of the resulting arrays."""
    child = subprocess.Popen(
        [sys.executable, "-c", LOAD_AND_WAIT, path, kind],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with child:
        child.stdout.readline()
        status = Path(f"/proc/{child.pid}/status")
        before = peak = anonymous_bytes(status)
        child.stdin.write("\n")
        child.stdin.flush()
        while not select.select([child.stdout], [], [], 0)[0]:
            peak = max(peak, anonymous_bytes(status))
            time.sleep(0.001)
        peak = max(peak, anonymous_bytes(status))
        result = int(child.stdout.readline())
        child.communicate("\n")
    return {"result_bytes": result, "peak_bytes": peak - before, "peak_over_result": (peak - before) / result}


class Pair:
    """Two processes that load at the same time, on one thread each."""

    def __init__(self, path: Path):
        command = [sys.executable, "-c", LOAD_REPEATEDLY, path]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        self.children = [subprocess.Popen(command, **pipes) for _ in range(2)]
        for child in self.children:
            child.stdout.readline()

    def load(self) -> float:
        """Return the seconds of the slower one."""
        for child in self.children:
            child.stdin.write("\n")
            child.stdin.flush()
        return max(float(child.stdout.readline()) for child in self.children)

    def close(self) -> None:
        for child in self.children:
            child.communicate()


def anonymous_bytes(status: Path) -> int:
    """Return the resident anonymous memory of a process."""
    line = next(line for line in status.read_text().splitlines() if line.startswith("RssAnon"))
    return int(line.split()[1]) * 1024


def figures(times: dict[str, list[float]], size: int) -> dict[str, float]:
    """Return the figures for the reader; a ratio is the median of the rounds' ratios."""

    def ratio(slow: str, fast: str) -> float:
        return statistics.median(a / b for a, b in zip(times[slow], times[fast], strict=True))

    found = {
        "one_thread_mb_per_s": size / 1e6 / statistics.median(times["reader, one thread"]),
        "two_threads_over_one": ratio("reader, one thread", "reader, two threads"),
        "control_two_processes_over_one": 2 * ratio("reader, one thread", CONTROL),
        "over_scikit_learn": ratio("scikit-learn", "load_svmlight, two threads"),
        "over_scikit_learn_one_thread": ratio("scikit-learn", "load_svmlight, one thread"),
        "cache_over_text": ratio("reader, two threads", "cache, two threads"),
    }
    if "liblinear, C" in times:
        found["over_liblinear"] = ratio("liblinear, C", "load_svmlight, two threads")
        found["over_liblinear_one_thread"] = ratio("liblinear, C", "load_svmlight, one thread")
    return found


def aims(found: dict[str, float], memory: dict[str, dict[str, float]]) -> list[dict]:
    """Return the aims, and whether they are reached."""
    judged = [report.aim(NAMES[name], found[name], bound) for name, bound in TARGETS.items() if name in found]
    peak = max(numbers["peak_over_result"] for numbers in memory.values())
    return [*judged, report.aim("peak memory over the result, most", peak, PEAK_TARGET, below=True)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--text", type=Path, help="file that textdata.py wrote (default: a new one)")
    parser.add_argument("--out", type=Path, default=report.RESULTS / "load.json")
    parser.add_argument("--repeats", type=int, default=5)
    arguments = parser.parse_args()
    with contextlib.ExitStack() as stack:
        path = arguments.text
        if path is None:
            path = Path(stack.enter_context(tempfile.TemporaryDirectory()), "text.svm")
            make_text(path)
        stack.callback(Path(f"{path}{SUFFIX}").unlink, missing_ok=True)
        size = path.stat().st_size
        check_equal(path)
        memory = {kind: peak_over_result(path, kind) for kind in ("float32", "float64", "scipy")}
        times = rounds(path, arguments.repeats)
    found = figures(times, size)
    for name, seconds in times.items():
        middle = statistics.median(seconds)
        print(f"{name:28} {middle:8.4f} s  {size / 1e6 / middle:8.0f} MB/s")
    for name, value in found.items():
        target = f"  (at least {TARGETS[name]})" if name in TARGETS else ""
        print(f"{name:32} {value:8.2f}{target}")
    for kind, numbers in memory.items():
        print(f"peak over result, {kind:10} {numbers['peak_over_result']:8.3f}  (below {PEAK_TARGET})")
    report.write(
        arguments.out,
        SECTIONS,
        text_bytes=size,
        rows=[{"loader": name, "seconds": statistics.median(t), "all": t} for name, t in times.items()],
        figures=found,
        memory=memory,
        aims=aims(found, memory),
    )


if __name__ == "__main__":
    main()
