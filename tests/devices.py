"""Where tests of a GPU run: on one if there is one, or else on the emulator (`emulated.py`).

A test with the mark `gpu` finds the device there; others find a machine without one if it is emulated.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeVar

import emulated
import pytest

from bmrm.errors import BmrmError
from bmrm.matrix.gpu.devices import import_cuda

T = TypeVar("T")


def _find() -> Any:
    """Return the module that was built, if any."""
    try:
        return import_cuda()
    except BmrmError:
        return None


_built = _find()
IS_BUILT = _built is not None
IS_EMULATED = not (IS_BUILT and _built.device_count())
cuda = emulated.install() if IS_EMULATED else _built
gpu = pytest.mark.gpu
in_each_order = pytest.mark.usefixtures("order_of_streams")
"""For tests in which several streams work: they run in each order of the emulator (`emulator/streams.h`)."""
large = pytest.mark.skipif(IS_EMULATED, reason="there is no CUDA device, and the emulator takes too long")


def sized(small: T, whole: T) -> T:
    """Return a size for the emulator, or for a GPU."""
    return small if IS_EMULATED else whole


def with_device(code: str, devices: int = 1) -> str:
    """Return the text of a program that another process runs, so that it finds the device there."""
    if not IS_EMULATED:
        return code
    here = str(Path(__file__).parent)
    found = f"import sys; sys.path.append({here!r}); import emulated"
    return f"{found}; emulated.start({devices})\n{code}"


def few(cases: Sequence[T], count: int = 1) -> Sequence[T]:
    """Return some of the cases for the emulator, all for a GPU."""
    return cases[:count] if IS_EMULATED else cases


def on_device(array: Any) -> Any:
    """Return an array that another library has put on the device, where the copy is at its end."""
    if IS_EMULATED:
        return emulated.Array(array)
    cupy = pytest.importorskip("cupy")
    found = cupy.asarray(array)
    cupy.cuda.Device().synchronize()
    return found
