"""Helpers of the command tests: small data files, and commands in separate processes."""

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import numpy as np

import bmrm


def start(command: str, *words: object, **keywords) -> subprocess.Popen[str]:
    """Start a command in a separate process, with the package under test."""
    code = f"import sys; from bmrm.cli.{command} import main; sys.exit(main())"
    return start_python(code, *words, **keywords)


def start_python(
    code: str, *words: object, environ: Mapping[str, str] | None = None, **keywords
) -> subprocess.Popen[str]:
    """Start Python with a line of code, and the package under test."""
    keywords = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, **keywords}
    return subprocess.Popen(
        [sys.executable, "-c", code, *map(str, words)],
        env={**os.environ, "PYTHONPATH": str(Path(bmrm.__file__).parents[1]), **(environ or {})},
        **keywords,
    )


def run_python(code: str) -> subprocess.CompletedProcess[str]:
    """Run a line of code to its end."""
    process = start_python(code)
    out, err = process.communicate()
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)


def write_svmlight(path: Path, X: np.ndarray, y: np.ndarray) -> Path:
    """Write dense rows as 1-based SVMlight text without zeros."""
    with path.open("w") as file:
        for row, label in zip(X, y, strict=True):
            values = " ".join(f"{j + 1}:{value!r}" for j, value in enumerate(row.tolist()) if value)
            file.write(f"{label:.17g} {values}\n")
    return path


def two_classes(rows: int = 60, features: int = 5, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Draw rows of two overlapping classes, labels -1 and +1."""
    rng = np.random.default_rng(seed)
    y = np.where(np.arange(rows) % 2, 1.0, -1.0)
    X = np.round(rng.standard_normal((rows, features)) + 0.7 * y[:, None], 3)
    return X, y
