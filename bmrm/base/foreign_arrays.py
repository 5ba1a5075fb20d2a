"""Arrays of other libraries: pass margins to a user's function and read its results without a copy.

A function states which arrays it expects (`ARRAY_KINDS`). Margins on a GPU are lent through DLPack, which
also orders the work of both sides: the function's library waits for our margins, and we wait for its results.
Results with only ``__cuda_array_interface__`` are accepted too. On the CPU the function gets arrays of
its library that share NumPy's memory if the library allows that.

References
----------
DLPack, https://dmlc.github.io/dlpack/latest/python_spec.html. Numba's documentation, "CUDA Array
Interface (Version 3)".
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from bmrm.base import _dlpack
from bmrm.base.vectors import Vector
from bmrm.errors import DataError, ParameterError

ARRAY_KINDS = ("numpy", "cupy", "torch", "jax", "dlpack")
"""Kinds of arrays that a function may ask for; "dlpack" means an object that has only ``__dlpack__``."""

FLOAT_TYPES = ("float32", "float64")
"""Types in which a function may return numbers."""

LEGACY_STREAM = 1
"""Number of CUDA's default stream in both protocols."""


class RowNumbersOnDevice(NamedTuple):
    """One number per row in the memory of a device."""

    address: int
    stride: int  # elements from the number of one row to that of the next
    itemsize: int  # 4 or 8
    owner: object  # keeps the memory alive


def import_library(kind: str) -> Any:
    """Import the library of a kind of array; None for "numpy" and "dlpack".

    Raise `ParameterError` if the kind is unknown or its library is not installed.
    """
    if kind not in ARRAY_KINDS:
        raise ParameterError(f"arrays: found {kind!r}, expected one of {', '.join(ARRAY_KINDS)}")
    if kind in ("numpy", "dlpack"):
        return None
    try:
        return importlib.import_module("jax.numpy" if kind == "jax" else kind)
    except ImportError:
        raise ParameterError(f"arrays: found {kind!r}, expected a library that is installed") from None


def make_importer(kind: str) -> Callable[[Any], Any]:
    """Return the function that turns a lent GPU array into an array of a library."""
    found = import_library(kind)
    if found is None:
        return lambda lent: lent
    from_dlpack: Callable[[Any], Any] = found.from_dlpack
    return from_dlpack


def from_host(kind: str, array: Vector) -> Any:
    """Convert an array on the host to an array of a library.

    The result shares its memory, except for JAX, whose arrays never change, and CuPy, which has no arrays on
    the host.

    Examples
    --------
    >>> import numpy as np
    >>> numbers = np.ones(2)
    >>> from_host("dlpack", numbers) is numbers
    True
    """
    found = import_library(kind)
    if found is None:
        return array
    return found.from_numpy(array) if kind == "torch" else found.asarray(array)


def to_host(kind: str, array: Any) -> Vector:
    """Convert an array of a library to float64 on the host.

    Examples
    --------
    >>> to_host("numpy", [1, 2])
    array([1., 2.])
    """
    if kind == "torch":
        array = detach(array).cpu()
    elif kind == "cupy":
        array = import_library(kind).asnumpy(array)
    elif kind == "dlpack" and not hasattr(array, "__array__"):
        array = np.from_dlpack(array)
    return np.asarray(array, np.float64)


def detach(array: Any) -> Any:
    """Detach an array from the graph that PyTorch keeps for derivatives."""
    return array.detach() if hasattr(array, "detach") else array


def borrow_rows(
    array: Any, name: str, rows: int, device: int, stream: int, wait: Callable[[int], None]
) -> RowNumbersOnDevice:
    """Borrow the numbers that a user's function returned on a GPU.

    - ``array``: has ``__dlpack__`` or ``__cuda_array_interface__``
    - ``stream``: stream that will read the numbers; DLPack makes it wait until they are ready
    - ``wait``: makes ``stream`` wait for another stream; called if the array has no DLPack

    Raise `DataError` for anything except ``rows`` floats on this GPU.
    """
    array = detach(array)
    if hasattr(array, "__dlpack__"):
        kind, number = (int(part) for part in array.__dlpack_device__())
        if (kind, number) != (_dlpack.CUDA, device):
            where = (
                f"GPU {number}"
                if kind == _dlpack.CUDA
                else "the host"
                if kind == _dlpack.CPU
                else "another kind of device"
            )
            raise DataError(f"{name}: found on {where}, expected on GPU {device}, like the margins")
        lent = _dlpack.Borrowed(array.__dlpack__(stream=stream))
        _check_rows(name, lent.shape, lent.dtype, rows)
        return RowNumbersOnDevice(lent.address, lent.strides[0], np.dtype(lent.dtype).itemsize, lent)
    if not hasattr(array, "__cuda_array_interface__"):
        raise DataError(
            f"{name}: found {type(array).__name__}, expected an array on GPU {device} "
            "(__dlpack__ or __cuda_array_interface__)"
        )
    interface = array.__cuda_array_interface__
    dtype = np.dtype(interface["typestr"])
    _check_rows(name, tuple(interface["shape"]), dtype.name, rows)
    strides = interface.get("strides")
    # Version 3 names the stream that makes the array, None if it is ready; older versions name no stream.
    theirs = interface["stream"] if interface["version"] >= 3 and "stream" in interface else LEGACY_STREAM
    if theirs is not None:
        wait(int(theirs))
    return RowNumbersOnDevice(
        interface["data"][0], strides[0] // dtype.itemsize if strides else 1, dtype.itemsize, array
    )


def _check_rows(name: str, shape: tuple[int, ...], dtype: str, rows: int) -> None:
    check_result_shape(name, shape, (rows,))
    if dtype not in FLOAT_TYPES:
        raise DataError(f"{name}: found dtype {dtype}, expected {' or '.join(FLOAT_TYPES)}")


def check_result_shape(name: str, shape: tuple[int, ...], expected: tuple[int, ...]) -> None:
    """Raise `DataError` if a user's function did not return one number per row."""
    if shape != expected:
        raise DataError(f"{name}: found shape {shape}, expected {expected}, one per row")
