"""Write the samples of docs/command-line.md: what the commands print for the data below.

python scripts/command_samples.py

Times are those of the machine where it ran. The tests compare everything else.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import tempfile
from pathlib import Path

import numpy as np

from bmrm.cli import info, predict, train

PAGE = Path(__file__).parents[1] / "docs" / "command-line.md"
BLOCK = re.compile(r"(<!-- sample -->\n\n)(.*?)(\n<!-- end -->\n)", re.DOTALL)
ROWS, FEATURES, SEED = 2000, 50, 0


def write_data(path: Path, labels: tuple[str, str]) -> None:
    """Write two classes that overlap, with sparse features."""
    rng = np.random.default_rng(SEED)
    X = (rng.random((ROWS, FEATURES)) < 0.2) * rng.integers(1, 4, (ROWS, FEATURES))
    score = X @ rng.standard_normal(FEATURES)
    y = (score + 2.0 * rng.standard_normal(ROWS) > np.median(score)).astype(int)
    with path.open("w") as file:
        for label, row in zip(y, X, strict=True):
            pairs = " ".join(f"{j + 1}:{row[j]}" for j in np.flatnonzero(row))
            file.write(f"{labels[label]} {pairs}\n")


def head(words: list[str]) -> int:
    """Print the first lines of a file, as ``head -n LINES FILE``."""
    _, count, path = words
    print("".join(Path(path).read_text().splitlines(keepends=True)[: int(count)]), end="")
    return 0


COMMANDS = {"bmrm-train": train.main, "bmrm-predict": predict.main, "bmrm-info": info.main, "head": head}


def run(line: str) -> str:
    """Run a command line and return what it prints, on both streams."""
    command, *words = shlex.split(line)
    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
        code = COMMANDS[command](words)
    if code:
        raise SystemExit(f"{line}: exit code {code}\n{out.getvalue()}")
    return out.getvalue()


def page(text: str) -> str:
    """Return the page with new samples."""

    def sample(match: re.Match[str]) -> str:
        lines = [line.strip() for line in match[2].splitlines() if line.startswith("    $ ")]
        shown = "".join(f"{line}\n{run(line.removeprefix('$ '))}" for line in lines)
        return match[1] + "".join(f"    {line}\n" for line in shown.splitlines()) + match[3]

    before = os.getcwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            write_data(Path("train.svm"), ("-1", "+1"))
            write_data(Path("mail.svm"), ("ham", "spam"))
            return BLOCK.sub(sample, text)
        finally:
            os.chdir(before)


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text()))
    print(f"written to {PAGE}")
