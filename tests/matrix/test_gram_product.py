"""Products with A'A, A being weighted and centred rows, from one read of X or from two."""

import numpy as np
import pytest
import scipy.sparse as sp

from bmrm.errors import ParameterError
from bmrm.matrix import _cpu

SHAPES = (
    (3000, 40, 0.5),  # one group of rows
    (9000, 300, 0.1),  # several
    (4000, 3000, 0.02),  # too wide for that: X and X' in turn
)


def matrix_of(X, values, **options):
    return _cpu.Matrix(X.indptr.astype(np.int64), X.indices, values, X.shape, **options)


def plain_product(X, V, w, mean):
    A = X.toarray() - mean
    return A.T @ (w[:, None] * (A @ V))


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("columns", [1, 3, 4, 8, 33])
def test_it_is_the_product_of_centred_and_weighted_rows(shape, columns):
    rng = np.random.default_rng(columns)
    n, d, density = shape
    X = sp.random_array((n, d), density=density, format="csr", rng=rng)
    V, w, mean = rng.normal(size=(d, columns)), rng.random(n), rng.random(d)
    matrix = matrix_of(X, X.data, threads=1)
    for weights in (None, w):
        for centre in (None, mean):
            found = matrix.gram_product(V, weights=weights, mean=centre)
            plain = plain_product(
                X, V, np.ones(n) if weights is None else w, np.zeros(d) if centre is None else mean
            )
            assert np.abs(found - plain).max() <= 1e-12 * np.abs(plain).max()


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_bits_do_not_depend_on_threads(shape):
    rng = np.random.default_rng(0)
    n, d, density = shape
    X = sp.random_array((n, d), density=density, format="csr", rng=rng)
    V, mean = rng.normal(size=(d, 4)), rng.random(d)
    first, *others = (matrix_of(X, X.data, threads=t).gram_product(V, mean=mean) for t in (1, 2, 3))
    assert all((first == other).all() for other in others)


@pytest.mark.parametrize("kind", ["float32", "ones", "ordered", "dense"])
def test_every_kind_of_matrix_has_it(kind):
    rng = np.random.default_rng(1)
    X = sp.random_array((2000, 50), density=0.2, format="csr", rng=rng)
    V, w, mean = rng.normal(size=(50, 5)), rng.random(2000), rng.random(50)
    if kind == "float32":
        matrix = matrix_of(X, X.data.astype(np.float32))
        X.data = X.data.astype(np.float32).astype(float)
    elif kind == "ones":
        X.data[:] = 1.0
        matrix = matrix_of(X, None)
    elif kind == "ordered":
        matrix = matrix_of(X, X.data, by_popularity=True)
        assert matrix.by_popularity
    else:
        matrix = _cpu.Matrix.from_dense(X.toarray())
    found, plain = matrix.gram_product(V, weights=w, mean=mean), plain_product(X, V, w, mean)
    assert np.abs(found - plain).max() <= 1e-12 * np.abs(plain).max()


def test_shapes_are_checked():
    matrix = _cpu.Matrix.from_dense(np.ones((3, 2)))
    with pytest.raises(ParameterError, match="V"):
        matrix.gram_product(np.ones((3, 1)))
    with pytest.raises(ParameterError, match="weights"):
        matrix.gram_product(np.ones((2, 1)), weights=np.ones(2))
    with pytest.raises(ParameterError, match="mean"):
        matrix.gram_product(np.ones((2, 1)), mean=np.ones(3))
