"""CUDA C++ text to machine code, by NVRTC: loaded when it is needed, from the system, a wheel or the toolkit.

NVRTC is a library of C functions, so ctypes suffices. Machine code is kept on disk (``object_cache.py``): a
process that compiles the same text again reads a file of some kilobytes.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools

from bmrm.base.interrupts import wait_for
from bmrm.errors import BmrmError
from bmrm.formulas.run import object_cache
from bmrm.matrix.gpu.libraries import candidate_paths

NAMES = ("libnvrtc.so.13", "libnvrtc.so.12")

OPTIONS = ("-std=c++17", "-default-device")


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
    key = f"NVRTC {major.value}.{minor.value}, {' '.join(options)}\n{text}"
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
    program = ctypes.c_void_p()
    _check(
        library, library.nvrtcCreateProgram(ctypes.byref(program), text.encode(), b"rows.cu", 0, None, None)
    )
    try:
        words = (ctypes.c_char_p * len(options))(*(option.encode() for option in options))
        status = library.nvrtcCompileProgram(program, len(options), words)
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


def _check(library: ctypes.CDLL, status: int) -> None:
    if status:
        library.nvrtcGetErrorString.restype = ctypes.c_char_p
        raise BmrmError(f"NVRTC: {library.nvrtcGetErrorString(status).decode()}")
