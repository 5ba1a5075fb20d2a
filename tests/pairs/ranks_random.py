"""Count the pairs of random problems on several ranks; words: the first seed, and how many."""

import sys

import numpy as np
from count_problems import count_problem
from mpi4py import MPI

from bmrm.pairs import Points, histogram

comm = MPI.COMM_WORLD


def mine(points):
    """Return the points of this rank: some have none."""
    bounds = np.sort(np.random.default_rng(len(points)).integers(0, len(points) + 1, comm.size - 1))
    return points[slice(*np.concatenate([[0], bounds, [len(points)]])[comm.rank : comm.rank + 2])]


first, number = map(int, sys.argv[1:])
for seed in range(first, first + number):
    problem = count_problem(seed)
    sets = [problem.x] if problem.y is None else [problem.x, problem.y]
    points = [Points(mine(each), box=problem.box, comm=comm) for each in sets]
    found = histogram(*points, threads=1 + seed % 3, **problem.words)
    np.testing.assert_array_equal(found.counts, problem.expected(), err_msg=str((seed, found.plan)))
print("done", flush=True)
