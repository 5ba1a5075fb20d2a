"""Compiled passes whose arrays lie at the edge of memory that nobody may read or write.

    python guarded_memory.py cpu|cuda FIRST COUNT

compares random programs (random_programs.py), with every array of a pass right before such memory, and then
right after it; "cuda" is the text for GPUs on the emulator. The program prints each seed before it runs: an
access outside of an array is a signal that ends the process. Sanitizers do not see code that LLVM makes at
run time; the processor does.
"""

import ctypes
import math
import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1]))  # for compiled.py

import emulated_driver
import numpy as np
from random_programs import compare_wild, random_arguments, random_reduction

from bmrm.distributed.reading import read_rows
from bmrm.formulas.run import cpu as host
from bmrm.formulas.run import gpu
from bmrm.matrix.gpu import driver

FORBIDDEN = 1 << 30
"""Bytes on each side of an array that no process of the tests has otherwise."""

PAGE, NO_ACCESS, READ_WRITE, PRIVATE, ANONYMOUS, NO_RESERVE = 4096, 0, 3, 0x02, 0x20, 0x4000
LIBC = ctypes.CDLL(None, use_errno=True)
LIBC.mmap.restype = ctypes.c_void_p
LIBC.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
LIBC.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
LIBC.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]


class GuardedBlock:
    """Bytes with forbidden memory right before or right after them."""

    def __init__(self, count: int, at_end: bool) -> None:
        pages = -(-count // PAGE) * PAGE
        self.size = pages + 2 * FORBIDDEN
        self.whole = LIBC.mmap(None, self.size, NO_ACCESS, PRIVATE | ANONYMOUS | NO_RESERVE, -1, 0)
        assert self.whole not in (None, ctypes.c_void_p(-1).value)
        assert LIBC.mprotect(self.whole + FORBIDDEN, pages, READ_WRITE) == 0
        self.address = self.whole + FORBIDDEN + (pages - count if at_end else 0)

    def free(self) -> None:
        LIBC.munmap(self.whole, self.size)


def sizes_in_bytes(call, code, outputs):
    """The size of what each entry of the table points to."""
    real, width = np.dtype(call.real).itemsize, call.rows.shape[1]
    found = {"error": 24, "leave": 1, "staged": code.lanes * real * width}
    for name, array in call.values.items():
        found[f"argument {name}"] = array.nbytes
    for name, array in call.squares.items():
        found[f"squares {name}"] = array.nbytes
    for result in call.program.results():
        count = 8 * math.prod(call.shape(result))
        found[f"argument {result.name}"] = outputs.get(result.name, count)
        found[f"rows {result.name}"] = count
    for name, each in zip(call.program.own_arrays(), host.array_bytes(call), strict=True):
        found[f"array {name}"] = -(-code.lanes * each // 64) * 64
    if call.rows.sparse:
        csr = call.rows.X.csr
        for name, array in (("starts", csr.indptr), ("columns", csr.indices), ("values", csr.data)):
            found[name] = 0 if array is None else array.nbytes
    else:
        assert call.rows.X.array.flags.c_contiguous
        found["rows"] = call.rows.X.array.nbytes
    return found


def guarded(call, code, function, at_end):
    """A compiled function that runs on copies of its arrays in guarded blocks, and copies them back."""
    kinds = {"real": np.dtype(call.real).itemsize, "int": 8, "bool": 1}
    outputs = {a.name: (8 if a.wide else kinds[a.type]) * call.rows.shape[0] * math.prod(call.shape(a))
               for a in call.program.outputs()}  # fmt: skip
    sizes = sizes_in_bytes(call, code, outputs)

    def run(address):
        table = (ctypes.c_int64 * len(code.layout.slots)).from_address(address)
        copies = []
        for name, slot in code.layout.slots.items():
            if sizes.get(name) and table[slot]:
                block = GuardedBlock(sizes[name], at_end)
                ctypes.memmove(block.address, table[slot], sizes[name])
                copies.append((slot, table[slot], sizes[name], block))
                table[slot] = block.address
        function(address)
        for slot, old, count, block in copies:
            ctypes.memmove(old, block.address, count)
            table[slot] = old
            block.free()

    return run


def run_guarded(reduction, X, words, at_end):
    """Results of a call on one thread with guarded arrays."""
    passes, call = reduction._host, reduction._binder.bind(read_rows(X), words)
    code, function = passes.compiled(call, True)
    passes.compiled = lambda call, contract: (code, guarded(call, code, function, at_end))
    try:
        return reduction._tuple(**passes.run(call, threads=1))
    finally:
        del passes.compiled


class GuardedDriver(emulated_driver.Driver):
    """A GPU whose arrays are in guarded blocks, without shared memory to which they could be copied."""

    at_end = False

    def cuDeviceGetAttribute(self, found, which, handle):  # noqa: N802 (the name is the library's)
        found._obj.value = 0 if which == 97 else emulated_driver.ATTRIBUTES[which]
        return 0

    def cuMemAlloc_v2(self, found, size):  # noqa: N802
        block = GuardedBlock(-(-size.value // 8) * 8, self.at_end)
        ctypes.memset(block.address, 0xFF, size.value)
        self.pieces[block.address] = block
        found._obj.value = block.address
        return 0

    def cuMemFree_v2(self, address):  # noqa: N802
        self.pieces.pop(address.value).free()
        return 0


def emulate(at_end, made={}):  # noqa: B006 (compiled code is kept)
    """Let reductions find such a GPU."""
    if not made:
        made["compiler"] = emulated_driver.compiler(traps=True)
    found = GuardedDriver()
    found.at_end = at_end
    driver.load_driver, driver._devices = lambda: found, {}
    gpu.compile_cuda, gpu.MIN_CHUNK_ROWS = made["compiler"], 96


def run_emulated(reduction, X, words, at_end):
    emulate(at_end)
    call = reduction._binder.bind(read_rows(X), words, gpu=True)
    return reduction._tuple(**gpu.GpuRunner(reduction._source).run(call, contract=False))


def main(target: str, first: int, count: int) -> None:
    run = {"cpu": run_guarded, "cuda": run_emulated}[target]
    for seed in range(first, first + count):
        print("seed", seed, flush=True)
        for at_end in (True, False):
            compare_wild(seed, (1, 5, 40, 70)[seed % 4], lambda *call, at_end=at_end: run(*call, at_end))
        if seed % 4 == 0:
            reduction, text = random_reduction(seed, exact=True)
            X, words = random_arguments(seed, 40)
            plain = reduction(X, device="cpu", threads=1, **words)
            for at_end in (True, False):
                for mine, theirs in zip(run(reduction, X, words, at_end), plain, strict=True):
                    assert np.array_equal(mine, theirs), text


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:]))
