"""Choose lam by cross validation, calibrate probabilities, and check both on new rows.

Ten lam and five folds make fifty certified solves on one resident matrix, which share their cutting planes.
The plot, select_lam.png, needs matplotlib.
"""

import numpy as np

import bmrm
from bmrm import Model, ProbabilityMetrics, plots

LAMS = np.logspace(-4, 0.5, 10)


def make_rows(rows: int, rng: np.random.Generator, direction: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    X = rng.standard_normal((rows, len(direction)))
    probability = 1 / (1 + np.exp(-(X @ direction)))
    return X, np.where(rng.random(rows) < probability, 1, -1)


def main() -> None:
    rng = np.random.default_rng(0)
    direction = rng.standard_normal(100) / 4
    X, y = make_rows(3_000, rng, direction)
    X_new, y_new = make_rows(20_000, rng, direction)

    found = bmrm.select(X, y, lams=LAMS, folds=5, loss="hinge", rule="1se")
    print(found)
    passes = sum(result.n_iter for v in found.validations for result in v.results)
    print(f"{passes} passes for 50 solves")

    model = Model.from_result(found.result, calibration=found.calibrate("platt"))
    accuracy = np.mean(model.predict(X_new) == y_new)
    print(
        f"lam {found.lam:.3g}: accuracy {found.mean[found.chosen]:.4f} held out, {accuracy:.4f} on new rows"
    )

    scores = ProbabilityMetrics((-1.0, 1.0))
    scores.update(model.predict_probability(X_new), y_new)
    best = ProbabilityMetrics((-1.0, 1.0))
    best.update(1 / (1 + np.exp(-(X_new @ direction))), y_new)
    print(f"log loss on new rows {scores.report()['log_loss']:.4f}; of the true probabilities "
          f"{best.report()['log_loss']:.4f}")  # fmt: skip
    plots.save(found.plot(), "select_lam.png")
    print("plotted in select_lam.png")


if __name__ == "__main__":
    main()
