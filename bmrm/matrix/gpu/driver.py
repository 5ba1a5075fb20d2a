"""A GPU by CUDA's driver interface: memory, code and launches, through ctypes.

All work is on the legacy default stream, in the device's primary context, which the CUDA runtime and other
libraries use too: their work on this stream comes before and after ours in order. The context is current only
while it is used, so the thread's device, as other libraries know it, stays as it is.

So memory may go back while work on this stream still uses it. Only uploads through pinned memory, which have
a stream of their own, would be too early: memory of their size is handed out again after a wait, and blocks
of rows come to the place of others only after the pass over these has been waited for.
"""

from __future__ import annotations

import ctypes
import functools
import math
import sys
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from bmrm.errors import BmrmError, DataError, DeviceMemoryError
from bmrm.matrix.gpu.pinned import PinnedPieces

OUT_OF_MEMORY = 2
"""CUDA_ERROR_OUT_OF_MEMORY."""

MULTIPROCESSORS, MAJOR, MINOR, MAX_SHARED_BYTES = 16, 75, 76, 97
"""Numbers of attributes of a device; the last is what a block may have if it asks."""

DYNAMIC_SHARED_BYTES = 8
"""Number of the attribute of a function that allows it more shared memory than 48 kB."""

POINTER_DEVICE = 9
"""CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL."""

MAPPED = 3
"""CU_MEMHOSTALLOC_PORTABLE and CU_MEMHOSTALLOC_DEVICEMAP: main memory with the same address on GPUs."""

PAGE_WORDS = 512
"""Number of words that are allocated at once: a page."""

MIN_PIECE_BYTES = 256
"""Minimum size of a piece of memory."""

MAX_SPARE_BYTES = 1 << 27
"""Maximum size of a piece that is kept for the next call; larger ones go back to the driver at once."""


@functools.cache
def load_driver() -> ctypes.CDLL:
    """Load CUDA's driver.

    Raises
    ------
    BmrmError
        If there is no driver or no GPU.
    """
    try:
        library = ctypes.CDLL("libcuda.so.1")
    except OSError:
        raise BmrmError("CUDA: found no driver (libcuda.so.1), expected one") from None
    if library.cuInit(0):
        raise BmrmError("CUDA: found no GPU, expected one")
    return library


def count_devices() -> int:
    """Return the number of GPUs."""
    library, found = load_driver(), ctypes.c_int()
    if library.cuDeviceGetCount(ctypes.byref(found)):
        raise BmrmError("CUDA: found no GPU, expected one")
    return found.value


class _Current:
    """Makes a GPU that of the calling thread for a while; faster than a generator."""

    def __init__(self, device: Device, context: ctypes.c_void_p) -> None:
        self._device, self._context = device, context

    def __enter__(self) -> None:
        self._device.check(self._device.library.cuCtxPushCurrent_v2(self._context))

    def __exit__(self, *error: object) -> None:
        self._device.library.cuCtxPopCurrent_v2(ctypes.byref(ctypes.c_void_p()))


class Device:
    """A GPU.

    Parameters
    ----------
    number : int
    """

    def __init__(self, number: int) -> None:
        self.number = number
        self.library = load_driver()
        handle, context = ctypes.c_int(), ctypes.c_void_p()
        self.check(self.library.cuDeviceGet(ctypes.byref(handle), number))
        self.check(self.library.cuDevicePrimaryCtxRetain(ctypes.byref(context), handle))
        self._handle, self._current = handle, _Current(self, context)
        self._spare: dict[int, list[int]] = {}
        self._words: list[ctypes.c_int64] = []
        self._pinned = PinnedPieces(self)
        self.capability = (self.attribute(MAJOR), self.attribute(MINOR))
        self.multiprocessors = self.attribute(MULTIPROCESSORS)
        self.shared_bytes = self.attribute(MAX_SHARED_BYTES)

    def check(self, status: int) -> None:
        """Raise for an error code of the driver."""
        if status == OUT_OF_MEMORY:
            raise DeviceMemoryError(f"GPU {self.number}: out of memory")
        if status:
            text = ctypes.c_char_p()
            self.library.cuGetErrorString(status, ctypes.byref(text))
            raise BmrmError(f"GPU {self.number}: {(text.value or b'error').decode()} ({status})")

    def current(self) -> _Current:
        """Make this the device of the calling thread for a while."""
        return self._current

    def attribute(self, which: int) -> int:
        """Return an attribute of the device."""
        found = ctypes.c_int()
        self.check(self.library.cuDeviceGetAttribute(ctypes.byref(found), which, self._handle))
        return found.value

    def free_bytes(self) -> int:
        """Return how much memory is free."""
        free, total = ctypes.c_size_t(), ctypes.c_size_t()
        with self.current():
            self.check(self.library.cuMemGetInfo_v2(ctypes.byref(free), ctypes.byref(total)))
        return free.value

    def allocate(self, shape: tuple[int, ...], dtype: DTypeLike) -> GpuArray:
        """Return an array on the device; its content is arbitrary."""
        kind = np.dtype(dtype)
        size = piece_bytes(math.prod(shape) * kind.itemsize)
        try:
            address = self._spare.setdefault(size, []).pop()
        except IndexError:
            address = self._take(size)
        else:
            if self._pinned.pays(size):  # such an upload does not wait for the work of who had it before
                with self.current():
                    self.wait()
        return GpuArray(self, address, size, shape, kind)

    def _take(self, size: int) -> int:
        found = ctypes.c_uint64()
        with self.current():
            for is_last in (False, True):
                status = self.library.cuMemAlloc_v2(ctypes.byref(found), ctypes.c_size_t(size))
                if status != OUT_OF_MEMORY or is_last:
                    self.check(status)
                    break
                for spare in self._spare.values():
                    while spare:
                        self.library.cuMemFree_v2(ctypes.c_uint64(spare.pop()))
        return found.value

    def release(self, address: int, size: int) -> None:
        """Take a piece of memory back."""
        if size <= MAX_SPARE_BYTES:
            self._spare[size].append(address)
        else:
            with self.current():
                self.library.cuMemFree_v2(ctypes.c_uint64(address))

    def upload(self, array: NDArray[Any]) -> GpuArray:
        """Copy an array to the device."""
        found = self.allocate(array.shape, array.dtype)
        self.write(found, 0, array)
        return found

    def write(self, to: GpuArray, first: int, array: NDArray[Any]) -> None:
        """Copy an array to the elements of another from number ``first``, both stored by rows."""
        array, address = np.asarray(array, order="C"), to.address + first * to.dtype.itemsize
        if not array.nbytes:
            return
        with self.current():
            if self._pinned.can_help(array):
                self._pinned.copy(address, array)
            else:
                self.check(
                    self.library.cuMemcpyHtoD_v2(
                        ctypes.c_uint64(address),
                        ctypes.c_void_p(array.ctypes.data),
                        ctypes.c_size_t(array.nbytes),
                    )
                )

    def map_word(self) -> ctypes.c_int64:
        """Return a number in main memory that kernels may write; it stays. The context must be current."""
        if not self._words:
            page = ctypes.c_void_p()
            self.check(
                self.library.cuMemHostAlloc(ctypes.byref(page), ctypes.c_size_t(8 * PAGE_WORDS), MAPPED)
            )
            first = page.value or 0
            self._words += [ctypes.c_int64.from_address(first + 8 * i) for i in range(PAGE_WORDS)]
        return self._words.pop()

    def wait(self) -> None:
        """Wait for the work on the device; the context must be current."""
        self.check(self.library.cuStreamSynchronize(None))

    def load(self, code: bytes) -> Module:
        """Load machine code."""
        module = ctypes.c_void_p()
        with self.current():
            self.check(self.library.cuModuleLoadData(ctypes.byref(module), code))
        return Module(self, module)


@functools.lru_cache(1024)
def piece_bytes(size: int) -> int:
    """Return the size of the piece of memory for an array: at most an eighth more, so that sizes repeat.

    Examples
    --------
    >>> piece_bytes(0), piece_bytes(1000), piece_bytes(1_000_000)
    (256, 1024, 1048576)
    """
    step = max(MIN_PIECE_BYTES, 1 << max(0, size.bit_length() - 4))
    return max(MIN_PIECE_BYTES, -(-size // step) * step)


class GpuArray:
    """An array in memory of a GPU that is ours, stored by rows.

    Other libraries read it through ``__cuda_array_interface__``. Its memory goes back with it.
    """

    def __init__(
        self,
        device: Device,
        address: int,
        size: int,
        shape: tuple[int, ...],
        dtype: np.dtype[Any],
        whole: GpuArray | None = None,
    ) -> None:
        self.device, self.address, self.shape, self.dtype = device, address, shape, dtype
        self._size, self._whole = size, whole

    # `ending` is bound now: names of modules are gone when an interpreter ends.
    def __del__(self, ending: Callable[[], bool] = sys.is_finalizing) -> None:
        if self._whole is None and not ending():  # then the driver may be gone
            self.device.release(self.address, self._size)

    def part(self, first_byte: int, shape: tuple[int, ...], dtype: np.dtype[Any]) -> GpuArray:
        """Return an array in a part of the memory of this one, which stays as long."""
        return GpuArray(self.device, self.address + first_byte, 0, shape, dtype, self)

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {
            "shape": self.shape,
            "typestr": self.dtype.str,
            "data": (self.address, False),
            "version": 3,
            "stream": 1,
        }

    def numpy(self) -> NDArray[Any]:
        """Copy the array to main memory."""
        found = np.empty(self.shape, self.dtype)
        if found.nbytes:
            device = self.device
            with device.current():
                device.check(
                    device.library.cuMemcpyDtoH_v2(
                        ctypes.c_void_p(found.ctypes.data),
                        ctypes.c_uint64(self.address),
                        ctypes.c_size_t(found.nbytes),
                    )
                )
        return found

    def __getitem__(self, part: Any) -> NDArray[Any]:
        """Copy a part to main memory."""
        return np.asarray(self.numpy()[part])

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        found = self.numpy()
        return found if dtype is None else found.astype(dtype)


def pointer_device(address: int) -> int:
    """Return the number of the GPU that holds an address."""
    found = ctypes.c_int()
    status = load_driver().cuPointerGetAttribute(
        ctypes.byref(found), POINTER_DEVICE, ctypes.c_uint64(address)
    )
    if status:
        raise DataError("found an array in main memory, expected one on a GPU")
    return found.value


class Module:
    """Machine code on a device, which goes with it."""

    def __init__(self, device: Device, handle: ctypes.c_void_p) -> None:
        self._device, self._handle = device, handle

    # `ending` is bound now: names of modules are gone when an interpreter ends.
    def __del__(self, ending: Callable[[], bool] = sys.is_finalizing) -> None:
        if not ending():  # then the driver may be gone
            with self._device.current():
                self._device.library.cuModuleUnload(self._handle)

    def function(self, name: str, shared_bytes: int = 0) -> ctypes.c_void_p:
        """Return a kernel, allowed to use some shared memory."""
        device, found = self._device, ctypes.c_void_p()
        with device.current():
            device.check(device.library.cuModuleGetFunction(ctypes.byref(found), self._handle, name.encode()))
            if shared_bytes:
                device.check(device.library.cuFuncSetAttribute(found, DYNAMIC_SHARED_BYTES, shared_bytes))
        return found

    def blocks_per_multiprocessor(self, function: ctypes.c_void_p, threads: int, shared_bytes: int) -> int:
        """Return how many blocks of a kernel run side by side on a multiprocessor."""
        device, found = self._device, ctypes.c_int()
        with device.current():
            device.check(
                device.library.cuOccupancyMaxActiveBlocksPerMultiprocessor(
                    ctypes.byref(found), function, threads, ctypes.c_size_t(shared_bytes)
                )
            )
        return max(1, found.value)

    def launch(
        self,
        function: ctypes.c_void_p,
        blocks: int,
        threads: int,
        shared_bytes: int,
        parameters: ctypes.Array[ctypes.c_void_p],
    ) -> None:
        """Launch a kernel; the context must be current.

        - ``parameters``: addresses of what is passed by value, which may be more than the kernel has
        """
        device = self._device
        device.check(
            device.library.cuLaunchKernel(
                function, blocks, 1, 1, threads, 1, 1, shared_bytes, None, parameters, None
            )
        )


_devices: dict[int, Device] = {}
_lock = threading.Lock()


def device(number: int) -> Device:
    """Return the GPU of a number.

    Raises
    ------
    BmrmError
        If there is none.
    """
    with _lock:
        if number not in _devices:
            _devices[number] = Device(number)
        return _devices[number]
