"""Text parsed into a sink gives the same as text parsed into arrays."""

import os
import signal
import threading

import host_landing
import numpy as np
import pytest
from host_landing import HostLanding
from hypothesis import given, settings
from hypothesis import strategies as st
from reference import parse
from test_faults import FAULTS
from test_properties import HOW, OPTIONS, PIECES, TEXTS

from bmrm.errors import DataError

SLOTS = st.sampled_from([1, 2, 3, 16])


def to_sink(slots, dtype="float64", made=None, **options):
    """Return the argument ``land`` of `parse`; appends the sinks that it creates to ``made``."""

    def land(rows, nonzeros, pairs):
        sink = HostLanding(nonzeros, dtype, slots, pairs, **options)
        if made is not None:
            made.append(sink)
        return sink

    return land


def outcome(text, **how):
    """Return the content or the fault of a text in a form that `==` compares bit by bit."""
    try:
        X, y, query, zero_based = parse(text, **how)
    except DataError as error:
        return str(error)
    arrays = [None if array is None else (array.dtype, array.tobytes()) for array in X[:3]]
    return arrays, X.shape, repr(y), repr(query), zero_based


@settings(max_examples=100, deadline=None)
@given(TEXTS, OPTIONS, HOW, SLOTS)
def test_plausible_texts(text, options, how, slots):
    land = to_sink(slots, options["dtype"])
    assert outcome(text, land=land, **how, **options) == outcome(text, **options)


@settings(max_examples=100, deadline=None)
@given(st.lists(PIECES, max_size=30).map(b"".join), OPTIONS, HOW, SLOTS)
def test_texts_of_pieces(text, options, how, slots):
    land = to_sink(slots, options["dtype"])
    assert outcome(text, land=land, **how, **options) == outcome(text, **options)


@pytest.mark.parametrize("text", [text for text, _ in FAULTS])
def test_faults_are_the_same_as_without_a_sink(text):
    many = b"1 1:1\n" * 200 + text + b"\n" + b"1 1:1\n" * 200 + b"oops\n"
    for threads, slots in ((1, 1), (3, 2), (7, 3)):
        found = outcome(many, land=to_sink(slots), threads=threads, block_bytes=10)
        assert found == outcome(many)


@pytest.fixture(scope="module")
def large():
    """Rows of all lengths with comments and blank lines; the first third has only values of 1."""
    rng = np.random.default_rng(0)
    lines = []
    for i in range(9_000):
        columns = np.unique(rng.integers(0 if i > 6_000 else 1, 500, rng.integers(0, 12)))
        values = np.ones(len(columns)) if i < 3_000 else rng.standard_normal(len(columns)).round(3)
        pairs = [f"{j}:{v:g}" for j, v in zip(columns, values, strict=True)]
        lines.append(" ".join([f"{i % 2}", f"qid:{i % 7}", *(reversed(pairs) if i % 5 == 0 else pairs)]))
        if i % 9 == 0:
            lines.append(rng.choice(["", "# 3:1 4:1", "   "]))
    return "\n".join(lines).encode()


@pytest.mark.parametrize("threads", [1, 2, 8])
@pytest.mark.parametrize("slots", [1, 2, 16])
@pytest.mark.parametrize("block_bytes", [100, 5000])
def test_many_blocks_pass_through_few_slots(large, threads, slots, block_bytes):
    how = {"land": to_sink(slots, "float32"), "threads": threads, "block_bytes": block_bytes}
    options = {"dtype": "float32", "query_id": True}
    assert outcome(large, **how, **options) == outcome(large, **options)


def test_values_of_ones_are_not_sent(large):
    ones = b"\n".join(large.split(b"\n")[:3_000])
    made = []
    X, *_ = parse(ones, land=to_sink(2, made=made), block_bytes=1000)
    assert X.data is None
    assert made[0].end == X.nnz


@pytest.mark.parametrize("threads", [1, 2, 8])
@pytest.mark.parametrize("fails_at", [1, 2, 3, 50, 501])
def test_a_failing_sink_ends_the_parse(large, threads, fails_at):
    made = []
    land = to_sink(3, made=made, fails_at=fails_at)
    with pytest.raises(RuntimeError, match="the bus is down"):
        parse(large, land=land, threads=threads, block_bytes=1000)
    assert made[0].calls < fails_at + 2 * threads + 2


def test_an_exception_of_the_choice_propagates():
    def land(rows, nonzeros, pairs):
        raise ValueError((rows, nonzeros, pairs))

    with pytest.raises(ValueError, match=r"\(3, 4, 3\)"):
        parse(b"1 1:1 2:1 3:1\n\n1 4:1", land=land, block_bytes=1)


def interrupt_after(seconds):
    threading.Timer(seconds, os.kill, (os.getpid(), signal.SIGINT)).start()


def test_an_interrupt_ends_the_parse(large):
    """Whatever the threads are waiting for at that moment."""

    def handle(number, frame):
        while frame is not None:
            if frame.f_code.co_filename == host_landing.__file__:
                return interrupt_after(0.001)  # nothing may be raised within a C function
            frame = frame.f_back
        raise KeyboardInterrupt

    def go_on(wait):
        interrupt_after(wait)
        while True:
            parse(large, land=to_sink(2), threads=4, block_bytes=1000)

    before = signal.signal(signal.SIGINT, handle)
    try:
        for wait in (0.005, 0.02, 0.06):
            with pytest.raises(KeyboardInterrupt):
                go_on(wait)
    finally:
        signal.signal(signal.SIGINT, before)
