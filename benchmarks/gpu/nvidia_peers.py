"""cuSPARSE and cuBLAS, called as a fast program in C calls them.

Descriptors, buffers and preprocessing are made once and kept, scalars are on the host, and every call goes to
one stream and may be captured in a graph. CuPy's own bindings do not do this: they analyse the matrix again
in each call and refuse to be captured. Prototypes: cusparse.h of CUDA 12.3 or later and cublas_api.h.
"""

from __future__ import annotations

import ctypes
from ctypes import byref, c_int, c_int64, c_size_t, c_void_p
from typing import Any

import cupy as cp
from cuda.pathfinder import load_nvidia_dynamic_lib

REAL_TYPE = {"float32": 0, "float64": 1}  # cudaDataType CUDA_R_32F, CUDA_R_64F
SCALAR = {"float32": ctypes.c_float, "float64": ctypes.c_double}
INDEX_32 = 2  # cusparseIndexType_t CUSPARSE_INDEX_32I
NON_TRANSPOSE, TRANSPOSE = 0, 1  # of cusparseOperation_t and of cublasOperation_t
SPMV_ALGORITHMS = {"ALG1": 2, "ALG2": 3}  # cusparseSpMVAlg_t: CUSPARSE_SPMV_CSR_ALG1, _ALG2
CUBLAS_WORKSPACE = 64 << 20


def library(name: str) -> ctypes.CDLL:
    """Open the library that CuPy uses, from a wheel or from the system."""
    return ctypes.CDLL(load_nvidia_dynamic_lib(name).abs_path)


def check(status: int, call: str) -> None:
    """Raise if a library's status is not success."""
    if status:
        raise RuntimeError(f"{call} failed with status {status}")


class Cusparse:
    """A cuSPARSE handle on one stream."""

    def __init__(self, stream: cp.cuda.Stream) -> None:
        self.library = library("cusparse")
        self.handle = c_void_p()
        self.call("cusparseCreate", byref(self.handle))
        self.call("cusparseSetStream", self.handle, c_void_p(stream.ptr))
        number = c_int()
        self.call("cusparseGetVersion", self.handle, byref(number))
        self.version = f"{number.value // 1000}.{number.value % 1000 // 100}.{number.value % 100}"

    def call(self, name: str, *arguments: Any) -> None:
        check(getattr(self.library, name)(*arguments), name)


class CsrProduct:
    """y = A x by cusparseSpMV; indptr and indices int32, values, x and y of one type, all on the device."""

    def __init__(
        self,
        cusparse: Cusparse,
        arrays: tuple[cp.ndarray, cp.ndarray, cp.ndarray],
        x: cp.ndarray,
        y: cp.ndarray,
        algorithm: str,
    ) -> None:
        self.matrix, self.x_vector, self.y_vector = c_void_p(), c_void_p(), c_void_p()
        self.kept = (arrays, x, y)
        self.cusparse = cusparse
        indptr, indices, values = arrays
        if not (indptr.dtype == indices.dtype == cp.int32 and values.dtype == x.dtype == y.dtype):
            raise TypeError("indptr and indices must be int32, values, x and y of one type")
        if indptr.size != y.size + 1:
            raise ValueError("y must have as many elements as there are rows")
        kind = values.dtype.name
        real = c_int(REAL_TYPE[kind])
        cusparse.call(
            "cusparseCreateCsr",
            byref(self.matrix), c_int64(y.size), c_int64(x.size), c_int64(indices.size),
            c_void_p(indptr.data.ptr), c_void_p(indices.data.ptr), c_void_p(values.data.ptr),
            c_int(INDEX_32), c_int(INDEX_32), c_int(0), real,
        )  # fmt: skip
        for vector, array in ((self.x_vector, x), (self.y_vector, y)):
            cusparse.call(
                "cusparseCreateDnVec", byref(vector), c_int64(array.size), c_void_p(array.data.ptr), real
            )
        self.alpha, self.beta = SCALAR[kind](1.0), SCALAR[kind](0.0)
        self.arguments = (
            cusparse.handle, c_int(NON_TRANSPOSE), byref(self.alpha), self.matrix, self.x_vector,
            byref(self.beta), self.y_vector, real, c_int(SPMV_ALGORITHMS[algorithm]),
        )  # fmt: skip
        size = c_size_t()
        cusparse.call("cusparseSpMV_bufferSize", *self.arguments, byref(size))
        self.buffer = cp.empty(max(size.value, 16), cp.uint8)
        self.arguments += (c_void_p(self.buffer.data.ptr),)
        cusparse.call("cusparseSpMV_preprocess", *self.arguments)

    def __call__(self) -> None:
        self.cusparse.call("cusparseSpMV", *self.arguments)

    def __del__(self) -> None:
        for name, descriptor in (
            ("cusparseDestroySpMat", self.matrix),
            ("cusparseDestroyDnVec", self.x_vector),
            ("cusparseDestroyDnVec", self.y_vector),
        ):
            if descriptor:
                getattr(self.cusparse.library, name)(descriptor)


class Cublas:
    """A cuBLAS handle on one stream, with its own workspace."""

    def __init__(self, stream: cp.cuda.Stream) -> None:
        self.library = library("cublas")
        self.handle = c_void_p()
        check(self.library.cublasCreate_v2(byref(self.handle)), "cublasCreate_v2")
        check(self.library.cublasSetStream_v2(self.handle, c_void_p(stream.ptr)), "cublasSetStream_v2")
        self.workspace = cp.empty(CUBLAS_WORKSPACE, cp.uint8)
        check(
            self.library.cublasSetWorkspace_v2(
                self.handle, c_void_p(self.workspace.data.ptr), c_size_t(CUBLAS_WORKSPACE)
            ),
            "cublasSetWorkspace_v2",
        )
        number = c_int()
        check(self.library.cublasGetVersion_v2(self.handle, byref(number)), "cublasGetVersion_v2")
        self.version = f"{number.value // 10000}.{number.value % 10000 // 100}.{number.value % 100}"

    def gemv(self, matrix: cp.ndarray, x: cp.ndarray, y: cp.ndarray, transposed: bool) -> None:
        """y = A x or y = A' x; A is row-major or column-major, as its flags say."""
        if not (matrix.dtype == x.dtype == y.dtype):
            raise TypeError("the matrix, x and y must be of one type")
        # Row-major A is, as cuBLAS reads memory, its transpose.
        by_rows = matrix.flags.c_contiguous
        rows, cols = matrix.shape[::-1] if by_rows else matrix.shape
        kind = matrix.dtype.name
        gemv = self.library.cublasSgemv_v2 if kind == "float32" else self.library.cublasDgemv_v2
        alpha, beta = SCALAR[kind](1.0), SCALAR[kind](0.0)
        status = gemv(
            self.handle, c_int(TRANSPOSE if by_rows != transposed else NON_TRANSPOSE),
            c_int(rows), c_int(cols), byref(alpha), c_void_p(matrix.data.ptr), c_int(rows),
            c_void_p(x.data.ptr), c_int(1), byref(beta), c_void_p(y.data.ptr), c_int(1),
        )  # fmt: skip
        check(status, gemv.__name__)
