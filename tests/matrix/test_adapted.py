"""`MultiOutput` is X, each entry times the identity of K, whatever backend does its products."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bmrm.matrix._cpu import Matrix
from bmrm.matrix.adapted import MultiOutput


class Stranger:
    """A matrix with the face of the GPU backend, which has no blocks of several columns."""

    def __init__(self, X):
        self.X, self.shape, self.nnz = X, X.shape, X.nnz

    def __getattr__(self, name):
        assert name in ("matmat", "rmatmat", "rmatvec_blocks")
        return getattr(self.X, name)


@settings(max_examples=60, deadline=None)
@given(
    m=st.integers(1, 30),
    d=st.integers(1, 12),
    K=st.integers(1, 35),
    blocks=st.integers(1, 4),
    value=st.sampled_from([None, 1.0, -2.5]),
    strange=st.booleans(),
    seed=st.integers(0, 2**32 - 1),
)
def test_products_are_those_of_the_big_matrix(m, d, K, blocks, value, strange, seed):
    rng = np.random.default_rng(seed)
    A = rng.normal(size=(m, d))
    X = Matrix.from_dense(A)
    operator = MultiOutput(Stranger(X) if strange else X, K, value)
    full = np.kron(A if value is None else np.hstack([A, np.full((m, 1), value)]), np.eye(K))
    assert operator.shape == full.shape
    w, r = rng.normal(size=full.shape[1]), rng.normal(size=full.shape[0])
    z = np.empty(len(r))
    operator.matvec(w, z)
    np.testing.assert_allclose(z, full @ w, atol=1e-12)
    starts = K * np.sort(np.concatenate(([0, m], rng.integers(0, m + 1, blocks - 1))))
    out = np.empty((blocks, len(w)))
    operator.rmatvec_blocks(r, starts, out)
    wanted = [full[i:j].T @ r[i:j] for i, j in pairwise(starts)]
    np.testing.assert_allclose(out, wanted, atol=1e-12)
    W, intercepts = operator.split(w)
    assert (W.shape, intercepts.shape) == ((d, K), (K,))
    np.testing.assert_allclose((A @ W + intercepts).ravel(), z, atol=1e-12)
    np.testing.assert_allclose(operator.join(W, intercepts), w, rtol=1e-15)


def test_there_is_no_weighted_gram():
    operator = MultiOutput(Matrix.from_dense(np.eye(2)), 3)
    assert operator.weighted_gram_work == np.inf
    with pytest.raises(NotImplementedError):
        operator.weighted_gram(np.ones(6), np.empty((6, 6)))
