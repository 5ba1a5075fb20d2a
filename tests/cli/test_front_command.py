"""``bmrm``: it lists the commands, and writes samples whole or not at all."""

import errno
import os
import tempfile

import numpy as np
import pytest
from commands import start_python
from conftest import caller

from bmrm.cli import commands, front, samples


@pytest.fixture
def bmrm_front(capfd):
    """Run ``bmrm`` with the words of its command line."""
    return caller(front.main, capfd)


def files_of(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_it_lists_the_other_commands_one_line_each(bmrm_front):
    code, out, err = bmrm_front()
    assert (code, err) == (0, "")
    assert bmrm_front("--help").out == out
    lines = out.splitlines()
    assert max(map(len, lines)) <= 100
    for command in commands.every():
        if command.program != "bmrm":
            assert [line for line in lines if line.split()[:1] == [command.program]] != []
            assert any(line.endswith(command.about) for line in lines)
    assert "exit codes:" in bmrm_front("--help-all").out


def test_samples_are_equal_each_time_and_small(folder, bmrm_front):
    code, out, err = bmrm_front("samples", "one")
    assert (code, err) == (0, "")
    assert out == f"one: {', '.join(samples.NAMES)}\n"
    (folder / "two").mkdir()
    assert bmrm_front("samples", "two").code == 0
    found = files_of(folder / "one")
    assert set(found) == set(samples.NAMES)
    assert found == files_of(folder / "two")
    assert sum(map(len, found.values())) < 400_000
    mode = (folder / "one" / "rows.npy").stat().st_mode
    assert mode & 0o777 == (folder / "one" / "edges.txt").stat().st_mode & 0o777 != 0o600


def test_no_file_is_replaced(folder, bmrm_front):
    (folder / "edges.txt").write_text("mine")
    code, out, err = bmrm_front("samples", ".")
    assert (code, out) == (2, "")
    assert err == "bmrm: .: found edges.txt there, expected none of the files\n"
    assert files_of(folder) == {"edges.txt": b"mine"}


@pytest.mark.parametrize(
    ("place", "fault"), [("mkdtemp", errno.EROFS), ("mkdtemp", errno.EACCES), ("save", errno.ENOSPC)]
)
@pytest.mark.parametrize("name", [".", "new"])
def test_a_folder_that_cannot_be_written_stays_as_it_is(place, fault, name, folder, bmrm_front, monkeypatch):
    def fail(*words, **keywords):
        raise OSError(fault, os.strerror(fault), "elsewhere")

    monkeypatch.setattr(tempfile if place == "mkdtemp" else np, place, fail)
    code, out, err = bmrm_front("samples", name)
    assert (code, out) == (1, "")
    assert err == f"bmrm: {name}: {os.strerror(fault)}\n"
    assert files_of(folder) == {}


def test_a_disk_that_is_full_leaves_nothing(folder):
    """A limit on the size of files ends the second kind of file, after others are whole."""
    code = "import sys, resource; resource.setrlimit(resource.RLIMIT_FSIZE, (30_000, 30_000)); "
    code += "from bmrm.cli.front import main; sys.exit(main())"
    process = start_python(code, "samples", "new", cwd=folder)
    out, err = process.communicate()
    assert (process.returncode, out, err) == (1, "", "bmrm: new: File too large\n")
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["train", "x"], "bmrm: argument samples: found train; did you mean bmrm-train?"),
        (["pagerank", "x"], "bmrm: argument samples: found pagerank; did you mean bmrm-graph pagerank?"),
        (["sample", "x"], "bmrm: argument samples: found sample, expected samples"),
        (["samples"], "bmrm: the following arguments are required: DIR"),
        (["samples", "a", "b"], "bmrm: b: found one file too many, expected bmrm samples DIR"),
    ],
)
def test_wrong_words_are_one_line(words, message, folder, bmrm_front):
    code, out, err = bmrm_front(*words)
    assert (code, out, err) == (2, "", f"{message} (see bmrm --help)\n")
    assert list(folder.iterdir()) == []
