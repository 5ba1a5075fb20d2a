"""Where tests of a GPU run: on one if there is one, or else on the emulator (`emulated.py`).

A test with the mark `gpu` finds the device there; others find a machine without one if it is emulated.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

import emulated
import pytest

from bmrm.errors import BmrmError
from bmrm.matrix.gpu.devices import import_cuda

T = TypeVar("T")


def _find() -> tuple[Any, bool]:
    try:
        found = import_cuda()
        if found.device_count() and found.device_info()["name"] != "emulated":
            return found, False
    except BmrmError:
        pass
    return emulated.install(), True


cuda, IS_EMULATED = _find()
gpu = pytest.mark.gpu
large = pytest.mark.skipif(IS_EMULATED, reason="there is no CUDA device, and the emulator takes too long")


def sized(small: T, whole: T) -> T:
    """Return a size for the emulator, or for a GPU."""
    return small if IS_EMULATED else whole


def few(cases: Sequence[T], count: int = 1) -> Sequence[T]:
    """Return some of the cases for the emulator, all for a GPU."""
    return cases[: count] if IS_EMULATED else cases


def on_device(array: Any) -> Any:
    """Return an array that another library has put on the device."""
    if IS_EMULATED:
        return emulated.Array(array)
    return pytest.importorskip("cupy").asarray(array)
