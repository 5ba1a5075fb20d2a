"""Plots of paths and selections; they need matplotlib, which the extra ``plot`` installs."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from bmrm.base.answers import cell, ranked
from bmrm.base.figures import new_figure, save_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FIGURE_SIZE_INCHES = (7.0, 4.5)
"""Width and height of new figures."""

MAX_LINES, MAX_NAMED = 50, 8
"""Weights that are drawn, and that are named."""


def _axes(given: Axes | None) -> Axes:
    return new_figure(FIGURE_SIZE_INCHES).subplots() if given is None else given


def plot_selection(selection: Any, ax: Axes | None = None) -> Axes:
    """Plot each lam's mean score with its standard error, and the choices of the rules.

    Parameters
    ----------
    selection : Selection
    ax : matplotlib Axes, optional
        Where to draw; default: the axes of a new figure.

    Returns
    -------
    Axes

    Raises
    ------
    ParameterError
        If matplotlib is missing.

    Examples
    --------
    >>> import numpy as np, bmrm
    >>> X = np.random.default_rng(0).standard_normal((60, 3))
    >>> found = bmrm.select(X, np.sign(X[:, 0]), [1e-1, 1e-3], folds=3)
    >>> bmrm.plots.plot_selection(found).get_ylabel()
    'accuracy on held-out rows'
    """
    ax = _axes(ax)
    order = np.argsort(selection.lams)
    lams, mean, error = (x[order] for x in (selection.lams, selection.mean, selection.standard_error))
    folds = selection.folds.number
    every = ax.plot(np.repeat(lams[:, None], folds, 1), selection.scores[order], ".", color="0.75")
    every[0].set_label("each fold")
    ax.errorbar(lams, mean, error, fmt="o-", capsize=3, label=f"mean of {folds} folds ± standard error")
    best = selection.lams[selection.best]
    ax.axvline(best, color="tab:green", linestyle="--", label=f"best: {best:.3g}")
    simple = selection.lams[selection.one_standard_error]
    ax.axvline(simple, color="tab:orange", linestyle=":", label=f"within one s.e.: {simple:.3g}")
    ax.set(xscale="log", xlabel="lam", ylabel=f"{selection.metric} on held-out rows")
    chosen = selection.lam
    if len(lams) > 1 and chosen in (lams[0], lams[-1]):
        end = "smallest" if chosen == lams[0] else "largest"
        ax.set_xlabel(f"lam (the choice is the {end} of the grid: extend it)")
    ax.grid(alpha=0.3)
    _legend_above(ax, f"{selection.metric} by cross validation")
    return ax


def _legend_above(ax: Axes, title: str, *others: Axes) -> None:
    """Put the title and the legend of axes that share a frame above it, off the points."""
    entries = [axes.get_legend_handles_labels() for axes in (ax, *others)]
    handles = [handle for some, _ in entries for handle in some]
    labels = [label for _, some in entries for label in some]
    legend = ax.legend(
        handles,
        labels,
        title=title,
        alignment="left",
        ncols=2,
        loc="lower left",
        bbox_to_anchor=(0.0, 1.0),
        frameon=False,
    )
    for text in (legend.get_title(), *legend.get_texts()):
        text.set_parse_math(False)  # names are not formulas
    legend.get_title().set_fontweight("bold")


def plot_path(path: Iterable[Any], ax: Axes | None = None) -> Axes:
    """Plot, over lam, the certified interval of each optimum, and the number of passes.

    Parameters
    ----------
    path : Path, or other results of `bmrm.solve`
    ax : matplotlib Axes, optional
        Where to draw; default: the axes of a new figure.

    Returns
    -------
    Axes

    Raises
    ------
    ParameterError
        If matplotlib is missing.

    Examples
    --------
    >>> import numpy as np, bmrm
    >>> found = bmrm.path(np.array([[1.0], [-1.0]]), [1, -1], [0.1, 1.0])
    >>> bmrm.plots.plot_path(found).get_xlabel()
    'lam'
    """
    ax = _axes(ax)
    from matplotlib.ticker import MaxNLocator

    results = sorted(path, key=lambda result: result.lam)
    lams = [r.lam for r in results]
    ax.fill_between(lams, [r.lower_bound for r in results], [r.objective for r in results], alpha=0.3)
    ax.plot(lams, [r.objective for r in results], "o-", label="objective")
    ax.plot(lams, [r.lower_bound for r in results], "--", label="lower bound")
    ax.set(xscale="log", xlabel="lam", ylabel="J of the model, and its bound")
    ax.grid(alpha=0.3)
    passes = ax.twinx()
    numbers = [r.n_iter for r in results]
    passes.plot(lams, numbers, ".:", color="0.5", label="passes over the data (right)")
    passes.set_ylabel("passes over the data")
    passes.set_ylim(0.0, 1.3 * max(numbers, default=1) + 1.0)
    passes.yaxis.set_major_locator(MaxNLocator(integer=True))
    _legend_above(ax, "Bounds of the optimum", passes)
    return ax


def plot_weights(path: Iterable[Any], ax: Axes | None = None) -> Axes:
    """Plot the weights over lam, with the names of those that become largest.

    Of more than 50 weights the largest are drawn.

    Parameters
    ----------
    path : Path, or other results of `bmrm.solve` with equal features
    ax : matplotlib Axes, optional
        Where to draw; default: the axes of a new figure.

    Returns
    -------
    Axes

    Raises
    ------
    ParameterError
        If matplotlib is missing.

    Examples
    --------
    >>> import numpy as np, bmrm
    >>> along = bmrm.path(np.array([[0.0, 1.0], [1.0, 0.0]]), [1, -1], lams=[1.0, 0.1])
    >>> bmrm.plots.plot_weights(along).get_xlabel()
    'lam'
    """
    ax = _axes(ax)
    results = sorted(path, key=lambda result: result.lam)
    largest = np.max([np.abs(r.w.ravel()) for r in results], axis=0, initial=0.0)
    order = ranked(largest, MAX_LINES)
    lams = [r.lam for r in results]
    for rank, place in enumerate(order.tolist()):
        style: dict[str, Any] = {"color": "0.8", "linewidth": 0.8}
        if rank < MAX_NAMED:
            style = {"label": _weight_name(results[0], place), "marker": "."}
        ax.plot(lams, [r.w.ravel()[place] for r in results], zorder=3 - rank / MAX_LINES, **style)
    ax.axhline(0.0, color="black", linewidth=0.5)
    ax.set(xscale="log", xlabel="lam", ylabel="weight")
    ax.grid(alpha=0.3)
    drawn = "" if len(largest) <= MAX_LINES else f", the {MAX_LINES} largest of {len(largest)}"
    _legend_above(ax, f"Weights over lam{drawn}")
    return ax


def _weight_name(result: Any, place: int) -> str:
    """Return the name of a weight: its feature, and its class if there are several."""
    feature, output = divmod(place, result.w.shape[1] if result.w.ndim == 2 else 1)
    name = f"feature {feature}" if result.feature_names is None else result.feature_names[feature]
    text = cell(name if result.w.ndim == 1 else f"{name}, {result.classes[output]}")
    return f" {text}" if text.startswith("_") else text  # a legend leaves out labels that begin so


def save(drawn: Any, path: str | os.PathLike[str]) -> None:
    """Write the figure of an `Axes`, whole or not at all; the suffix of the file's name sets the format.

    Parameters
    ----------
    drawn : Axes
    path : str or path-like
        Ending in .png, .pdf, .svg, ...

    Raises
    ------
    ParameterError
        If matplotlib has no format for the suffix.
    OSError
        If the folder cannot be written or the disk is full.

    Examples
    --------
    >>> import os, tempfile, numpy as np, bmrm
    >>> found = bmrm.path(np.array([[1.0], [-1.0]]), [1, -1], [0.1, 1.0])
    >>> path = os.path.join(tempfile.mkdtemp(), "path.svg")
    >>> bmrm.plots.save(found.plot(), path)
    >>> os.path.exists(path)
    True
    """
    save_figure(drawn.figure, path)
