"""Reductions on the rows of several ranks."""

import os
import shutil
from pathlib import Path

import mpi
import pytest


def test_ranks_give_the_bits_of_one_if_parts_fall_whole(tmp_path):
    ranks = 3  # the first, one in between and the last
    if not os.environ.get("BMRM_REQUIRE_PETSC"):
        pytest.importorskip("mpi4py", reason="mpi4py is not installed; `make test` installs it")
    done = mpi.run(ranks, Path(__file__).with_name("ranks_program.py"), cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.count("done") == ranks
    assert done.stdout.count("failed: item_sets") == 2 * ranks  # an error of one rank is one of all


@pytest.mark.skipif(shutil.which("g++") is None, reason="there is no g++")
def test_each_rank_has_a_gpu_of_its_own(tmp_path):
    if not os.environ.get("BMRM_REQUIRE_PETSC"):
        pytest.importorskip("mpi4py", reason="mpi4py is not installed; `make test` installs it")
    done = mpi.run(2, Path(__file__).with_name("rank_devices_program.py"), own_job=True, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.count("done") == 2
    for words in ("index 4 is out of bounds", "found 'cpu' on rank 1 and 'cuda' on rank 0"):
        assert done.stdout.count(words) == 2, words  # an error of one rank is one of all
