"""The Python blocks of the documentation pass a strict type checker, as users' programs should."""

import re
from pathlib import Path

import pytest

api = pytest.importorskip("mypy.api")

ROOT = Path(__file__).parents[1]
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LANGUAGE_OF_ITS_OWN = ("reductions.md",)
"""Pages whose annotations are sizes of arrays, not types."""

PAGES = [
    page
    for page in (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))
    if BLOCK.search(page.read_text()) and page.name not in LANGUAGE_OF_ITS_OWN
]
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


def check(folder: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return what mypy says of the files of a folder that use the installed package.

    A checkout on MYPYPATH would be checked itself, without the settings of this project.
    """
    monkeypatch.delenv("MYPYPATH", raising=False)
    config = folder / "empty.ini"
    config.write_text("[mypy]\n")
    words = [*OPTIONS, "--config-file", str(config), "--cache-dir", str(folder / "cache")]
    return api.run([*words, *map(str, sorted(folder.glob("*.py")))])[0]


def test_blocks_pass_mypy(tmp_path, monkeypatch):
    assert len(PAGES) > 5
    for page in PAGES:
        (tmp_path / f"{page.stem.replace('-', '_').lower()}_page.py").write_text(program(page))
    (tmp_path / "wrong_page.py").write_text(
        """import bmrm
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
    )
    found = [line for line in check(tmp_path, monkeypatch).splitlines() if ": error:" in line]
    wrong = {int(line.split(":")[1]) for line in found if "wrong_page" in line}
    assert wrong == {11, 12, 13, 14, 16}
    assert [line for line in found if "wrong_page" not in line] == []
