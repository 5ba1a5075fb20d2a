"""NVIDIA's libraries that are looked for when they are wanted: NCCL, and cuBLAS."""

from __future__ import annotations

import functools
import importlib.util
import os
from collections.abc import Callable, Iterator
from pathlib import Path

from bmrm.errors import BmrmError
from bmrm.matrix.gpu.devices import import_cuda

NCCL_NAMES = ("libnccl.so.2",)

CUBLAS_NAMES = ("libcublas.so.13", "libcublas.so.12", "libcublas.so.11")


@functools.cache
def has_nccl() -> bool:
    """Find NCCL; false where there is none."""
    return _load_first(import_cuda().load_nccl, NCCL_NAMES)


@functools.cache
def has_blas() -> bool:
    """Find cuBLAS; false where there is none."""
    return _load_first(import_cuda().load_blas, CUBLAS_NAMES)


def _load_first(load: Callable[[str], None], names: tuple[str, ...]) -> bool:
    for place in _candidate_paths(names):
        try:
            load(place)
        except BmrmError:
            continue
        return True
    return False


def _candidate_paths(names: tuple[str, ...]) -> Iterator[str]:
    """Where the system has it, in the wheels beside the package, in the toolkit."""
    yield from names
    spec = importlib.util.find_spec("nvidia")
    wheels = [
        lib
        for top in (spec.submodule_search_locations or () if spec else ())
        for lib in Path(top).glob("*/lib")
    ]
    toolkit = Path(os.environ.get("CUDA_HOME") or "/usr/local/cuda", "lib64")
    for folder in [*sorted(wheels), toolkit]:
        yield from (str(folder / name) for name in names if (folder / name).exists())
