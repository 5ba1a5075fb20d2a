"""The names of the package: each loads on first use, and there are no others."""

import importlib
import inspect
import subprocess
import sys

import pytest

import bmrm

MODULES = [
    *("distributed", "errors", "graph", "io", "losses", "metrics"),
    *("pairs", "plots", "reductions", "unsupervised"),
]
INTERNAL = {"Landing", "RADIUS", "WORTH_A_GPU"}
WINGS = ["bmrm.graph", "bmrm.pairs", "bmrm.reductions", "bmrm.unsupervised"]


def run(code: str) -> str:
    process = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return process.stdout


@pytest.mark.parametrize("name", MODULES)
def test_a_module_needs_no_import_of_its_own(name):
    assert run(f"import bmrm; print(type(bmrm.{name}).__name__)") == "module\n"


def test_every_public_name_exists():
    assert all(getattr(bmrm, name) is not None for name in bmrm.__all__)


def test_dir_holds_public_names_only():
    for name in bmrm.__all__:
        getattr(bmrm, name)  # loading a name adds modules to the package, which are not public for that
    assert set(dir(bmrm)) == {*bmrm.__all__, "petsc", "estimators"}


def test_constants_and_parts_of_the_machinery_are_not_public():
    assert [name for name in INTERNAL if hasattr(bmrm, name)] == []


@pytest.mark.parametrize("wing", WINGS)
def test_the_names_of_a_wing_are_loaded_on_use(wing):
    loaded = run(f"import sys, {wing}; print('numpy' in sys.modules, {wing}.__all__ != [])")
    assert loaded == "False True\n" or wing in ("bmrm.pairs", "bmrm.reductions")  # these load the language
    found = importlib.import_module(wing)
    assert all(getattr(found, name) is not None for name in found.__all__)
    assert {*found.__all__} <= {*dir(found)}
    with pytest.raises(AttributeError, match=f"module '{wing}' has no attribute 'nothing'"):
        found.nothing  # noqa: B018


def test_a_name_at_the_top_is_that_of_its_wing():
    assert bmrm.pagerank is bmrm.graph.pagerank
    assert bmrm.KMeans is bmrm.unsupervised.KMeans
    assert bmrm.reduction is bmrm.reductions.reduction


OTHER_WORDS = {"jobs", "n_threads", "nthreads", "num_threads", "num_workers", "thread_count", "workers"}


@pytest.mark.parametrize("module", ["bmrm", "bmrm.estimators", "bmrm.io", "bmrm.io.edges", *WINGS])
def test_there_is_one_word_for_threads(module):
    """Classes with scikit-learn's names take ``n_jobs`` too."""
    if module == "bmrm.estimators":
        pytest.importorskip("sklearn")
    found = importlib.import_module(module)
    public = [getattr(found, name) for name in getattr(found, "__all__", vars(found)) if name[0] != "_"]
    methods = [each for kind in public if inspect.isclass(kind) for each in vars(kind).values()]
    for each in filter(callable, [*public, *methods]):
        try:
            words = set(inspect.signature(each).parameters)
        except ValueError:  # a type of the compiled core
            continue
        assert not words & OTHER_WORDS, each
        assert "threads" in words or "n_jobs" not in words, each


def test_a_star_import_needs_no_optional_package():
    absent = "sys.modules |= dict.fromkeys(('petsc4py', 'matplotlib', 'sklearn'))"
    assert run(f"import sys; {absent}; from bmrm import *; print(solve.__name__)") == "solve\n"


def test_the_package_costs_little_to_import():
    assert run("import sys, bmrm; print('numpy' in sys.modules)") == "False\n"


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="module 'bmrm' has no attribute 'slove'"):
        importlib.import_module("bmrm").slove  # noqa: B018
