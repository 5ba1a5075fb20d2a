"""Estimators whose ranks have their rows on GPUs: emulated ones, or those that are there."""

import os
from pathlib import Path

import mpi
import pytest
from devices import IS_EMULATED, gpu

pytestmark = gpu


def test_ranks_with_gpus_find_what_one_process_finds():
    if not os.environ.get("BMRM_REQUIRE_PETSC"):
        pytest.importorskip("mpi4py", reason="mpi4py is not installed; `make test` installs it")
    program, words = Path(__file__).with_name("rank_gpus_program.py"), [2] if IS_EMULATED else []
    done = mpi.run(2, program, *words, own_job=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.count("done") == 2
    for words in (
        "the GPU is full",
        "found 'cpu' on rank 1 and 'cuda' on rank 0",
        "found dense rows in main memory on rank 0, sparse rows on 1",
        "found 'lanczos' on cuda",
        "the GPU of the last rank fails",
    ):
        assert done.stdout.count(words) == 2, words  # an error of one rank is one of all
