"""Reductions on the rows of several ranks."""

import os
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
