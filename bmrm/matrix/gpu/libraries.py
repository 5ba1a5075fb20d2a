"""Find NVIDIA's libraries NCCL and cuBLAS when they are needed."""

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
    """Load NCCL; return whether it was found."""
    return _load_first(import_cuda().load_nccl, NCCL_NAMES)


@functools.cache
def has_blas() -> bool:
    """Load cuBLAS; return whether it was found."""
    return _load_first(import_cuda().load_blas, CUBLAS_NAMES)


def _load_first(load: Callable[[str], None], names: tuple[str, ...]) -> bool:
    for place in candidate_paths(names):
        try:
            load(place)
        except BmrmError:
            continue
        return True
    return False


def candidate_paths(names: tuple[str, ...]) -> Iterator[str]:
    """Yield the paths to try: the system's, those of installed wheels, those of the CUDA toolkit."""
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
