"""Values set in a matrix of type ``python``: an AIJ matrix holds them until they are complete.

PETSc lets Python define what a matrix of this type does, but not how its values are set. So three things that
a program does with any matrix would fail, or be ignored: MatSetValues, MatLoad and preallocation, which may
bring values too. `Assembly` gives the matrix C functions for them, which call the same functions of an AIJ
matrix. These calls cost a few microseconds each, like every call from Python to PETSc.

The functions exist once, for all matrices, and find the matrix that is meant by its address: PETSc may still
be in one of them when the last value has come and the matrix gives them up.

References
----------
PETSc/TAO users manual, "Application specific custom matrices" (MatSetOperation, PetscObjectComposeFunction).
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache
from typing import Any
from weakref import WeakValueDictionary

import numpy as np
from petsc4py import PETSc

from bmrm.petsc.bridge import LIBRARY

_INT = ctypes.c_int64 if np.dtype(PETSc.IntType).itemsize == 8 else ctypes.c_int32
_ENUM, _POINTER = ctypes.c_int, ctypes.c_void_p

_ARGUMENTS: dict[str, tuple[Any, ...]] = {
    "MatSetValues": (_INT, _POINTER, _INT, _POINTER, _POINTER, _ENUM),
    "MatLoad": (_POINTER,),
    "MatSeqAIJSetPreallocation": (_INT, _POINTER),
    "MatMPIAIJSetPreallocation": (_INT, _POINTER, _INT, _POINTER),
    "MatSeqAIJSetPreallocationCSR": (_POINTER, _POINTER, _POINTER),
    "MatMPIAIJSetPreallocationCSR": (_POINTER, _POINTER, _POINTER),
}
"""The functions that are passed on, and their arguments after the matrix."""

_SET_VALUES = 0
"""MATOP_SET_VALUES."""

_CREATE_VECS = range(83, 90)
"""MATOP_CREATE_VECS, by release; a matrix of type ``python`` has no other one of these operations."""

_LOAD_BEFORE_CREATE_VECS = 5
"""How much less MATOP_LOAD is than MATOP_CREATE_VECS in all releases."""

_assemblies: WeakValueDictionary[int, Assembly] = WeakValueDictionary()


class Assembly:
    """The values of a matrix until they are complete.

    Parameters
    ----------
    mat : PETSc.Mat
        Of type ``python``.
    """

    def __init__(self, mat: PETSc.Mat) -> None:
        self._comm, self._address = mat.getComm(), mat.handle
        self._stored: PETSc.Mat | None = None
        _assemblies[self._address] = self
        self._offer(_functions())

    @property
    def is_complete(self) -> bool:
        """Whether all values have been set and assembled."""
        return self._stored is not None and self._stored.isAssembled()

    @property
    def stored(self) -> PETSc.Mat:
        """The AIJ matrix, of the sizes that the matrix has so far."""
        if self._stored is None:
            stored = PETSc.Mat().create(self._comm)
            stored.setOptionsPrefix("stored_")  # no option is meant for it
            if max(self._sizes()[0]) >= 0:  # else those of a file
                self._require("MatSetUp")  # distributes rows and columns, perhaps in blocks
                stored.setSizes(self._sizes())
            stored.setType(PETSc.Mat.Type.AIJ)
            self._stored = stored
        return self._stored

    def end(self) -> None:
        """Take the functions back; from now on PETSc says that the type has none, as of any other type."""
        self._offer(dict.fromkeys(_ARGUMENTS))
        if self._stored is not None:
            self._stored.destroy()

    def pass_on(self, name: str, given: tuple[Any, ...]) -> int:
        """Call a function for the AIJ matrix; return PETSc's error code."""
        failed = _call(name, self.stored.handle, *given)
        if not failed and name == "MatLoad":
            (m, rows), (n, columns) = self.stored.getSizes()
            self._require("MatSetSizes", *map(_INT, (m, n, rows, columns)))
            self._require("MatSetUp")
        return failed

    def _sizes(self) -> tuple[tuple[int, int], tuple[int, int]]:
        """Return local and global numbers of rows and of columns; -1 if not set."""
        m, n, rows, columns = _INT(), _INT(), _INT(), _INT()
        self._require("MatGetLocalSize", ctypes.byref(m), ctypes.byref(n))
        self._require("MatGetSize", ctypes.byref(rows), ctypes.byref(columns))
        return (m.value, rows.value), (n.value, columns.value)

    def _offer(self, functions: dict[str, Any]) -> None:
        """Give the matrix these functions; None takes one back."""
        for name, function in functions.items():
            if name in ("MatSetValues", "MatLoad"):
                operation = _SET_VALUES if name == "MatSetValues" else self._find_load()
                self._require("MatSetOperation", _ENUM(operation), function)
            else:
                self._require("PetscObjectComposeFunction_Private", f"{name}_C".encode(), function)

    def _find_load(self) -> int:
        """Return the number of MatLoad: it depends on the release, and so does that of MatCreateVecs."""
        found = ctypes.c_void_p()
        for operation in _CREATE_VECS:
            self._require("MatGetOperation", _ENUM(operation), ctypes.byref(found))
            if found.value:
                break
        return operation - _LOAD_BEFORE_CREATE_VECS

    def _require(self, name: str, *given: Any) -> None:
        failed = _call(name, self._address, *given)
        if failed:
            raise PETSc.Error(failed)


def _call(name: str, address: int, *given: Any) -> int:
    return int(getattr(LIBRARY, name)(ctypes.c_void_p(address), *given))


@cache
def _functions() -> dict[str, Any]:
    return {name: _make_function(name, arguments) for name, arguments in _ARGUMENTS.items()}


def _make_function(name: str, arguments: tuple[Any, ...]) -> Callable[..., int]:
    """Make the C function that passes its arguments on."""

    def pass_on(address: int, *given: Any) -> int:
        typed = (kind(value) for kind, value in zip(arguments, given, strict=True))
        try:
            return _assemblies[address].pass_on(name, tuple(typed))
        except PETSc.Error as error:
            return int(error.ierr)

    return ctypes.CFUNCTYPE(ctypes.c_int, _POINTER, *arguments)(pass_on)
