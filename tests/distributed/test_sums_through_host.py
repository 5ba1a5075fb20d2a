"""Sums over ranks through main memory: a buffer that grows waits for what still leaves it."""

from __future__ import annotations

import ctypes
import re

import compiled
import pytest

SOURCE = (compiled.ROOT / "src_cuda" / "distributed" / "collective.cu").read_text()
PROGRAM = (compiled.ROOT / "tests" / "distributed" / "collective.cpp").read_text()
WAIT = re.compile(r"BB_CHECK\(cudaStreamSynchronize\(stream\)\);(?=.*still be on their way)")


def wrong_sums(source: str, first: int, second: int) -> int:
    """Return the wrong sums of two arrays, one after the other, by a text of ``collective.cu``."""
    library = compiled.with_emulator(PROGRAM, source)
    found: int = library.wrong_sums(ctypes.c_int64(first), ctypes.c_int64(second))
    return found


@pytest.mark.parametrize("sizes", [(8, 1000), (1000, 8)])
def test_sums_of_arrays_of_any_sizes(sizes):
    assert wrong_sums(SOURCE, *sizes) == 0


def test_a_buffer_that_grows_too_early_shows():
    without, count = WAIT.subn("", SOURCE)
    assert count == 1
    assert wrong_sums(without, 8, 1000) > 0
