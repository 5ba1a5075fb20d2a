"""Random row functions: compiled code gives what the plain loop gives, bit for bit if nothing rounds."""

import os

import numpy as np
import pytest
from random_programs import random_arguments, random_reduction

from bmrm.formulas import native

PROGRAMS = int(os.environ.get("BMRM_RANDOM_PROGRAMS", "75"))
FIRST = int(os.environ.get("BMRM_RANDOM_FIRST", "0"))
ROWS = (0, 1, 5, 40, 70)

pytestmark = pytest.mark.skipif(not native.can_compile(), reason="llvmlite is not installed")


def compare(found, expected, text, exact):
    for name, mine, theirs in zip(found._fields, found, expected, strict=True):
        mine, theirs = np.asarray(mine), np.asarray(theirs)
        assert mine.dtype == theirs.dtype, (name, text)
        assert mine.shape == theirs.shape, (name, text)
        if exact or mine.dtype.kind != "f":
            assert np.array_equal(mine, theirs), (name, mine, theirs, text)
        else:
            np.testing.assert_allclose(mine, theirs, rtol=1e-9, atol=1e-9, err_msg=f"{name}\n{text}")


@pytest.mark.parametrize("seed", range(FIRST, FIRST + PROGRAMS))
def test_a_random_program_gives_the_bits_of_the_plain_loop(seed):
    reduction, text = random_reduction(seed, exact=True)
    X, words = random_arguments(seed, ROWS[seed % len(ROWS)])
    compare(reduction(X, **words), reduction.python(X, **words), text, True)


@pytest.mark.parametrize("seed", range(FIRST, FIRST + PROGRAMS // 3))
def test_a_random_program_with_functions_agrees_up_to_rounding(seed):
    reduction, text = random_reduction(10_000 + seed, exact=False)
    X, words = random_arguments(seed, 40)
    X = X + 1 / 32  # no quotient is a whole number, which rounding could move
    compare(reduction(X, **words), reduction.python(X, **words), text, False)
