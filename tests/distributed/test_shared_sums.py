"""Sums over the ranks of a host, with threads instead of processes."""

import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bmrm.distributed._shared_sums import SharedSums
from bmrm.errors import ParameterError


def sums_of_ranks(size, *, crowded=False):
    memory = bytearray(SharedSums.nbytes(size))
    return [SharedSums(memory, rank, size, crowded=crowded) for rank in range(size)]


@settings(max_examples=25, deadline=None)
@given(
    size=st.integers(1, 4),
    lengths=st.lists(st.sampled_from([0, 1, 7, SharedSums.CAPACITY]), min_size=1, max_size=12),
    seed=st.integers(0, 99),
    crowded=st.booleans(),
)
def test_every_rank_reads_what_all_ranks_posted_in_that_turn(size, lengths, seed, crowded):
    """Even if some ranks are late and others are already a turn ahead."""

    def numbers(rank, turn):
        return 1000.0 * turn + 10.0 * rank + np.arange(lengths[turn]) / 4096.0

    def work(rank, sums):
        late = np.random.default_rng(seed + rank)
        for turn, length in enumerate(lengths):
            if late.random() < 0.2:
                time.sleep(1e-4)
            sums.post(numbers(rank, turn))
            found = np.full((size, length), np.nan)
            while not sums.collect(found, 1e-3):
                pass
            for other in range(size):
                np.testing.assert_array_equal(found[other], numbers(other, turn))

    with ThreadPoolExecutor(size) as pool:
        for done in [pool.submit(work, *pair) for pair in enumerate(sums_of_ranks(size, crowded=crowded))]:
            done.result()


def test_a_waiting_rank_times_out_and_may_try_again():
    early, late = sums_of_ranks(2)
    early.post(np.array([1.0]))
    found = np.full((2, 1), np.nan)
    began = time.monotonic()
    assert not early.collect(found, 0.02)
    assert 0.02 <= time.monotonic() - began < 1.0
    assert np.isnan(found).all()
    late.post(np.array([2.0]))
    assert early.collect(found, 0.02)
    assert found.tolist() == [[1.0], [2.0]]


def test_vectors_that_are_too_long_are_refused():
    (sums,) = sums_of_ranks(1)
    with pytest.raises(ParameterError, match=f"found {SharedSums.CAPACITY + 1} numbers"):
        sums.post(np.zeros(SharedSums.CAPACITY + 1))
    with pytest.raises(ParameterError, match="out: expected a float64 array of shape"):
        sums.collect(np.zeros((2, 1)), 0.1)
    with pytest.raises(ParameterError, match="rank: found 2, expected one of 2"):
        SharedSums(bytearray(SharedSums.nbytes(2)), 2, 2, crowded=False)
    with pytest.raises(ParameterError, match="memory: found 8 bytes"):
        SharedSums(bytearray(8), 0, 1, crowded=False)
