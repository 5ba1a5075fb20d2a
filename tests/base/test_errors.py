"""Messages are one line of printable characters, whatever they quote."""

import pickle

import numpy as np
import pytest

import bmrm
from bmrm import errors
from bmrm.cli import predict, train
from bmrm.io import read_data
from bmrm.linear.models.checkpoint import Checkpoint
from bmrm.linear.models.model import Model

NAMES = [
    "no\x1b[31msuch",
    "two\nlines",
    "a\rb",
    "bell\x07",
    "right\u202eleft",
    "byte\udcff",
    "\x9b31m",
    "lone\ud800",
]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    "kind", [errors.BmrmError, errors.DataError, errors.ParameterError, errors.HostMemoryError]
)
def test_errors_are_printable(name, kind):
    error = kind(f"{name}: wrong")
    assert str(error).isprintable()
    assert str(error).endswith(": wrong")
    assert str(pickle.loads(pickle.dumps(error))) == str(error)


def test_printable_text_stays():
    assert str(errors.DataError("naïve 数 \\x1b")) == "naïve 数 \\x1b"


@pytest.mark.parametrize("name", NAMES[:-1])  # which is no file's name
def test_names_of_files_are_printable(tmp_path, monkeypatch, capsys, name):
    monkeypatch.chdir(tmp_path)
    with open(name, "w") as file:
        file.write("1 \x1b[31m:2\n")
    for read in (read_data, Model.load, Checkpoint.load, lambda path: list(bmrm.io.iter_svmlight(path))):
        with pytest.raises(errors.DataError) as found:
            read(name)
        assert str(found.value).isprintable()
    for main, words in (
        (train.main, [name, "m"]),
        (train.main, ["--resume", name, name, "m"]),
        (predict.main, [name, name, "o"]),
        (train.main, [f"{name}x", "m"]),
        (train.main, [f"--{name}", "m"]),
        (train.main, [name, f"{name}/x/m"]),
    ):
        assert main(words) > 0
        message = capsys.readouterr().err
        assert message.endswith("\n")
        assert message[:-1].isprintable(), message


def test_names_in_models_are_printable(tmp_path, capsys):
    """A model is untrusted, and so is the name of its loss."""
    path, data = tmp_path / "model", tmp_path / "data"
    Model(np.ones(2), 0.0, "\x1b[31mloss", "binary", (-1.0, 1.0), lam=1.0).save(path)
    data.write_text("1 1:1\n")
    assert predict.main(["--probability", str(data), str(path), str(tmp_path / "out")]) == 2
    message = capsys.readouterr().err
    assert "\\x1b[31mloss" in message
    assert message[:-1].isprintable()
