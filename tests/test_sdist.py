"""The source distribution holds every tracked file, and is the same whenever it is made."""

import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

pytest.importorskip("setuptools")

ROOT = Path(__file__).parents[1]
MAX_BYTES = 4_000_000  # sources, documentation and results of measurements; a data set or a build would show
# What a build adds to the files of a checkout.
GENERATED = {"PKG-INFO", "setup.cfg"}


def sources() -> set[str]:
    """The tracked files of a checkout, or those that an unpacked source distribution lists."""
    if (ROOT / ".git").exists():
        words = ["git", "-C", str(ROOT), "ls-files", "-z"]
        done = subprocess.run(words, capture_output=True, text=True, check=True)
        return {name for name in done.stdout.split("\0") if name and (ROOT / name).exists()}
    listed = (ROOT / "bmrm.egg-info" / "SOURCES.txt").read_text().splitlines()
    return {name for name in listed if not name.startswith("bmrm.egg-info/")} - GENERATED


def make(folder: Path, names: set[str], time: int, umask: int) -> Path:
    """Copy the sources to a folder with other times, and make the source distribution there."""
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, folder / name)
        os.utime(folder / name, (time, time))
    environ = {name: value for name, value in os.environ.items() if name != "SOURCE_DATE_EPOCH"}
    words = [sys.executable, "setup.py", "-q", "sdist"]
    environ["BMRM_CUDA"] = "off"
    subprocess.run(words, cwd=folder, env=environ, check=True, capture_output=True, umask=umask)
    (made,) = (folder / "dist").iterdir()
    return made


def test_it_is_complete_small_and_reproducible(tmp_path):
    names = sources()
    first = make(tmp_path / "first", names, 1_500_000_000, 0o022)
    second = make(tmp_path / "second", names, 1_600_000_000, 0o077)
    assert first.read_bytes() == second.read_bytes()
    assert first.stat().st_size < MAX_BYTES
    with tarfile.open(first) as archive:
        inside = {entry.name.partition("/")[2] for entry in archive if entry.isfile()}
    inside = {name for name in inside if not name.startswith("bmrm.egg-info/")}
    assert inside - GENERATED == names
