"""Ranks whose GPUs, emulated ones or those that are there, have not all of their rows: CPUs have a share."""

import os
from pathlib import Path

import mpi
import pytest
from devices import IS_EMULATED, gpu

pytestmark = gpu


def test_ranks_share_their_rows_with_their_cpus():
    if not os.environ.get("BMRM_REQUIRE_PETSC"):
        pytest.importorskip("mpi4py", reason="mpi4py is not installed; `make test` installs it")
    program, words = Path(__file__).with_name("rank_shares_program.py"), [2] if IS_EMULATED else []
    done = mpi.run(2, program, *words, own_job=True)
    assert (done.returncode, done.stderr) == (0, "")
    for word in ("stopped, True", "done"):
        assert done.stdout.count(word) == 2, done.stdout
