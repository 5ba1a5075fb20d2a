"""Machine code on disk: found again, never trusted blindly, made once by many processes."""

import multiprocessing
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

import bmrm
from bmrm.formulas.cpu import native
from bmrm.formulas.run import object_cache

CODE = bytes(range(256)) * 20


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "bmrm" / f"code-{bmrm.__version__}"


def made(key="key", code=CODE):
    """Return what the cache gives, and whether it was made just now."""
    calls = []

    def make():
        calls.append(key)
        return code

    return object_cache.load_or_make(key, make), bool(calls)


def stored(folder):
    (found,) = folder.glob("*.o")
    return found


def test_code_is_made_once_per_key(folder):
    assert made() == (CODE, True)
    assert made() == (CODE, False)
    assert made("other key", b"other") == (b"other", True)
    assert made() == (CODE, False)
    assert folder.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize(
    "damage",
    [
        lambda content: b"",
        lambda content: content[:-1],
        lambda content: content + b"\0",
        lambda content: content[:20],
        lambda content: b"another" + content,
        *(
            lambda content, at=at: content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :]
            for at in (0, 13, 14, 45, 46, 3000, -1 + len(CODE))
        ),
    ],
)
def test_damaged_code_is_made_again(folder, damage):
    made()
    path = stored(folder)
    path.write_bytes(damage(path.read_bytes()))
    assert made() == (CODE, True)
    assert made() == (CODE, False)


def test_code_of_another_key_is_not_taken(folder):
    made("a", b"code of a")
    content = stored(folder).read_bytes()
    made("b", b"code of b")
    for path in folder.glob("*.o"):
        path.write_bytes(content)
    assert made("a", b"code of a") == (b"code of a", False)
    assert made("b", b"code of b") == (b"code of b", True)


def test_code_that_others_could_have_written_is_not_run(folder, monkeypatch, tmp_path):
    made()
    for mode in (0o755, 0o770, 0o701):
        folder.chmod(mode)
        assert made() == (CODE, True)
    folder.chmod(0o700)
    assert made() == (CODE, False)

    path = stored(folder)
    path.rename(tmp_path / "elsewhere")
    path.symlink_to(tmp_path / "elsewhere")
    assert made() == (CODE, True)
    path.unlink()
    os.mkfifo(path)
    assert made() == (CODE, True)
    path.unlink()

    made()
    other = os.geteuid() + 1
    monkeypatch.setattr(os, "geteuid", lambda: other)
    assert made() == (CODE, True)
    monkeypatch.undo()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    folder.rename(tmp_path / "folder")
    folder.symlink_to(tmp_path / "folder")
    assert made() == (CODE, True)


def test_without_a_folder_code_is_made_each_time(tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert made() == made() == (CODE, True)


def test_an_error_of_the_compiler_is_passed_on_and_keeps_nothing(folder):
    def fail():
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        object_cache.load_or_make("key", fail)
    assert made() == (CODE, True)


def age(folder):
    """Set the times of files to their ranks, so that the next use is later."""
    for at, path in enumerate(sorted(folder.glob("*.o"), key=lambda path: path.stat().st_mtime_ns)):
        os.utime(path, (at, at))


@pytest.mark.parametrize("limit", ["MAX_OBJECTS", "MAX_BYTES"])
def test_what_was_used_longest_ago_goes_if_there_is_too_much(folder, monkeypatch, limit):
    made("0")
    each = stored(folder).stat().st_size
    monkeypatch.setattr(object_cache, limit, 3 if limit == "MAX_OBJECTS" else 3 * each + 1)
    for number in (1, 2, 0, 3, 4):  # 0 is used again before 3 needs room
        age(folder)
        made(str(number))
    assert len(list(folder.glob("*.o"))) == 3
    assert [made(str(number))[1] for number in (0, 3, 4)] == [False] * 3
    assert made("1") == (CODE, True)


def _make_many(start, first):
    object_cache.MAX_OBJECTS = 4
    start.wait()
    for number in range(60):
        key = str((first + number) % 12)
        assert object_cache.load_or_make(key, lambda key=key: key.encode() * 1000) == key.encode() * 1000


def test_processes_that_remove_files_of_each_other_get_their_own_code(folder):
    context = multiprocessing.get_context("spawn")
    start = context.Barrier(3)
    processes = [context.Process(target=_make_many, args=(start, 5 * at)) for at in range(3)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(60)
        assert process.exitcode == 0
    assert len(list(folder.glob("*.o"))) == 4


def _make_slowly(start, calls):
    start.wait()

    def make():
        with open(calls, "a") as file:
            file.write("made\n")
        time.sleep(0.05)
        return CODE

    assert object_cache.load_or_make("key", make) == CODE


def test_processes_that_start_together_compile_once(tmp_path):
    context = multiprocessing.get_context("spawn")
    start = context.Barrier(3)
    processes = [context.Process(target=_make_slowly, args=(start, tmp_path / "calls")) for _ in range(3)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(60)
        assert process.exitcode == 0
    assert (tmp_path / "calls").read_text() == "made\n"


@pytest.mark.skipif(not native.can_compile(), reason="llvmlite is not installed")
def test_another_process_runs_the_same_code(tmp_path, folder):
    (tmp_path / "program.py").write_text(
        """
import sys, time
from bmrm.formulas.cpu import native
from bmrm.reductions import exp, reduction

made, _make_object = [], native._make_object
native._make_object = lambda *words: made.append(1) or _make_object(*words)

@reduction
def total(x, out: "d"):
    for f in range(len(x)):
        out[f] += exp(x[f])

before = time.process_time()
print(total([[0.0, 1.0], [2.0, 3.0]]).out.tobytes().hex(), len(made), time.process_time() - before)
"""
    )
    path = os.pathsep.join(filter(None, (str(Path(bmrm.__file__).parents[1]), os.environ.get("PYTHONPATH"))))
    found = [
        subprocess.run(
            [sys.executable, tmp_path / "program.py"],
            capture_output=True,
            text=True,
            check=True,
            env={**os.environ, "PYTHONPATH": path},
        ).stdout.split()
        for _ in range(2)
    ]
    assert (found[0][1], found[1][1]) == ("1", "0")
    assert found[0][0] == found[1][0]
    assert float(found[0][2]) < 1.0  # a second of processor time to compile, LLVM's start included
