"""Standard streams that are closed, or that accept only ASCII."""

import os

import pytest
from commands import start, start_python

PREDICTIONS = "-1\n1\n" * 30


@pytest.fixture
def separable(folder):
    """Return rows whose labels a model predicts correctly."""
    path = folder / "data"
    path.write_text("-1 1:-1\n1 1:1\n" * 30)
    return path


def ended(process):
    out, err = process.communicate(timeout=60)
    return process.returncode, out, err


CLOSING = """
import os, sys
for number in sys.argv[1]:
    os.close(int(number))
main = f"import sys; from bmrm.cli.{sys.argv[2]} import main; sys.exit(main())"
os.execv(sys.executable, [sys.executable, "-c", main, *sys.argv[3:]])
"""


@pytest.mark.parametrize("closed", ["0", "1", "2", "012"])
def test_closed_streams(closed, separable, folder):
    code, out, err = ended(start_python(CLOSING, closed, "train", separable, "model", cwd=folder))
    assert (code, err, out == "") == (0, "", "1" in closed)
    words = [closed, "predict", separable, "model"]
    code, out, err = ended(start_python(CLOSING, *words, "out", cwd=folder))
    assert (code, err, out == "") == (0, "", "1" in closed)
    assert (folder / "out").read_text() == PREDICTIONS
    code, out, err = ended(start_python(CLOSING, *words, "-", cwd=folder))
    assert (code, out) == (0, "" if "1" in closed else PREDICTIONS)
    assert (err == "") == ("2" in closed)


def test_closed_stdin_is_empty(folder):
    code, out, err = ended(start_python(CLOSING, "0", "train", "-", "model", cwd=folder))
    assert (code, out) == (3, "")
    assert err.startswith("bmrm-train: <stdin>: found an empty file")


@pytest.mark.parametrize("words", [["--help-all"], ["\N{LATIN SMALL LETTER E WITH ACUTE}"]])
def test_stdout_that_takes_ascii_only(words, separable, folder, monkeypatch):
    monkeypatch.setenv("PYTHONIOENCODING", "ascii")
    os.rename(separable, folder / "\N{LATIN SMALL LETTER E WITH ACUTE}")
    code, out, err = ended(start("train", *words, cwd=folder))
    assert (code, err) == (0, "")
    assert ("\\u2026" if words == ["--help-all"] else "\\xe9.model") in out
