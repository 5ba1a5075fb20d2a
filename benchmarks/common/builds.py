"""Processes that import one build of the package each, for benchmarks that compare builds in turns."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any


class Build:
    """A process that does one piece of work by one build as often as it is asked.

    Parameters
    ----------
    folder : Path
        That has the package.
    worker : Path
        A program that prints a line of JSON with the path of its ``package``, and one more for each line that
        it reads.
    argument : str
        Of the program.
    environ : mapping, optional
        Its environment, without PYTHONPATH; default: that of this process.
    """

    def __init__(
        self, folder: Path, worker: Path, argument: str, environ: Mapping[str, str] = os.environ
    ) -> None:
        self._process = subprocess.Popen(
            [sys.executable, str(worker), argument],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**environ, "PYTHONPATH": str(folder)},
            text=True,
        )
        self.about = self._answer()
        if Path(self.about["package"]).parent.resolve() != folder.resolve():
            raise SystemExit(f"{folder}: the package was imported from {self.about['package']}")

    def __enter__(self) -> Build:
        return self

    def __exit__(self, *error: object) -> None:
        self._process.__exit__(None, None, None)  # the process ends with its input

    def _answer(self) -> dict[str, Any]:
        line = self._process.stdout.readline()
        if not line:
            raise SystemExit(f"a build ended with status {self._process.wait()}")
        return json.loads(line)

    def ask(self, words: str = "") -> dict[str, Any]:
        """Send a line, and return the answer."""
        self._process.stdin.write(f"{words}\n")
        self._process.stdin.flush()
        return self._answer()
