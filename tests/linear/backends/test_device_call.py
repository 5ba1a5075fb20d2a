"""Losses of CuPy, PyTorch and JAX whose arrays stay on a GPU, against the compiled ones there."""

import importlib

import numpy as np
import pytest
from devices import large as gpu

import bmrm
from bmrm.errors import BmrmError, DataError
from bmrm.losses import CallableLoss

pytestmark = gpu

LIBRARIES = {"cupy": "cupy", "torch": "torch", "jax": "jax.numpy"}


@pytest.fixture(params=LIBRARIES)
def kind(request, monkeypatch):
    monkeypatch.setenv("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    pytest.importorskip(request.param)
    if request.param == "jax":
        jax = importlib.import_module("jax")
        if jax.default_backend() != "gpu":
            pytest.skip("this JAX has no GPU")
        jax.config.update("jax_enable_x64", True)
    return request.param


def logistic(kind, seen=None):
    xp = importlib.import_module(LIBRARIES[kind])

    def function(u, y):
        if seen is not None:
            seen.append((type(u).__module__, str(u.dtype)))
        return xp.logaddexp(0 * u, -y * u), -y / (1 + xp.exp(y * u))

    return CallableLoss(function, "mine", "binary", minimum=0.0, arrays=kind)


def absolute(kind):
    xp = importlib.import_module(LIBRARIES[kind])
    return CallableLoss(lambda u, y: (xp.abs(u - y), xp.sign(u - y)), "distance", arrays=kind)


def problem(m=4000, d=30, dtype=np.float64, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((m, d)).astype(dtype)
    z = X @ rng.standard_normal(d) + 0.5 * rng.standard_normal(m)
    return X, z


def assert_same(mine, known, room=1e-12):
    assert mine.status == known.status == "converged"
    assert mine.device.startswith("cuda")
    room *= known.objective
    assert mine.objective >= known.lower_bound - room
    assert known.objective >= mine.lower_bound - room


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"solver": "bmrm", "tol": 1e-2},
        {"fit_intercept": True},
        {"fit_intercept": True, "penalize_intercept": True, "intercept_scaling": 2.0},
        {"cuts_per_pass": 5},
        {"sample_weight": np.arange(4000) % 3 / 7},
    ],
    ids=lambda options: "-".join(options) or "plain",
)
@pytest.mark.parametrize("smooth", [True, False])
def test_every_option(kind, smooth, options):
    X, z = problem()
    y, loss, own = (np.sign(z), "logistic", logistic(kind)) if smooth else (z + 1, "absolute", absolute(kind))
    options = {"lam": 1e-2, "tol": 1e-6, "device": "cuda", **options}
    mine, known = bmrm.solve(X, y, own, **options), bmrm.solve(X, y, loss, **options)
    assert_same(mine, known)
    assert type(mine.bundle.store) is type(known.bundle.store)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_arrays_are_of_the_library_and_of_the_margins_type(kind, dtype):
    X, z = problem(dtype=dtype)
    seen = []
    found = bmrm.solve(X, np.sign(z), logistic(kind, seen), lam=1e-3, tol=1e-4, device="cuda", dtype=dtype)
    assert_same(found, bmrm.solve(X, np.sign(z), "logistic", lam=1e-3, tol=1e-4, device="cpu"), 1e-5)
    assert all(LIBRARIES[kind].split(".")[0] in module or "jaxlib" in module for module, _ in seen)
    assert {name.split(".")[-1] for _, name in seen} == {np.dtype(dtype).name}


def test_the_memory_is_shared():
    cupy = pytest.importorskip("cupy")
    X, z = problem()
    places, labels = set(), set()

    def function(u, y):
        face = u.__cuda_array_interface__
        assert face["version"] == 3
        assert face["stream"]
        places.add(face["data"][0])
        labels.add(y.__cuda_array_interface__["data"][0])
        e = cupy.asarray(u) - cupy.asarray(y)
        assert cupy.asarray(u).data.ptr == face["data"][0]
        return 0.5 * e * e, e

    mine = bmrm.solve(X, z, CallableLoss(function, arrays="dlpack"), lam=1e-2, tol=1e-6, device="cuda")
    assert_same(mine, bmrm.solve(X, z, "squared", lam=1e-2, tol=1e-6, device="cuda"))
    assert len(labels) == 1
    assert (
        len(places) <= 4
    )  # vectors are used again: both ends of a line, the direction, the point of the cut


def test_the_function_may_overwrite_the_margins():
    torch = pytest.importorskip("torch")
    X, z = problem()

    def function(u, y):
        u -= y
        value = 0.5 * u * u
        return value, u

    mine = bmrm.solve(X, z, CallableLoss(function, arrays="torch"), lam=1e-2, tol=1e-6, device="cuda")
    assert_same(mine, bmrm.solve(X, z, "squared", lam=1e-2, tol=1e-6, device="cuda"))
    assert torch.cuda.is_available()


def test_derivatives_by_autograd_on_another_stream():
    torch = pytest.importorskip("torch")
    X, z = problem(m=200_000, d=5)
    side = torch.cuda.Stream()

    def function(u, y):
        with torch.cuda.stream(side):
            side.wait_stream(torch.cuda.default_stream())
            u.requires_grad_(True)
            value = torch.nn.functional.softplus(-y * u)
            (slope,) = torch.autograd.grad(value.sum(), u)
        torch.cuda.default_stream().wait_stream(side)
        return value, slope

    y = np.sign(z)
    mine = bmrm.solve(X, y, CallableLoss(function, task="binary", arrays="torch"), tol=1e-5, device="cuda")
    assert_same(mine, bmrm.solve(X, y, "logistic", tol=1e-5, device="cuda"))


def test_values_without_a_stride():
    torch = pytest.importorskip("torch")
    X, z = problem()
    level = lambda u, y: (torch.zeros((), device=u.device).expand(len(u)) + 0 * y, 0 * u)  # noqa: E731
    flat = lambda u, y: (torch.ones((), device=u.device).expand(len(u)), 0 * u)  # noqa: E731
    for function, objective in ((level, 0.0), (flat, 1.0)):
        found = bmrm.solve(X, z, CallableLoss(function, arrays="torch"), device="cuda", max_iter=2)
        assert found.objective == pytest.approx(objective, rel=1e-15, abs=0.0)


def test_arrays_are_on_the_host_if_the_steps_are():
    """With another regulariser the function still gets arrays of its library."""
    torch = pytest.importorskip("torch")
    X, z = problem(m=300, d=4)
    devices = set()

    def function(u, y):
        devices.add(u.device.type)
        return 0.5 * (u - y) ** 2, u - y

    own = CallableLoss(function, minimum=0.0, arrays="torch")
    mine = bmrm.solve(X, z, own, "elastic_net", lam=1e-2, tol=1e-6, device="cuda")
    assert_same(mine, bmrm.solve(X, z, "squared", "elastic_net", lam=1e-2, tol=1e-6, device="cuda"))
    assert devices == {"cpu"}
    assert torch.is_tensor(torch.ones(1))


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda u, y: (u[1:], u), r"loss mine: values: found shape \(3999,\), expected \(4000,\)"),
        (
            lambda u, y: (u, u.astype("int32")),
            "loss mine: derivatives: found dtype int32, expected float32 or",
        ),
        (lambda u, y: (u.get(), u), "loss mine: values: found on the host, expected on GPU 0"),
        (lambda u, y: (u * 0 - 2, u), "loss mine: found the value -2, expected at least its minimum, 0"),
    ],
)
def test_invalid_results_of_the_function(function, message):
    pytest.importorskip("cupy")
    X, z = problem()
    with pytest.raises(DataError, match=message):
        bmrm.solve(X, z, CallableLoss(function, "mine", minimum=0.0, arrays="cupy"), device="cuda")


def test_derivatives_that_are_not_finite():
    pytest.importorskip("cupy")
    X, z = problem()
    with pytest.raises(BmrmError, match="loss user: its derivatives are not finite"):
        bmrm.solve(X, z, CallableLoss(lambda u, y: (u * 0, u * np.nan), arrays="cupy"), device="cuda")


def test_a_path_keeps_its_cuts():
    pytest.importorskip("cupy")
    X, z = problem()
    data = bmrm.Dataset(X, np.sign(z), device="cuda")
    along = bmrm.path(data, lams=[1e-1, 1e-2, 1e-3], loss=logistic("cupy"), tol=1e-5)
    alone = bmrm.solve(data, loss="logistic", lam=1e-3, tol=1e-5)
    assert_same(along[-1], alone)
