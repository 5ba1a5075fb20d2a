"""The start of a process that uses a GPU, and the end of every command; a GPU is not required."""

import subprocess
import sys

import pytest

from bmrm.cli import gpu_process


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["--device", "cuda", "data"], True),
        (["data", "--device=cuda"], True),
        (["--device", "cpu", "cuda"], False),
        (["--device"], False),
        ([], False),
    ],
)
def test_asks_for_gpu(words, expected):
    assert gpu_process.asks_for_gpu(words) is expected


def test_only_a_large_file_is_large(tmp_path, monkeypatch):
    monkeypatch.setattr(gpu_process, "LARGE_FILE_BYTES", 3)
    for text in ("12", "123"):
        (tmp_path / text).write_text(text)
    assert not gpu_process.is_large(str(tmp_path / "12"))
    assert gpu_process.is_large(str(tmp_path / "123"))
    assert not gpu_process.is_large(str(tmp_path / "missing"))


def test_an_absent_driver_is_no_failure(monkeypatch):
    def missing(name):
        raise OSError(name)

    monkeypatch.setattr(gpu_process.ctypes, "CDLL", missing)
    thread = gpu_process.start_driver()
    thread.join(10)
    assert not thread.is_alive()


@pytest.mark.parametrize(
    ("modules", "last"),
    [
        (["bmrm.matrix._cuda"], ""),
        (["bmrm.matrix._cuda", "mpi4py"], "at exit"),
        ([], "at exit"),
        (["left behind"], ""),
    ],
    ids=["gpu", "gpu and mpi", "cpu", "thread"],
)
def test_leave_keeps_the_code_and_what_was_printed(modules, last):
    code = f"""
import atexit, sys, threading
from bmrm.cli import exits
sys.modules.update(dict.fromkeys({modules!r}))
atexit.register(print, "at exit")
sys.stdout.write("printed\\n")
if "left behind" in sys.modules:
    threading.Thread(target=threading.Event().wait, daemon=True).start()
sys.exit(exits.leave(4))
"""
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert ended.returncode == 4
    assert ended.stdout.splitlines() == ["printed", *filter(None, [last])]
