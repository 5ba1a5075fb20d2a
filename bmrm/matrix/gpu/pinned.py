"""Uploads of large arrays at the speed of the bus, by threads that fill pinned memory.

The driver copies pageable memory through a buffer of its own on one thread: 9 GB/s onto an H100, to which the
bus brings 55. Here each of a few threads copies one piece after another into one of its two pinned pieces,
while the other is on the bus. ``src_cuda/runtime/upload.cu`` does the same for the compiled kernels, which
compiled functions do not need. Copies have a stream of their own, so that kernels go on meanwhile: no kernel
may be at work on the memory that is written.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from bmrm.base.threads import usable_cores
from bmrm.matrix._cpu import MAX_UPLOAD_THREADS, MIN_PINNED_BYTES, PINNED_PIECE_BYTES

PORTABLE = 1
"""CU_MEMHOSTALLOC_PORTABLE."""

DISABLE_TIMING = 2
"""CU_EVENT_DISABLE_TIMING."""

NON_BLOCKING = 1
"""CU_STREAM_NON_BLOCKING: a stream that the default one does not wait for."""

POINTER_MEMORY_TYPE = 2
"""CU_POINTER_ATTRIBUTE_MEMORY_TYPE; the driver knows none for pageable memory."""


class Context(Protocol):
    """What uploads need of a `bmrm.matrix.gpu.driver.Device`."""

    library: Any

    def check(self, status: int) -> None: ...

    def current(self) -> AbstractContextManager[None]: ...


class PinnedPieces:
    """Pinned pieces of main memory for uploads to one GPU; they are kept until the process ends.

    Parameters
    ----------
    device : Context
    threads : int, optional
        Number of threads; default: that of the usable cores, at most 8.
    """

    def __init__(self, device: Context, threads: int | None = None) -> None:
        self._device = device
        self.threads = threads or min(MAX_UPLOAD_THREADS, usable_cores())
        self._use = threading.Lock()
        self._stream = ctypes.c_void_p()
        self._pieces: list[tuple[NDArray[np.uint8], ctypes.c_void_p]] = []

    def pays(self, size: int) -> bool:
        """Return whether an array of so many bytes is worth several threads."""
        return size >= MIN_PINNED_BYTES and self.threads > 1

    def can_help(self, array: NDArray[Any]) -> bool:
        """Return whether an array is large and pageable, and there are threads and pinned memory.

        The context must be current.
        """
        if not self.pays(array.nbytes):
            return False
        found = ctypes.c_uint()
        pageable = self._device.library.cuPointerGetAttribute(
            ctypes.byref(found), POINTER_MEMORY_TYPE, ctypes.c_uint64(array.ctypes.data)
        )
        if not pageable:
            return False
        with self._use:
            return self._reserve()

    def _reserve(self) -> bool:
        if self._pieces:
            return True
        library, block, events = self._device.library, ctypes.c_void_p(), []
        size = 2 * self.threads * PINNED_PIECE_BYTES
        if library.cuMemHostAlloc(ctypes.byref(block), ctypes.c_size_t(size), PORTABLE):
            return False
        self._device.check(library.cuStreamCreate(ctypes.byref(self._stream), NON_BLOCKING))
        for _ in range(2 * self.threads):
            events.append(ctypes.c_void_p())
            self._device.check(library.cuEventCreate(ctypes.byref(events[-1]), DISABLE_TIMING))
        memory = np.ctypeslib.as_array(ctypes.cast(block, ctypes.POINTER(ctypes.c_uint8)), (size,))
        self._pieces = list(zip(memory.reshape(-1, PINNED_PIECE_BYTES), events, strict=True))
        return True

    def copy(self, address: int, array: NDArray[Any]) -> None:
        """Copy a C-contiguous array to an address on the GPU and wait."""
        source = array.reshape(-1).view(np.uint8)
        with self._use, ThreadPoolExecutor(self.threads) as team:
            for done in [team.submit(self._copy_share, w, address, source) for w in range(self.threads)]:
                done.result()

    def _copy_share(self, worker: int, address: int, source: NDArray[np.uint8]) -> None:
        """Copy every ``threads``-th piece; numpy and the driver release the interpreter's lock."""
        device = self._device
        with device.current(), self._waiting(worker) as mine:
            firsts = range(worker * PINNED_PIECE_BYTES, len(source), self.threads * PINNED_PIECE_BYTES)
            for number, first in enumerate(firsts):
                piece, sent = mine[number % 2]
                device.check(device.library.cuEventSynchronize(sent))
                part = source[first : first + PINNED_PIECE_BYTES]
                np.copyto(piece[: len(part)], part)
                device.check(
                    device.library.cuMemcpyHtoDAsync_v2(
                        ctypes.c_uint64(address + first),
                        ctypes.c_void_p(piece.ctypes.data),
                        ctypes.c_size_t(len(part)),
                        self._stream,
                    )
                )
                device.check(device.library.cuEventRecord(sent, self._stream))

    @contextmanager
    def _waiting(self, worker: int) -> Iterator[list[tuple[NDArray[np.uint8], ctypes.c_void_p]]]:
        """Yield a worker's pieces; at the end, wait until none is on the bus."""
        mine = self._pieces[2 * worker : 2 * worker + 2]
        try:
            yield mine
        finally:
            for _, sent in mine:
                self._device.check(self._device.library.cuEventSynchronize(sent))
