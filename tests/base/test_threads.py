"""The default number of threads: the environment, threadpoolctl, affinity, and the quota of a container."""

import os
import subprocess
import sys

import pytest
import threadpoolctl

from bmrm.base import threads
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


def test_threadpoolctl_limits_the_default(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "64")
    default_threads(LARGE)  # threadpoolctl sees the libraries that are loaded
    with threadpoolctl.threadpool_limits(1):
        assert default_threads(LARGE) == 1


def test_a_small_problem_has_one_thread():
    assert default_threads(1000) == 1


@pytest.mark.parametrize(
    ("files", "cores"),
    [
        ({"cpu.max": "150000 100000\n"}, 2),
        ({"cpu.max": "50000 100000\n"}, 1),
        ({"cpu.max": "6400000 100000\n"}, 8),
        ({"cpu.max": "max 100000\n"}, 8),
        ({"cpu.max": "no number\n"}, 8),
        ({"cpu.max": ""}, 8),
        ({"cpu.max": "100000 0\n"}, 8),
        ({"cpu/cpu.cfs_quota_us": "300000\n", "cpu/cpu.cfs_period_us": "100000\n"}, 3),
        ({"cpu/cpu.cfs_quota_us": "-1\n", "cpu/cpu.cfs_period_us": "100000\n"}, 8),
        ({"cpu/cpu.cfs_quota_us": "300000\n"}, 8),
        ({}, 8),
    ],
)
def test_a_quota_limits_the_cores(tmp_path, monkeypatch, files, cores):
    for name, text in files.items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    monkeypatch.setattr(threads, "CGROUPS", tmp_path)
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(8)))
    assert threads.usable_cores() == cores
