# ruff: noqa: N802 (the names are those of the library)
"""CUDA's driver and NVRTC as far as reductions need them, with main memory as that of the GPUs.

The text of kernels is compiled by g++ with ``tests/emulator/warps.h``. What differs from a GPU is time, and
the last bits of functions such as ``exp``. Kernels run, and asynchronous copies happen, as late as they may.
"""

from __future__ import annotations

import ctypes
import functools
import re
import threading
from collections.abc import Callable
from pathlib import Path

import compiled

from bmrm.formulas.run import gpu
from bmrm.matrix.gpu import driver

WARPS = Path(__file__).parents[1] / "emulator" / "warps.h"
OUT_OF_MEMORY = 2
ATTRIBUTES = {16: 2, 75: 7, 76: 5, 97: 64 * 1024}
"""Two multiprocessors, compute capability 7.5, 64 KiB of shared memory for a block."""
DEVICES = 2
UPLOADS = 5
"""The stream that is not the default one."""

SHARED = "extern __shared__ __align__(16) double shared[];"
TABLE = re.compile(r"struct Table {\s*whole at\[(\d+)\];")
TABLE_BYTES: dict[bytes, int] = {}
"""Size of the parameters of a module's kernels, by the name of its library."""
LAUNCH = """
extern "C" __attribute__((visibility("default"))) int emulated_launch(
    int is_rows, int blocks, int threads, int shared_bytes, const Table* first, const Table* second) {
    const Table a = *first, b = *second;
    return emulator::run(unsigned(blocks), unsigned(threads), size_t(shared_bytes), false, [=] {
        if (is_rows)
            bmrm_rows(a);
        else
            bmrm_combine(a, b);
    });
}
"""


class Driver:
    """Stands for the library; ``limit`` is the memory of the GPUs, ``used`` what is taken of it."""

    def __init__(self) -> None:
        self.limit, self.used = 1 << 30, 0
        self.pieces: dict[int, ctypes.Array] = {}
        self.modules: list[tuple[ctypes.CDLL, int] | None] = []
        self.work: list[Callable[[], None]] = []
        """What is queued on the default stream."""
        self.depth = 0
        self.elsewhere: set[int] = set()
        """Addresses of other libraries' memory on GPU 1."""
        self.host: dict[int, ctypes.Array] = {}
        self.copies: list[tuple[int, int, int]] = []
        """Asynchronous copies: they happen when an event after them is waited for."""
        self.copied, self.events = 0, {}
        self.lock = threading.RLock()

    def finish(self) -> None:
        """Do what is queued on the default stream."""
        with self.lock:
            while self.work:
                self.work.pop(0)()

    def cuDeviceGetCount(self, found):
        found._obj.value = DEVICES
        return 0

    def cuMemGetInfo_v2(self, free, total):
        assert self.depth
        free._obj.value, total._obj.value = self.limit - self.used, self.limit
        return 0

    def cuStreamCreate(self, stream, flags):
        assert self.depth
        assert flags == 1
        stream._obj.value = UPLOADS
        return 0

    def cuDeviceGet(self, handle, number):
        handle._obj.value = number
        return 0

    def cuDevicePrimaryCtxRetain(self, context, handle):
        context._obj.value = 1 + handle.value
        return 0

    def cuCtxPushCurrent_v2(self, context):
        with self.lock:
            self.depth += 1
        return 0

    def cuCtxPopCurrent_v2(self, context):
        with self.lock:
            self.depth -= 1
        return 0

    def cuDeviceGetAttribute(self, found, which, handle):
        found._obj.value = ATTRIBUTES[which]
        return 0

    def cuMemAlloc_v2(self, found, size):
        if self.used + size.value > self.limit:
            return OUT_OF_MEMORY
        piece = ctypes.create_string_buffer(b"\xff" * size.value, size.value)
        self.used += size.value
        found._obj.value = ctypes.addressof(piece)
        self.pieces[found._obj.value] = piece
        return 0

    def cuMemFree_v2(self, address):
        self.finish()
        self.used -= len(self.pieces.pop(address.value))
        return 0

    def cuMemcpyHtoD_v2(self, to, source, size):
        self.finish()
        ctypes.memmove(to.value, source.value, size.value)
        return 0

    def cuMemcpyDtoH_v2(self, to, source, size):
        self.finish()
        ctypes.memmove(to.value, source.value, size.value)
        return 0

    def cuMemHostAlloc(self, found, size, flags):
        assert self.depth
        assert flags in (1, 3)
        block = ctypes.create_string_buffer(size.value)
        found._obj.value = ctypes.addressof(block)
        self.host[found._obj.value] = block
        return 0

    def cuEventCreate(self, event, flags):
        assert flags == 2
        event._obj.value = 1 + len(self.events)
        self.events[event._obj.value] = 0
        return 0

    def cuMemcpyHtoDAsync_v2(self, to, source, size, stream):
        assert self.depth
        assert stream.value == UPLOADS
        with self.lock:
            self.copies.append((to.value, source.value, size.value))
        return 0

    def cuEventRecord(self, event, stream):
        assert stream.value == UPLOADS
        with self.lock:
            self.events[event.value] = len(self.copies)
        return 0

    def cuEventSynchronize(self, event):
        with self.lock:
            for copy in self.copies[self.copied : self.events[event.value]]:
                ctypes.memmove(*copy)
            self.copied = max(self.copied, self.events[event.value])
        return 0

    def cuStreamSynchronize(self, stream):
        assert self.depth
        assert stream is None
        self.finish()
        return 0

    def cuPointerGetAttribute(self, found, which, address):
        if which == 2:  # the type of memory
            return address.value not in self.pieces and address.value not in self.host
        assert which == 9
        found._obj.value = 1 if address.value in self.elsewhere else 0
        return 0

    def cuModuleLoadData(self, module, code):
        self.modules.append((ctypes.CDLL(code.decode()), TABLE_BYTES[code]))
        module._obj.value = len(self.modules)
        return 0

    def cuModuleUnload(self, module):
        self.modules[module.value - 1] = None
        return 0

    def cuModuleGetFunction(self, found, module, name):
        found._obj.value = 2 * module.value + (name == b"bmrm_rows")
        return 0

    def cuFuncSetAttribute(self, function, which, value):
        assert which == 8
        assert value <= ATTRIBUTES[97]
        return 0

    def cuOccupancyMaxActiveBlocksPerMultiprocessor(self, found, function, threads, shared_bytes):
        found._obj.value = 2
        return 0

    def cuLaunchKernel(self, function, *words):
        blocks, _, _, threads, _, _, shared_bytes, stream, tables, extra = words
        assert self.depth
        assert shared_bytes <= ATTRIBUTES[97]
        assert stream is extra is None
        module, size = self.modules[function.value // 2 - 1]
        given = [ctypes.create_string_buffer(ctypes.string_at(place, size), size) for place in tables]
        grid = function.value % 2, blocks, threads, shared_bytes

        def launch() -> None:
            ended = module.emulated_launch(*grid, *given, *given[: 2 - len(given)])
            assert ended, "lanes of a warp wait for others that never come"

        with self.lock:
            self.work.append(launch)
        return 0


def install(monkeypatch) -> Driver:
    """Let reductions find emulated GPUs, and many chunks in few rows."""
    found = Driver()
    monkeypatch.setattr(driver, "load_driver", lambda: found)
    monkeypatch.setattr(driver, "_devices", {})
    monkeypatch.setattr(gpu, "compile_cuda", compiler())
    monkeypatch.setattr(gpu, "MIN_CHUNK_ROWS", 96)  # two rows per lane, and one
    return found


TRAPS = "bounds,signed-integer-overflow,shift,integer-divide-by-zero,float-cast-overflow"
"""What has no meaning in C++; the sanitizer that finds it needs no library if it only stops the process."""


@functools.cache
def compiler(*, traps: bool = False):
    """Return what stands for `bmrm.formulas.gpu.nvrtc.compile_cuda`: its code is the name of a library."""
    found = [f"-fsanitize={TRAPS}", "-fsanitize-undefined-trap-on-error"] if traps else []
    made: dict[tuple[str, bool], bytes] = {}

    def compile_cuda(text: str, capability: tuple[int, int], *, contract: bool = True) -> bytes:
        assert capability == (7, 5)
        key = text, contract
        if key not in made:
            shared = "static double* const shared = reinterpret_cast<double*>(emulator::dynamic_bytes);"
            whole = f'#include "{WARPS}"\n{text.replace(SHARED, shared)}{LAUNCH}'
            contraction = f"-ffp-contract={'fast' if contract else 'off'}"
            options = [*compiled.FOR_EMULATOR, contraction, *found]
            made[key] = bytes(compiled.library_of_text(whole, options))
            TABLE_BYTES[made[key]] = 8 * int(TABLE.search(text)[1])
        return made[key]

    return compile_cuda
