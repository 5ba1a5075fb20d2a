"""The blocks of README and the pages of docs, which run in order, as for a reader who types them.

Blocks of a page share a folder and a namespace. Commands begin with ``$`` and may go on after a backslash;
``cd`` changes the folder. The files that they name are those of ``bmrm samples``, which a page calls itself.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("**/*.md"))]
BLOCK = re.compile(r"^```(python|console)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def run_page(page: Path, call: Callable[[list[str]], int], *, python: bool = True) -> int:
    """Run the blocks of a page, or its commands alone, in the current folder; return the number of commands.

    ``call`` runs a command by its words, and returns the exit code.
    """
    namespace: dict[str, object] = {"__name__": "__main__"}
    text, commands = page.read_text(encoding="utf-8"), 0
    for block in BLOCK.finditer(text):
        if block[1] == "console":
            for line in re.sub(r"\\\n *", "", block[2]).splitlines():
                run_line(line, call)
                commands += 1
        elif python:
            # Empty lines before the block, so that a traceback gives the line of the page.
            padding = "\n" * text.count("\n", 0, block.start(2))
            exec(compile(padding + block[2], page, "exec"), namespace)
    return commands


def run_line(line: str, call: Callable[[list[str]], int]) -> None:
    """Run a line of a console block."""
    words = shlex.split(line.removeprefix("$ "))
    if words[0] == "cd":
        os.chdir(words[1])
    elif code := call(words):
        raise AssertionError(f"{line}: exit code {code}")
