"""Draw the thesis's figures 5.1 and 5.2 from what thesis_ch5.py measured.

    python -m benchmarks.tables.plot_thesis

The parts of a solve on the GPU, and of a product with vectors on the host, as shares, into docs/pictures.
Needs Matplotlib.
"""

from __future__ import annotations

from pathlib import Path

import matplotlib
import numpy as np

from benchmarks.tables.pages import load

FOLDER = Path(__file__).parents[2] / "docs" / "pictures"


def draw(names: list[str], bars: list[dict[str, float]], label: str, path: Path) -> None:
    """Stack the parts of each bar, as shares of it."""
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(figsize=(8, 4), layout="constrained")
    bottom = np.zeros(len(bars))
    for part in dict.fromkeys(part for bar in bars for part in bar):
        heights = np.array([bar.get(part, 0.0) / sum(bar.values()) for bar in bars])
        axes.bar(names, heights, bottom=bottom, label=part.replace("_", " "))
        bottom += heights
    axes.set_ylabel(label)
    axes.tick_params(axis="x", rotation=30)
    axes.legend(ncols=5, loc="lower center", bbox_to_anchor=(0.5, 1.0))
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)


def main() -> None:
    matplotlib.use("svg")
    matplotlib.rcParams["svg.hashsalt"] = "thesis_ch5"
    FOLDER.mkdir(exist_ok=True)
    rows = load("thesis_ch5")["rows"]
    names = [row["set"] for row in rows]
    solves = [row["gpu sparse"] for row in rows]
    draw(names, [run["parts"] for run in solves], "share of a solve on the GPU", FOLDER / "thesis_parts.svg")
    bridged = [run["bridge"]["X w"] for run in solves]
    draw(names, bridged, "share of X w, vectors on the host", FOLDER / "thesis_bridge.svg")
    print(f"written to {FOLDER}")


if __name__ == "__main__":
    main()
