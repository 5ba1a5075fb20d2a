"""Programs on chosen instruction sets."""

import functools
import os
import subprocess
import sys

import numpy as np

from bmrm.matrix._cpu import instruction_set


@functools.cache
def output_on(name: str, program: str) -> str:
    """Run a program on an instruction set, once for all those that it is compared with; return its output."""
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "BMRM_CPU_ISA": name},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def assert_same_results(program: str, lower: str) -> None:
    """Compare the numbers that a program prints after its instruction set: they differ by rounding alone."""
    run = [output_on(name, program).split() for name in (instruction_set(), lower)]
    assert run[1][0] in (lower, "baseline")
    values = [np.array([float.fromhex(x) for x in words[1:]]) for words in run]
    np.testing.assert_allclose(values[1], values[0], rtol=1e-9, atol=1e-11)
