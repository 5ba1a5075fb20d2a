"""Draw the README's picture: time to the same true suboptimality on a9a, bmrm against LIBLINEAR.

    python -m benchmarks.tables.plot_liblinear

The figures are those that against_liblinear.py measured. Needs Matplotlib.
"""

from __future__ import annotations

from pathlib import Path

import matplotlib

from benchmarks.tables.pages import load

PICTURE = Path(__file__).parents[2] / "docs" / "pictures" / "against_liblinear.svg"
SIDES = (("bmrm_seconds", "bmrm", "o"), ("liblinear_seconds", "LIBLINEAR 2.50", "s"))


def main() -> None:
    matplotlib.use("svg")
    matplotlib.rcParams.update({"svg.hashsalt": "against_liblinear", "svg.fonttype": "none"})
    from matplotlib import pyplot as plt

    results = load("against_liblinear")
    losses = dict.fromkeys(row["loss"] for row in results["alone"])
    figure, axes = plt.subplots(
        1, len(losses), figsize=(9, 2.9), sharex=True, sharey=True, layout="constrained"
    )
    for ax, loss in zip(axes, losses, strict=True):
        rows = [row for row in results["alone"] if row["loss"] == loss]
        for key, name, marker in SIDES:
            ax.loglog(
                [1e3 * r[key] for r in rows], [r["suboptimality"] for r in rows], marker, ls="-", label=name
            )
        ax.set_title(loss.replace("_", " "), fontsize=10)
        ax.set_xticks([10, 100], ["10", "100"])
        ax.grid(alpha=0.3)
    axes[0].set_ylabel("J above the lower bound")
    axes[1].set_xlabel("milliseconds of training (left is faster, low is more accurate)")
    axes[-1].legend(fontsize=9)
    figure.savefig(PICTURE, metadata={"Date": None})
    plt.close(figure)
    print(f"written to {PICTURE}")


if __name__ == "__main__":
    main()
