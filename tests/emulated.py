"""`bmrm.matrix._cuda` compiled for the CPU (`building/emulated.py`) in place of the module for GPUs."""

from __future__ import annotations

import ctypes
import importlib.util
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

import bmrm.matrix
from bmrm.base.caches import lock_file
from bmrm.matrix.gpu import libraries

ROOT = Path(__file__).parents[1]
NAME = "bmrm.matrix._cuda"
EMULATED = "BMRM_TEST_EMULATED"
"""Environment variable for programs that tests start: how many emulated devices they have."""
BUILT = ROOT / "build" / "emulated" / "bmrm" / "matrix"


@cache
def module() -> ModuleType:
    """Return the module; it is compiled first if it is not current."""
    if shutil.which("g++") is None:
        pytest.skip("there is no g++")
    BUILT.mkdir(parents=True, exist_ok=True)
    with lock_file(str(BUILT / "lock")):
        environment = {**os.environ, "BMRM_CUDA": "emulated"}
        command = [sys.executable, "setup.py", "-q", "build_ext"]
        subprocess.run(command, cwd=ROOT, env=environment, check=True, capture_output=True)
    (path,) = BUILT.glob("_cuda.*.so")
    spec = importlib.util.spec_from_file_location(NAME, path)
    assert spec
    assert spec.loader
    found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    return found


@cache
def library() -> ctypes.CDLL:
    """Return the emulator that the module contains."""
    found = ctypes.CDLL(str(module().__file__))
    found.emulator_allocate.restype, found.emulator_used.restype = ctypes.c_void_p, ctypes.c_int64
    return found


def configure(
    devices: int = 1, capability: tuple[int, int] = (9, 0), multiprocessors: int = 3, size: int = 1 << 27
) -> None:
    """Set what the devices are: how many, and the multiprocessors and bytes of each."""
    library().emulator_configure(devices, *capability, multiprocessors, ctypes.c_int64(size))


def install(replace: Callable[[object, str, object], None], devices: int = 1) -> ModuleType:
    """Let the package find the module; ``replace`` sets an attribute, or an item of a dictionary."""
    found = module()
    configure(devices)
    replace(sys.modules, NAME, found)
    replace(bmrm.matrix, "_cuda", found)
    for names in ("NCCL_NAMES", "CUBLAS_NAMES"):
        replace(libraries, names, (str(found.__file__),))
    return found


class Array:
    """An array on the emulated device, as another library has it."""

    def __init__(self, array: np.ndarray) -> None:
        self._address = library().emulator_allocate(ctypes.c_int64(max(array.nbytes, 1)))
        assert self._address, "out of memory on the emulated device"
        memory = (ctypes.c_byte * array.nbytes).from_address(self._address)
        self._array = np.frombuffer(memory, array.dtype).reshape(array.shape)
        self._array[...] = array

    def __del__(self) -> None:
        library().emulator_free(ctypes.c_void_p(self._address))
