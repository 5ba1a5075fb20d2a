"""Products that start before the previous kernel has ended: they must see its last writes."""

import numpy as np
import pytest
import scipy.sparse as sp
from devices import cuda
from devices import large as gpu

Matrix, Plan = cuda.Matrix, cuda.Plan

PLANS = [
    Plan("subwarp", lanes=4),
    Plan("split"),
    Plan("sliced", cap=16),
    Plan("tiled", cap=16, tile=4000),
    Plan("tiled", cap=16, tile=500),
    Plan("hot", cap=16, tiles=2, tile=255),
    Plan("binned", cap=16, tile=4096),
]

LATE = r"""
extern "C" __global__ void late(REAL* x, const REAL* values, REAL* seen, int n) {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
    // All of x, as it is before: into the first-level cache of every multiprocessor.
    REAL sum = 0;
    for (int i = threadIdx.x; i < n; i += blockDim.x) sum += __ldg(x + i);
    seen[blockIdx.x * blockDim.x + threadIdx.x] = sum;
    const long long start = clock64();
    while (clock64() - start < 100000) {}
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) x[i] = values[i];
}
"""
"""Lets the next kernel start at once, and writes its output about 50 microseconds later."""


VALUES = ["float64", "float32", "ones", "dictionary"]
"""How values are stored, the last two in float32; each has its own kernel with its own order of loads."""


def sparse(rng, m, d, values="float64"):
    A = sp.random_array((m, d), density=12 / d, rng=rng, format="csr")
    stored = {"ones": np.ones(A.nnz), "dictionary": rng.choice([0.5, 0.25, 2.0], A.nnz)}.get(values, A.data)
    type_ = "float64" if values == "float64" else "float32"
    return A.indptr.astype(np.int64), A.indices.astype(np.int32), stored.astype(type_), A.shape


@gpu
@pytest.mark.parametrize("op", ["normal", "transposed"])
@pytest.mark.parametrize("values", VALUES)
@pytest.mark.parametrize("kind", [*PLANS, "narrow", "dense", "odd"], ids=lambda kind: str(kind[0]))
def test_a_product_sees_what_the_kernel_before_it_writes_last(kind, values, op):
    cp = pytest.importorskip("cupy", reason="cupy is not installed")
    rng = np.random.default_rng(5)
    if kind in ("dense", "odd"):
        if values in ("ones", "dictionary"):
            pytest.skip("a dense matrix has no such values")
        A = rng.standard_normal((900, 64 if kind == "dense" else 6007)).astype(values)
        X = Matrix.from_dense(A)
    else:
        columns, plan = (60, Plan("narrow", cap=60, tile=60)) if kind == "narrow" else (9000, kind)
        indptr, indices, data, shape = sparse(rng, 9000, columns, values)
        A = sp.csr_array((data, indices, indptr), shape)
        stored = None if values == "ones" else data
        X = Matrix(indptr, indices, stored, shape, dtype=data.dtype, plan=(plan, plan))
        assert X.coding == (values if values in ("ones", "dictionary") else "plain")
    type_ = A.dtype
    operator = (A if op == "normal" else A.T).astype(np.float64)
    accuracy = 1e-10 if type_ == np.float64 else 1e-4
    stream = cp.cuda.Stream(non_blocking=True)
    X.use_stream(stream.ptr)
    real = "double" if type_ == np.float64 else "float"
    late = cp.RawKernel(LATE.replace("REAL", real), "late", options=("-std=c++17",))
    size, blocks = operator.shape[1], cp.cuda.Device().attributes["MultiProcessorCount"]
    with stream:
        seen = cp.zeros(blocks * 64, type_)
        x, y = cp.zeros(size, type_), cp.full(operator.shape[0], cp.nan, type_)
        for round in range(20):
            written = np.random.default_rng(round).standard_normal(size).astype(type_)
            given = cp.asarray(written)
            stream.synchronize()
            late((blocks,), (64,), (x, given, seen, np.int32(size)))
            X.apply(op, x, y)
            wanted = operator @ written.astype(np.float64)
            assert y.get() == pytest.approx(wanted, rel=accuracy, abs=accuracy * np.abs(wanted).max())


@gpu
@pytest.mark.parametrize("kind", PLANS, ids=lambda kind: str(kind[0]))
def test_consecutive_products_wait_for_each_other(kind):
    cp = pytest.importorskip("cupy", reason="cupy is not installed")
    rng = np.random.default_rng(6)
    indptr, indices, data, shape = sparse(rng, 5000, 5000)
    X = Matrix(indptr, indices, data, shape, plan=(kind, kind))
    stream = cp.cuda.Stream(non_blocking=True)
    X.use_stream(stream.ptr)
    # Each reads what the one before has written, and writes over what that one has read.
    with stream:
        a, b = cp.asarray(rng.standard_normal(5000)), cp.zeros(5000)
        start = a.get()
        stream.synchronize()
        for _ in range(10):
            X.apply("normal", a, b)
            X.apply("transposed", b, a)
        found = a.get()
    A = sp.csr_array((data, indices, indptr), shape)
    wanted = start
    for _ in range(10):
        wanted = A.T @ (A @ wanted)
    assert found == pytest.approx(wanted, rel=1e-9, abs=1e-9 * np.abs(wanted).max())
