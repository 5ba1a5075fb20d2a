"""Counts of the points of several ranks: those of all points on one."""

import os
from pathlib import Path

import mpi
import pytest


@pytest.mark.parametrize("ranks", [1, 2, 3])
def test_ranks_count_what_one_does(ranks, tmp_path):
    if not os.environ.get("BMRM_REQUIRE_PETSC"):
        pytest.importorskip("mpi4py", reason="mpi4py is not installed; `make test` installs it")
    done = mpi.run(ranks, Path(__file__).with_name("ranks_count.py"), cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.count("done") == ranks
