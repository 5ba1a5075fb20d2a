"""Random row functions: compiled code gives what the plain loop gives, bit for bit if nothing rounds.

Those with numbers that wrap, and indices that only conditions keep inside, are compared with Python itself
(wrapping_python.py), also with arrays at the edge of forbidden memory (guarded_memory.py).
"""

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from random_programs import random_arguments, random_reduction

from bmrm.formulas.cpu import native

PROGRAMS = int(os.environ.get("BMRM_RANDOM_PROGRAMS", "15"))
WILD = int(os.environ.get("BMRM_RANDOM_PROGRAMS", "10"))
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
    X = X + 1 / 32  # no quotient is an integer, which rounding could move
    compare(reduction(X, **words), reduction.python(X, **words), text, False)


def run_guarded(target, first, count):
    program = Path(__file__).with_name("guarded_memory.py")
    words = [sys.executable, program, target, str(first), str(count)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    how = signal.Signals(-done.returncode).name if done.returncode < 0 else done.stderr[-5000:]
    assert done.returncode == 0, (how, done.stdout.splitlines()[-1:])


@pytest.mark.parametrize("first", range(FIRST, FIRST + WILD, 100))
def test_whole_numbers_wrap_and_no_access_is_outside_of_an_array(first):
    run_guarded("cpu", 50_000 + first, min(100, FIRST + WILD - first))


@pytest.mark.skipif(shutil.which("g++") is None, reason="there is no g++")
@pytest.mark.parametrize("first", range(FIRST, FIRST + WILD, 100))
def test_neither_in_the_text_for_gpus(first):
    run_guarded("cuda", 50_000 + first, max(1, min(100, FIRST + WILD - first) // 25))
