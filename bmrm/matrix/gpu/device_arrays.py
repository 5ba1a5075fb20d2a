"""X that other libraries have put on a GPU: used in place, without a copy through main memory.

An array shows its memory by ``__cuda_array_interface__`` or, if it does not have that, by DLPack. A matrix of
CuPy or PyTorch in compressed rows has three of them.

The library may still be computing the array. Reading a part of it back with the means of the library waits
for that: `get` of CuPy, `cpu` of PyTorch, `copy_to_host` of Numba and the conversion of JAX's arrays wait for
the stream on which the library works. So a row of each array is read before its address is used.

References
----------
Numba's documentation, "CUDA Array Interface (Version 3)". DLPack,
https://dmlc.github.io/dlpack/latest/python_spec.html.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from bmrm.base import _dlpack
from bmrm.base.arguments import find_device, is_on_device, is_sparse_tensor
from bmrm.base.foreign_arrays import LEGACY_STREAM, detach
from bmrm.errors import DataError
from bmrm.io.csr import Csr

_TO_HOST = ("get", "cpu", "copy_to_host")
"""Methods that copy an array to main memory: of CuPy, PyTorch and Numba."""


class DeviceArray:
    """An array in the memory of a GPU, with what a `_cuda.Matrix` and a fingerprint of X read of it.

    Raise `DataError` for an array of other dimensions, of numbers other than these types, or not in C order.
    None allows any dimensions or types, ``any_order`` any order. ``stream`` is the number of the stream on
    which the array will be used, if it has one: what the library fills on the same stream needs no waiting.
    ``waits=False`` leaves it to the caller to use the array only when it is filled. ``place`` is what
    `find_device` returned, if it was asked.

    Attributes
    ----------
    address : int
    shape : tuple of int
    strides : tuple of int
        Bytes.
    by_rows : bool
        Whether it is stored by rows.
    dtype : dtype
    device : int
        The CUDA number of the GPU; 0 if the library does not say.
    """

    def __init__(
        self,
        what: str,
        owner: Any,
        ndim: int | None,
        types: tuple[DTypeLike, ...] | None,
        *,
        any_order: bool = False,
        stream: int | None = None,
        waits: bool = True,
        place: tuple[int, int] | None = None,
    ) -> None:
        self._owner = detach(owner)
        kind, self.device = place or find_device(self._owner) or (_dlpack.CPU, 0)
        if kind != _dlpack.CUDA:
            raise DataError(f"{what}: found an array on another device, expected one on a CUDA GPU")
        interface = self._read_interface(what)
        self.shape, self.dtype = tuple(map(int, interface["shape"])), np.dtype(interface["typestr"])
        if ndim is not None and len(self.shape) != ndim:
            raise DataError(f"{what}: found {len(self.shape)} dimensions, expected {ndim}")
        if types is not None and self.dtype not in [np.dtype(each) for each in types]:
            expected = " or ".join(np.dtype(each).name for each in types)
            raise DataError(f"{what}: found {self.dtype} on a GPU, expected {expected}")
        strides = interface.get("strides")
        if not any_order:
            self._check_order(what, strides)
        self.address = int(interface["data"][0])
        by_rows = _c_strides(self.shape, self.dtype.itemsize)
        self.strides = by_rows if strides is None else tuple(strides)
        self.by_rows = self.strides == by_rows
        self.__cuda_array_interface__ = interface
        is_ordered = stream is not None and interface.get("stream") == stream
        if waits and not is_ordered and self.shape and all(self.shape):
            _copy_to_host(self._owner[:1])  # waits until the library has filled the array

    def _read_interface(self, what: str) -> dict[str, Any]:
        try:
            interface = getattr(self._owner, "__cuda_array_interface__", None)  # computed when it is read
            if interface is not None:
                return dict(interface)
            lent = self._lent = _dlpack.Borrowed(self._owner.__dlpack__(stream=LEGACY_STREAM))
            dtype = np.dtype(lent.dtype)
        except (TypeError, ValueError, RuntimeError, BufferError) as fault:  # for example bfloat16
            raise DataError(f"{what}: {fault}; expected an array of CUDA") from None
        return {
            "shape": lent.shape,
            "typestr": dtype.str,
            "data": (lent.address, True),
            "strides": tuple(step * dtype.itemsize for step in lent.strides),
            "version": 3,
        }

    def _check_order(self, what: str, strides: tuple[int, ...] | None) -> None:
        expected = self.dtype.itemsize
        for extent, stride in zip(reversed(self.shape), reversed(strides or ()), strict=False):
            if extent > 1 and stride != expected:
                raise DataError(f"{what}: found strides {strides}, expected a C-contiguous array on the GPU")
            expected *= extent

    @property
    def owner(self) -> Any:
        """The array of its library, without what gradients need."""
        return self._owner

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """Number of elements."""
        return int(np.prod(self.shape, dtype=np.int64))

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, part: slice) -> NDArray[Any]:
        """Copy a slice to main memory."""
        return _copy_to_host(self._owner[part])

    def numpy(self) -> NDArray[Any]:
        """Copy the array to main memory."""
        return _copy_to_host(self._owner)


def c_strides(shape: tuple[int, ...], itemsize: int) -> tuple[int, ...]:
    """Return the strides, in bytes, of an array that is stored by rows.

    Examples
    --------
    >>> c_strides((2, 3), 8)
    (24, 8)
    """
    found = [itemsize]
    for size in shape[:0:-1]:
        found.insert(0, found[0] * size)
    return tuple(found[: len(shape)])


_c_strides = functools.lru_cache(256)(c_strides)


def _copy_to_host(array: Any) -> NDArray[Any]:
    for name in _TO_HOST:
        if hasattr(array, name):
            array = getattr(array, name)()
            break
    return np.asarray(array)


def read_device_matrix(X: Any) -> Csr | DeviceArray | None:
    """Return X that is on a GPU, in compressed rows or dense; None if it is in main memory.

    Raise `DataError` if X is neither, or has values or indices of types that the GPU does not take.
    """
    if is_sparse_tensor(X):
        if str(X.layout) != "torch.sparse_csr" or not is_on_device(X.values()):
            return None
        return _rows("X", X.crow_indices(), X.col_indices(), X.values(), X.shape)
    if hasattr(X, "tocsr"):
        if not is_on_device(getattr(X, "data", None)):
            return None
        X = X.tocsr()
        if not X.has_canonical_format:
            X = X.copy()
            X.sum_duplicates()
        return _rows("X", X.indptr, X.indices, X.data, X.shape)
    return DeviceArray("X", X, 2, (np.float32, np.float64)) if is_on_device(X) else None


def _rows(what: str, indptr: Any, indices: Any, values: Any, shape: Any) -> Csr:
    pointers = _copy_to_host(detach(indptr)).astype(np.int64)
    if len(shape) != 2:
        raise DataError(f"{what}: found {len(shape)} dimensions, expected 2")
    columns: Any = DeviceArray(f"{what}, indices", indices, 1, (np.int32, np.int64))
    numbers: Any = DeviceArray(f"{what}, values", values, 1, (np.float32, np.float64))
    return Csr(pointers, columns, numbers, (int(shape[0]), int(shape[1])))


def gpu_of(X: object) -> int | None:
    """Return the CUDA number of the GPU that has X; None if X does not say."""
    values = X.data if isinstance(X, Csr) else X
    return values.device if isinstance(values, DeviceArray) else None


def read_back(array: Any) -> Any:
    """Copy an array on a GPU to main memory: one number per row; return everything else unchanged."""
    return _copy_to_host(detach(array)) if is_on_device(array) else array
