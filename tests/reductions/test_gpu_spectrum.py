"""Gram matrices on a GPU, and on the emulator, against NumPy and exact sums."""

from __future__ import annotations

from fractions import Fraction

import emulated_rows
import numpy as np
import pytest
import row_modules

from bmrm.reductions.scatter import rounding_bound

SIZES = ((1, 1), (9, 3), (700, 8), (300, 16), (131, 24), (130, 32), (77, 64), (100, 48), (90, 70), (65, 96))
GPU_SIZES = ((300_001, 64), (100_000, 64), (50_000, 33), (20_000, 257), (3_000, 1024))


@pytest.fixture(scope="module", params=row_modules.PLACES)
def module(request, tmp_path_factory):
    if request.param == "gpu":
        return row_modules.gpu()
    return emulated_rows.Module(row_modules.library(tmp_path_factory.getbasetemp()))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_gram_matrix_is_numpys_and_has_the_same_bits_on_any_grid(module, dtype):
    larger = GPU_SIZES if not isinstance(module, emulated_rows.Module) else ()
    for n, d in (*SIZES, *larger):
        rng = np.random.default_rng(n + d)
        X, shift = (rng.normal(size=(n, d)) + 5).astype(dtype), rng.normal(size=d) + 5
        for weights in (None, rng.random(n)):
            w = np.ones(n) if weights is None else weights
            rows = module.DenseRows(X, weights)
            matrix, totals = rows.gram(shift)
            for grid in (0, 1, 3):
                again = rows.gram(shift, grid=grid)
                assert np.array_equal(again[0], matrix)
                assert np.array_equal(again[1], totals)
            E = X.astype(float) - shift
            expected = (E * w[:, None]).T @ E
            size = np.sqrt(np.outer(np.diag(expected), np.diag(expected)))
            allowed = rounding_bound(n + module.count_gram_additions(n, d) + 4)
            assert (np.abs(matrix - expected) <= allowed * size).all(), (n, d)
            assert (np.abs(totals - w @ E) <= allowed * (w @ np.abs(E))).all(), (n, d)
            assert np.array_equal(matrix, matrix.T)


def test_the_error_is_within_the_bound_of_exact_sums(module):
    rng = np.random.default_rng(5)
    for n, d, dtype in ((500, 3, np.float32), (300, 9, np.float64)):
        X, shift = (1e4 * rng.normal(size=(n, d)) + 1e6).astype(dtype), np.full(d, 1e6)
        matrix, _ = module.DenseRows(X).gram(shift)
        rows = [[Fraction(float(v)) - Fraction(s) for v, s in zip(row, shift, strict=True)] for row in X]
        # one rounding of x - shift each, one of the product
        bound = rounding_bound(module.count_gram_additions(n, d) + 3)
        for f in range(d):
            for h in range(f + 1):
                terms = [row[f] * row[h] for row in rows]
                error = abs(Fraction(matrix[f, h]) - sum(terms))
                assert error <= Fraction(bound) * sum(map(abs, terms)), (f, h)
