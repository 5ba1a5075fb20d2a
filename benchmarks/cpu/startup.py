"""Time of the commands from start to end on little work.

    python -m benchmarks.cpu.startup A9A [--out FILE]

A9A is the LIBSVM site's data set as plain SVMlight text or .gz. The figures are medians of many starts.
"""

from __future__ import annotations

import argparse
import gzip
import shutil
import statistics
import tempfile
from pathlib import Path

from benchmarks.common import report
from benchmarks.peers.against_liblinear import TRAIN, seconds

SECTIONS = """
## Start-up

[rows]
command = {what} | seconds = {seconds:.3f}
"""


def median_seconds(command: list[str], repeats: int) -> float:
    """Return the median wall time of a command that must succeed."""
    return statistics.median(seconds(command) for _ in range(repeats))


def main() -> None:
    """Print the table and write the results file."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("a9a", type=Path)
    parser.add_argument("--repeats", type=int, default=11)
    parser.add_argument("--out", default=report.RESULTS / "startup.json")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        text, model = Path(folder) / "a9a", str(Path(folder) / "a9a.model")
        opener = gzip.open if options.a9a.suffix == ".gz" else open
        with opener(options.a9a, "rb") as packed, open(text, "wb") as plain:
            shutil.copyfileobj(packed, plain)
        train = [TRAIN, "--lambda", "1e-5", "--tol", "1e-4", "--tol-kind", "abs", str(text), model]
        commands = {
            "bmrm-train --version": [TRAIN, "--version"],
            "a9a, hinge, lam 1e-5, absolute gap 1e-4": train,
            "the same, logistic": [*train[:1], "--loss", "logistic", *train[1:]],
        }
        rows = [{"what": what, "seconds": median_seconds(c, options.repeats)} for what, c in commands.items()]
    for row in rows:
        print(f"{row['what']:44} {row['seconds']:.3f} s")
    report.write(options.out, SECTIONS, rows=rows)


if __name__ == "__main__":
    main()
