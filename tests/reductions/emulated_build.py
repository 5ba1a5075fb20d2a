"""Compiles kernels of ``src_cuda`` and their host code by g++, to run on the CPU.

The CUDA runtime is that of ``tests/graph/emulator``; ``emulator`` adds what these kernels need besides.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Sequence
from ctypes import c_char, c_int32, c_int64, c_void_p
from pathlib import Path

import compiled
import numpy as np

FOLDERS = ("tests/reductions/emulator", "tests/graph/emulator", "src_common", "src_cuda")
ONE_AT_A_TIME = threading.Lock()
"""Held in a call: the emulator runs one kernel at a time."""
EMULATOR = ("tests/graph/emulator/emulator.cpp", "tests/reductions/emulator/reductions.cpp")


class Device(ctypes.Structure):
    """``bb_device`` of src_cuda/api/blackbox.h."""

    _fields_ = [
        ("id", c_int32), ("major", c_int32), ("minor", c_int32), ("multiprocessors", c_int32),
        ("shared_per_block", c_int64), ("shared_per_multiprocessor", c_int64), ("l2_bytes", c_int64),
        ("total_bytes", c_int64), ("free_bytes", c_int64), ("name", c_char * 128),
    ]  # fmt: skip


def compile_kernels(sources: Sequence[str], optimise: str = "-O1") -> Path:
    """Compile sources into a library."""
    folders = (f"-I{path}" for path in FOLDERS)
    return compiled.library([*sources, *EMULATOR], [optimise, "-w", "-include", "cuda_more.h", *folders])


def open_kernels(library: Path | str, counts: Sequence[str]) -> ctypes.CDLL:
    """Load such a library; the functions in ``counts`` return int64."""
    found = ctypes.CDLL(str(library))
    found.emulator_failure.restype = ctypes.c_char_p
    for name in counts:
        getattr(found, name).restype = c_int64
    return found


def address(array: np.ndarray | None) -> c_void_p:
    """Return where an array is, null for none."""
    return c_void_p(None if array is None else array.ctypes.data)
