"""Running the commands in this process."""

from pathlib import Path
from typing import NamedTuple

import pytest
from commands import two_classes, write_svmlight

from bmrm.cli import info, predict, train


class Outcome(NamedTuple):
    code: int
    out: str
    err: str


@pytest.fixture
def folder(tmp_path, monkeypatch) -> Path:
    """Change to an empty folder."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def caller(main, capfd):
    """Return a function that runs a command with the words of its command line."""

    def call(*words) -> Outcome:
        code = main([str(word) for word in words])
        return Outcome(code, *capfd.readouterr())

    return call


@pytest.fixture
def bmrm_train(capfd):
    """Run ``bmrm-train`` with the words of its command line."""
    return caller(train.main, capfd)


@pytest.fixture
def bmrm_predict(capfd):
    """Run ``bmrm-predict`` with the words of its command line."""
    return caller(predict.main, capfd)


@pytest.fixture
def bmrm_info(capfd):
    """Run ``bmrm-info`` with the words of its command line."""
    return caller(info.main, capfd)


@pytest.fixture
def data(folder) -> Path:
    """Write a small binary data set, ``train.txt`` in the current folder."""
    return write_svmlight(folder / "train.txt", *two_classes())
