"""The operator against SciPy on the raw matrix, in main memory."""

import pickle
import subprocess
import sys
from itertools import product

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse.linalg import LinearOperator, aslinearoperator, cg, lsmr, lsqr, svds

import bmrm
from bmrm import Operator
from bmrm.errors import BmrmError, DataError, ParameterError
from bmrm.matrix.gpu.kernel_choice import KernelChoice

RNG = np.random.default_rng(0)
DENSE = RNG.standard_normal((40, 7)) * (RNG.random((40, 7)) < 0.4)
W, R = RNG.standard_normal(7), RNG.standard_normal(40)
EPSILON = np.finfo(np.float64).eps
FORMS = {
    "dense": np.asarray,
    "fortran": np.asfortranarray,
    "list": lambda X: X.tolist(),
    "csr": sp.csr_array,
    "csc": sp.csc_matrix,
    "coo": sp.coo_array,
    "dataset": lambda X: bmrm.Dataset(sp.csr_array(X), device="cpu"),
    "dense dataset": lambda X: bmrm.Dataset(X, device="cpu"),
}


def bound(terms, magnitudes):
    """The largest error of a sum of so many products in any order, in float64 (Higham, section 3.1)."""
    return terms * EPSILON / (1 - terms * EPSILON) * magnitudes + np.finfo(float).tiny


@pytest.mark.parametrize("form", FORMS)
def test_inputs(form):
    A = Operator(FORMS[form](DENSE))
    assert isinstance(A, LinearOperator)
    assert (A.shape, A.dtype, A.device) == ((40, 7), np.float64, "cpu")
    np.testing.assert_allclose(A @ W, DENSE @ W, rtol=1e-13)
    np.testing.assert_allclose(A.T @ R, DENSE.T @ R, rtol=1e-13, atol=1e-14)
    np.testing.assert_allclose(R @ A, R @ DENSE, rtol=1e-13, atol=1e-14)


@st.composite
def cases(draw):
    m, d, K = draw(st.integers(1, 60)), draw(st.integers(1, 60)), draw(st.sampled_from([1, 3, 17]))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    X = rng.standard_normal((m, d)) * 10.0 ** rng.integers(-6, 6, (m, d))
    X[rng.random((m, d)) > draw(st.sampled_from([0.02, 0.3, 1.0]))] = 0.0
    return X, rng.standard_normal((d, K)), rng.standard_normal((m, K))


@given(cases(), st.sampled_from(["dense", "csr", "csc", "coo"]))
def test_products_are_within_the_rounding_of_sums(case, form):
    X, V, U = case
    A, B = Operator(FORMS[form](X)), aslinearoperator(FORMS[form](X))
    m, d = X.shape
    limits = bound(2 * d, abs(X) @ abs(V)), bound(2 * m, abs(X).T @ abs(U))
    # Either result is within half of this, so they differ by no more.
    assert (abs(A.matmat(V) - B.matmat(V)) <= limits[0]).all()
    assert (abs(A.rmatmat(U) - B.rmatmat(U)) <= limits[1]).all()
    assert (abs(A.matvec(V[:, 0]) - B.matvec(V[:, 0])) <= limits[0][:, 0]).all()
    assert (abs(A.rmatvec(U[:, 0]) - B.rmatvec(U[:, 0])) <= limits[1][:, 0]).all()


TYPES = (np.float32, np.float64, np.int8, np.int64, np.uint16, np.bool_)


@pytest.mark.parametrize("form", ["dense", "csr"])
@pytest.mark.parametrize(("of_matrix", "of_vector"), list(product(TYPES, (*TYPES, np.float16))))
def test_types(form, of_matrix, of_vector):
    X = np.asarray(10 * DENSE).astype(of_matrix)
    w = np.asarray(10 * W).astype(of_vector)
    A = Operator(FORMS[form](X))
    assert A.dtype == (np.float32 if of_matrix == np.float32 else np.float64)
    found, wanted = A @ w, X.astype(np.float64) @ w.astype(np.float64)
    assert found.dtype == np.result_type(A.dtype, of_vector)
    np.testing.assert_allclose(found, wanted, rtol=1e-6, atol=1e-6 * np.abs(wanted).max())
    assert (A @ w.reshape(-1, 1)).dtype == A.matmat(np.tile(w, (3, 1)).T).dtype == found.dtype


@pytest.mark.parametrize("dtype", [np.float32, "float64"])
def test_values_are_stored_in_the_given_type(dtype):
    A = Operator(DENSE, dtype=dtype)
    assert A.dtype == dtype
    np.testing.assert_allclose(A @ W, DENSE.astype(dtype).astype(np.float64) @ W, rtol=1e-13)


def test_values_that_are_all_one_keep_their_type():
    ones = sp.csr_array(np.tri(5))
    for dtype in (np.float32, np.float64):
        A = Operator(ones.astype(dtype))
        assert (A.dtype, (A @ np.ones(5, dtype)).dtype) == (dtype, dtype)
    bare = bmrm.io.Csr.from_scipy(ones.astype(np.float32))
    assert Operator(bare).dtype == np.float64


@pytest.mark.parametrize("shape", [(1, 1), (1, 9), (9, 1)])
@pytest.mark.parametrize("form", ["dense", "csr"])
def test_one_row_or_column(shape, form):
    X = RNG.standard_normal(shape)
    A = Operator(FORMS[form](X))
    w, r = RNG.standard_normal(shape[1]), RNG.standard_normal(shape[0])
    np.testing.assert_allclose(A @ w, X @ w, rtol=1e-13)
    np.testing.assert_allclose(A.T @ r, X.T @ r, rtol=1e-13)
    for K in (1, 3, 17):
        np.testing.assert_allclose(A @ np.outer(w, np.arange(K)), X @ np.outer(w, np.arange(K)), rtol=1e-13)


@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (0, 0)])
@pytest.mark.parametrize("form", [np.empty, sp.csr_array])
def test_nothing_is_refused(shape, form):
    text = f"^X: found {shape[0]} rows and {shape[1]} columns, expected at least one of each$"
    with pytest.raises(DataError, match=text):
        Operator(form(shape))


@pytest.mark.parametrize("form", ["dense", "csr"])
def test_transposes_of_transposes(form):
    A = Operator(FORMS[form](DENSE))
    for same in (A, A.T.T, A.H.T, A.transpose().adjoint(), A.T.T.T.T):
        assert same.shape == (40, 7)
        np.testing.assert_array_equal(same @ W, A @ W)
        np.testing.assert_array_equal(same.rmatvec(R), A.T @ R)
    for turned in (A.T, A.H, A.T.T.T):
        assert isinstance(turned, Operator)
        assert turned.shape == (7, 40)
        np.testing.assert_array_equal(turned.matvec(R), A.rmatvec(R))
        np.testing.assert_array_equal(turned.rmatmat(np.outer(W, W)), A.matmat(np.outer(W, W)))
        np.testing.assert_array_equal(W @ turned, A @ W)
    assert repr(A.T) == repr(A).replace("Operator:", "Operator transposed:").replace("40 x 7", "7 x 40")


@pytest.mark.parametrize("K", [0, 1, 3, 17, 40])
@pytest.mark.parametrize("form", ["dense", "csr"])
def test_several_columns(form, K):
    A = Operator(FORMS[form](DENSE))
    V, U = RNG.standard_normal((7, K)), RNG.standard_normal((40, K))
    for found, wanted in (
        (A.matmat(V), DENSE @ V),
        (A @ V, DENSE @ V),
        (A(V), DENSE @ V),
        (A.rmatmat(U), DENSE.T @ U),
        (U.T @ A, U.T @ DENSE),
    ):
        assert found.shape == wanted.shape
        np.testing.assert_allclose(found, wanted, rtol=1e-12, atol=1e-13)


def test_vectors_in_any_layout():
    A = Operator(sp.csr_array(DENSE))
    expected, columns = A @ W, A @ np.outer(W, [1.0, 2.0, 3.0])
    V = np.outer(W, [1.0, 2.0, 3.0])
    strided, backwards = np.repeat(W, 3)[::3], W[::-1].copy()[::-1]
    for w in (strided, backwards, W.tolist(), W.astype(object), V[:, 0], W.astype(">f8")):
        np.testing.assert_array_equal(A @ w, expected)
    unaligned = np.frombuffer(b"x" + W.tobytes(), np.float64, offset=1)
    np.testing.assert_array_equal(A @ unaligned, expected)
    read_only = W.copy()
    read_only.flags.writeable = False
    np.testing.assert_array_equal(A @ read_only, expected)
    for X in (np.asfortranarray(V), V[:, ::-1].copy()[:, ::-1], np.repeat(V, 2, axis=0)[::2]):
        np.testing.assert_array_equal(A @ X, columns)
    assert (A @ W[:, None]).shape == (40, 1)


@pytest.mark.parametrize("form", ["dense", "csr"])
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("filled", [0.1, 1.0])
def test_vectors_that_are_not_finite_are_as_in_scipy(form, bad, filled):
    A, B = Operator(FORMS[form](DENSE)), aslinearoperator(FORMS[form](DENSE))
    w, r = np.where(RNG.random(7) < filled, W, 0.0), np.where(RNG.random(40) < filled, R, 0.0)
    w[3] = r[5] = bad
    with np.errstate(invalid="ignore"):
        pairs = [
            (A @ w, B @ w),
            (A.T @ r, B.T @ r),
            (A @ np.outer(w, [1, 2, 3]), B @ np.outer(w, [1, 2, 3])),
            (A.rmatmat(np.outer(r, [1, 2, 3])), B.rmatmat(np.outer(r, [1, 2, 3]))),
        ]
    for found, wanted in pairs:
        np.testing.assert_array_equal(np.isnan(found), np.isnan(wanted))
        np.testing.assert_array_equal(np.isposinf(found), np.isposinf(wanted))
        np.testing.assert_allclose(found, wanted, rtol=1e-12, atol=1e-13)


def test_threads_give_the_same_bits():
    rng = np.random.default_rng(1)
    X = sp.random(20_000, 300, density=0.1, format="csr", random_state=1)
    w, r, V = rng.standard_normal(300), rng.standard_normal(20_000), rng.standard_normal((300, 17))
    one, two, five = (Operator(X, threads=threads) for threads in (1, 2, 5))
    for A in (two, five):
        np.testing.assert_array_equal(A @ w, one @ w)
        np.testing.assert_array_equal(A.T @ r, one.T @ r)
        np.testing.assert_array_equal(A @ V, one @ V)
    assert five.threads == 5


@pytest.mark.parametrize("form", ["dense", "csr", "csc"])
def test_solvers_agree_with_those_of_the_raw_matrix(form):
    X = FORMS[form](DENSE)
    A = Operator(X)
    assert aslinearoperator(A) is A
    y = DENSE @ W + 0.1 * R
    for solver in (lsqr, lsmr):
        np.testing.assert_allclose(solver(A, y)[0], solver(X, y)[0], rtol=1e-8)
    singular = svds(A, k=3, v0=np.ones(7))
    wanted = np.linalg.svd(DENSE, compute_uv=False)[:3]
    np.testing.assert_allclose(np.sort(singular[1])[::-1], wanted, rtol=1e-10)
    normal = A.T @ A + 0.5 * aslinearoperator(sp.eye_array(7))
    found, info = cg(normal, A.T @ y, rtol=1e-12)
    assert info == 0
    np.testing.assert_allclose(found, np.linalg.solve(DENSE.T @ DENSE + 0.5 * np.eye(7), DENSE.T @ y))


def test_algebra_of_operators():
    A, I = Operator(DENSE), aslinearoperator(np.eye(40))  # noqa: E741
    for found, wanted in (
        ((2.0 * A) @ W, 2.0 * DENSE @ W),
        ((A * 2.0) @ W, 2.0 * DENSE @ W),
        ((-A) @ W, -DENSE @ W),
        ((A / 4.0).T @ R, DENSE.T @ R / 4.0),
        ((A + A) @ W, 2 * DENSE @ W),
        ((A - 3.0 * A).H @ R, -2 * DENSE.T @ R),
        ((A @ A.T) @ R, DENSE @ (DENSE.T @ R)),
        ((I @ A) @ W, DENSE @ W),
        ((A.T @ A) ** 2 @ W, np.linalg.matrix_power(DENSE.T @ DENSE, 2) @ W),
    ):
        np.testing.assert_allclose(found, wanted, rtol=1e-11, atol=1e-12)
    with pytest.raises(ValueError, match="Scalar operands are not allowed"):
        A @ 2.0


def test_a_data_set_lends_its_matrix():
    data = bmrm.Dataset(DENSE, device="cpu")
    A = Operator(data)
    assert A._resident.matrix is data.matrix
    for name, value in {"device": "cuda", "dtype": np.float32, "tune": "all", "threads": 2}.items():
        with pytest.raises(ParameterError, match=f"^{name}: found .* for a Dataset, expected the default"):
            Operator(data, **{name: value})


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda A: A @ np.ones(6), ParameterError, r"x: found shape (6,), expected (7,) or (7, 1)"),
        (
            lambda A: A.matvec(np.ones((7, 2))),
            ParameterError,
            "x: found shape (7, 2), expected (7,) or (7, 1)",
        ),
        (lambda A: A.rmatvec(np.ones(7)), ParameterError, "x: found shape (7,), expected (40,) or (40, 1)"),
        (lambda A: A @ np.ones((6, 2)), ParameterError, "x: found shape (6, 2), expected (7, K)"),
        (lambda A: A.matmat(np.ones(7)), ParameterError, "x: found shape (7,), expected (7, K)"),
        (lambda A: np.ones((2, 7)) @ A, ParameterError, "x: found shape (7, 2), expected (40, K)"),
        (lambda A: A @ np.ones((7, 1, 1)), ParameterError, "x: found shape (7, 1, 1), expected (7, K)"),
        (lambda A: A @ np.ones(7, complex), DataError, "x: found complex numbers, expected numbers"),
        (lambda A: A @ list("abcdefg"), DataError, "x: found text, expected numbers"),
        (lambda A: A @ sp.eye_array(7), DataError, "x: found a sparse matrix, expected an array"),
        (
            lambda A: A @ np.ma.masked_array(W, W > 0),
            DataError,
            "x: found masked values, expected a number in",
        ),
        (
            lambda A: A.save_choice("x"),
            ParameterError,
            "save_choice: found X on the CPU, expected it on a GPU",
        ),
        (
            pickle.dumps,
            BmrmError,
            "Operator: X lives in this process, so it can be neither pickled nor copied",
        ),
    ],
)
def test_calls_that_fail_say_why_in_one_line(call, error, text):
    with pytest.raises(error) as found:
        call(Operator(DENSE))
    assert str(found.value).startswith(text)
    assert "\n" not in str(found.value)


SPLIT = {"kernel": "split", "lanes": 0, "cap": 0, "tiles": 0, "tile": 0}


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ({"device": "abacus"}, ParameterError, "device: found 'abacus'"),
        ({"dtype": "int8"}, ParameterError, "dtype: found 'int8', expected float32 or float64"),
        ({"tune": "slow"}, ParameterError, "tune: found 'slow', expected one of best, predict, all, cold"),
        ({"tune": None}, ParameterError, "tune: found None"),
        ({"threads": 0}, ParameterError, "threads: found 0, expected at least 1"),
        ({"gpu_mem": "lots"}, ParameterError, "gpu_mem: found 'lots'"),
        (
            {"choice": 7},
            ParameterError,
            "choice: found 7, expected an operator's choice, or the name of a file",
        ),
        (
            {"choice": KernelChoice("Abacus 9", "0", SPLIT, SPLIT)},
            ParameterError,
            "choice: found one for Abacus 9, expected none for X on the CPU",
        ),
    ],
)
def test_bad_options(options, error, text):
    with pytest.raises(error) as found:
        Operator(DENSE, **{"device": "cpu", **options})
    assert str(found.value).startswith(text)
    assert "\n" not in str(found.value)


@pytest.mark.parametrize("form", ["dense", "csr"])
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_x_is_finite(form, bad):
    X = DENSE.copy()
    X[3, 2] = bad
    with pytest.raises(DataError, match="finite"):
        Operator(FORMS[form](X))


GOOD = {"device": "Abacus 9", "matrix": "00c0ffee", "normal": SPLIT, "transposed": SPLIT}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        "[" * 100_000,
        str({**GOOD, "more": 1}).replace("'", '"'),
        str({**GOOD, "device": 1}).replace("'", '"'),
        str({**GOOD, "normal": {"kernel": "split"}}).replace("'", '"'),
        " " * (1 << 20) + "{}",
    ],
    ids=range(8),
)
def test_a_file_without_a_choice(tmp_path, text):
    path = tmp_path / "choice"
    path.write_text(text)
    with pytest.raises(DataError) as found:
        Operator(DENSE, choice=path)
    assert str(found.value) == f"{path}: found no choice of kernels, expected a file of save_choice"


def test_a_choice_goes_through_a_file_and_a_pickle(tmp_path):
    from bmrm.matrix.gpu.kernel_choice import read_choice

    choice = KernelChoice(**GOOD)
    choice.save(tmp_path / "choice")
    assert read_choice(tmp_path / "choice") == read_choice(str(tmp_path / "choice")) == choice
    assert pickle.loads(pickle.dumps(choice)) == choice
    with pytest.raises(FileNotFoundError):
        Operator(DENSE, choice=tmp_path / "absent")


def test_what_explain_says_in_main_memory():
    lines = Operator(sp.csr_array(DENSE), threads=2).explain().splitlines()
    assert lines[0] == f"40 x 7, {np.count_nonzero(DENSE)} values, float64, columns in 1 bytes"
    assert lines[1].endswith("threads: 2")
    assert lines[2].startswith("X^T: has not been built")
    assert Operator(DENSE).explain().startswith("40 x 7, 280 values, float64, dense\n")


def test_scipys_solvers_load_with_the_operator_only():
    code = "import sys, bmrm; bmrm.Dataset; before = 'scipy' in sys.modules; bmrm.Operator"
    code += "; print(before, 'scipy' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "True"]


@pytest.mark.parametrize("name", ["torch", "jax"])
def test_arrays_of_other_libraries_in_main_memory_stay_of_their_kind(name):
    library = pytest.importorskip("jax.numpy" if name == "jax" else name)
    A = Operator(DENSE.astype(np.float32))
    for values in (W, np.outer(W, [1, 2, 3])):
        x = library.asarray(values.astype(np.float32))
        found = A @ x
        assert type(found) is type(x)
        assert found.dtype == x.dtype
        np.testing.assert_allclose(np.asarray(found), A @ values, rtol=1e-5, atol=1e-6)
    assert type(library.asarray(R) @ A) is type(library.asarray(R))
