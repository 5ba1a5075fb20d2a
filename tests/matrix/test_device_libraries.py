"""Where NVIDIA's libraries are searched."""

import sys
from types import SimpleNamespace

import pytest

from bmrm.errors import BmrmError
from bmrm.matrix.gpu import libraries as device_libraries


@pytest.fixture
def asked(monkeypatch):
    """Names that a fake extension was asked to load; it finds only those in `there`."""
    names, there = [], set()

    def load(name):
        names.append(name)
        if name not in there:
            raise BmrmError(f"{name}: not found")

    backend = SimpleNamespace(load_blas=load, load_nccl=load)
    monkeypatch.setattr(device_libraries, "import_cuda", lambda: backend)
    for found in (device_libraries.has_blas, device_libraries.has_nccl):
        found.cache_clear()
    yield names, there
    for found in (device_libraries.has_blas, device_libraries.has_nccl):
        found.cache_clear()


def test_the_system_is_searched_first_then_wheels_then_the_toolkit(asked, monkeypatch, tmp_path):
    names, _ = asked
    wheel = tmp_path / "nvidia" / "cu13" / "lib" / "libcublas.so.13"
    toolkit = tmp_path / "toolkit" / "lib64" / "libcublas.so.12"
    for path in (wheel, toolkit, tmp_path / "nvidia" / "nccl" / "lib" / "libnccl.so.2"):
        path.parent.mkdir(parents=True)
        path.touch()
    monkeypatch.delitem(sys.modules, "nvidia", raising=False)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("CUDA_HOME", str(tmp_path / "toolkit"))
    assert not device_libraries.has_blas()
    assert names[:3] == list(device_libraries.CUBLAS_NAMES)
    assert str(wheel) in names[3:]
    assert names[-1] == str(toolkit)
    assert not any("nccl" in name for name in names)
    del names[:]
    assert not device_libraries.has_nccl()
    assert names[0] == "libnccl.so.2"
    assert str(tmp_path / "nvidia" / "nccl" / "lib" / "libnccl.so.2") in names


def test_the_first_library_found_is_loaded_once(asked):
    names, there = asked
    there.add(device_libraries.CUBLAS_NAMES[1])
    assert device_libraries.has_blas()
    assert device_libraries.has_blas()
    assert names == list(device_libraries.CUBLAS_NAMES[:2])
