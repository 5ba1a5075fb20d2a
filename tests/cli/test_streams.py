"""Standard streams that are closed, or that accept only ASCII."""

import os

import numpy as np
import pytest
from commands import start, start_python, two_classes, write_svmlight

from bmrm.linear.models.model import Model

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


LIMITED = """
import os, resource, sys
resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))
main = f"import sys; from bmrm.cli.{sys.argv[1]} import main; sys.exit(main())"
os.execv(sys.executable, [sys.executable, "-c", main, *sys.argv[2:]])
"""

CLOSING = """
import os, sys
for number in sys.argv[1]:
    os.close(int(number))
main = f"import sys; from bmrm.cli.{sys.argv[2]} import main; sys.exit(main())"
os.execv(sys.executable, [sys.executable, "-c", main, *sys.argv[3:]])
"""


CLOSED = "standard output: found it closed, expected it open\n"


@pytest.mark.parametrize("closed", ["0", "1", "2", "012"])
def test_closed_streams(closed, separable, folder):
    """What would go to a closed stdout is an error; what goes to files is written in any case."""

    def check(code, err, program):
        assert code == ("1" in closed)
        assert err == (f"{program}: {CLOSED}" if closed == "1" else "")

    code, out, err = ended(start_python(CLOSING, closed, "train", separable, "model", cwd=folder))
    check(code, err, "bmrm-train")
    assert (out == "") == ("1" in closed)
    code, _, err = ended(start_python(CLOSING, closed, "predict", separable, "model", "out", cwd=folder))
    check(code, err, "bmrm-predict")
    assert (folder / "out").read_text() == PREDICTIONS
    words = [closed, "predict", "-q", separable, "model", "-"]
    code, out, err = ended(start_python(CLOSING, *words, cwd=folder))
    check(code, err, "bmrm-predict")
    assert out == ("" if "1" in closed else PREDICTIONS)


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("cluster", ["-q", "-k", "2", "-o", "-", "data"]),
        ("graph", ["info", "--json", "edges"]),
        ("train", ["--version"]),
        ("info", ["--help"]),
    ],
)
def test_every_command_notices_a_closed_stdout(command, words, separable, folder):
    (folder / "edges").write_text("1 2\n2 3\n")
    code, _, err = ended(start_python(CLOSING, "1", command, *words, cwd=folder))
    assert (code, err) == (1, f"bmrm-{command}: {CLOSED}")


@pytest.fixture(scope="module")
def many(tmp_path_factory):
    """Return a folder with rows and a model of them."""
    folder = tmp_path_factory.mktemp("many")
    write_svmlight(folder / "data", *two_classes(rows=50_000, features=1))
    Model(np.ones(1), 0.25, "logistic", "binary", (-1.0, 1.0), lam=1e-3).save(folder / "model")
    return folder


@pytest.mark.parametrize(
    ("command", "words", "unbuffered"),
    [
        ("cluster", ["-q", "-k", "2", "-o", "-", "data"], "1"),
        ("predict", ["-q", "-b", "1", "data", "model", "-"], ""),
    ],
)
def test_no_output_is_lost_without_an_error(command, words, unbuffered, many):
    """A limit on the size of files stands for a full disk."""
    environ = {"PYTHONUNBUFFERED": unbuffered}
    with (many / "out").open("wb") as file:
        process = start_python(LIMITED, command, *words, cwd=many, environ=environ, stdout=file)
        _, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (1, f"bmrm-{command}: File too large\n")
    process = start(command, *words, cwd=many, environ=environ)  # the reader has what it wanted
    assert process.stdout.read(2)
    process.stdout.close()
    assert (process.wait(timeout=60), process.stderr.read()) == (1, "")
    process.stderr.close()


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
