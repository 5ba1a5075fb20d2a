"""`bmrm.matrix._cuda` compiled for the CPU (`building/emulated.py`) in place of the module for GPUs."""

from __future__ import annotations

import ctypes
import importlib.util
import os
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import bmrm.matrix
from bmrm.base.caches import lock_file
from bmrm.matrix.gpu import libraries

ROOT = Path(__file__).parents[1]
NAME = "bmrm.matrix._cuda"
BUILT = "BMRM_TEST_EMULATED"
"""Environment variable: the compiled module, for the processes that tests start."""


def build() -> Path:
    """Return the compiled module; it is made first if it is not current."""
    if BUILT not in os.environ:
        if shutil.which("g++") is None or importlib.util.find_spec("Cython") is None:
            pytest.skip("there is no g++, or no Cython", allow_module_level=True)
        folder = ROOT / "build" / "emulated"
        folder.mkdir(parents=True, exist_ok=True)
        with lock_file(str(folder / "lock")):
            environment = {**os.environ, "BMRM_CUDA": "emulated"}
            subprocess.run(
                [sys.executable, "setup.py", "-q", "build_ext"], cwd=ROOT, env=environment, check=True
            )
        (found,) = folder.glob("bmrm/matrix/_cuda.*so")
        os.environ[BUILT] = str(found)
    return Path(os.environ[BUILT])


@cache
def module() -> ModuleType:
    """Return the module, which is not yet that of the package."""
    spec = importlib.util.spec_from_file_location(NAME, build())
    assert spec
    assert spec.loader
    found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    return found


@cache
def library() -> ctypes.CDLL:
    """Return the emulator that the module contains."""
    found = ctypes.CDLL(str(build()))
    found.emulator_allocate.restype, found.emulator_used.restype = ctypes.c_void_p, ctypes.c_int64
    return found


def configure(
    devices: int,
    capability: tuple[int, int] = (9, 0),
    multiprocessors: int = 3,
    memory: int = 1 << 27,
    shared: int = 227 << 10,
) -> None:
    """Set what the devices are: how many, and the multiprocessors, memory and shared memory of each."""
    library().emulator_configure(devices, *capability, multiprocessors, ctypes.c_int64(memory), shared)


def install() -> ModuleType:
    """Make the module that of the package; no device is there yet."""
    found = module()
    configure(0)
    sys.modules[NAME] = found
    setattr(bmrm.matrix, "_cuda", found)  # noqa: B010 (the package may have no such module)
    return found


def names_of_libraries() -> dict[str, tuple[str, ...]]:
    """Return what stands for the names in `bmrm.matrix.gpu.libraries`: the module has NCCL and cuBLAS."""
    return dict.fromkeys(("NCCL_NAMES", "CUBLAS_NAMES"), (str(build()),))


def start(devices: int, ahead: int = 0) -> None:
    """Let this process, which runs no tests, find devices, with NCCL and cuBLAS, in an order of streams."""
    install()
    configure(devices)
    library().emulator_run_ahead(ahead)
    vars(libraries).update(names_of_libraries())


class Array:
    """An array on the device, as another library has it; parts of it share its memory."""

    def __init__(self, array: Any, owner: Array | None = None) -> None:
        self._array, self._owner = np.asarray(array), owner
        if owner is None:
            self._address = library().emulator_allocate(ctypes.c_int64(max(self._array.nbytes, 1)))
            assert self._address, "out of memory on the emulated device"
            memory = (ctypes.c_byte * self._array.nbytes).from_address(self._address)
            held = np.frombuffer(memory, self._array.dtype).reshape(self._array.shape)
            held[...] = self._array
            self._array = held

    def __del__(self) -> None:
        if self._owner is None:
            library().emulator_free(ctypes.c_void_p(self._address))

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        known = self._array.__array_interface__
        return {name: known[name] for name in ("shape", "typestr", "data", "strides")} | {"version": 3}

    def __getitem__(self, part: Any) -> Array:
        return Array(self._array[part], self)

    def __setitem__(self, part: Any, value: Any) -> None:
        self._array[part] = value

    def reshape(self, shape: tuple[int, ...]) -> Array:
        return Array(self._array.reshape(shape), self)

    def get(self) -> Any:
        return self._array.copy()
