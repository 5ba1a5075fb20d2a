# ruff: noqa: B007, F821 (loop variables are not read; annotations name sizes)
"""Ctrl-C ends a pass of compiled code, however long it would take."""

import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from bmrm.formulas.analysis.long_loops import ROWS, long_loops
from bmrm.formulas.cpu import native
from bmrm.reductions import reduction

pytestmark = pytest.mark.skipif(not native.can_compile(), reason="llvmlite is not installed")

PROGRAM = Path(__file__).with_name("endless_program.py")


def test_endless_passes_end_on_a_signal():
    process = subprocess.Popen([sys.executable, PROGRAM], stdout=subprocess.PIPE, text=True)
    slowest = 0.0
    try:
        while (line := process.stdout.readline()) == "starts\n":
            time.sleep(0.15)
            process.send_signal(signal.SIGINT)
            sent = time.monotonic()
            assert process.stdout.readline() == "interrupted\n"
            slowest = max(slowest, time.monotonic() - sent)
        assert line == "20000 20000\n"
        assert process.wait(timeout=20) == 0
    finally:
        process.kill()
        process.stdout.close()
    assert slowest < 5  # on an idle machine some milliseconds


@reduction
def usual(x, p: "k", out: ("k", "d")):
    for j in range(len(p)):
        for f in range(len(x)):
            out[j, f] += p[j] * x[f]


@reduction
def many(x, p: "k", n: int, out):
    for i in range(10**6):
        for j in range(10**6):
            out += 1
    for i in range(len(p)):
        for j in range(len(p)):
            for m in range(len(p)):
                out += 1
    for i in range(n):
        out += 1


def test_only_loops_that_may_take_long_look_at_signals():
    X, p = np.ones((3, 2)), np.ones(50)
    call = usual._call(X, {"p": p})
    assert long_loops(call.program, {"k": 50, "d": 2}) == {}
    assert long_loops(call.program, {"k": 10**5, "d": 10**5}).keys() == {"j.1", ROWS}
    call = many._call(X, {"p": p, "n": 3})
    assert long_loops(call.program, {"k": 50, "x.0": 2}).keys() == {"i.1", "i.6", ROWS}
    assert long_loops(call.program, {"k": 5000, "x.0": 2}).keys() == {"i.1", "i.3", "i.6", ROWS}


def test_bits_are_the_same_whether_the_main_thread_waits(monkeypatch):
    from bmrm.formulas.run import cpu as host

    X, p = np.random.default_rng(0).normal(size=(9000, 3)), np.random.default_rng(1).normal(size=4)
    found = []
    for seconds in (0.0, 1e9):
        monkeypatch.setattr(host, "MIN_WATCHED_SECONDS", seconds)
        found += [usual(X, p=p, threads=threads).out.tobytes() for threads in (1, 3)]
    assert len(set(found)) == 1
