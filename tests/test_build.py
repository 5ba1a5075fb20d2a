"""How the build finds and runs nvcc, and that the installed package is whole."""

import doctest
import glob
import importlib
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import bmrm

ROOT = Path(__file__).parents[1]
sys.path.append(str(ROOT))
NAMES = ("cuda", "device_api", "emulated")
cuda, device_api, emulated = (importlib.import_module(f"building.{name}") for name in NAMES)


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
def test_cuda_is_built_if_it_can_be(with_nvcc, nvcc, choice):
    assert cuda.compiler(with_nvcc | choice, ["a.cu"]) == str(nvcc)


def test_nvcc_is_found_on_the_path(tmp_path, nvcc):
    environ = without_nvcc(tmp_path) | {"PATH": str(nvcc.parent)}
    assert cuda.compiler(environ, ["a.cu"]) == str(nvcc)


def test_cuda_off_wins_over_an_nvcc(with_nvcc):
    assert cuda.compiler(with_nvcc | {"BMRM_CUDA": "off"}, ["a.cu"]) is None


def test_cuda_auto_builds_without_what_is_missing(tmp_path, with_nvcc):
    assert cuda.compiler(without_nvcc(tmp_path), ["a.cu"]) is None
    assert cuda.compiler(with_nvcc, []) is None


def test_cuda_on_fails_without_nvcc(tmp_path):
    with pytest.raises(SystemExit, match="BMRM_CUDA=on: found no nvcc"):
        cuda.compiler(without_nvcc(tmp_path) | {"BMRM_CUDA": "on"}, ["a.cu"])


def test_cuda_on_fails_without_sources(with_nvcc):
    with pytest.raises(SystemExit, match="BMRM_CUDA=on: found no CUDA sources"):
        cuda.compiler(with_nvcc | {"BMRM_CUDA": "on"}, [])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a<<<1, 32>>>(x);", "emulator::Launch(1, 32).of([=](auto... given) { a(given...); })(x);"),
        (
            "b<T, f(1)>\n  <<<dim3(2), n, 0, s>>>(x, y);",
            "emulator::Launch(dim3(2), n, 0, s).of([=](auto... given) { b<T, f(1)>\n  (given...); })(x, y);",
        ),
        (
            "extern __shared__ __align__(16) unsigned char raw[];",
            "unsigned char* raw = emulator::dynamic_shared<unsigned char>();",
        ),
        ("reinterpret_cast<const void*>(&k<T>)", "emulator::erased(&k<T>)"),
        ("out << 3 >> (1 << 2);", "out << 3 >> (1 << 2);"),
    ],
)
def test_cuda_in_cpp_keeps_its_lines(text, expected):
    assert emulated.in_cpp(text) == expected


def test_any_other_choice_is_refused():
    with pytest.raises(SystemExit, match="found 'yes', expected auto, on, off or emulated"):
        cuda.compiler({"BMRM_CUDA": "yes"}, [])


def test_nvcc_of_the_toolkits_wheels_is_found(tmp_path, nvcc):
    site = tmp_path / "site-packages"
    wheel = site / "nvidia" / "cu13" / "bin" / "nvcc"
    wheel.parent.mkdir(parents=True)
    shutil.copy(nvcc, wheel)
    environ = without_nvcc(tmp_path)
    assert cuda.compiler(environ, ["a.cu"], ["", str(site)]) == str(wheel)
    assert cuda.compiler(environ | {"PATH": str(nvcc.parent)}, ["a.cu"], [str(site)]) == str(nvcc)


KNOWN = "sm_75\nsm_80\nsm_86\nsm_87\nsm_89\nsm_90\nsm_90a\nsm_100\nsm_120\n"


@pytest.mark.parametrize(
    ("present", "names", "reason"),
    [
        (["90"], ["90"], "the GPU of this machine"),
        (["80", "90"], ["80", "90"], "the GPUs of this machine"),
        (["70", "86"], ["86"], "the GPU of this machine"),
        ([], ["90"], "found no GPU here; BMRM_CUDA_ARCH selects others, as 80,90 or all"),
        (["60", "70"], ["90"], "nvcc knows no sm_60, sm_70; BMRM_CUDA_ARCH selects others, as 80,90 or all"),
    ],
)
def test_code_is_for_the_gpus_of_this_machine(present, names, reason):
    assert cuda.architectures("", KNOWN, present) == (names, reason)


def test_the_user_chooses_the_architectures():
    assert cuda.architectures("80,90a", KNOWN, ["75"])[0] == ["80", "90a"]
    assert cuda.architectures("all", KNOWN, ["75"])[0] == ["75", "80", "90", "100", "120"]
    with pytest.raises(SystemExit, match="BMRM_CUDA_ARCH=70: found '70', expected all or some of 75,80"):
        cuda.architectures("70", KNOWN, [])
    with pytest.raises(SystemExit, match="BMRM_CUDA_ARCH=all: found '120', expected all or some of 75,80"):
        cuda.architectures("all", "sm_75\nsm_80\nsm_90\nsm_100\n", [])


def test_machine_code_for_each_architecture_and_ptx_of_the_last():
    assert cuda.architecture_flags(["80", "90"]) == [
        "-gencode=arch=compute_80,code=sm_80",
        "-gencode=arch=compute_90,code=sm_90",
        "-gencode=arch=compute_90,code=compute_90",
    ]


def test_the_folders_of_the_libraries_are_those_that_nvcc_names():
    said = '#$ TOP=/opt/cuda/bin/..\n#$ LIBRARIES=  "-L/opt/cuda/lib/stubs" "-L/opt/cuda/lib"\n#$ X=1\n'
    assert cuda.library_folders(said) == ["/opt/cuda/lib/stubs", "/opt/cuda/lib"]
    said = '#$ LIBRARIES=  "-L/opt/lib64/cu13/bin/..//lib64"\n'
    assert cuda.library_folders(said)[0] == "/opt/lib64/cu13/bin/..//lib64"
    assert "/opt/lib64/cu13/bin/..//lib" in cuda.library_folders(said)
    assert cuda.library_folders("") == []


def test_all_that_the_headers_of_the_device_say_is_declared(monkeypatch):
    monkeypatch.chdir(ROOT)
    assert doctest.testmod(device_api) == (0, 2)
    said = "".join(path.read_text() for path in device_api.HEADERS.glob("*.h"))
    names = set(re.findall(r"\b(?:bb|BB)_\w+", re.sub(r"//.*|#define BB_API.*", "", said))) - {"BB_API"}
    assert len(names) > 200
    assert names - set(re.findall(r"\w+", device_api.declarations())) == set()


def extension(name: str) -> Path | None:
    """File of an extension of the installed package."""
    return next(Path(bmrm.__file__).parent.rglob(f"{name}.*.so"), None)


def test_the_cuda_extension_needs_no_cuda_library_and_shows_no_symbol():
    path = extension("_cuda")
    if path is None:
        pytest.skip("the package was built without CUDA")
    for tool in ("nm", "readelf"):
        if shutil.which(tool) is None:
            pytest.skip(f"no {tool} to look into the extension with")

    def output(*command: str) -> str:
        return subprocess.run([*command, path], check=True, capture_output=True, text=True).stdout

    needed = re.findall(r"NEEDED.*\[(.+)\]", output("readelf", "-d"))
    assert needed
    assert [name for name in needed if "cu" in name] == []
    shown = [line.split()[-1] for line in output("nm", "-D", "--defined-only").splitlines()]
    assert [name for name in shown if name.startswith(("bb_", "cuda", "_ZN4bmrm"))] == []


def test_the_installed_package_is_whole():
    source, installed = ROOT / "bmrm", Path(bmrm.__file__).parent
    expected = {p.relative_to(source) for p in source.rglob("*") if p.suffix in (".py", ".pyi", ".typed")}
    assert {p for p in expected if not (installed / p).exists()} == set()
    built = {p.name.split(".")[0] for p in installed.rglob("*.so")}
    assert {p.stem for p in (ROOT / "src_cython").glob("*.pyx")} - built <= {"_cuda"}


def test_the_cuda_backend_was_built_if_it_can_be():
    sources = glob.glob(str(ROOT / cuda.SOURCES), recursive=True)
    if cuda.compiler(os.environ, sources) is None:
        pytest.skip("no nvcc here, or BMRM_CUDA=off")
    assert extension("_cuda") is not None


def test_the_kernels_of_the_benchmarks_compile(tmp_path):
    nvcc = cuda.compiler({**os.environ, "BMRM_CUDA": "auto"}, ["a.cu"])
    if nvcc is None:
        pytest.skip("there is no nvcc")
    sources = list((ROOT / "benchmarks").glob("**/*.cu"))
    assert sources
    for source in sources:
        command = [nvcc, "-std=c++17", "-arch=sm_90", "-ptx", str(source), "-o", str(tmp_path / "out.ptx")]
        subprocess.run(command, check=True)


def test_the_other_branches_of_each_condition_on_the_architecture_are_compiled(monkeypatch):
    monkeypatch.chdir(ROOT)
    architectures = importlib.import_module("building.architectures")
    compiled = {path for source in architectures.SOURCES for path in architectures.closure(source, set())}
    conditional = {
        str(path)
        for root in architectures.ROOTS
        for path in Path(root).rglob("*.*")
        if architectures.CONDITION.search(path.read_text())
    }
    assert conditional
    assert conditional - compiled == set()
