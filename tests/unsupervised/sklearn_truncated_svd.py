"""scikit-learn's tests of `TruncatedSVD`, with the names of its arguments that have others here."""

from typing import Any

from sklearn_suite import Suite

import bmrm


class TruncatedSVD(bmrm.TruncatedSVD):
    """Our `TruncatedSVD` with ``algorithm`` and ``n_iter``."""

    def __init__(
        self,
        n_components: int = 2,
        *,
        algorithm: str = "randomized",
        n_iter: int = 5,
        n_oversamples: int = 10,
        power_iteration_normalizer: str = "auto",
        random_state: Any = None,
        tol: float = 0.0,
    ) -> None:
        super().__init__(
            n_components,
            svd_solver="lanczos" if algorithm == "arpack" else algorithm,
            iterated_power=n_iter,
            n_oversamples=n_oversamples,
            power_iteration_normalizer=power_iteration_normalizer,
            random_state=random_state,
            tol=tol,
        )
        self.algorithm, self.n_iter = algorithm, n_iter


SUITE = Suite(
    modules=["sklearn.decomposition.tests.test_truncated_svd"],
    replaced={"sklearn.decomposition.TruncatedSVD": TruncatedSVD},
    exceptions={"test_too_many_components[arpack-55]": "Lanczos finds all min(n, d) components too"},
)
