"""Times with cold caches (``src_cuda/runtime/cold_time.h``) from measurements with noise."""

from __future__ import annotations

import ctypes

import compiled
import numpy as np
import pytest

MAX_ROUNDS = 5


@pytest.fixture(scope="module")
def cold_seconds():
    built = compiled.library(["tests/matrix/cold_time.cpp"], ["-O1", "-Isrc_cuda"])
    call = ctypes.CDLL(str(built)).cold_seconds_of
    call.restype = ctypes.c_double

    def cold_seconds(both, fill, alone):
        """Return the time, and the number of rounds."""
        both, fill = np.array(both, float), np.array(fill, float)
        assert len(both) == len(fill) == MAX_ROUNDS
        rounds = ctypes.c_int()
        pointers = (each.ctypes.data_as(ctypes.c_void_p) for each in (both, fill))
        return call(*pointers, ctypes.c_double(alone), ctypes.byref(rounds)), rounds.value

    return cold_seconds


def test_a_clear_difference_is_measured_once(cold_seconds):
    assert cold_seconds([12, 99, 99, 99, 99], [4, 99, 99, 99, 99], 5) == (8.0, 1)


def test_a_small_difference_is_measured_until_it_is_clear(cold_seconds):
    assert cold_seconds([10, 10, 99, 99, 99], [9, 7, 99, 99, 99], 1) == (3.0, 2)


def test_noise_makes_no_time_negative_or_shorter_than_with_warm_caches(cold_seconds):
    assert cold_seconds([10, 11, 10.5, 12, 10], [11, 10.25, 12, 11, 10.5], 0.5) == (0.5, MAX_ROUNDS)


def test_the_least_of_several_times_counts(cold_seconds):
    both, fill = [11, 10.5, 10.75, 12, 13], [10.75, 9.75, 10, 9, 11]
    assert cold_seconds(both, fill, 0.5) == (1.5, MAX_ROUNDS)
    rng = np.random.default_rng(0)
    found = []
    for _ in range(200):  # a product of 0.5 among noise of up to 2
        noise = rng.exponential(0.4, (2, MAX_ROUNDS))
        found.append(cold_seconds(10.5 + noise[0], 10 + noise[1], 0.25)[0])
    assert min(found) >= 0.25
    assert abs(np.median(found) - 0.5) < 0.05
