"""LLVM text to machine code, by llvmlite: the library that Numba compiles with.

llvmlite is optional (the extra ``reductions``). Machine code is kept as long as its function, and on disk for
other processes (``object_cache.py``). Each has a context of LLVM's of its own: what the global one learns, it
keeps for ever.
"""

from __future__ import annotations

import ctypes
import functools
import importlib.util
import threading
from typing import Any
from weakref import finalize

from bmrm.base.interrupts import wait_for
from bmrm.errors import BmrmError
from bmrm.formulas.cpu.lanes import NAME
from bmrm.formulas.language.function_table import FUNCTIONS
from bmrm.formulas.run import object_cache

SPEED_LEVEL = 2
"""LLVM's level of optimisation; 3 takes longer and made no measured program faster."""

_lock = threading.Lock()


@functools.cache
def can_compile() -> bool:
    """Return whether llvmlite is installed."""
    return importlib.util.find_spec("llvmlite") is not None


@functools.cache
def _target() -> Any:
    """Start LLVM, and make the functions of the C library known to it; return the target of this machine."""
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    library = ctypes.CDLL("libm.so.6")
    for name in filter(None, (each.library for each in FUNCTIONS.values())):
        for symbol in (name, name + "f"):
            address = ctypes.cast(getattr(library, symbol), ctypes.c_void_p).value
            llvm.add_symbol(symbol, address)
    return llvm.Target.from_default_triple()


def _machine() -> Any:
    import llvmlite.binding as llvm

    return _target().create_target_machine(
        cpu=llvm.get_host_cpu_name(), features=llvm.get_host_cpu_features().flatten(), opt=SPEED_LEVEL
    )


@functools.cache
def vector_bytes() -> int:
    """Return the size of a vector register."""
    import llvmlite.binding as llvm

    features = llvm.get_host_cpu_features()
    return 64 if features.get("avx512f") else 32 if features.get("avx2") else 16


def compile_text(text: str) -> Any:
    """Compile LLVM text, or find its machine code on disk; Ctrl-C ends the wait for LLVM.

    Returns
    -------
    callable
        The function as one of ctypes, which releases the interpreter's lock.

    Raises
    ------
    BmrmError
        If LLVM refuses the text.
    """
    return wait_for(lambda: _compile(text))


def _compile(text: str) -> Any:
    import llvmlite.binding as llvm

    with _lock:
        machine = _machine()
        processor = f"{llvm.get_host_cpu_name()} {llvm.get_host_cpu_features().flatten()}"
        versions = f"LLVM {llvm.llvm_version_info}, level {SPEED_LEVEL}"
        code = object_cache.load_or_make(
            f"{versions}\n{processor}\n{text}", lambda: _make_object(text, machine)
        )
        context = llvm.create_context()
        engine = llvm.create_mcjit_compiler(llvm.parse_assembly("", context), machine)
        engine.add_object_file(llvm.ObjectFileRef.from_data(code))
        engine.finalize_object()
        function: Any = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(engine.get_function_address(NAME))
        # The engine's memory holds the code. Whoever collects cycles may finish a context before its engine,
        # which would then use it: so neither is ever garbage, and both go with the function, in this order.
        finalize(function, _dispose, context, engine).atexit = False
        return function


def _dispose(context: Any, engine: Any) -> None:
    engine.close()
    context.close()


def _make_object(text: str, machine: Any) -> bytes:
    """Compile LLVM text to the bytes of an object file."""
    import llvmlite.binding as llvm

    context = llvm.create_context()
    try:
        with llvm.parse_assembly(text, context) as module:
            module.verify()
            module.triple = llvm.get_default_triple()
            module.data_layout = str(machine.target_data)
            options = llvm.create_pipeline_tuning_options(speed_level=SPEED_LEVEL)
            with llvm.create_pass_builder(machine, options) as passes:
                passes.getModulePassManager().run(module, passes)
            return bytes(machine.emit_object(module))
    except RuntimeError as error:
        raise BmrmError(f"LLVM: found {str(error).strip()}, expected valid text") from None
    finally:
        context.close()  # after its module, in whatever order the objects are collected
