"""Random problems: every plan, instruction set and number of threads gives the counts of plain NumPy."""

import os
from pathlib import Path

import mpi
import numpy as np
import pytest
from count_problems import count_problem
from instruction_sets import output_on

from bmrm.matrix._cpu import instruction_set
from bmrm.pairs import histogram

PROBLEMS = int(os.environ.get("BMRM_PAIR_PROBLEMS", "300"))
FIRST = int(os.environ.get("BMRM_PAIR_FIRST", "0"))
GROUP = 20


def check(problem):
    """Compare the counts of all plans with the reference."""
    expected = problem.expected()
    points = problem.points(device="cpu")
    for number, plan in enumerate(problem.plans()):
        threads = 1 + (problem.seed + number) % 3
        found = histogram(*points, plan=plan, threads=threads, **problem.words)
        text = (problem.seed, plan, threads, found.plan, problem.words, problem.box)
        np.testing.assert_array_equal(found.counts, expected, err_msg=str(text))
        n = len(problem.x)
        assert found.pairs == (n * (n - 1) // 2 if problem.y is None else n * len(problem.y)), text
        assert 0.0 <= found.rechecked <= 1.0, text


@pytest.mark.parametrize("first", range(FIRST, FIRST + PROBLEMS, GROUP))
def test_random_problems_have_the_counts_of_the_reference(first):
    for seed in range(first, min(first + GROUP, FIRST + PROBLEMS)):
        check(count_problem(seed))


@pytest.mark.parametrize("name", [name for name in ("baseline", "avx2") if name != instruction_set()])
def test_other_instruction_sets_count_the_same(name):
    program = (
        f"import sys; sys.path.insert(0, {str(Path(__file__).parent)!r})\n"
        "from test_random_counts import check\nfrom count_problems import count_problem\n"
        f"for seed in range({FIRST}, {FIRST} + {max(30, PROBLEMS // 5)}): check(count_problem(seed))\n"
        "from bmrm.matrix._cpu import instruction_set; print(instruction_set())"
    )
    assert output_on(name, program).strip() in (name, "baseline")


@pytest.mark.parametrize("ranks", [2, 3])
def test_ranks_count_the_same(ranks, tmp_path):
    if not os.environ.get("BMRM_REQUIRE_PETSC"):
        pytest.importorskip("mpi4py", reason="mpi4py is not installed; `make test` installs it")
    program = Path(__file__).with_name("ranks_random.py")
    for first in range(FIRST, FIRST + max(60, PROBLEMS // 10), 300):
        done = mpi.run(ranks, program, str(first), str(min(300, max(60, PROBLEMS // 10))), cwd=tmp_path)
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout.count("done") == ranks
