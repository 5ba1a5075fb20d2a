"""Problems in the dual for the tests: which losses have one, rows and labels, the conjugates written out."""

import contextlib

import numpy as np
import pytest
import scipy.sparse as sp
from loss_cases import CASES, labels_for
from scipy.special import xlogy

from bmrm.linear import plan

DUAL = [loss for loss in CASES if loss.has_dual]
PLACE, WIDTH, BEND, LOW, HIGH, ENTROPY = range(6)


@contextlib.contextmanager
def ascent_at_any_lam():
    """Use ascent in the dual even if planes would be faster."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plan, "MAX_RELATIVE_LAM", np.inf)
        patch.setattr(plan, "MAX_RELATIVE_LAM_OF_SEVERAL", np.inf)
        yield


def data(loss, m=60, d=90, seed=0, fill=0.2):
    """Sparse rows, with more features than rows."""
    rng = np.random.default_rng(seed)
    X = sp.random(m, d, fill, "csr", rng=rng, dtype=np.float64)
    X.data = rng.standard_normal(X.nnz)
    u = X @ rng.normal(size=d)
    if loss.task == "binary":
        return X, np.where(u + rng.normal(size=m) > 0.3, 1.0, -1.0)
    return X, u + labels_for(loss, rng, m)


def conjugate(f, r):
    found = f[:, PLACE] * r + f[:, WIDTH] * np.abs(r) + 0.5 * f[:, BEND] * r**2
    some = f[:, ENTROPY] > 0.0
    s = f[some, ENTROPY]
    found[some] = s * (xlogy(a := np.abs(r[some]) / s, a) + xlogy(1.0 - a, 1.0 - a))
    return found
