"""Small matrices are LAPACK's on one thread, while the package's own threads work."""

import threading

import numpy as np
import pytest
import scipy.linalg  # noqa: F401 (its OpenBLAS is limited, too)
import threadpoolctl

from bmrm.base import blas
from bmrm.base.blas import MAX_SMALL_COLUMNS, small_matrices


def blas_threads():
    """Return the numbers of threads of the OpenBLAS libraries that have threads of their own."""
    found = threadpoolctl.threadpool_info()
    return [one["num_threads"] for one in found if one["internal_api"] == "openblas"]


@pytest.fixture
def three_threads():
    with threadpoolctl.threadpool_limits(3, user_api="blas"):
        if set(blas_threads()) != {3}:
            pytest.skip("NumPy or SciPy has another BLAS than OpenBLAS")
        yield


def test_a_block_has_one_thread_and_the_number_returns(three_threads):
    with small_matrices(8):
        assert set(blas_threads()) == {1}
        with small_matrices(8):
            assert set(blas_threads()) == {1}
        assert set(blas_threads()) == {1}
    assert set(blas_threads()) == {3}


def test_large_matrices_keep_their_threads(three_threads):
    with small_matrices(MAX_SMALL_COLUMNS + 1):
        assert set(blas_threads()) == {3}


def test_an_error_restores_the_number(three_threads):
    with pytest.raises(np.linalg.LinAlgError), small_matrices(2):
        np.linalg.cholesky(-np.eye(2))
    assert set(blas_threads()) == {3}


def test_blocks_of_several_threads_may_overlap(three_threads):
    inside, leave = threading.Event(), threading.Event()

    def stay():
        with small_matrices(8):
            inside.set()
            leave.wait()

    other = threading.Thread(target=stay)
    other.start()
    inside.wait()
    with small_matrices(8):
        leave.set()
        other.join()
        assert set(blas_threads()) == {1}
    assert set(blas_threads()) == {3}


def test_a_system_without_a_list_of_libraries(monkeypatch, tmp_path):
    monkeypatch.setattr(blas, "LOADED_LIBRARIES", tmp_path / "maps")
    assert blas._libraries.__wrapped__(True) == []
    (tmp_path / "maps").write_text("0-1 r-xp 0 0:0 1 /gone/libopenblas.so (deleted)\n0-1 rw-p 0 0:0 0\n")
    assert blas._libraries.__wrapped__(True) == []
