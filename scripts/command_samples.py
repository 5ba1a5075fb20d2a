"""Write the samples of docs/command-line.md: what the commands print for the files of `bmrm samples`.

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

from bmrm.cli import info, predict, train
from bmrm.cli.samples import write_samples

PAGE = Path(__file__).parents[1] / "docs" / "command-line.md"
BLOCK = re.compile(r"(<!-- sample -->\n\n)(.*?)(\n<!-- end -->\n)", re.DOTALL)


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
            write_samples(".")
            return BLOCK.sub(sample, text)
        finally:
            os.chdir(before)


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text()))
    print(f"written to {PAGE}")
