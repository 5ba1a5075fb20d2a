from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, NamedTuple, Protocol, Self

import numpy as np
import numpy.typing as npt

from bmrm.matrix._cpu import _ResidentMatrix

_F64 = npt.NDArray[np.float64]
_Operator = Literal["normal", "transposed"]

class _CudaArray(Protocol):
    @property
    def __cuda_array_interface__(self) -> dict[str, Any]: ...

_Array = npt.ArrayLike | _CudaArray

KERNELS: tuple[str, ...]
CODINGS: tuple[str, ...]

class Plan(NamedTuple):
    kernel: str
    lanes: int = 0
    cap: int = 0
    tiles: int = 0
    tile: int = 0

_PlanLike = Plan | str

def device_count() -> int: ...
def device_info(device: int = 0) -> dict[str, Any]: ...
def measure(device: int = 0) -> dict[str, float]: ...
def constants(device: int = 0) -> dict[str, float]: ...
def statistics(
    indptr: npt.ArrayLike,
    indices: npt.ArrayLike,
    shape: Sequence[int],
    *,
    value_bytes: int = 4,
    vector_bytes: int = 4,
) -> dict[str, Any]: ...
def candidates(device: Mapping[str, Any], stats: Mapping[str, Any]) -> list[Plan]: ...
def predict(
    device: Mapping[str, Any], constants: Mapping[str, float], stats: Mapping[str, Any], plan: _PlanLike
) -> float: ...
def prediction(
    device: Mapping[str, Any], constants: Mapping[str, float], stats: Mapping[str, Any], plan: _PlanLike
) -> dict[str, float]: ...
def worth_timing(
    constants: Mapping[str, float],
    stats: Mapping[str, Any],
    plans: Sequence[_PlanLike],
    predicted: Sequence[float],
) -> list[int]: ...

class Matrix(_ResidentMatrix):
    def __init__(
        self,
        indptr: _Array,
        indices: _Array,
        data: _Array | None,
        shape: Sequence[int],
        *,
        threads: int | None = None,
        transpose: bool | None = None,
        dtype: npt.DTypeLike | None = None,
        device: int = 0,
        plan: _PlanLike | tuple[_PlanLike, _PlanLike] | None = None,
        tune: Literal["best", "predict", "all"] = "best",
        coding: bool = True,
        memory_limit: int | None = None,
        spare: int = 0,
        finite: bool = False,
    ) -> None: ...
    @staticmethod
    def from_dense(
        array: _Array,
        *,
        threads: int | None = None,
        dtype: npt.DTypeLike | None = None,
        device: int = 0,
        memory_limit: int | None = None,
        spare: int = 0,
        finite: bool = False,
    ) -> Matrix: ...
    @staticmethod
    def predict_format(
        m: int, d: int, nnz: int, value_bytes: int, *, transpose: bool | None = None
    ) -> int: ...
    @property
    def weighted_gram_bytes(self) -> int: ...
    @property
    def last_times(self) -> dict[str, float]: ...
    def apply(self, op: _Operator, x: _CudaArray, y: _CudaArray, columns: int = 1) -> None: ...
    def apply_wide(self, op: _Operator, x: _CudaArray, y: _CudaArray) -> None: ...
    def synchronize(self) -> None: ...
    @property
    def stream(self) -> int: ...
    def use_stream(self, stream: int) -> None: ...
    def time(self, op: _Operator, columns: int = 1, repeats: int = 20) -> float: ...
    @property
    def vector_dtype(self) -> np.dtype[np.float32] | np.dtype[np.float64]: ...
    @property
    def location(self) -> Literal["gpu"]: ...
    @property
    def device(self) -> int: ...
    @property
    def host_bytes(self) -> int: ...
    @property
    def bytes_left(self) -> int: ...
    @property
    def coding(self) -> Literal["plain", "ones", "dictionary"]: ...
    @property
    def is_dense(self) -> bool: ...
    def report(self) -> dict[str, Any]: ...
    def explain(self) -> str: ...

class Landing:
    capsule: object
    failure: BaseException | None
    def __new__(
        cls, nonzeros: int, dtype: npt.DTypeLike, slots: int, each: int, *, device: int = 0
    ) -> Self: ...
    def release(self) -> None: ...
    @staticmethod
    def predict_bytes(rows: int, nonzeros: int, dtype: npt.DTypeLike) -> int: ...
    def settle(self, count: int, shift: int) -> tuple[LandedArray, LandedArray]: ...

class LandedArray:
    shape: tuple[int]
    dtype: np.dtype[Any]
    def __len__(self) -> int: ...
    @property
    def __cuda_array_interface__(self) -> dict[str, Any]: ...
    def __getitem__(self, part: slice) -> npt.NDArray[Any]: ...
    def __array__(self, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> npt.NDArray[Any]: ...

class Vector:
    square: float
    inner: float
    away: float
    base: Vector | None
    def get(self) -> _F64: ...

def device_uuid(device: int = 0) -> bytes: ...
def load_blas(library: str) -> None: ...
def load_nccl(library: str) -> None: ...
def nccl_id() -> bytes: ...

class Nccl:
    def __new__(cls, device: int, name: bytes, rank: int, size: int) -> Self: ...

class Ranks:
    def __new__(
        cls,
        rank: int,
        size: int,
        dtype: npt.DTypeLike,
        total: Callable[[_F64], object],
        add_up: Callable[[npt.NDArray[Any]], object],
        gather: Callable[[npt.NDArray[np.uint8], npt.NDArray[np.int64]], object],
        nccl: Nccl | None = None,
    ) -> Self: ...

class Problem:
    matrix: Matrix
    width: int
    length: int
    constant: float
    def __new__(
        cls,
        matrix: Matrix,
        loss: int,
        parameter: float,
        labels: _F64,
        weights: _F64 | None,
        scale: float,
        constant: float,
        in_rows: bool,
    ) -> Self: ...
    def share(self, ranks: Ranks) -> None: ...
    def origin(self) -> Vector: ...
    def weights(self, array: _F64) -> Vector: ...
    def between(self, w: Vector, end: Vector, t: float) -> Vector: ...
    def margins(self, w: Vector) -> Vector: ...
    def fresh_margins(self, w: Vector) -> Vector: ...
    def rescaled(self, w: Vector, scale: float) -> Vector: ...
    def make_direction(self, z: Vector, end: Vector) -> None: ...
    @property
    def product_seconds(self) -> float: ...
    @property
    def products(self) -> int: ...
    def search(
        self,
        z: Vector,
        end: Vector,
        w: Vector,
        w_end: Vector,
        p: float,
        q: float,
        first: float,
        longest: float,
        accuracy: float,
        cut: int,
        farthest: float,
        reach: float,
    ) -> tuple[float, float, Vector]: ...
    def slope(self, z: Vector, dz: Vector, t: float, b: float) -> tuple[float, float]: ...
    def risk(
        self, z: Vector, dz: Vector | None, t: float, b: float, keep: bool
    ) -> tuple[float, Vector | None]: ...
    def derivatives(
        self, z: Vector, dz: Vector | None, t: float, b: float, which: int
    ) -> tuple[float, float]: ...
    def set_derivatives(self, r: npt.ArrayLike, starts: npt.ArrayLike) -> None: ...
    def mix_derivatives(self, share: float) -> None: ...
    def cut(
        self,
        size: int,
        starts: npt.NDArray[np.int64],
        z: Vector | None,
        dz: Vector | None,
        w: Vector,
        end: Vector,
        t: float,
    ) -> tuple[_F64, _F64]: ...
    def reserve(self, capacity: int) -> None: ...
    def combine(self, alpha: _F64, factor: float, near: Vector) -> Vector: ...
    def round_kinks(self, width: float) -> None: ...
    def newton_point(
        self,
        w: Vector,
        z: Vector,
        intercept: float,
        cuts: range,
        mean_squares: _F64,
        lam: float,
        profile: bool,
        steps: int,
        forcing: float,
    ) -> Vector | None: ...
    def begin_ascent(self, z: Vector | None) -> None: ...
    def climb(self, lam: float, steps: int) -> float: ...
    def move_cut(self, to: int, source: int) -> None: ...
    def merge_cuts(self, i: int, j: int, share: float) -> None: ...
    def get_cuts(self, size: int) -> _F64: ...
    def set_cuts(self, rows: _F64) -> None: ...

OWN_LOSS: int

class _Rows(Protocol):
    @property
    def address(self) -> int: ...
    @property
    def stride(self) -> int: ...
    @property
    def itemsize(self) -> int: ...

class LentArray:
    @property
    def shape(self) -> tuple[int]: ...
    @property
    def dtype(self) -> np.dtype[Any]: ...
    @property
    def __cuda_array_interface__(self) -> dict[str, Any]: ...
    def __dlpack_device__(self) -> tuple[int, int]: ...
    def __dlpack__(
        self,
        *,
        stream: int | None = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> object: ...

class OwnLoss:
    problem: Problem
    def __init__(self, problem: Problem) -> None: ...
    @property
    def stream(self) -> int: ...
    def labels(self) -> LentArray: ...
    def margins(
        self, z: Vector, dz: Vector | None, t: float, b: float, keep: bool
    ) -> tuple[LentArray, Vector | None]: ...
    def borrow(self, stream: int) -> None: ...
    def slope(self, slopes: _Rows, dz: Vector) -> tuple[float, float]: ...
    def risk(
        self, values: _Rows, slopes: _Rows | None, which: int, starts: npt.NDArray[np.int64], least: float
    ) -> _F64: ...
    def get(self, rows: _Rows) -> _F64: ...

class Joint:
    problem: Problem
    def __new__(
        cls,
        problem: Problem,
        *,
        kind: int,
        rows: npt.NDArray[np.int64],
        starts: npt.NDArray[np.int64],
        level: npt.NDArray[np.int64],
        weight: _F64,
        value: _F64,
        anchor: _F64,
        share: _F64,
        k: int,
        beta: float,
    ) -> Self: ...
    def evaluate(
        self, z: Vector, dz: Vector | None, t: float, b: float, *, keep: int = -1, move: bool = False
    ) -> tuple[float, float, float, Vector | None]: ...

def count_walk_additions(n: int, columns: int) -> int: ...
def predict_walk_bytes(n: int, columns: int, images: int, nodes: int | None = None) -> int: ...

class GraphRanks:
    ranks: Ranks
    def __init__(self, ranks: Ranks, bounds: npt.NDArray[np.integer[Any]]) -> None: ...

class Nodes:
    light: Matrix | None
    rest: Matrix | None
    exact: Matrix
    n: int
    n_all: int
    def __init__(
        self,
        light: Matrix | None,
        rest: Matrix | None,
        exact: Matrix,
        lengths: npt.NDArray[np.integer[Any]],
        scale: _F64,
        places: npt.NDArray[np.integer[Any]] | None,
        beside: Nodes | None = None,
        shared: GraphRanks | None = None,
    ) -> None: ...
    @property
    def main(self) -> Matrix: ...

class Walk:
    nodes: Nodes
    columns: int
    def __init__(
        self,
        nodes: Nodes,
        columns: int,
        damping: float,
        v: _F64 | None,
        u: _F64 | None,
        entries: tuple[npt.NDArray[np.integer[Any]], npt.NDArray[np.integer[Any]], _F64] | None,
        even: float,
        additions: tuple[float, float],
    ) -> None: ...
    def close(self) -> None: ...
    def place(self, slot: int, start: _F64 | None) -> None: ...
    def light_step(
        self, slots: Sequence[int], factors: _F64 | None, mixed: int, into: int, ahead: bool
    ) -> _F64: ...
    def exact_step(self, slot: int, into: int) -> _F64: ...
    def products(self, images: Sequence[int], points: Sequence[int]) -> _F64: ...
    def top(self, slot: int, column: int, count: int) -> tuple[npt.NDArray[np.int64], _F64]: ...
    def get(self, slot: int, column: int, out: _F64 | None = None) -> _F64: ...
    def take(self, source: Walk, slot: int, columns: Sequence[int]) -> None: ...

class BasisVector: ...

class Basis:
    matrix: Matrix
    by_source: Matrix | None
    def __init__(
        self, matrix: Matrix, by_source: Matrix | None = None, shared: GraphRanks | None = None
    ) -> None: ...
    def filled(self, value: float) -> BasisVector: ...
    def apply(self, op: _Operator, vector: BasisVector) -> BasisVector: ...
    def orthogonalise(
        self, vector: BasisVector, vectors: Sequence[BasisVector]
    ) -> tuple[BasisVector, float]: ...
    def combine(self, vectors: Sequence[BasisVector], factors: _F64) -> BasisVector: ...
    def distance(self, vector: BasisVector, factor: float, other: BasisVector) -> float: ...
    def get(self, vector: BasisVector) -> _F64: ...
