"""The switch BMRM_CUDA of the build, and that the installed package is whole."""

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

import bmrm

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def build() -> ModuleType:
    spec = importlib.util.spec_from_file_location("bmrm_setup", ROOT / "setup.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def nvcc(tmp_path: Path) -> Path:
    path = tmp_path / "toolkit" / "bin" / "nvcc"
    path.parent.mkdir(parents=True)
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return path


@pytest.fixture
def with_nvcc(nvcc: Path) -> dict[str, str]:
    return {"CUDA_HOME": str(nvcc.parents[1]), "PATH": ""}


def without_nvcc(tmp_path: Path) -> dict[str, str]:
    return {"CUDA_HOME": str(tmp_path / "none"), "PATH": str(tmp_path)}


@pytest.mark.parametrize("choice", [{}, {"BMRM_CUDA": "auto"}, {"BMRM_CUDA": "on"}])
def test_cuda_is_built_where_it_can_be(build, with_nvcc, nvcc, choice):
    assert build.cuda_compiler(with_nvcc | choice, ["a.cu"]) == str(nvcc)


def test_nvcc_is_found_on_the_path(build, tmp_path, nvcc):
    environ = without_nvcc(tmp_path) | {"PATH": str(nvcc.parent)}
    assert build.cuda_compiler(environ, ["a.cu"]) == str(nvcc)


def test_cuda_off_wins_over_an_nvcc(build, with_nvcc):
    assert build.cuda_compiler(with_nvcc | {"BMRM_CUDA": "off"}, ["a.cu"]) is None


def test_cuda_auto_builds_without_what_is_missing(build, tmp_path, with_nvcc):
    assert build.cuda_compiler(without_nvcc(tmp_path), ["a.cu"]) is None
    assert build.cuda_compiler(with_nvcc, []) is None


def test_cuda_on_fails_without_nvcc(build, tmp_path):
    with pytest.raises(SystemExit, match="BMRM_CUDA=on: found no nvcc"):
        build.cuda_compiler(without_nvcc(tmp_path) | {"BMRM_CUDA": "on"}, ["a.cu"])


def test_cuda_on_fails_without_sources(build, with_nvcc):
    with pytest.raises(SystemExit, match="BMRM_CUDA=on: found no CUDA sources"):
        build.cuda_compiler(with_nvcc | {"BMRM_CUDA": "on"}, [])


def test_any_other_choice_is_refused(build):
    with pytest.raises(SystemExit, match="found 'yes', expected auto, on or off"):
        build.cuda_compiler({"BMRM_CUDA": "yes"}, [])


def test_the_installed_package_is_whole():
    source, installed = ROOT / "bmrm", Path(bmrm.__file__).parent
    expected = {p.relative_to(source) for p in source.rglob("*") if p.suffix in (".py", ".pyi", ".typed")}
    assert {p for p in expected if not (installed / p).exists()} == set()
    assert {p.stem for p in (ROOT / "src_cython").glob("*.pyx")} == {
        p.name.split(".")[0] for p in installed.glob("*.so")
    }
