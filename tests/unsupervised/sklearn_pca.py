"""scikit-learn's tests of `PCA`, with the names of its solvers that have others here."""

from sklearn_suite import Suite

import bmrm

NAMES = {"full": "covariance_eigh", "arpack": "lanczos"}
"""Solvers of scikit-learn, and those of this package, as docs/pca.md says."""


DEFAULT_TOL = 1e-8
"""``tol`` here by default, for 0 of scikit-learn."""


class PCA(bmrm.PCA):
    """Our `PCA` that knows these names too, and goes to the last digits by default."""

    def fit(self, X, y=None, sample_weight=None, *, comm=None):
        given = self.svd_solver, self.tol
        self.svd_solver = NAMES.get(self.svd_solver, self.svd_solver)
        self.tol = 0.0 if self.tol == DEFAULT_TOL else self.tol
        try:
            return super().fit(X, y, sample_weight, comm=comm)
        finally:
            self.svd_solver, self.tol = given


NO_MLE = "n_components='mle' does not exist"

SUITE = Suite(
    modules=["sklearn.decomposition.tests.test_pca"],
    replaced={"sklearn.decomposition.PCA": PCA},
    apart={
        "test_pca_sparse[*-csc_*]": "rows by columns are converted: the cases of rows are the same",
        "test_pca_sparse[*-csr_array-*]": "as those of csr_matrix",
        "test_pca_sparse[*-10-*-csr_matrix-*]": "as those of the scales 1 and 100",
        "test_pca_sparse[*-csr_matrix-2-*]": "as those of 1 and 10 components",
        "test_pca_sparse[*-csr_matrix-*-0.1]": "as those of the densities 0.01 and 0.3",
        "test_pca_sparse[*-100-covariance_eigh-csr_matrix-*]": "100 times those of the scale 1",
        "test_pca_sparse[*-1-covariance_eigh-csr_matrix-1-*]": "as those of 10 components",
        "test_sparse_pca_auto_arpack_singular_values_consistency[*-csr_array]": "as that of csr_matrix",
        "test_sparse_pca_auto_arpack_singular_values_consistency[*-csc_*]": "converted to the case of rows",
        "test_pca_svd_solver_auto": "asks for a private attribute; the choice is another one (docs/pca.md)",
        "test_pca_score": "whitening changes no density, but is expected to lower it: rounding decides",
    },
    exceptions={
        "test_n_components_mle": NO_MLE,
        "test_n_components_mle_error": NO_MLE,
        "test_fit_mle_too_few_samples": NO_MLE,
        "test_mle_simple_case": NO_MLE,
        "test_mle_redundant_data": NO_MLE,
        "test_pca_dim": NO_MLE,
        "test_n_components_none[*-arpack-3]": "Lanczos finds all min(n, d) components too",
        "test_pca_validation[arpack-2-*]": "Lanczos finds all min(n, d) components too",
        "test_pca_validation[arpack-0-*]": "a message of other words",
        "test_pca_validation[randomized-0-*]": "a message of other words",
        "test_pca_validation[auto-3-*]": "a message of other words",
        "test_pca_score3": "n_components=0 is refused",
        "test_pca_score_consistency_solvers[randomized]": "the random start is another one",
        "test_pca_zero_noise_variance_edge_cases": "a model without noise has no density outside a plane",
        "test_pca_dtype_preservation": "components and coordinates of float32 rows are float64",
        "test_sparse_pca_solver_error": "all solvers take sparse rows",
    },
)
