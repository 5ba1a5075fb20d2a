"""A call of a compiled function: arguments converted, sizes found, and all checked before any work."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from bmrm.base import arguments
from bmrm.base.foreign_arrays import LEGACY_STREAM
from bmrm.base.host_memory import require_memory
from bmrm.base.recent import Recent
from bmrm.distributed.row_set import RowSet
from bmrm.distributed.rows import DOUBLE, SINGLE, StoredRows
from bmrm.errors import DataError, ReductionError
from bmrm.formulas.analysis.layout import Place, places_of, sizes_of
from bmrm.formulas.language.expressions import Given
from bmrm.formulas.language.front import read_program
from bmrm.formulas.language.source import ROWS, FunctionSource
from bmrm.formulas.language.tree import Argument, Program
from bmrm.matrix.gpu.device_arrays import DeviceArray
from bmrm.matrix.gpu.driver import GpuArray

MAX_SIZE = 2**31 - 1
"""Maximum of a size; compiled code keeps some integers in 32 bits."""

AnyArray: TypeAlias = NDArray[Any] | GpuArray | DeviceArray
"""A parameter in main memory, or on a GPU: a result that was kept there, or another library's."""

NO_SETS: Mapping[str, StoredRows] = MappingProxyType({})

MAX_PLANS = 64
"""Number of combinations of types and shapes whose trees, sizes and code a function remembers."""

NUMPY: dict[str, np.dtype[Any]] = {"int": np.dtype(np.int64), "bool": np.dtype(np.uint8)}
"""Types in which parameters are passed; real numbers have the type of the rows."""


@dataclass
class Call:
    """What one call of a reduction works on.

    Attributes
    ----------
    program : Program
        With the types of this call.
    rows : RowSet
    sizes : dict of str to int
    values : dict of str to ndarray, GpuArray or DeviceArray
        Parameters, stored by rows and of the types that compiled code reads; those on a GPU may be float64
        if real numbers are float32.
    real : type
        NumPy's type of real numbers.
    key : tuple
        Equal for calls of the same program and sizes.
    places : tuple of Place
        Where the results of a part are.
    sets : dict of str to StoredRows
        Parameters that are rows, and stay on GPUs as these do.
    """

    program: Program
    rows: RowSet
    sizes: dict[str, int]
    values: dict[str, Any]
    real: type[np.floating[Any]]
    key: tuple[Any, ...]
    places: tuple[Place, ...]
    sets: Mapping[str, StoredRows]
    squares: dict[str, NDArray[Any]] = field(default_factory=dict)

    def require_host_rows(self) -> None:
        """Raise `DataError` if the rows are on a GPU."""
        if self.rows.on_gpu:
            raise DataError(f"{self.program.name}: found rows on a GPU, expected them in main memory")

    @property
    def numbers(self) -> int:
        """How many numbers of 8 bytes the results of a part of the rows are."""
        return sum(place.size for place in self.places if not place.is_row)

    def part_bounds(self, order: str = "fixed") -> list[int]:
        """Return the first row of each part of the local rows, and the end of the last part.

        In any order threads have results, not parts, which then need not be few if results are large.
        """
        return self.rows.part_bounds(self.numbers if order == "fixed" else 1)

    def shape(self, argument: Argument) -> tuple[int, ...]:
        """Return the shape of an argument."""
        return tuple(self.sizes[s] if isinstance(s, str) else s for s in argument.dims)


class _Plan(NamedTuple):
    """What calls with arguments of the same types and shapes share."""

    program: Program
    sizes: dict[str, int]
    key: tuple[Any, ...]
    places: tuple[Place, ...]


class Binder:
    """Binds the arguments of calls; remembers the trees of a row function by types."""

    def __init__(self, source: FunctionSource) -> None:
        self.source = source
        self.general = read_program(source)
        self._programs: Recent[tuple[Program, list[str]]] = Recent(MAX_PLANS)
        self._plans: Recent[_Plan] = Recent(MAX_PLANS)
        self._parameters = [a for a in self.general.arguments.values() if a.role == "parameter"]
        self._names = {a.name: f"{source.name}: {a.name}" for a in self._parameters}
        self._sizes = {size for size in sizes_of(self.general) if size.isidentifier()}
        self.takes = frozenset(self._names.keys() | self._sizes)

    def program(self, given: Mapping[str, Given], sparse: bool) -> tuple[Program, list[str]]:
        """Return the tree for the types of a call, and its sizes."""

        def read() -> tuple[Program, list[str]]:
            found = read_program(self.source, given, sparse=sparse)
            return found, sizes_of(found)

        return self._programs.get((*given.items(), sparse, self.source.helper_functions()), read)

    def bind(
        self,
        rows: RowSet,
        words: Mapping[str, Any],
        *,
        gpu: bool = False,
        sets: Mapping[str, StoredRows] = NO_SETS,
    ) -> Call:
        """Bind the arguments of a call; if it is for a GPU, parameters may be on one.

        Raises
        ------
        ReductionError
            If names are missing or unknown, or shapes clash.
        DataError
            If values are not real numbers.
        """
        name, real = self.source.name, rows.X.dtype
        if sets:
            words = {**words, **{each: X.there if X.on_gpu else X.given for each, X in sets.items()}}
        if words.keys() != self._names.keys():
            self._check_names(words)
        arrays = {each: _as_numbers(what, words[each], gpu) for each, what in self._names.items()}
        said = {word: _as_size(name, word, words[word]) for word in words if word not in self._names}
        types = [(array.dtype, array.shape) for array in arrays.values()]
        key = (rows.X.shape, rows.sparse, *types, *said.items(), self.source.helper_functions())
        plan = self._plans.get(key, lambda: self._plan(rows, arrays, said))
        values = {each: self._convert(plan.program, each, array, real) for each, array in arrays.items()}
        call = Call(plan.program, rows, plan.sizes, values, real.type, plan.key, plan.places, sets)
        for each in plan.program.squares:
            narrow = np.asarray(to_host(values[each]), real)
            squares = np.square(narrow, dtype=np.float64).sum(axis=-1)
            call.squares[each] = np.ascontiguousarray(squares, real)
        return call

    def _check_names(self, words: Mapping[str, Any]) -> None:
        """Raise if names are missing or unknown."""
        name = self.source.name
        for word in words:
            if word in self.takes:
                continue
            if word in self.general.arguments:
                raise ReductionError(
                    f"{name}: found the result {word!r} as an argument, expected parameters only"
                )
            expected = ", ".join(sorted(self.takes))
            raise ReductionError(f"{name}: found the argument {word!r}, expected one of {expected}")
        missing = [a.name for a in self._parameters if a.name not in words]
        if missing:
            raise ReductionError(f"{name}: found no {missing[0]!r}, expected it: the row function reads it")

    def _plan(self, rows: RowSet, arrays: Mapping[str, AnyArray], words: Mapping[str, int]) -> _Plan:
        """Find the program and the sizes of a call."""
        name = self.source.name
        given = {a.name: self._given(a, arrays[a.name], rows.here) for a in self._parameters}
        program, known = self.program(given, rows.sparse)
        sizes: dict[str, int] = {}
        said: dict[str, str] = {}
        self._set_size(sizes, said, program.width, rows.shape[1], "the rows")
        for word, value in words.items():
            self._set_size(sizes, said, word, value, "the call")
        for argument in program.arguments.values():
            if argument.role == "parameter":
                self._match(argument, arrays[argument.name], sizes, said)
        for size in known:
            if size not in sizes:
                raise ReductionError(f"{name}: found no size {size!r}, expected {size}=... in the call")
        return _Plan(program, sizes, (program, *sorted(sizes.items())), places_of(program, sizes))

    def _given(self, argument: Argument, array: AnyArray, rows: int) -> Given:
        name = f"{self.source.name}: {argument.name}"
        kind = {"f": "real", "b": "bool"}.get(array.dtype.kind, "int")
        said = self.source.types.get(argument.name)
        if said is not None and kind != said and not (said == "real" or kind == "bool"):
            raise ReductionError(f"{name}: found {array.dtype}, expected values of type {said}")
        has_shape = self.source.dims[argument.name] is not None and argument.name not in self.source.types
        expected, axes, dims = _shape_text(argument), argument.axes, len(argument.dims)
        if not has_shape:
            own = f"({', '.join(map(str, (rows, *argument.dims)))}{',' * (not dims)})"
            expected += "" if self.source.is_of_points else f", or {own} for one per row"
            is_own = array.ndim == dims + 1 and not self.source.is_of_points
            axes = self.general.axes if is_own else ()
        if array.ndim != dims + len(axes) or (axes and array.shape[0] != rows):
            raise ReductionError(f"{name}: found shape {array.shape}, expected {expected}")
        return Given(axes, said or kind)

    def _match(
        self, argument: Argument, array: AnyArray, sizes: dict[str, int], said: dict[str, str]
    ) -> None:
        for axis, size in enumerate(argument.dims):
            found = array.shape[len(argument.axes) + axis]
            if isinstance(size, str):
                self._set_size(sizes, said, size, found, argument.name, array.shape)
            elif found != size:
                raise ReductionError(
                    f"{self.source.name}: {argument.name}: found shape {array.shape}, "
                    f"expected {_shape_text(argument)}"
                )

    def _set_size(
        self,
        sizes: dict[str, int],
        said: dict[str, str],
        size: str,
        value: int,
        who: str,
        shape: tuple[int, ...] | None = None,
    ) -> None:
        name = self.source.name
        least = 0 if size in self.source.may_be_empty else 1
        if value < least:
            raise ReductionError(f"{name}: {who}: found the size {size} = {value}, expected at least {least}")
        if value > MAX_SIZE:
            raise ReductionError(
                f"{name}: {who}: found the size {size} = {value}, expected at most {MAX_SIZE}"
            )
        if sizes.setdefault(size, value) != value:
            detail = f"shape {shape} with {size} = {value}" if shape is not None else f"{size} = {value}"
            raise ReductionError(
                f"{name}: {who}: found {detail}, expected {size} = {sizes[size]} as in {said[size]}"
            )
        said.setdefault(size, who)

    def _convert(
        self, program: Program, name: str, array: AnyArray, real: np.dtype[np.floating[Any]]
    ) -> AnyArray:
        argument = program.arguments[name]
        kind = NUMPY.get(argument.type, real)
        is_read = array.dtype == kind or (argument.type == "real" and array.dtype == DOUBLE)
        if is_read and not isinstance(array, np.ndarray) and _is_by_rows(array):
            return array
        held = to_host(array)
        if held.dtype == kind and held.flags.c_contiguous:
            return held
        require_memory(held.size * kind.itemsize, f"a copy of {self.source.name}: {name}")
        return _as_type(held, kind)


@np.errstate(over="ignore")
def _as_type(array: NDArray[Any], kind: np.dtype[Any]) -> NDArray[Any]:
    return np.asarray(array, kind, order="C")


def _is_by_rows(array: GpuArray | DeviceArray) -> bool:
    return isinstance(array, GpuArray) or array.by_rows


def to_host(array: AnyArray) -> NDArray[Any]:
    """Copy a parameter to main memory if it is on a GPU."""
    return array if isinstance(array, np.ndarray) else array.numpy()


def _as_numbers(what: str, value: Any, gpu: bool) -> AnyArray:
    """Convert an argument to an array of real, whole or truth values; if allowed, on a GPU."""
    if type(value) in (float, bool):
        return np.array(value)
    held = _find_on_gpu(what, value) if gpu else None
    if held is not None:
        return held if _is_exact(held.dtype) else _as_numbers(what, held.numpy(), gpu)
    array = arguments.array(what, value)
    if _is_exact(array.dtype):
        return array
    if array.dtype.kind == "u":
        if array.dtype.itemsize == 8 and array.size and int(array.max()) >= 2**63:
            raise DataError(f"{what}: found {array.max()}, expected integers of at most 63 bits")
        return array.astype(np.int64)
    return arguments.numbers(what, value)


def _find_on_gpu(what: str, value: Any) -> GpuArray | DeviceArray | None:
    """Return a dense array that is on a GPU; None for all else."""
    if type(value) is np.ndarray:
        return None
    if isinstance(value, GpuArray):
        return value
    place = arguments.find_device(value)
    if place is None or arguments.is_sparse(value):
        return None
    return DeviceArray(what, value, None, None, any_order=True, stream=LEGACY_STREAM, place=place)


def _is_exact(dtype: np.dtype[Any]) -> bool:
    return dtype in (SINGLE, DOUBLE) or dtype.kind in "ib"


def _as_size(name: str, word: str, value: Any) -> int:
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, (int, np.integer)):
        raise ReductionError(f"{name}: found {word} = {value!r}, expected an integer")
    return int(value)


def _shape_text(argument: Argument) -> str:
    sizes = (*(ROWS for _ in argument.axes), *argument.dims)
    if not sizes:
        return "one number"
    return f"the shape ({', '.join(map(str, sizes))}{',' * (len(sizes) == 1)})"
