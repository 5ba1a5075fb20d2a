"""Ctrl-C and SIGTERM: the best model so far is on disk, and the exit code is 130."""

import fcntl
import os
import signal
import struct
import sys
import termios
import time

import numpy as np
import pytest
from commands import start, start_python, write_svmlight

import bmrm.linear.selection.cross_validation
from bmrm.cli.signals import CommandInterrupts
from bmrm.linear.models.model import Model

FOREVER = ["--lambda", "1e-6", "--tol", "1e-12", "--tol-kind", "abs", "--cuts-per-pass", 1]


@pytest.fixture
def long_job(folder):
    """Draw random labels: the last digit takes some 20 seconds."""
    rng = np.random.default_rng(0)
    X = np.round(rng.standard_normal((4000, 150)), 3)
    return write_svmlight(folder / "data", X, rng.choice([-1.0, 1.0], 4000))


def wait_for_iterations(log, process, count=3):
    deadline = time.monotonic() + 60
    while not log.exists() or log.read_text().count("\n") < count:
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline, "the solver has not started"
        time.sleep(0.02)


def start_long(long_job):
    words = [*FOREVER, "--log-jsonl", "log", "--checkpoint", "best", long_job, "model"]
    return start("train", *words, cwd=long_job.parent)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signal_while_training(number, long_job, folder):
    process = start_long(long_job)
    wait_for_iterations(folder / "log", process)
    process.send_signal(number)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert err == ""
    assert out.startswith("interrupted after ")
    model = Model.load(folder / "model")
    assert model.certificate.status == "interrupted"
    assert model.certificate.n_iter >= 3
    assert np.any(model.w)
    best = Model.load(folder / "best")
    assert best.certificate == model.certificate
    np.testing.assert_array_equal(best.w, model.w)
    assert sorted(os.listdir(folder)) == ["best", "data", "log", "model"]


def test_kill_leaves_the_checkpoint(long_job, folder):
    """The first checkpoint is written at once, so that even SIGKILL leaves a model."""
    process = start_long(long_job)
    wait_for_iterations(folder / "log", process)
    process.kill()
    process.communicate()
    assert Model.load(folder / "best").certificate.status == "running"
    assert not (folder / "model").exists()


def test_signal_while_predicting(folder):
    Model(np.ones(1), 0.0, "hinge", "binary", (-1.0, 1.0), lam=1e-3).save(folder / "model")
    process, writer = start_waiting("predict", "-", "model", "out", cwd=folder)
    process.send_signal(signal.SIGTERM)
    out, err = process.communicate(timeout=60)
    os.close(writer)
    assert (process.returncode, out) == (130, "")
    assert err == "bmrm-predict: interrupted, nothing written\n"
    assert os.listdir(folder) == ["model"]


@pytest.mark.parametrize("inside", ["solver", "between"])
def test_signal_in_a_cross_validation(inside, data, folder, bmrm_train, monkeypatch):
    solve, pressed = bmrm.linear.selection.cross_validation.solve, []

    def press(_=None):
        if not pressed:  # only once: a later signal would end the tests
            pressed.append(True)
            signal.raise_signal(signal.SIGINT)

    def interrupted(*words, **keywords):
        if inside == "between":
            press()
        keywords["callback"] = press
        return solve(*words, **keywords)

    monkeypatch.setattr("bmrm.linear.selection.cross_validation.solve", interrupted)
    assert bmrm_train("-v", "3", data) == (130, "", "bmrm-train: interrupted, nothing written\n")


def test_many_signals_in_a_cross_validation(data, folder):
    """No thread of a fold is left waiting; the end of the process would wait for it."""
    code = (
        "import signal, sys, bmrm.linear.selection.cross_validation\n"
        "from bmrm.cli.train import main\n"
        "solve = bmrm.linear.selection.cross_validation.solve\n"
        "def press(*words, **keywords):\n"
        "    signal.raise_signal(signal.SIGINT)\n"
        "    keywords['callback'] = lambda _: signal.raise_signal(signal.SIGINT)\n"
        "    return solve(*words, **keywords)\n"
        "bmrm.linear.selection.cross_validation.solve = press\n"
        "sys.exit(main())\n"
    )
    for words in (["-v", "8"], ["-C", "-v", "8"]):
        process = start_python(code, *words, data, cwd=folder)
        assert process.communicate(timeout=60) == ("", "bmrm-train: interrupted, nothing written\n")
        assert process.returncode == 130


AT_EVERY_IMPORT = """
import signal, sys

class Press:
    def find_spec(self, name, *_):
        if signal.SIGINT in signal.pthread_sigmask(signal.SIG_BLOCK, []) or name != "bmrm.cli.start":
            signal.raise_signal(signal.SIGINT)
            signal.raise_signal(signal.SIGTERM)

import bmrm.cli.start
sys.meta_path.insert(0, Press())
sys.exit(bmrm.cli.start.{command}())
"""


@pytest.mark.parametrize("command", ["train", "predict", "bench"])
def test_signals_in_every_import(command, data, folder):
    words = {"train": [data, "model"], "predict": [data, "model", "out"], "bench": ["spmv", data]}[command]
    process = start_python(AT_EVERY_IMPORT.format(command=command), *words, cwd=folder)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out, err) == (130, "", f"bmrm-{command}: interrupted, nothing written\n")
    assert os.listdir(folder) == [data.name]


@pytest.mark.parametrize("count", [2, 3, 6])
def test_more_signals_while_training(count, long_job, folder):
    process = start_long(long_job)
    wait_for_iterations(folder / "log", process)
    for k in range(count):
        process.send_signal(signal.SIGINT if k % 2 else signal.SIGTERM)
        time.sleep(0.003)
    _, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (130, "")
    best, model = Model.load(folder / "best"), Model.load(folder / "model")
    assert best.certificate == model.certificate
    np.testing.assert_array_equal(best.w, model.w)
    assert sorted(os.listdir(folder)) == ["best", "data", "log", "model"]


def test_a_signal_once_the_model_is_there(data, folder):
    """The rest is quick and is reported."""
    code = (
        "import signal, sys\n"
        "from bmrm.cli import train\n"
        "report = train.report\n"
        "def press(*words, **keywords):\n"
        "    signal.raise_signal(signal.SIGINT)\n"
        "    return report(*words, **keywords)\n"
        "train.report = press\n"
        "sys.exit(train.main())\n"
    )
    process = start_python(code, data, "model", cwd=folder)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (0, "")
    assert out.startswith("converged")
    assert Model.load(folder / "model").certificate.status == "converged"


def test_a_prediction_is_written_or_not(data, folder):
    Model(np.ones(5), 0.0, "hinge", "binary", (-1.0, 1.0), lam=1e-3).save(folder / "model")
    code = (
        "import os, signal, sys\n"
        "from bmrm.cli.predict import main\n"
        "call = getattr(os, sys.argv.pop(1))\n"
        "def press(*words, **keywords):\n"
        "    signal.raise_signal(signal.SIGINT)\n"
        "    return call(*words, **keywords)\n"
        "setattr(os, call.__name__, press)\n"
        "sys.exit(main())\n"
    )
    for place, code_wanted in (("replace", 0), ("open", 130)):
        process = start_python(code, place, data, "model", place, cwd=folder)
        process.communicate(timeout=60)
        assert process.returncode == code_wanted
        assert (folder / place).exists() == (code_wanted == 0)


@pytest.mark.parametrize(
    "module", ["numpy", "bmrm.losses._losses", "bmrm.linear.bundle._qp", "bmrm.linear.solvers.bundle_method"]
)
def test_signal_that_an_import_swallows(module, data, folder):
    """A compiled module may mistake the exception for a failed optional import."""
    code = (
        "import signal, sys\n"
        "from bmrm.cli.train import main\n"
        "class Press:\n"
        "    def find_spec(self, name, *_):\n"
        f"        if name == {module!r}:\n"
        "            try:\n"
        "                signal.raise_signal(signal.SIGINT)\n"
        "            except KeyboardInterrupt:\n"
        "                pass\n"
        "sys.meta_path.insert(0, Press())\n"
        "sys.exit(main(sys.argv[1:]))\n"
    )
    process = start_python(code, data, "model", cwd=folder)
    assert process.communicate(timeout=60) == ("", "bmrm-train: interrupted, nothing written\n")
    assert process.returncode == 130
    assert not (folder / "model").exists()


def start_waiting(command, *words, cwd):
    """Start a command that reads a pipe without further input; return the other end of the pipe."""
    reader, writer = os.pipe()
    process = start(command, *words, cwd=cwd, stdin=reader)
    os.close(reader)
    os.write(writer, b"1 1:1\n")
    deadline = time.monotonic() + 60
    while unread(writer):
        assert time.monotonic() < deadline, "nothing is read"
        time.sleep(0.02)
    return process, writer


def unread(pipe):
    """Return the number of bytes waiting in a pipe."""
    return struct.unpack("i", fcntl.ioctl(pipe, termios.FIONREAD, bytes(4)))[0]


def test_signal_while_reading(folder):
    """Before there is anything to save, nothing is written, and one line is printed."""
    process, writer = start_waiting("train", "-", "model", cwd=folder)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    os.close(writer)
    assert process.returncode == 130
    assert out == ""
    assert err == "bmrm-train: interrupted, nothing written\n"
    assert os.listdir(folder) == []


LEAVES_THE_LOCK = """
import _imp, sys
from bmrm.cli.signals import CommandInterrupts

sys.path.insert(0, sys.argv[1])
with CommandInterrupts() as interrupts, interrupts.importing_in_background("brought_beside"):
    _imp.acquire_lock()
    print("locked", flush=True)
    if sys.argv[2] == "interrupted":
        raise KeyboardInterrupt
"""


@pytest.mark.parametrize("end", ["interrupted", "waits"])
def test_an_import_lock_that_an_interrupt_left_locked(end, tmp_path):
    """The signal arrives after the lock was taken and before the block that releases it."""
    (tmp_path / "brought_beside.py").write_text("import time\ntime.sleep(0.2)\nimport colorsys\n")
    process = start_python(LEAVES_THE_LOCK, tmp_path, end)
    assert process.stdout.readline() == "locked\n"
    if end == "waits":
        time.sleep(0.5)
        process.send_signal(signal.SIGTERM)
    try:
        _, err = process.communicate(timeout=30)
    finally:
        process.kill()
    assert err.endswith("KeyboardInterrupt\n")


def test_reading_imports_nothing_that_an_interrupt_could_strike(data, folder):
    code = (
        "import contextlib, sys\n"
        "from bmrm.cli import signals, train\n"
        "@contextlib.contextmanager\n"
        "def listing(self, *modules):\n"
        "    before = set(sys.modules)\n"
        "    yield\n"
        "    print(*(name for name in sys.modules if name not in before))\n"
        "signals.CommandInterrupts.importing_in_background = listing\n"
        "train.main(['-q', '--device', 'cpu', sys.argv[1], 'model'])\n"
    )
    assert start_python(code, data, cwd=folder).communicate(timeout=60) == ("\n", "")


def test_modules_are_imported_in_the_background(tmp_path, monkeypatch):
    (tmp_path / "brought_beside.py").write_text("import time\ntime.sleep(0.05)\nDONE = True\n")
    (tmp_path / "broken_beside.py").write_text("raise ValueError('broken')\n")
    monkeypatch.syspath_prepend(tmp_path)
    with CommandInterrupts() as interrupts:
        with interrupts.importing_in_background("brought_beside", "broken_beside"):
            pass
        assert sys.modules["brought_beside"].DONE
        with pytest.raises(ValueError, match="broken"):  # where the module is needed
            import broken_beside  # noqa: F401
        with pytest.raises(KeyboardInterrupt), interrupts.importing_in_background("brought_beside"):
            signal.raise_signal(signal.SIGINT)
    monkeypatch.delitem(sys.modules, "brought_beside")
