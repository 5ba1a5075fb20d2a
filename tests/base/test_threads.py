"""The default number of threads, and the threads that all loops share."""

import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from bmrm.base import _threads, threads
from bmrm.matrix import _cpu
from bmrm.matrix.resident import default_threads

LARGE = 10**9


@pytest.mark.parametrize("text", ["5000", "²", "0", "", "-1", "x", "1e3", "99999999999999999999", "٣"])
def test_a_number_of_threads_out_of_range_is_ignored(monkeypatch, text):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    usual = default_threads(LARGE)
    monkeypatch.setenv("OMP_NUM_THREADS", text)
    assert default_threads(LARGE) == usual


@pytest.mark.parametrize(("text", "count"), [("3", 3), ("2,1", 2), (" 5 ", 5), ("4096", 4096)])
def test_a_number_of_threads_in_range_is_used(text, count):
    code = f"from bmrm.matrix.resident import default_threads; print(default_threads({LARGE}))"
    environ = {**os.environ, "OMP_NUM_THREADS": text}
    process = subprocess.run(
        [sys.executable, "-c", code], env=environ, capture_output=True, text=True, check=True
    )
    assert int(process.stdout) == count


def test_a_small_problem_has_one_thread():
    assert default_threads(1000) == 1


@pytest.mark.parametrize(
    ("groups", "files", "cores"),
    [
        ("", {"cpu.max": "150000 100000\n"}, 2),
        ("", {"cpu.max": "50000 100000\n"}, 1),
        ("", {"cpu.max": "6400000 100000\n"}, 8),
        ("", {"cpu.max": "max 100000\n"}, 8),
        ("", {"cpu.max": "no number\n"}, 8),
        ("", {"cpu.max": ""}, 8),
        ("", {"cpu.max": "100000 0\n"}, 8),
        ("", {"cpu/cpu.cfs_quota_us": "300000\n", "cpu/cpu.cfs_period_us": "100000\n"}, 3),
        ("", {"cpu/cpu.cfs_quota_us": "-1\n", "cpu/cpu.cfs_period_us": "100000\n"}, 8),
        ("", {"cpu/cpu.cfs_quota_us": "300000\n"}, 8),
        ("", {}, 8),
        ("0::/a/b\n", {"a/b/cpu.max": "200000 100000\n"}, 2),
        ("0::/a/b\n", {"a/b/cpu.max": "max 100000\n", "a/cpu.max": "300000 100000\n"}, 3),
        ("0::/a/b\n", {"a/b/cpu.max": "400000 100000\n", "a/cpu.max": "300000 100000\n"}, 3),
        ("0::/a\n", {"b/cpu.max": "100000 100000\n"}, 8),
        ("0::/\n", {"cpu.max": "500000 100000\n"}, 5),
        ("0::/../b\n", {"cpu.max": "500000 100000\n"}, 5),
        ("0::/a:b\n", {"a:b/cpu.max": "200000 100000\n"}, 2),
        (
            "4:memory:/a\n2:cpu,cpuacct:/b/c\n0::/\n",
            {"cpu/b/c/cpu.cfs_quota_us": "250000\n", "cpu/b/c/cpu.cfs_period_us": "100000\n"},
            3,
        ),
        (
            "2:cpuset:/b\n1:cpu:/c\n",
            {"cpu/b/cpu.cfs_quota_us": "100000\n", "cpu/b/cpu.cfs_period_us": "100000\n"},
            8,
        ),
        ("nonsense\n", {"cpu.max": "200000 100000\n"}, 2),
    ],
)
def test_a_quota_limits_the_cores(tmp_path, monkeypatch, groups, files, cores):
    for name, text in files.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    monkeypatch.setattr(threads, "CGROUPS", tmp_path)
    monkeypatch.setattr(threads, "OWN_GROUPS", tmp_path / "own")
    (tmp_path / "own").write_text(groups)
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(8)))
    assert threads.usable_cores() == cores


@pytest.mark.parametrize("count", [0, 1, 2, 50])
@pytest.mark.parametrize("team", [1, 2, 5])
def test_every_call_is_made_once_by_a_member_that_does_nothing_else(count, team):
    calls, inside = [], [0] * team

    def work(number, member):
        inside[member] += 1
        assert inside[member] == 1
        calls.append(number)
        inside[member] -= 1

    _threads.run(work, count, team)
    assert sorted(calls) == list(range(count))


@pytest.mark.parametrize("team", [1, 3])
def test_an_exception_ends_the_calls_and_is_raised(team):
    calls = []

    def work(number, member):
        calls.append(number)
        if number == 2:
            raise KeyboardInterrupt("here")

    with pytest.raises(KeyboardInterrupt, match="here"):
        _threads.run(work, 10_000, team)
    assert len(calls) < 10_000


def test_calls_inside_a_call_and_from_several_threads():
    found = []

    def work(number, member):
        _threads.run(lambda other, _: found.append((number, other)), 4, 3)

    callers = [threading.Thread(target=_threads.run, args=(work, 20, 3)) for _ in range(3)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert sorted(found) == sorted(3 * [(i, j) for i in range(20) for j in range(4)])


def test_threads_are_there_once_and_leave_signals_to_others():
    code = """
import os
from pathlib import Path
from bmrm.base import _threads

def tasks():
    return sorted(Path("/proc/self/task").iterdir())

before = tasks()
for threads in (2, 3, 4, 3, 2, 4):
    for _ in range(20):
        _threads.run(lambda number, member: None, 8, threads)
added = [task for task in tasks() if task not in before]
assert len(added) == 3, added
for task in added:
    lines = (task / "status").read_text().splitlines()
    blocked = next(int(line.split()[1], 16) for line in lines if line.startswith("SigBlk:"))
    assert all(blocked >> (number - 1) & 1 for number in NUMBERS), hex(blocked)
"""
    numbers = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGALRM, signal.SIGUSR1]
    code = code.replace("NUMBERS", repr([int(number) for number in numbers]))
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_importing_changes_no_environment_and_brings_no_openmp():
    code = """
import importlib, os
before = dict(os.environ)
import numpy, scipy.linalg, scipy.sparse
loaded = open("/proc/self/maps").read()
import bmrm
compiled = "matrix._cpu losses._losses losses._joint graph._graph distributed._parts".split()
compiled += [f"unsupervised.{name}._{name}" for name in ("clusters", "mixtures", "manifold")]
for name in [*compiled, "io.edges"]:
    importlib.import_module("bmrm." + name)
assert dict(os.environ) == before
assert ("gomp" in open("/proc/self/maps").read()) == ("gomp" in loaded)
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_loops_beside_other_work_take_the_processor_time_of_one_thread():
    cores = os.cpu_count() or 1
    matrix = [
        _cpu.Matrix.from_dense(np.ones((20_000, 40)), threads=count) for count in (1, 2, cores, 4 * cores)
    ]
    vector = np.ones(40)

    def used(one):
        before = time.process_time()
        for _ in range(100):
            one.matvec(vector)
        return time.process_time() - before

    others = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(cores)]
    try:
        rounds = [[used(one) for one in matrix] for _ in range(5)]
    finally:
        for other in others:
            other.kill()
            other.wait()
    alone, *several = np.min(rounds, axis=0)
    assert max(several) < 2.0 * alone  # barriers that spin take ten times as much


@pytest.mark.parametrize("sanitizer", [None, "thread"])
def test_loops_on_the_pool(tmp_path, sanitizer):
    compiler = os.environ.get("CXX", "c++")
    if shutil.which(compiler) is None:
        pytest.skip(f"there is no {compiler}")
    root, program = Path(__file__).parents[2], tmp_path / "program"
    flags = [
        "-std=c++17",
        "-O1",
        "-pthread",
        "-Isrc_cython",
        *([f"-fsanitize={sanitizer}"] if sanitizer else []),
    ]
    command = [compiler, *flags, "tests/base/pool_program.cpp", "-o", str(program)]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    if done.returncode and sanitizer:
        pytest.skip("the sanitizer of threads is missing")
    assert done.returncode == 0, done.stderr
    environ = {**os.environ, "TSAN_OPTIONS": "die_after_fork=0"}
    done = subprocess.run([program], env=environ, timeout=100, capture_output=True, text=True, check=False)
    if sanitizer and "unexpected memory mapping" in done.stderr:
        pytest.skip("the sanitizer of threads does not work on this kernel")
    assert done.returncode == 0, done.stderr
