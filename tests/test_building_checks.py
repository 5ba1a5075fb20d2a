"""What a build refuses: each in one line that says what was found and what was expected."""

import importlib
import os
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
INCLUDE = sysconfig.get_path("include")


@pytest.fixture(scope="module")
def checks():
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(ROOT)
        return importlib.import_module("building.checks")


def refusal(check, *arguments: object) -> str:
    with pytest.raises(SystemExit) as caught:
        check(*arguments)
    text = str(caught.value)
    assert "\n" not in text
    return text


def test_this_machine_passes(checks):
    checks.require_platform(sys.platform, sys.version_info)


@pytest.mark.parametrize("platform", ["darwin", "win32"])
def test_other_systems_are_refused(checks, platform):
    text = refusal(checks.require_platform, platform, (3, 12, 1))
    assert text.startswith(f"bmrm: found {platform}, expected linux")


def test_an_old_python_is_refused(checks):
    text = refusal(checks.require_platform, "linux", (3, 10, 13))
    assert text == "bmrm: found Python 3.10, expected 3.11 or later"


def test_a_missing_compiler_is_named(checks, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert refusal(checks.require_compiler, ["g++", "-c"], INCLUDE).startswith(
        "bmrm: found no g++, expected a C++"
    )


def test_missing_headers_of_python_are_named(checks, tmp_path):
    text = refusal(checks.require_compiler, [sys.executable], str(tmp_path))
    assert text.startswith(f"bmrm: found no Python.h in {tmp_path}, expected")


NVCC = """nvcc: NVIDIA (R) Cuda compiler driver
Copyright (c) 2005-2025 NVIDIA Corporation
Cuda compilation tools, release {}, V{}.48
Build cuda_13.0.r13.0/compiler.36260728_0
"""


def test_the_release_of_nvcc_is_read(checks):
    assert checks.nvcc_release(NVCC.format("13.0", "13.0")) == (13, 0)
    assert checks.nvcc_release(NVCC.format("9.2", "9.2")) == (9, 2)
    assert checks.nvcc_release("nonsense") == (0, 0)


def test_an_old_nvcc_is_refused(checks):
    for release in ("12.0", "12.9", "13.0", "14.1"):
        checks.require_nvcc("/usr/bin/nvcc", NVCC.format(release, release))
    text = refusal(checks.require_nvcc, "/usr/bin/nvcc", NVCC.format("11.8", "11.8"))
    assert text.startswith("bmrm: found nvcc 11.8 (/usr/bin/nvcc), expected 12 or later")


OFFLINE = """#!/bin/sh
case "$*" in
*cache_tag*) exec {python} "$@" ;;
*'pip '*)
    echo "WARNING: Retrying after connection broken by NewConnectionError('Name or service not known')"
    echo 'ERROR: No matching distribution found for mpich==5.0.2'
    ;;
esac
exit 1
"""


def test_petsc_without_a_network_is_one_line(tmp_path):
    python = tmp_path / "venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text(OFFLINE.format(python=sys.executable))
    python.chmod(0o755)
    environ = {**os.environ, "VENV": str(tmp_path / "venv"), "BMRM_WHEELS": str(tmp_path / "wheels")}
    done = subprocess.run([ROOT / "scripts" / "petsc.sh"], env=environ, capture_output=True, text=True)
    assert done.returncode != 0
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1
    assert "found no connection to the package index" in done.stderr
    assert [path for path in (tmp_path / "wheels").rglob("*") if path.is_file()] == []
