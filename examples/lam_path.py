"""Train for four regularisation strengths on one data set, and plot how the certificate's gap closes.

Each solve starts from the weights and cuts of the previous one, since a cut bounds the risk for every lam.
The plot, lam_path.png, has one column per lam: in the upper row the best objective and the lower bound meet;
in the lower row the gap between them falls to the tolerance. It needs matplotlib.
"""

import matplotlib.pyplot as plt
import numpy as np

import bmrm

LAMS = [1e-2, 1e-3, 1e-4, 1e-5]
TOL = 1e-4


def draw(results: list[bmrm.Result], name: str) -> None:
    style = {"sharey": "row", "figsize": (11, 5), "layout": "constrained"}
    figure, axes = plt.subplots(2, len(results), **style)
    for result, (above, below) in zip(results, axes.T, strict=True):
        passes = [row["iteration"] for row in result.history]
        bound = [row["lower_bound"] for row in result.history]
        best = [row["objective"] for row in result.history]
        gap = [row["gap"] / row["objective"] for row in result.history]
        above.fill_between(passes, bound, best, color="tab:blue", alpha=0.15)
        above.plot(passes, best, color="tab:blue", label="best objective")
        above.plot(passes, bound, color="tab:orange", label="lower bound", linestyle="--")
        above.set_title(f"lam = {result.lam:g}")
        above.tick_params(labelbottom=False)
        below.semilogy(passes, gap, color="black")
        below.axhline(TOL, color="tab:red", linestyle=":", label="tolerance", linewidth=1)
        for ax in (above, below):
            ax.set_xlim(0, 1.05 * passes[-1])
            ax.grid(alpha=0.3)
    axes[0, 0].set(ylabel="objective J", ylim=(0, 0.85))
    axes[1, 0].set(ylabel="gap / J")
    axes[0, -1].legend(loc="upper right")
    axes[1, -1].legend(loc="upper right")
    figure.supxlabel("passes over the data")
    figure.savefig(name, dpi=120)


def main() -> None:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((2000, 100)) / 10
    y = np.where(X @ rng.standard_normal(100) + 0.3 * rng.standard_normal(2000) > 0, 1, -1)

    results = bmrm.path(X, y, lams=LAMS, loss="hinge", tol=TOL)
    for result in results:
        certificate = f"J {result.objective:.6f}, bound {result.lower_bound:.6f}"
        print(f"lam {result.lam:g}: {result.status} after {result.n_iter} passes, {certificate}")
    draw(results, "lam_path.png")
    print("plotted in lam_path.png")


if __name__ == "__main__":
    main()
