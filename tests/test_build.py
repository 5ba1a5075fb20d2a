"""How the build finds and runs nvcc, and that the installed package is whole."""

import glob
import importlib.util
import os
import re
import shutil
import subprocess
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
def test_cuda_is_built_if_it_can_be(build, with_nvcc, nvcc, choice):
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


def test_nvcc_of_the_toolkits_wheels_is_found(build, tmp_path, nvcc):
    site = tmp_path / "site-packages"
    wheel = site / "nvidia" / "cu13" / "bin" / "nvcc"
    wheel.parent.mkdir(parents=True)
    shutil.copy(nvcc, wheel)
    environ = without_nvcc(tmp_path)
    assert build.cuda_compiler(environ, ["a.cu"], ["", str(site)]) == str(wheel)
    assert build.cuda_compiler(environ | {"PATH": str(nvcc.parent)}, ["a.cu"], [str(site)]) == str(nvcc)


KNOWN = "sm_75\nsm_80\nsm_86\nsm_87\nsm_89\nsm_90\nsm_90a\nsm_100\n"


def test_code_for_each_known_architecture_and_ptx_of_the_newest(build):
    flags = build.architecture_flags({}, KNOWN)
    real = ["75", "80", "86", "89", "90", "100"]
    assert flags[:-1] == [f"-gencode=arch=compute_{name},code=sm_{name}" for name in real]
    assert flags[-1] == "-gencode=arch=compute_100,code=compute_100"


def test_developers_narrow_the_architectures(build):
    assert build.architecture_flags({"BMRM_CUDA_ARCH": "native"}, KNOWN) == ["-arch=native"]
    flags = build.architecture_flags({"BMRM_CUDA_ARCH": "80,90a"}, KNOWN)
    assert [flag.split("=")[-1] for flag in flags] == ["sm_80", "sm_90a", "compute_90a"]
    with pytest.raises(SystemExit, match="BMRM_CUDA_ARCH: found '70', expected native or some of 75,80"):
        build.architecture_flags({"BMRM_CUDA_ARCH": "70"}, KNOWN)
    with pytest.raises(SystemExit, match="nvcc compiles for none of sm_75"):
        build.architecture_flags({}, "sm_50\nsm_60\n")


def test_the_folders_of_the_libraries_are_those_that_nvcc_names(build):
    said = '#$ TOP=/opt/cuda/bin/..\n#$ LIBRARIES=  "-L/opt/cuda/lib/stubs" "-L/opt/cuda/lib"\n#$ X=1\n'
    assert build.library_folders(said) == ["/opt/cuda/lib/stubs", "/opt/cuda/lib"]
    said = '#$ LIBRARIES=  "-L/opt/lib64/cu13/bin/..//lib64"\n'
    assert build.library_folders(said)[0] == "/opt/lib64/cu13/bin/..//lib64"
    assert "/opt/lib64/cu13/bin/..//lib" in build.library_folders(said)
    assert build.library_folders("") == []


def test_an_object_is_named_by_all_that_it_is_made_of(build, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    source, header = Path("a.cu"), Path("a.h")
    source.write_text("int a;")
    header.write_text("int b;")

    def name(*flags: str) -> str:
        return build.object_name("a.cu", ["a.h"], ["-O3", *flags])

    first = name()
    assert first == name()
    assert name("-g") != first
    header.write_text("int c;")
    second = name()
    source.write_text("int d;")
    assert len({first, second, name()}) == 3


FAKE_NVCC = """#!/bin/sh
case "$*" in
--list-gpu-code) echo sm_75; echo sm_90 ;;
--version) echo release 13.0 ;;
*)
    echo "$*" >>log
    while [ $# -gt 0 ]; do
        [ "$1" = -o ] && target=$2
        case "$1" in *broken.cu) exit 3 ;; esac
        shift
    done
    echo object >"$target"
    ;;
esac
"""


@pytest.fixture
def cuda_tree(tmp_path, monkeypatch, nvcc) -> str:
    """A folder with two sources, their header, and an nvcc that logs its command lines; returns the nvcc."""
    nvcc.write_text(FAKE_NVCC)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "src_cuda").mkdir()
    for name in ("a.cu", "b.cu", "both.h"):
        (tmp_path / "src_cuda" / name).write_text(name)
    return str(nvcc)


def compiled(build, nvcc: str) -> tuple[list[str], list[str]]:
    """Objects, and the sources that were compiled for them."""
    log = Path("log")
    log.write_text("")
    objects = build.compile_cuda(nvcc, sorted(glob.glob("src_cuda/*.cu")), {})
    return objects, sorted(re.findall(r"src_cuda/\w+\.cu", log.read_text()))


def test_nvcc_compiles_what_has_changed(build, cuda_tree):
    objects, sources = compiled(build, cuda_tree)
    assert sources == ["src_cuda/a.cu", "src_cuda/b.cu"]
    assert all(Path(path).read_text() == "object\n" for path in objects)
    assert compiled(build, cuda_tree) == (objects, [])
    Path("src_cuda/a.cu").write_text("changed")
    changed, sources = compiled(build, cuda_tree)
    assert sources == ["src_cuda/a.cu"]
    assert set(changed) & set(objects) == {objects[1]}
    Path("src_cuda/both.h").write_text("changed")
    assert compiled(build, cuda_tree)[1] == ["src_cuda/a.cu", "src_cuda/b.cu"]


def test_a_source_that_nvcc_refuses_ends_the_build(build, cuda_tree):
    Path("src_cuda/broken.cu").write_text("")
    with pytest.raises(SystemExit, match=r"nvcc failed with status 3 on src_cuda/broken\.cu"):
        compiled(build, cuda_tree)


def test_the_list_of_objects_is_written_only_if_it_differs(build, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    os.makedirs(build.CUDA_BUILD)
    path = Path(build.linked_list(["a.o", "b.o"]))
    os.utime(path, (1, 1))
    build.linked_list(["a.o", "b.o"])
    assert path.stat().st_mtime == 1
    build.linked_list(["a.o", "c.o"])
    assert path.stat().st_mtime > 1


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


def test_the_cuda_backend_was_built_if_it_can_be(build):
    sources = glob.glob(str(ROOT / build.CUDA_SOURCES), recursive=True)
    if build.cuda_compiler(os.environ, sources) is None:
        pytest.skip("no nvcc here, or BMRM_CUDA=off")
    assert extension("_cuda") is not None


def test_the_kernels_of_the_benchmarks_compile(build, tmp_path):
    nvcc = build.cuda_compiler({**os.environ, "BMRM_CUDA": "auto"}, ["a.cu"])
    if nvcc is None:
        pytest.skip("there is no nvcc")
    sources = list((ROOT / "benchmarks").glob("**/*.cu"))
    assert sources
    for source in sources:
        command = [nvcc, "-std=c++17", "-arch=sm_90", "-ptx", str(source), "-o", str(tmp_path / "out.ptx")]
        subprocess.run(command, check=True)
