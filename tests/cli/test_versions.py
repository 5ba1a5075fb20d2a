"""`bmrm.show_versions` and ``python -m bmrm``."""

import subprocess
import sys
from importlib import metadata

import numpy as np
import pytest

import bmrm
from bmrm.cli import versions


def test_the_module_prints_what_the_function_prints(capsys):
    process = subprocess.run([sys.executable, "-m", "bmrm"], capture_output=True, text=True, check=True)
    bmrm.show_versions()
    names = [line.split()[0] for line in capsys.readouterr().out.splitlines()]
    assert [line.split()[0] for line in process.stdout.splitlines()] == names
    assert names[:3] == ["bmrm", "python", "system"]


def test_versions_are_those_of_the_libraries(monkeypatch):
    monkeypatch.setattr(versions, "LIBRARIES", ("numpy", "no-such-library"))
    found = versions.versions()
    assert found["bmrm"] == bmrm.__version__
    assert found["numpy"] == np.__version__ == metadata.version("numpy")
    assert found["no-such-library"] == "not installed"


def test_the_architectures_of_the_build_are_named():
    cuda = pytest.importorskip("bmrm.matrix._cuda", reason="the package was built without CUDA")
    assert cuda.built_for()
    assert versions.versions()["cuda"].startswith(
        "built for " + ", ".join(f"{major}.{minor}" for major, minor in cuda.built_for()) + ";"
    )
