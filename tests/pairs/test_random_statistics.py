"""Random functions of two points give what a plain double loop gives, bit for bit."""

import os

import numpy as np
import pytest
from random_statistics import double_loop, random_call, random_statistic

from bmrm.formulas.cpu import native

# Each pair of sizes with each number of threads.
FUNCTIONS = int(os.environ.get("BMRM_RANDOM_STATISTICS", "48"))
FIRST = int(os.environ.get("BMRM_RANDOM_FIRST", "0"))

pytestmark = pytest.mark.skipif(not native.can_compile(), reason="llvmlite is not installed")


def given(marks):
    if len(marks) == 1:
        return marks[0]
    return {name: tuple(each[name] for each in marks) for name in marks[0]}


@pytest.mark.parametrize("seed", range(FIRST, FIRST + FUNCTIONS))
def test_a_random_function_gives_what_a_double_loop_gives(seed):
    statistic, text, plain = random_statistic(seed)
    n, m = (1, 5, 33, 70)[seed % 4], (None, None, 20, 1)[seed // 4 % 4]
    ordered = None if m is not None else bool(seed % 2)
    sets, marks, words = random_call(seed, n, m)
    found = statistic(*sets, ordered=ordered, threads=1 + seed % 3, device="cpu", **words, **given(marks))
    expected = double_loop(plain, sets, marks, words, ordered)
    for name, mine in zip(found._fields, found, strict=True):
        assert np.array_equal(mine, expected[name]), (name, mine, expected[name], text)
    if seed % 5 == 0 and n < 70:
        loop = statistic.python(*sets, ordered=ordered, **words, **given(marks))
        assert all(np.array_equal(a, b) for a, b in zip(found, loop, strict=True)), text
