"""One program on two instruction sets: the results differ by rounding alone."""

import functools
import os
import subprocess
import sys

import numpy as np

from bmrm.matrix._cpu import instruction_set


@functools.cache
def _words(program: str, name: str) -> list[str]:
    """Run a program on an instruction set, once for all those that it is compared with."""
    return subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "BMRM_CPU_ISA": name},
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()


def assert_same_results(program: str, lower: str) -> None:
    """Compare the numbers that a program prints after the name of its instruction set."""
    run = [_words(program, name) for name in (instruction_set(), lower)]
    assert run[1][0] in (lower, "baseline")
    values = [np.array([float.fromhex(x) for x in words[1:]]) for words in run]
    np.testing.assert_allclose(values[1], values[0], rtol=1e-9, atol=1e-11)
