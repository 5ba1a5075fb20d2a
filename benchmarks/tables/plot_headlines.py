"""Draw the README's picture: how many times faster than its fastest peers each part of the package is.

    python -m benchmarks.tables.plot_headlines

The figures are those at the head of docs/performance.md: a bar is the median of several problems, a line goes
from the least to the most of them. Needs Matplotlib.
"""

from __future__ import annotations

import statistics
from pathlib import Path

import matplotlib

from benchmarks.tables.pages import headlines

PICTURE = Path(__file__).parents[2] / "docs" / "pictures" / "headlines.svg"
TICKS = (0.5, 1, 2, 5, 10, 20, 50, 100, 200)


def main() -> None:
    matplotlib.use("svg")
    matplotlib.rcParams.update({"svg.hashsalt": "headlines", "svg.fonttype": "none"})
    from matplotlib import pyplot as plt

    heads = headlines()
    figure, ax = plt.subplots(figsize=(9, 0.3 * len(heads) + 0.8), layout="constrained")
    for place, head in enumerate(reversed(heads)):
        middle, least, most = statistics.median(head.ratios), min(head.ratios), max(head.ratios)
        ax.barh(
            place, middle - 1, left=1, color="tab:green" if "GPU" in head.what else "tab:blue", height=0.6
        )
        ax.plot([least, most], [place, place], color="black", lw=1)
        ax.annotate(f"{middle:.3g}", (max(middle, most), place), (4, -3), textcoords="offset points", size=8)
    ax.set_yticks(
        range(len(heads)), [f"{head.what}, against {head.against}" for head in reversed(heads)], size=8
    )
    ax.set_xscale("log")
    ax.set_xticks(TICKS, [f"{tick:g}" for tick in TICKS])
    ax.minorticks_off()
    ax.axvline(1, color="black", lw=0.8)
    ax.set_xlabel("times faster: median, and least to most (green: on a GPU)")
    ax.grid(axis="x", alpha=0.3)
    ax.spines[["top", "right"]].set_visible(False)
    figure.savefig(PICTURE, metadata={"Date": None})
    plt.close(figure)
    print(f"written to {PICTURE}")


if __name__ == "__main__":
    main()
