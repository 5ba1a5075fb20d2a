"""Least squares by SciPy's LSQR on a matrix that stays on a GPU, if there is one.

The solver sees a `LinearOperator`: it asks for products with X and its transpose, and these run where X is,
by kernels that were chosen for it. The choice goes into a file, with which the next program starts at once.
"""

import os
import tempfile
import time

import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import aslinearoperator, lsqr

import bmrm


def main() -> None:
    rng = np.random.default_rng(0)
    m, d = 40_000, 2_000
    X = sp.random_array((m, d), density=0.005, format="csr", rng=rng, data_sampler=rng.standard_normal)
    true = rng.standard_normal(d)
    y = X @ true + 0.01 * rng.standard_normal(m)
    device = "cpu" if bmrm.gpu() is None else "cuda"

    A = bmrm.Operator(X, device=device)
    print(A)
    print(A.explain())
    for name, matrix in (("operator", A), ("SciPy", aslinearoperator(X))):
        start = time.perf_counter()
        w, _, iterations, residual = lsqr(matrix, y, atol=1e-10, btol=1e-10)[:4]
        seconds = time.perf_counter() - start
        away = np.abs(w - true).max()
        print(
            f"{name}: {iterations} iterations in {seconds:.2f} s, residual {residual:.6f}, {away:.4f} from w"
        )

    if A.choice is not None:
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "kernels.json")
            A.save_choice(path)
            again = bmrm.Operator(X, device=device, choice=path)
        assert np.array_equal(again @ true, A @ true)
        print(f"again with {again.choice}: the same bits")


if __name__ == "__main__":
    main()
