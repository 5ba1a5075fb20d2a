"""Objects that do not fit into main memory give one line, before anything is allocated."""

import errno
import resource

import numpy as np
import pytest
import scipy.sparse as sp

import bmrm
from bmrm.base import host_memory
from bmrm.cli import exits
from bmrm.errors import DataError, HostMemoryError
from bmrm.io import read_data

GB = 10**9


@pytest.fixture
def little(monkeypatch):
    """A machine with one gigabyte."""
    monkeypatch.setattr(host_memory, "available_bytes", lambda: GB)


def test_available_memory_is_known():
    assert 0 < host_memory.available_bytes() < 1 << 60


def test_columns_that_do_not_fit_into_memory(little):
    X = sp.csr_matrix((np.ones(2), [2**31 - 3, 1], [0, 1, 2]), shape=(2, 2**31 - 2))
    wanted = r"^out of memory: needs 68\.\d+ GB for .* 2147483646 columns.*, 1 GB are free"
    with pytest.raises(HostMemoryError, match=wanted):
        bmrm.Dataset(X, [1, -1], device="cpu")


def test_the_command_refuses_it_too(tmp_path, little, capsys):
    from bmrm.cli import train

    data = tmp_path / "large"
    data.write_text("0 2147483646:1\n1 2:3\n")
    assert train.main([str(data), str(tmp_path / "model")]) == exits.Exit.FAILURE
    message = capsys.readouterr().err
    assert message.startswith("bmrm-train: out of memory: ")
    assert message.count("\n") == 1
    assert not (tmp_path / "model").exists()


MARKET = "%%MatrixMarket matrix coordinate real general\n1 1 99\n" + "1 1 1\n" * 99
WRITERS = {
    "svm": lambda path: path.write_text("1 1:1\n" * 100),
    "npy": lambda path: np.save(path, np.ones((100, 10))),
    "npz": lambda path: sp.save_npz(path, sp.eye(100, format="csr")),
    "mtx": lambda path: path.write_text(MARKET),
}


@pytest.mark.parametrize("kind", WRITERS)
def test_files_that_do_not_fit_into_memory(tmp_path, monkeypatch, kind):
    monkeypatch.setattr(host_memory, "MIN_CHECKED_BYTES", 0)
    monkeypatch.setattr(host_memory, "available_bytes", lambda: 1000)
    path = tmp_path / f"x.{kind}"
    WRITERS[kind](path)
    wanted = "out of memory: needs .* for .*, 1e-06 GB are free"
    with pytest.raises(HostMemoryError, match=wanted) as found:
        read_data(path)
    assert str(path) in str(found.value)


def test_the_limit_on_address_space_counts(monkeypatch):
    monkeypatch.setattr(resource, "getrlimit", lambda which: (GB, GB))
    assert host_memory.available_bytes() < GB


def test_control_groups_count(tmp_path):
    inner = tmp_path / "outer" / "inner"
    inner.mkdir(parents=True)
    (inner / "memory.max").write_text("max\n")
    (inner / "memory.current").write_text("5000\n")
    (tmp_path / "outer" / "memory.max").write_text("9000\n")
    (tmp_path / "outer" / "memory.current").write_text("6000\n")
    (tmp_path / "outer" / "memory.stat").write_text("anon 5\ninactive_file 1500\n")
    found = host_memory._free_in_control_groups(str(tmp_path), "/outer/inner", "memory.max", "memory.current")
    assert list(found) == [9000 - 6000 + 1500]


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (MemoryError(), "out of memory; --dry-run shows how much memory the data need"),
        (OSError(errno.ENOMEM, "Cannot allocate memory"), "out of memory; --dry-run shows"),
        (ImportError("x.so: failed to map segment from shared object"), "out of memory; --dry-run shows"),
        (RuntimeError("can't start new thread"), "out of memory or threads"),
        (
            HostMemoryError("out of memory: needs 2 GB for x, 1 GB are free"),
            "out of memory: needs 2 GB for x, 1 GB are free; --dry-run shows how much memory the data need",
        ),
    ],
)
def test_running_out_of_memory_by_any_error(error, message, capsys):
    assert exits.explain("bmrm-train", error, []) == exits.Exit.FAILURE
    assert capsys.readouterr().err.startswith(f"bmrm-train: {message}")


def test_running_out_of_memory_is_not_a_fault_of_the_data():
    with pytest.raises(OSError, match="Cannot allocate"), exits.reading("data"):
        raise OSError(errno.ENOMEM, "Cannot allocate memory")
    with pytest.raises(DataError), exits.reading("data"):
        raise OSError(errno.EIO, "Input/output error")
