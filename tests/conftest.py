"""Fixtures shared by the suite."""

import functools
import gc
import importlib
import operator
import os
import pkgutil
import random
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import compiled
import environment  # noqa: F401 (it changes os.environ)
import pytest
from hypothesis import HealthCheck, settings

import bmrm
from bmrm.matrix.gpu import cache as device_cache
from bmrm.matrix.gpu import devices as gpu_devices
from bmrm.matrix.gpu import driver, libraries

# The time of an example depends on how busy the machine is.
settings.register_profile("bmrm", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("bmrm")

compiled.folder()  # before the cache is another one

ORDER = os.environ.get("BMRM_TEST_ORDER")


def _import_all() -> None:
    """Import all modules: one that a test imports first would keep what the test has replaced.

    Modules that need MPI, PETSc or scikit-learn are imported by their tests, when these are collected.
    """
    needs_no_mpi = {f"bmrm.distributed.{name}" for name in ("rows", "row_set", "blocks")}
    apart = ("bmrm.petsc", "bmrm.distributed", "bmrm.linear.backends.ranks", "bmrm.graph.backends.ranks")
    apart += ("bmrm.graph.shard", "bmrm.matrix.petsc_rows", "bmrm.estimators")
    for module in pkgutil.walk_packages(bmrm.__path__, "bmrm."):
        if module.name in needs_no_mpi or not module.name.startswith(apart):
            importlib.import_module(module.name)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[object]:
    """Collect without the garbage collector, which would go through half a million objects that stay."""
    gc.disable()
    found = yield
    gc.enable()
    gc.collect()
    gc.freeze()
    return found


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Shuffle the tests by the seed in ``BMRM_TEST_ORDER``: they must pass in any order."""
    if ORDER is not None:
        random.Random(ORDER).shuffle(items)


Namespace = tuple[dict[str, object], dict[str, object], Callable[[dict[str, object]], object], object]


@functools.cache
def functions() -> list[Namespace]:
    """Return all functions and classes in the modules of the package as they are before any test.

    For each namespace, by name and as one tuple: tuples compare by identity first, which makes the comparison
    after every test three times as fast.
    """
    _import_all()
    modules = {name: module for name, module in sys.modules.items() if name.startswith("bmrm.")}
    spaces: list[tuple[dict[str, object], dict[str, object]]] = [(sys.modules, modules)]
    spaces += [
        (vars(module), {key: value for key, value in vars(module).items() if callable(value)})
        for module in modules.values()
    ]
    takers = [(where, held, operator.itemgetter(*held)) for where, held in spaces if held]
    return [(where, held, take, take(where)) for where, held, take in takers]


def _replaced(namespaces: list[Namespace]) -> list[str]:
    """Return the names of what is not as it was."""
    found = []
    for where, held, take, before in namespaces:
        try:
            if take(where) == before:
                continue
        except KeyError:
            pass  # it is gone
        found += [
            f"{where.get('__name__', 'sys.modules')}.{key}"
            for key, value in held.items()
            if where.get(key) is not value
        ]
    return found


# What comes before and after every test is in hooks: a fixture of each takes longer than most tests.


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Iterator[None]:
    """Look at the package before the first test; let one with the mark `gpu` find a device (`devices.py`)."""
    functions()
    if _is_emulated(item):
        devices = sys.modules["devices"]
        devices.emulated.configure(1)
        patch = item.stash[PATCH] = pytest.MonkeyPatch()
        patch.setattr(driver, "load_driver", devices.emulated.library)
        for name, names in devices.emulated.names_of_libraries().items():
            patch.setattr(libraries, name, names)
        _forget_libraries()
        assert libraries.has_blas()  # tests of the module alone ask nobody to load it
    return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Iterator[None]:
    """Fail a test that leaves a function replaced; let the package forget what it remembered about a GPU."""
    try:
        return (yield)
    finally:
        if PATCH in item.stash:
            item.stash[PATCH].undo()
            sys.modules["devices"].emulated.configure(0)
        for known in (gpu_devices._constants, device_cache._picked):
            known.clear()
        _forget_libraries()
        names = _replaced(functions())
        assert not names, f"still replaced after the test: {names}"


PATCH = pytest.StashKey[pytest.MonkeyPatch]()
"""What a test with an emulated device has replaced."""


def _is_emulated(item: pytest.Item) -> bool:
    devices = sys.modules.get("devices")
    return devices is not None and devices.IS_EMULATED and item.get_closest_marker("gpu") is not None


def _forget_libraries() -> None:
    for cached in (libraries.has_blas, libraries.has_nccl):
        getattr(cached, "cache_clear", lambda: None)()  # a test may have replaced it


@pytest.fixture(params=["late", "ahead"])
def order_of_streams(request: pytest.FixtureRequest) -> Iterator[None]:
    """Let other streams of an emulated device run late or ahead; a GPU has an order of its own."""
    devices = sys.modules["devices"]
    if not devices.IS_EMULATED:
        if request.param == "ahead":
            pytest.skip("there is a CUDA device")
        yield
        return
    devices.emulated.library().emulator_run_ahead(request.param == "ahead")
    yield
    devices.emulated.library().emulator_run_ahead(False)


@pytest.fixture(scope="session")
def real_data() -> Path:
    """Return the folder of published data sets; skip the test if there is none."""
    if "BMRM_TEST_DATA" not in os.environ:
        pytest.skip("there are no published data sets; set BMRM_TEST_DATA to their folder")
    return Path(os.environ["BMRM_TEST_DATA"])


@pytest.fixture(scope="session", autouse=True)
def surroundings(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Use a new cache, with nothing from earlier runs but compiled code, and nothing left for later ones.

    Handle Ctrl-C, which tests send, even if a shell started the suite in the background to ignore it.
    """
    signal.signal(signal.SIGINT, signal.default_int_handler)
    cache = tmp_path_factory.mktemp("cache")
    lent = compiled.lend_code(cache)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(cache))
        yield
    compiled.keep_code(lent)


@pytest.fixture
def inside(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Let interior-point steps begin after the first cut; count them."""
    from bmrm.linear import plan
    from bmrm.linear.solvers.interior_point import InteriorPoint
    from bmrm.linear.solvers.interior_rule import InteriorRule

    steps: list[int] = []
    step = InteriorPoint.step
    monkeypatch.setattr(plan, "newton_pays", lambda *_: False)
    monkeypatch.setattr(InteriorRule, "pays", lambda *_: True)
    monkeypatch.setattr(InteriorPoint, "step", lambda self: steps.append(1) or step(self))
    return steps
