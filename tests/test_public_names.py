"""The names of the package: each loads on first use, and there are no others."""

import importlib
import subprocess
import sys

import pytest

import bmrm

MODULES = ["errors", "io", "losses", "metrics", "plots"]


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


def test_a_star_import_needs_no_optional_package():
    absent = "sys.modules |= dict.fromkeys(('petsc4py', 'matplotlib', 'sklearn'))"
    assert run(f"import sys; {absent}; from bmrm import *; print(solve.__name__)") == "solve\n"


def test_the_package_costs_little_to_import():
    assert run("import sys, bmrm; print('numpy' in sys.modules)") == "False\n"


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="module 'bmrm' has no attribute 'slove'"):
        importlib.import_module("bmrm").slove  # noqa: B018
