"""Arrays of other libraries: lent to a user's function, and taken back from it, without a copy.

A function says which arrays it wants (`KINDS`). Where the margins are on a GPU they are lent by DLPack, whose
capsules also put the work of both sides in order: the function's library waits for our margins, and we wait
for its results. Objects that know ``__cuda_array_interface__`` alone are taken too. On the CPU the same
function gets arrays of its library that share NumPy's memory, where the library can.

References
----------
DLPack, https://dmlc.github.io/dlpack/latest/python_spec.html. Numba's documentation, "CUDA Array Interface
(Version 3)".
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
"""Arrays that a function may ask for; "dlpack" is no library's: an object with ``__dlpack__`` alone."""

FLOAT_TYPES = ("float32", "float64")
LEGACY_STREAM = 1
"""CUDA's default stream, as both protocols number it."""


class DeviceRows(NamedTuple):
    """Numbers a row on a device.

    Attributes
    ----------
    address : int
    stride : int
        Elements from one row's to the next's.
    itemsize : int
        4 or 8.
    owner : object
        What keeps the memory alive.
    """

    address: int
    stride: int
    itemsize: int
    owner: object


def import_library(kind: str) -> Any:
    """Import the library of a kind of arrays; None for "numpy" and "dlpack".

    Raises
    ------
    ParameterError
        If there is no such kind, or its library is not installed.
    """
    if kind not in ARRAY_KINDS:
        raise ParameterError(f"arrays: found {kind!r}, expected one of {', '.join(ARRAY_KINDS)}")
    if kind in ("numpy", "dlpack"):
        return None
    try:
        return importlib.import_module("jax.numpy" if kind == "jax" else kind)
    except ImportError:
        raise ParameterError(f"arrays: found {kind!r}, which is not installed") from None


def make_importer(kind: str) -> Callable[[Any], Any]:
    """Return what makes an array of a library of one that is lent on a GPU."""
    found = import_library(kind)
    if found is None:
        return lambda lent: lent
    taken: Callable[[Any], Any] = found.from_dlpack
    return taken


def from_host(kind: str, array: Vector) -> Any:
    """Make an array of a library with the numbers of one on the host.

    It shares their memory, but for JAX, whose arrays never change, and CuPy, which has none on the host.

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
    """Return the numbers of an array of a library, float64 on the host.

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
    """Return the array without the graph that PyTorch keeps for derivatives."""
    return array.detach() if hasattr(array, "detach") else array


def borrow_rows(
    array: Any, name: str, rows: int, device: int, stream: int, wait: Callable[[int], None]
) -> DeviceRows:
    """Take the numbers that a function gave back on a GPU.

    Parameters
    ----------
    array : object
        With ``__dlpack__`` or ``__cuda_array_interface__``.
    name : str
        What it is, for messages.
    rows : int
        How many numbers are expected.
    device : int
        On which GPU.
    stream : int
        Where they will be read: DLPack makes it wait for them.
    wait : callable
        Makes it wait for another stream; asked where DLPack is not spoken.

    Raises
    ------
    DataError
        For anything but ``rows`` floats on this GPU.
    """
    array = detach(array)
    if hasattr(array, "__dlpack__"):
        kind, number = (int(part) for part in array.__dlpack_device__())
        if (kind, number) != (_dlpack.CUDA, device):
            where = (
                f"GPU {number}" if kind == _dlpack.CUDA else "the host" if kind == _dlpack.CPU else "neither"
            )
            raise DataError(f"{name}: found on {where}, expected on GPU {device}, where the margins are")
        lent = _dlpack.Borrowed(array.__dlpack__(stream=stream))
        _check_rows(name, lent.shape, lent.dtype, rows)
        return DeviceRows(lent.address, lent.strides[0], np.dtype(lent.dtype).itemsize, lent)
    if not hasattr(array, "__cuda_array_interface__"):
        raise DataError(
            f"{name}: found {type(array).__name__}, expected an array on GPU {device} "
            "(__dlpack__ or __cuda_array_interface__)"
        )
    face = array.__cuda_array_interface__
    dtype = np.dtype(face["typestr"])
    _check_rows(name, tuple(face["shape"]), dtype.name, rows)
    strides = face.get("strides")
    # Version 3 says on which stream the array is made, None where it is there; older ones say nothing.
    theirs = face["stream"] if face["version"] >= 3 and "stream" in face else LEGACY_STREAM
    if theirs is not None:
        wait(int(theirs))
    return DeviceRows(face["data"][0], strides[0] // dtype.itemsize if strides else 1, dtype.itemsize, array)


def _check_rows(name: str, shape: tuple[int, ...], dtype: str, rows: int) -> None:
    check_result_shape(name, shape, (rows,))
    if dtype not in FLOAT_TYPES:
        raise DataError(f"{name}: found dtype {dtype}, expected {' or '.join(FLOAT_TYPES)}")


def check_result_shape(name: str, shape: tuple[int, ...], expected: tuple[int, ...]) -> None:
    """Raise `DataError` where a function gave back anything but a number for each row."""
    if shape != expected:
        raise DataError(f"{name} have shape {shape}, expected {expected}, one a row")
