"""Where tests of rows on a device run: `bmrm.matrix._cuda` on a GPU, and its emulation on the CPU."""

from __future__ import annotations

from typing import Any

import pytest

PLACES = ("emulated", "gpu")
LITTLE_SHARED = 30_000
"""Bytes of shared memory of a device on which sums, and shares of many components, are elsewhere."""


def gpu() -> Any:
    """The module, if there is a GPU; else the test is skipped."""
    cuda = pytest.importorskip("bmrm.matrix._cuda", reason="the package was built without CUDA")
    if not cuda.device_count():
        pytest.skip("there is no CUDA device")
    return cuda
