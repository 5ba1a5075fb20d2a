"""The backend of the distribution bmrm-cuda13: found if the build has none, and only of the same version."""

import sys
from collections.abc import Callable, Iterator

import pytest

import bmrm.matrix
from bmrm.cli import versions
from bmrm.errors import BmrmError
from bmrm.matrix.gpu import devices

BACKEND = "def device_count(): return 0\ndef built_for(): return [(9, 0)]\n"


@pytest.fixture
def install(monkeypatch, tmp_path) -> Iterator[Callable[[str], None]]:
    """Install a stub of the distribution, of a version, next to a build without the backend."""
    monkeypatch.setitem(sys.modules, "bmrm.matrix._cuda", None)
    monkeypatch.delattr(bmrm.matrix, "_cuda", raising=False)
    monkeypatch.setattr(devices, "_said", set())
    monkeypatch.syspath_prepend(tmp_path)

    def write(version: str) -> None:
        package = tmp_path / devices.DISTRIBUTION
        package.mkdir()
        (package / "__init__.py").write_text(f"__version__ = {version!r}\n")
        (package / "_cuda.py").write_text(BACKEND)

    yield write
    for name in (devices.DISTRIBUTION, f"{devices.DISTRIBUTION}._cuda"):
        sys.modules.pop(name, None)


def test_without_it_there_is_no_support(install):
    with pytest.raises(BmrmError, match="this build has no CUDA support"):
        devices.import_cuda()


def test_the_same_version_is_used(install):
    install(bmrm.__version__)
    assert devices.import_cuda().__name__ == "bmrm_cuda13._cuda"
    assert devices.gpu() is None  # it has no device


def test_another_version_is_named_and_the_cpu_is_used(install):
    install("0.0.9")
    line = f"found bmrm-cuda13 0.0.9, expected {bmrm.__version__}, the version of bmrm"
    with pytest.raises(BmrmError, match=line):
        devices.import_cuda()
    assert "bmrm_cuda13._cuda" not in sys.modules
    # A warning says so once.
    with pytest.warns(UserWarning, match=f"device='auto': {line}; using the CPU"):
        assert devices.gpu() is None


def test_versions_name_it(install):
    assert versions.versions()["cuda"] == "not built"
    install(bmrm.__version__)
    assert versions.versions()["cuda"].startswith("bmrm-cuda13, for 9.0; ")


def test_versions_name_another_version(install):
    install("0.0.9")
    assert versions.versions()["cuda"].startswith("not built; found bmrm-cuda13 0.0.9, expected")
