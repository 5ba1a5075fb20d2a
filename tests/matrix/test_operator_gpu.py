"""The operator on a GPU against SciPy on the raw matrix, and with arrays of CuPy, PyTorch and JAX."""

import gc
import importlib
import threading
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.sparse.linalg import aslinearoperator, cg, lsmr, lsqr, svds

import bmrm
from bmrm import Operator
from bmrm.errors import DataError, ParameterError

cuda = pytest.importorskip("bmrm.matrix._cuda", reason="the package was built without CUDA")
gpu = pytest.mark.skipif(not cuda.device_count(), reason="there is no CUDA device")

pytestmark = gpu

TYPES = (np.float32, np.float64)
ROUNDING = {np.dtype(np.float32): 2e-6, np.dtype(np.float64): 1e-14}
"""Largest error of a product, as a share of the root of the terms times the sum of their absolute values."""


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """Choose the kernels of each test anew."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr("bmrm.matrix.gpu.cache._picked", {})


def problem(m=600, d=250, density=0.05, seed=0):
    rng = np.random.default_rng(seed)
    X = sp.random_array((m, d), density=density, format="csr", rng=rng, data_sampler=rng.standard_normal)
    return X, rng.standard_normal(d), rng.standard_normal(m), rng


def check(found, X, given, transposed=False):
    """Compare a product with that of SciPy in float64, by the bound of its rounding."""
    X = sp.csr_array(X).astype(np.float64)
    X = X.T if transposed else X
    assert found.shape == (X.shape[0], *given.shape[1:])
    most = max(ROUNDING[found.dtype], ROUNDING[np.dtype(given.dtype)]) * np.sqrt(X.shape[1])
    given = given.astype(np.float64)
    np.testing.assert_array_less(np.abs(found - X @ given), most * (abs(X) @ abs(given)) + 1e-30)


@pytest.mark.parametrize("form", [sp.csr_array, sp.csc_array, sp.coo_array, sp.csr_array.toarray])
@pytest.mark.parametrize(("of_matrix", "of_vector"), list(product(TYPES, TYPES)))
def test_products(form, of_matrix, of_vector):
    X, w, r, rng = problem()
    X = X.astype(of_matrix)
    A = Operator(form(X), device="cuda")
    assert (A.dtype, A.device.startswith("cuda (")) == (of_matrix, True)
    w, r = w.astype(of_vector), r.astype(of_vector)
    for found, given, transposed in ((A @ w, w, False), (A.T @ r, r, True), (r @ A, r, True)):
        # Vectors have the type of the matrix on the device.
        wide = of_matrix if of_matrix == np.float32 else of_vector
        assert found.dtype == np.result_type(of_matrix, of_vector)
        check(found, X, given.astype(wide), transposed)
    for K in (1, 3, 17, 40):
        V, U = (
            rng.standard_normal((250, K)).astype(of_matrix),
            rng.standard_normal((600, K)).astype(of_matrix),
        )
        check(A @ V, X, V)
        check(A.rmatmat(np.asfortranarray(U)), X, U, transposed=True)


def test_vectors_that_are_not_finite_are_as_in_scipy():
    X, w, r, _ = problem()
    w[3] = r[5] = np.nan
    for form in (sp.csr_array, sp.csr_array.toarray):
        A, B = Operator(form(X), device="cuda"), aslinearoperator(form(X))
        np.testing.assert_array_equal(np.isnan(A @ w), np.isnan(B @ w))
        np.testing.assert_array_equal(np.isnan(A.T @ r), np.isnan(B.T @ r))


def test_solvers_agree_with_those_of_the_raw_matrix():
    X, w, r, _ = problem(400, 30, 0.3)
    A = Operator(X, device="cuda")
    y = X @ w + 0.1 * r
    for solver in (lsqr, lsmr):
        np.testing.assert_allclose(solver(A, y)[0], solver(X, y)[0], rtol=1e-6)
    wanted = np.sort(svds(X, k=3, return_singular_vectors=False))
    np.testing.assert_allclose(np.sort(svds(A, k=3, return_singular_vectors=False)), wanted, rtol=1e-9)
    found, info = cg(A.T @ A + 0.5 * aslinearoperator(sp.eye_array(30)), A.T @ y, rtol=1e-12)
    assert info == 0
    np.testing.assert_allclose(found, np.linalg.solve((X.T @ X).toarray() + 0.5 * np.eye(30), X.T @ y))


def test_a_choice_goes_in_again(tmp_path):
    X, w, r, _ = problem(4000, 3000, 0.01)
    A = Operator(X, device="cuda", tune="all")
    A.save_choice(tmp_path / "choice")
    for choice in (A.choice, tmp_path / "choice"):
        B = Operator(X, device="cuda", choice=choice)
        assert B.choice == A.choice == B.T.choice
        np.testing.assert_array_equal(B @ w, A @ w)
        np.testing.assert_array_equal(B.T @ r, A.T @ r)
        report = B._resident.matrix.report()
        assert [len(report[name]["candidates"]) for name in ("normal", "transposed")] == [1, 1]
    lines = A.explain().splitlines()
    assert sum(line.startswith("*") for line in lines) == 2
    assert not any(" - " in line for line in lines if line.startswith("*"))
    for other in (2.0 * X, X.astype(np.float32), X[1:], X.toarray()):
        with pytest.raises(ParameterError, match=r"^choice: found one of another matrix or type, expected"):
            Operator(other, device="cuda", choice=A.choice)
    with pytest.raises(ParameterError, match=r"^choice: found one for Abacus 9, expected one for "):
        Operator(X, device="cuda", choice=replace(A.choice, device="Abacus 9"))
    unknown = replace(A.choice, normal={**A.choice.normal, "kernel": "abacus"})
    with pytest.raises(ParameterError, match="abacus"):
        Operator(X, device="cuda", choice=unknown)


def test_a_dense_matrix_has_one_kernel():
    X, w, _, _ = problem()
    X = X.toarray()
    A = Operator(X, device="cuda")
    picks = [line.split() for line in A.explain().splitlines() if line.startswith("*")]
    assert [pick[1] for pick in picks] == ["dense", "dense"]
    assert all(float(number) > 0.0 for pick in picks for number in pick[2:])
    np.testing.assert_array_equal(Operator(X, device="cuda", choice=A.choice) @ w, A @ w)


@pytest.mark.parametrize("tune", ["best", "predict", "all", "cold"])
def test_tuning(tune):
    X, w, _, _ = problem(3000, 2000, 0.01)
    A = Operator(X, device="cuda", tune=tune)
    check(A @ w, X, w)
    candidates = A._resident.matrix.report()["normal"]["candidates"]
    timed = sum(bool(each["measured"]) for each in candidates)
    assert {"predict": timed == 0, "all": timed == len(candidates)}.get(tune, timed > 0)
    again = Operator(X, device="cuda", tune=tune)
    remembered = len(again._resident.matrix.report()["normal"]["candidates"]) == 1
    assert remembered == (tune in ("best", "cold"))


def test_a_part_of_the_memory():
    X, w, r, _ = problem(6000, 300)
    A = Operator(X, device="cuda", gpu_mem="4M")
    assert len(A._resident.matrix.report()["blocks"]) > 1
    check(A @ w, X, w)
    check(A.T @ r, X, r, transposed=True)
    assert "blocks of" in A.explain()
    np.testing.assert_array_equal(Operator(X, device="cuda", gpu_mem="4M", choice=A.choice) @ w, A @ w)


def test_a_data_set_lends_its_matrix():
    X, w, _, _ = problem()
    data = bmrm.Dataset(X, device="cuda")
    A = Operator(data)
    assert A._resident.matrix is data.matrix
    np.testing.assert_array_equal(A @ w, data.margins(w))
    assert Operator(X, device="cuda", choice=A.choice).choice == A.choice


def library(name):
    """Return a function that puts an array on the GPU, one that reads it back, and one for a new stream."""
    found = pytest.importorskip("jax.numpy" if name == "jax" else name)
    if name == "cupy":
        return found.asarray, found.asnumpy, lambda: found.cuda.Stream(non_blocking=True)
    if name == "torch":
        if not found.cuda.is_available():
            pytest.skip("PyTorch sees no GPU")
        return (
            lambda array: found.from_numpy(np.array(array)).cuda(),
            lambda tensor: tensor.cpu().numpy(),
            lambda: found.cuda.stream(found.cuda.Stream()),
        )
    jax = importlib.import_module("jax")
    if jax.default_backend() != "gpu":
        pytest.skip("JAX sees no GPU")
    jax.config.update("jax_enable_x64", True)
    return found.asarray, np.asarray, None


LIBRARIES = ["cupy", "torch", "jax"]


@pytest.mark.parametrize("name", LIBRARIES)
@pytest.mark.parametrize(("of_matrix", "of_vector"), list(product(TYPES, TYPES)))
def test_arrays_of_a_library_stay_on_the_gpu(name, of_matrix, of_vector):
    put, get, _ = library(name)
    X, w, r, rng = problem()
    X = X.astype(of_matrix)
    A = Operator(X, device="cuda")
    kind = np.result_type(of_matrix, of_vector)
    narrow = np.float32 if np.float32 in (of_matrix, of_vector) else kind
    for K in (None, 1, 3, 17, 40):
        V, U = (w, r) if K is None else (rng.standard_normal((250, K)), rng.standard_normal((600, K)))
        by_rows = A.__rmul__(put(U.T.astype(of_vector)))
        for found, given, transposed in (
            (A @ put(V.astype(of_vector)), V, False),
            (A.T @ put(U.astype(of_vector)), U, True),
            (by_rows if K is None else by_rows.T, U, True),
        ):
            assert type(found) is type(put(V))
            back = np.asarray(get(found))
            assert back.dtype == kind
            check(back.astype(narrow), X, given.astype(of_vector).astype(narrow), transposed)
    host = A @ w.astype(of_matrix)
    np.testing.assert_array_equal(np.asarray(get(A @ put(w.astype(of_matrix)))), host)


@pytest.mark.parametrize("name", ["cupy", "torch"])
def test_a_product_waits_for_the_work_on_its_stream(name):
    """And later work on that stream for the product, though the host waits for neither."""
    put, get, stream = library(name)
    X, w, _, _ = problem(3000, 2000, 0.01)
    A = Operator(X, device="cuda")
    wanted = 2.0 * (A @ w)
    for _ in range(20):
        with stream():
            late = put(w) * 0
            for _ in range(200):
                late = late + put(w) / 200
            found = (A @ late) * 2.0
            del late
            np.testing.assert_allclose(np.asarray(get(found)), wanted, rtol=1e-9, atol=1e-9)
        gc.collect()  # the stream of CuPy ends with its object
    np.testing.assert_allclose(2.0 * (A @ w), wanted, rtol=1e-12)


@pytest.mark.parametrize("name", ["cupy", "torch"])
def test_threads_with_streams_of_their_own(name):
    put, get, stream = library(name)
    X, w, _, _ = problem(3000, 2000, 0.01)
    A, faults = Operator(X, device="cuda"), []
    wanted = A @ w

    def work(factor):
        with stream():
            for _ in range(50):
                found = np.asarray(get(A @ put(factor * w)))
                if not np.allclose(found, factor * wanted, rtol=1e-9, atol=1e-9):
                    faults.append(factor)

    threads = [threading.Thread(target=work, args=(2.0**k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert faults == []


@pytest.mark.parametrize("name", LIBRARIES)
def test_x_on_the_gpu_is_taken_there(name):
    put, get, _ = library(name)
    X, w, _, _ = problem()
    X = X.toarray()
    A = Operator(put(X))
    assert A.device.startswith("cuda (")
    check(np.asarray(get(A @ put(w))), X, w)
    with pytest.raises(
        DataError, match=r"^x: found an array on a GPU, expected one in main memory, where X is"
    ):
        Operator(X, device="cpu") @ put(w)
