"""scikit-learn's tests of `PCA`, with the names of its solvers that have others here."""

from sklearn_suite import Suite

from bmrm.reductions import PCA

NAMES = {"full": "covariance_eigh", "arpack": "lanczos"}
"""Solvers of scikit-learn, and those of this package, as docs/pca.md says."""


DEFAULT_TOL = 1e-8
"""``tol`` here by default, for 0 of scikit-learn."""


class NamedPCA(PCA):
    """`PCA` that knows these names too, and goes to the last digits by default."""

    def fit(self, X, y=None, sample_weight=None, *, comm=None):
        given = self.svd_solver, self.tol
        self.svd_solver = NAMES.get(self.svd_solver, self.svd_solver)
        self.tol = 0.0 if self.tol == DEFAULT_TOL else self.tol
        try:
            return super().fit(X, y, sample_weight, comm=comm)
        finally:
            self.svd_solver, self.tol = given


SUITE = Suite(
    modules=["sklearn.decomposition.tests.test_pca"],
    replaced={"sklearn.decomposition.PCA": NamedPCA},
)
