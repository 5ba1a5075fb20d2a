"""Distinct values are those of `numpy.unique`, and integers take no longer than sorting them."""

import time

import numpy as np
import pytest

from bmrm.base.distinct import distinct_values


@pytest.mark.parametrize("dtype", [np.int8, np.int32, np.int64, np.uint64, np.float32, bool, "U3", object])
@pytest.mark.parametrize("values", [[], [7], [3, 1, 3, 2, 1], [[2, 1], [1, 0]]])
def test_distinct_values_are_those_of_numpy(values, dtype):
    given = np.array(values).astype(dtype)
    before = given.copy()
    found = distinct_values(given)
    assert found.dtype == given.dtype
    np.testing.assert_array_equal(found, np.unique(given))
    np.testing.assert_array_equal(given, before)


def test_extreme_integers_and_nans():
    least, most = np.iinfo(np.int64).min, np.iinfo(np.int64).max
    assert distinct_values(np.array([most, least, 0, least])).tolist() == [least, 0, most]
    np.testing.assert_array_equal(distinct_values(np.array([np.nan, 1.0, np.nan])), [1.0, np.nan])


def test_many_integers_are_sorted():
    numbers = np.random.default_rng(0).permutation(200_000)

    def seconds(function):
        began = time.process_time()
        for _ in range(3):
            function(numbers)
        return time.process_time() - began

    assert seconds(distinct_values) < 5 * seconds(np.sort) + 0.01
