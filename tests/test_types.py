"""The Python blocks of the documentation pass strict type checkers, as users' programs should."""

import json
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import compiled
import pytest

ROOT = Path(__file__).parents[1]
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LANGUAGE_OF_ITS_OWN = ("pairs-functions.md", "reductions.md")
"""Pages whose annotations are sizes of arrays, not types."""

PAGES = [
    page
    for page in (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))
    if BLOCK.search(page.read_text()) and page.name not in LANGUAGE_OF_ITS_OWN
]
WRONG = """import bmrm
import numpy as np
from typing_extensions import assert_type
from bmrm import Result

X = np.eye(3)
A, y = bmrm.load_svmlight("a")
A, y, qid = bmrm.load_svmlight("a", query_id=True)
assert_type(bmrm.select(X, y).result, Result)
assert_type(bmrm.select(X, y, refit=False).result, Result | None)
A, y, qid = bmrm.load_svmlight("a")  # line 11
bmrm.solve(X, y, reg="l3")  # line 12
bmrm.solve(X, y, solver="newton")  # line 13
bmrm.solve(X, y, tol_kind="relative")  # line 14
bmrm.solve(X, y, device="cuda:1")
bmrm.select(X, y, refit=False).result.lam  # line 16
"""
"""A program with an error in each of the lines `WRONG_LINES`."""

WRONG_LINES = {11, 12, 13, 14, 16}

# The readers' own functions need no annotations, and other packages may have no types.
OPTIONS = ("--strict", "--allow-untyped-defs", "--allow-untyped-calls", "--ignore-missing-imports")


def program(page: Path) -> str:
    """Return the blocks of a page at their lines, so that a message names the line of the page."""
    text = page.read_text()
    lines = [""] * (text.count("\n") + 1)
    for block in BLOCK.finditer(text):
        first = text.count("\n", 0, block.start(1))
        for number, line in enumerate(block[1].splitlines(), first):
            lines[number] = line
    return "\n".join(lines)


def write_programs(folder: Path) -> None:
    """Write a program for each page, and one that is wrong."""
    assert len(PAGES) > 5
    for page in PAGES:
        (folder / f"{page.stem.replace('-', '_').lower()}_page.py").write_text(program(page))
    (folder / "wrong_page.py").write_text(WRONG)


def assert_only_wrong(found: list[tuple[str, int, str]]) -> None:
    """Assert that errors, with their files and lines, are those of the wrong program."""
    assert [error for error in found if "wrong_page" not in error[0]] == []
    assert {line for _, line, _ in found} == WRONG_LINES


def test_blocks_pass_mypy(tmp_path, monkeypatch):
    # mypy allows so deep recursion that deep text crashes the process in later tests.
    monkeypatch.setattr(sys, "setrecursionlimit", lambda limit: None)
    api = pytest.importorskip("mypy.api")
    write_programs(tmp_path)
    config = tmp_path / "empty.ini"
    config.write_text("[mypy]\n")
    words = [*OPTIONS, "--config-file", str(config), "--cache-dir", str(compiled.folder() / "mypy")]
    report = api.run([*words, *map(str, sorted(tmp_path.glob("*.py")))])[0]
    errors = re.findall(r"^(.*):(\d+): error: (.*)$", report, re.MULTILINE)
    assert_only_wrong([(file, int(line), text) for file, line, text in errors])


@pytest.mark.skipif(find_spec("pyright") is None, reason="pyright is not installed")
def test_blocks_pass_pyright(tmp_path):
    write_programs(tmp_path)
    command = [sys.executable, "-m", "pyright", "--outputjson", "--pythonpath", sys.executable, "."]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    found = json.loads(done.stdout)["generalDiagnostics"]
    errors = [(each["file"], each["range"]["start"]["line"] + 1, each["message"]) for each in found]
    assert_only_wrong(errors)
