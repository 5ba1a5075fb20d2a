"""Ctrl-C ends a count within moments, with the histogram so far; progress is shown."""

import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from bmrm.base import interrupts
from bmrm.errors import Interrupted
from bmrm.pairs import count, histogram
from bmrm.pairs.passes import count_tasks

PROGRAM = Path(__file__).with_name("interrupted_count.py")
LIMIT = 3.0  # seconds; 0.1 on an idle machine


@pytest.mark.parametrize("plan", ["float64", "brute", "cells"])
def test_a_signal_ends_a_count(plan):
    words = [sys.executable, PROGRAM, plan, "1000000"]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout.readline() == "starts\n"
        assert process.stdout.readline().startswith("at ")  # points are placed, and tasks are counted
        process.send_signal(signal.SIGINT)
        sent = time.monotonic()
        line = next(line for line in process.stdout if line.startswith("interrupted"))
        ended, share, counts, candidates = map(float, line.split()[1:])
        assert process.wait(timeout=20) == 0
    finally:
        process.kill()
        process.stdout.close()
    assert ended - sent < LIMIT
    assert 0.0 < share < 1.0
    assert 0 < counts <= candidates


class Tasks:
    """A counter of ten tasks that find one pair each, during one of which a signal comes."""

    tasks, candidates, bytes = 10, 10.0, 0

    def __init__(self, stopped=None):
        self.stopped, self.ranges = stopped, []

    def count(self, first, last, threads=None):
        self.ranges.append((first, last))
        if self.stopped is not None and first >= self.stopped:
            interrupts.active_interrupts().requested = True
        return np.array([last - first]), float(last - first), 0.0


def test_what_is_counted_so_far_is_kept():
    with interrupts.Interrupts(mode=interrupts.HELD):
        found = count_tasks(Tasks(stopped=0), 1, None)
    assert (found.counts.tolist(), found.candidates, found.share) == ([1], 1.0, 0.1)
    assert count_tasks(Tasks(), 1, None).share == 1.0


def test_every_task_is_counted_once():
    counter = Tasks()
    count_tasks(counter, 1, None)
    ends = [0, *(last for _, last in counter.ranges)]
    assert [first for first, _ in counter.ranges] == ends[:-1]
    assert ends[-1] == 10


def test_progress_is_that_of_the_candidates():
    x, shares = np.random.default_rng(0).random((3000, 3)), []
    histogram(x, edges=[0, 1], progress=shares.append, plan="float64", threads=1)
    assert shares == sorted(shares)
    assert shares[-1] == 1.0
    assert 0.0 < shares[0] < 0.5


@pytest.mark.parametrize("call", [histogram, count])
def test_a_signal_before_the_first_task(call, monkeypatch):
    from bmrm.pairs import histograms

    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(histograms, "prepare_call", interrupted)
    words = {"edges": [0, 1]} if call is histogram else {"radius": 1.0}
    with pytest.raises(Interrupted) as stop:
        call(np.zeros((3, 1)), **words)
    assert stop.value.result is None
