"""CUDA C++ text to machine code, by NVRTC: loaded when it is needed, from the system, a wheel or the toolkit.

NVRTC is a library of C functions, so ctypes suffices. What a text includes are the headers of
``src_common/device``, of which the build puts a copy beside this file. Machine code is kept on disk
(``object_cache.py``): a process that compiles the same text again reads a file of some kilobytes.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
from collections.abc import Collection
from pathlib import Path

from bmrm.base.interrupts import wait_for
from bmrm.errors import BmrmError
from bmrm.formulas.run import object_cache
from bmrm.matrix.gpu.libraries import candidate_paths

NAMES = ("libnvrtc.so.13", "libnvrtc.so.12")

OPTIONS = ("-std=c++17", "-default-device")

HEADERS = Path(__file__).with_name("device")
"""Folder of the device headers."""


@functools.cache
def load_nvrtc() -> ctypes.CDLL:
    """Load NVRTC.

    Raises
    ------
    BmrmError
        If it is nowhere.
    """
    for path in candidate_paths(NAMES):
        with contextlib.suppress(OSError):
            return ctypes.CDLL(path)
    raise BmrmError(f"NVRTC: found none of {', '.join(NAMES)}, expected one; pip install nvidia-cuda-nvrtc")


@functools.cache
def device_headers() -> dict[str, str]:
    """Return the device headers, by the names under which a text includes them.

    Raises
    ------
    BmrmError
        If this installation has none.
    """
    found = {f"device/{path.name}": path.read_text("utf-8") for path in sorted(HEADERS.glob("*.cuh"))}
    if not found:
        raise BmrmError(f"{HEADERS}: found no CUDA headers, expected those that a build puts there")
    return found


def compile_cuda(text: str, capability: tuple[int, int], *, contract: bool = True) -> bytes:
    """Compile CUDA C++ text for a compute capability; return a cubin, or PTX if NVRTC is older than the GPU.

    Ctrl-C ends the wait for NVRTC.

    Raises
    ------
    BmrmError
        If NVRTC refuses the text: its messages are in the error.
    """
    library = load_nvrtc()
    major, minor = ctypes.c_int(), ctypes.c_int()
    library.nvrtcVersion(ctypes.byref(major), ctypes.byref(minor))
    target = _choose_target(library, capability)
    options = (*OPTIONS, f"-arch={target}", f"-fmad={'true' if contract else 'false'}")
    kind = "PTX" if target.startswith("compute") else "CUBIN"
    headers = "".join(f"{name}\n{content}" for name, content in device_headers().items())
    key = f"NVRTC {major.value}.{minor.value}, {' '.join(options)}\n{headers}{text}"
    return wait_for(lambda: object_cache.load_or_make(key, lambda: _compile(library, text, options, kind)))


def _choose_target(library: ctypes.CDLL, capability: tuple[int, int]) -> str:
    number = 10 * capability[0] + capability[1]
    count = ctypes.c_int()
    library.nvrtcGetNumSupportedArchs(ctypes.byref(count))
    known = (ctypes.c_int * count.value)()
    library.nvrtcGetSupportedArchs(known)
    if number in list(known):
        return f"sm_{number}"
    older = [each for each in known if each < number]
    if not older:
        raise BmrmError(
            f"NVRTC: found no target for compute capability {number / 10}, expected an older NVRTC"
        )
    return f"compute_{max(older)}"


def _compile(library: ctypes.CDLL, text: str, options: tuple[str, ...], kind: str) -> bytes:
    program, headers = ctypes.c_void_p(), device_headers()
    source, name = text.encode(), b"rows.cu"
    included = len(headers), _c_strings(headers.values()), _c_strings(headers)
    _check(library, library.nvrtcCreateProgram(ctypes.byref(program), source, name, *included))
    try:
        status = library.nvrtcCompileProgram(program, len(options), _c_strings(options))
        size = ctypes.c_size_t()
        if status:
            library.nvrtcGetProgramLogSize(program, ctypes.byref(size))
            messages = ctypes.create_string_buffer(size.value)
            library.nvrtcGetProgramLog(program, messages)
            raise BmrmError(f"NVRTC: found {messages.value.decode(errors='replace').strip()}")
        _check(library, getattr(library, f"nvrtcGet{kind}Size")(program, ctypes.byref(size)))
        code = ctypes.create_string_buffer(size.value)
        _check(library, getattr(library, f"nvrtcGet{kind}")(program, code))
        return code.raw
    finally:
        library.nvrtcDestroyProgram(ctypes.byref(program))


def _c_strings(texts: Collection[str]) -> ctypes.Array[ctypes.c_char_p]:
    """Return texts as an array of C strings."""
    return (ctypes.c_char_p * len(texts))(*(text.encode() for text in texts))


def _check(library: ctypes.CDLL, status: int) -> None:
    if status:
        library.nvrtcGetErrorString.restype = ctypes.c_char_p
        raise BmrmError(f"NVRTC: {library.nvrtcGetErrorString(status).decode()}")
