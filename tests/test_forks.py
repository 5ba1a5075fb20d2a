"""Children of fork(): they work, on threads of their own, whatever their parent has done on several."""

import os
import subprocess
import sys
from pathlib import Path

import bmrm

COMPILED = """
import os, signal, sys
import numpy as np, scipy.sparse as sp
import bmrm

rng = np.random.default_rng(0)
m, d = 70_000, 4
X = sp.csr_array(np.where(rng.random((m, d)) < 0.7, rng.standard_normal((m, d)), 0.0))
value = X @ rng.standard_normal(d) + rng.standard_normal(m)
sides, classes = np.where(value > 0.0, 1.0, -1.0), np.digitize(value, [-1.0, 1.0]).astype(float)
wide = sp.csr_array((rng.standard_normal(400_000), rng.integers(0, 20_000, 400_000), np.arange(5001) * 80))
cases = (
    (X, sides, dict(loss="hinge")),
    (X, sides, dict(loss="hinge", cuts_per_pass=4)),
    (X.toarray(), sides, dict(loss="logistic")),
    (X, value, dict(loss="absolute", fit_intercept=True)),
    (X, classes, dict(loss="multiclass")),
    (X[:20_000], sides[:20_000], dict(loss="roc_area")),
    (X[:20_000], classes[:20_000], dict(loss="ordinal")),
    (X, classes, dict(loss="ndcg", groups=np.arange(m) // 20)),
    (wide, np.where(np.arange(5000) % 3, 1.0, -1.0), dict(loss="hinge")),
)

def all_of_them():
    found = []
    for rows, y, options in cases:
        result = bmrm.solve(rows, y, lam=1e-2, tol=0.1, max_iter=2, threads=2, **options)
        found += [result.w, result.decision_function(rows), result.lower_bound]
    selection = bmrm.select(
        bmrm.Dataset(X, sides, threads=2), lams=[0.1], folds=2, tol=0.1, fit_intercept=True
    )
    return [*found, selection.scores]

before = all_of_them()
sys.stdout.flush()
child = os.fork()
if not child:
    signal.alarm(60)
    same = all(np.array_equal(a, b) for a, b in zip(before, all_of_them(), strict=True))
    if not os.fork():  # and its own child
        signal.alarm(60)
        bmrm.solve(X, sides, lam=1e-2, tol=0.1, threads=2)
        os._exit(0 if len(os.listdir("/proc/self/task")) > 1 else 3)
    os._exit(os.waitstatus_to_exitcode(os.wait()[1]) or (0 if same else 4))
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


def test_a_child_gives_the_same_bits_as_its_parent_did_by_two_threads():
    environ = {**os.environ, "PYTHONPATH": str(Path(bmrm.__file__).parents[1])}
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", COMPILED],
        env=environ,
        timeout=200,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, (done.returncode, done.stderr)
