"""Choose the number of principal components from a scree plot whose values have proven intervals.

The rows have six directions of their own, and noise. The singular values of the noise fall slowly, so three
products of a randomised decomposition find them only roughly. Its intervals say how roughly; those of the six
are narrow. The density of rows that were held back says how many components are worth having. The picture is
scree.png, or the file that is named as argument, and needs matplotlib.
"""

import sys

import numpy as np

from bmrm import PCA, plots
from bmrm.base.figures import new_figure

SIGNALS = (30.0, 22.0, 16.0, 12.0, 9.0, 7.0)
"""Standard deviations of the directions; those of the noise are 1."""

COLUMNS, ROWS, SHOWN = 120, 800, 15


def rows(rng: np.random.Generator) -> np.ndarray:
    turn = np.linalg.qr(rng.normal(size=(COLUMNS, COLUMNS)))[0]
    spread = np.ones(COLUMNS)
    spread[: len(SIGNALS)] = SIGNALS
    return rng.normal(size=(ROWS, COLUMNS)) * spread @ turn


def main(path: str = "scree.png") -> None:
    X = rows(np.random.default_rng(0))
    rest, held = X[:600], X[600:]
    exact = PCA(SHOWN).fit(rest)
    rough = PCA(SHOWN, svd_solver="randomized", iterated_power=1, random_state=0).fit(rest)
    numbers = np.arange(1, SHOWN + 1)
    scores = [PCA(int(p)).fit(rest).score(held) for p in numbers]
    best = int(numbers[np.argmax(scores)])
    for name, found in ("all eigenvalues", exact), ("randomised", rough):
        low, high = found.singular_value_bounds_.T
        width = np.max((high - low) / found.singular_values_)
        print(f"{name}: {found.n_iter_} products, intervals of at most {width:.1e} of the value")
    print(f"rows that were held back are likeliest with {best} components, {len(SIGNALS)} are right")

    figure = new_figure((9.0, 3.8))
    left, right = figure.subplots(1, 2)
    left.semilogy(numbers, exact.singular_values_, "o-", markersize=4, label="all eigenvalues")
    low, high = rough.singular_value_bounds_.T
    left.vlines(numbers, low, high, color="C1", linewidth=4, alpha=0.5, label="randomised: intervals")
    left.set(title="singular values", xlabel="component")
    left.legend()
    right.plot(numbers, scores, "o-", markersize=4)
    right.axvline(best, color="black", linewidth=1, linestyle=":")
    right.set(title="mean log density of rows held back", xlabel="components")
    plots.save(figure, path)
    print(f"plotted in {path}")


if __name__ == "__main__":
    main(*sys.argv[1:2])
