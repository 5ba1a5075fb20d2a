"""A path: results that stand on their own, progress, the table, pictures of it and of a selection."""

import sys
from dataclasses import replace

import numpy as np
import pytest

import bmrm
from bmrm.errors import ParameterError
from bmrm.linear import plots

LAMS = [1e-3, 1e-1, 1e-2]


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((300, 20))
    return bmrm.Dataset(X, np.where(X @ rng.standard_normal(20) + 2 * rng.standard_normal(300) > 0, 1, -1))


def bytes_of(bundle):
    return [part.tobytes() for part in (bundle.gradients, bundle.offsets, bundle.alpha, bundle.blocks)]


def dual(bundle, lam):
    a = bundle.alpha @ bundle.gradients
    return bundle.alpha @ bundle.offsets - a @ a / (2 * lam)


@pytest.mark.parametrize("blocks", [1, 3])
def test_each_result_keeps_the_cuts_of_its_own_bound(data, blocks):
    along = bmrm.path(data, lams=LAMS, tol=1e-4, cuts_per_pass=blocks)
    for result in along:
        assert (result.bundle.alpha > 0).all()
        assert dual(result.bundle, result.lam) <= result.lower_bound * (1 + 1e-12)
        assert dual(result.bundle, result.lam) == pytest.approx(result.lower_bound, rel=1e-3)
    assert len({id(result.bundle) for result in along}) == 3


def test_an_early_result_does_not_depend_on_what_came_later(data):
    """The strongest lam of a long path and of a short one: the same bundle, the same warm start."""
    long, short = bmrm.path(data, lams=LAMS), bmrm.path(data, lams=[1e-1])
    assert bytes_of(long[1].bundle) == bytes_of(short[0].bundle)
    starts = [bmrm.solve(data, lam=5e-3, warm_start=r) for r in (long[1], short[0], long[1])]
    assert len({(s.w.tobytes(), s.n_iter, s.lower_bound) for s in starts}) == 1


def test_a_warm_start_does_not_change_what_it_starts_from(data):
    first = bmrm.solve(data, lam=1e-2)
    before = bytes_of(first.bundle)
    second = bmrm.solve(data, lam=1e-3, warm_start=first)
    assert bytes_of(first.bundle) == before
    assert second.bundle is not first.bundle
    assert len(second.bundle) > 0


def test_cuts_that_are_passed_on_are_not_copied(data):
    first = bmrm.solve(data, lam=1e-2)
    copied = bmrm.solve(data, lam=1e-3, tol=1e-6, warm_start=first)
    first.bundle.passed_on = True
    taken = bmrm.solve(data, lam=1e-3, tol=1e-6, warm_start=first)
    assert taken.bundle is first.bundle
    assert copied.bundle is not first.bundle
    assert not copied.bundle.passed_on
    for result in (copied, taken):
        assert result.status == "converged"
        assert dual(result.bundle, 1e-3) <= result.lower_bound * (1 + 1e-12)
    assert not any(result.bundle.passed_on for result in bmrm.path(data, lams=LAMS))


def test_a_result_of_a_path_restarts_where_it_ended(data):
    for result in bmrm.path(data, lams=LAMS, tol=1e-5):
        again = bmrm.solve(data, lam=result.lam, tol=1e-5, warm_start=result)
        assert again.status == "converged"
        assert again.n_iter <= 2


def test_it_is_a_sequence(data):
    along = bmrm.path(data, lams=LAMS)
    assert [r.lam for r in along] == list(along.lams) == LAMS
    assert (len(along), along[-1].lam, along[1:].lams) == (3, 1e-2, (1e-1, 1e-2))
    assert repr(along).startswith("Path of 3 lams, the strongest first\n")
    assert along.index(along[1]) == 1
    assert along[0] not in along[1:]


def test_the_table_has_a_line_per_lam(data):
    along = bmrm.path(data, lams=LAMS, max_iter=3, tol=1e-9)
    _, certificates, weights = str(along).split("\n\n")
    lines = [line.split() for line in certificates.splitlines()]
    assert lines[0] == ["lam", "objective", "lower", "bound", "gap", "passes", "seconds", "status"]
    assert [line[0] for line in lines[1:]] == ["0.1", "0.01", "0.001"]
    by_lam = {r.lam: r for r in along}
    for line in lines[1:]:
        result = by_lam[float(line[0])]
        assert float(line[1]) == pytest.approx(result.objective, rel=1e-7)
        assert line[-1] == result.status == "max_iter"
    head, first, *_, last = weights.splitlines()
    assert head.split() == ["feature", "lam", "0.1", "lam", "0.01", "lam", "0.001"]
    largest = int(np.abs(by_lam[1e-3].w).argmax())
    assert first.split() == [str(largest), *(f"{by_lam[lam].w[largest]:.6g}" for lam in (1e-1, 1e-2, 1e-3))]
    assert last == "... and 10 more"


def test_progress_and_interrupt(data):
    seen = []
    bmrm.path(data, lams=LAMS, progress=seen.append)
    assert [(s.done, s.total, s.result.lam) for s in seen] == [(1, 3, 0.1), (2, 3, 0.01), (3, 3, 0.001)]
    calls = []

    def stop(state):
        calls.append(state.iteration)
        return len(calls) > len(seen) + 3

    stopped = bmrm.path(data, lams=LAMS, tol=1e-9, callback=stop)
    assert [r.status for r in stopped][-1] == "interrupted"
    assert len(stopped) < 3


def test_pictures(data, tmp_path):
    pytest.importorskip("matplotlib", reason="matplotlib is not installed; the extra `plot` installs it")
    found = bmrm.select(data, lams=LAMS, folds=3)
    for name, drawn in (("path", bmrm.path(data, lams=LAMS)), ("selection", found)):
        figure = drawn.plot()
        for suffix, start in ((".png", b"\x89PNG"), (".svg", b"<?xml"), (".pdf", b"%PDF")):
            plots.save(figure, tmp_path / (name + suffix))
            assert (tmp_path / (name + suffix)).read_bytes().startswith(start)


def test_a_picture_shows_the_numbers(data):
    pytest.importorskip("matplotlib", reason="matplotlib is not installed; the extra `plot` installs it")
    found = bmrm.select(data, lams=LAMS, folds=3)
    ax = found.plot()
    lines = {line.get_label(): line for line in ax.get_lines()}
    best = next(line for label, line in lines.items() if label.startswith("best"))
    assert best.get_xdata()[0] == found.lams[found.best]
    assert ax.get_xscale() == "log"
    again = found.plot(ax)
    assert again is ax


def test_a_picture_counts_whole_passes_and_hides_no_point(data):
    pytest.importorskip("matplotlib", reason="matplotlib is not installed; the extra `plot` installs it")
    ax = plots.plot_path(bmrm.path(data, lams=LAMS))
    ax.figure.draw_without_rendering()
    passes = next(other for other in ax.figure.axes if other is not ax)
    assert all(float(tick).is_integer() for tick in passes.get_yticks())
    legend = ax.get_legend()
    labels = {text.get_text() for text in legend.get_texts()}
    assert labels == {"objective", "lower bound", "passes over the data (right)"}
    assert legend.get_window_extent().y0 >= ax.get_window_extent().y1


def test_a_path_is_drawn_as_weights_with_names():
    pytest.importorskip("matplotlib", reason="matplotlib is not installed; the extra `plot` installs it")
    names = ["_hidden", "$x^", "<b>", *(f"x{j}" for j in range(57))]
    X = np.random.default_rng(0).standard_normal((200, 60))
    w = np.r_[5.0, -4.0, 3.0, np.zeros(57)]
    along = bmrm.path(X, X @ w, lams=LAMS, loss="squared")
    along = bmrm.linear.path.Path([replace(r, feature_names=tuple(names)) for r in along])
    ax = along.plot()
    ax.figure.draw_without_rendering()  # a name that is no formula draws too
    legend = ax.get_legend()
    labels = [text.get_text() for text in legend.get_texts()]
    assert len(labels) == plots.MAX_NAMED
    assert labels[:3] == [" _hidden", "$x^", "<b>"]
    assert legend.get_title().get_text() == f"Weights over lam, the {plots.MAX_LINES} largest of 60"
    lines = {line.get_label(): line for line in ax.get_lines()}
    by_lam = sorted(along, key=lambda r: r.lam)
    assert list(lines[" _hidden"].get_ydata()) == [r.w[0] for r in by_lam]
    assert list(lines["$x^"].get_xdata()) == [r.lam for r in by_lam]
    assert len(ax.get_lines()) == plots.MAX_LINES + 1


@pytest.mark.parametrize("end", ["smallest", "largest", None])
def test_a_choice_at_the_end_of_the_grid_is_pointed_out(data, end):
    pytest.importorskip("matplotlib", reason="matplotlib is not installed; the extra `plot` installs it")
    found = bmrm.select(data, lams=LAMS, folds=3, refit=False)
    better = {"smallest": -found.lams, "largest": found.lams, None: -abs(np.log(found.lams / 1e-2))}[end]
    scores = np.repeat(better[:, None], 3, 1) + np.array([0.0, 1e-9, 2e-9])
    ax = replace(found, scores=scores, metric="accuracy", rule="best").plot()
    assert ("extend it" in ax.get_xlabel()) == (end is not None)
    assert end is None or end in ax.get_xlabel()


def test_a_picture_needs_matplotlib_and_a_known_suffix(data, tmp_path, monkeypatch):
    pytest.importorskip("matplotlib", reason="matplotlib is not installed; the extra `plot` installs it")
    along = bmrm.path(data, lams=LAMS)
    with pytest.raises(ParameterError, match="found suffix 'txt', expected one of"):
        plots.save(along.plot(), tmp_path / "a.txt")
    assert list(tmp_path.iterdir()) == []
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(ParameterError, match="needs matplotlib"):
        along.plot()


@pytest.mark.parametrize("loss", ["hinge", "logistic"])
@pytest.mark.parametrize("cuts", [1, 3])
@pytest.mark.parametrize("penalty", [{"reg": "l1"}, {"reg": "elastic_net", "positive": True}])
def test_a_path_under_other_penalties(loss, cuts, penalty):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((200, 6))
    y = np.where(X @ rng.standard_normal(6) + rng.standard_normal(200) > 0, 1.0, -1.0)
    data = bmrm.Dataset(X, y)
    options = {"loss": loss, "tol": 1e-6, "cuts_per_pass": cuts, **penalty}
    path = bmrm.path(data, lams=[0.1, 0.01, 0.001], **options)
    for result in path:
        alone = bmrm.solve(data, lam=result.lam, **options)
        # From the path's own cuts, of which a block may have more at the end than others.
        again = bmrm.solve(data, lam=result.lam, warm_start=path[0], **options)
        assert result.status == again.status == "converged"
        for a, b in ((result, alone), (alone, result), (again, alone), (alone, again)):
            assert a.lower_bound <= b.objective * (1 + 1e-12)


def test_newtons_point_far_away_is_not_taken_for_its_slope():
    """Few rows are curved: the Hessian is nearly singular, and its point at 1e13 has a small slope."""
    X = np.array([[24.0, -2.0, 6.0], [38.0, 0.0, 15.0], [35.0, -1.0, 7.0], [18.0, 4.0, 4.0]])
    path = bmrm.path(X, [1, -1, 1, 1], [9.5, 0.02], loss="huber_hinge", reg="l1")
    assert [result.status for result in path] == ["converged", "converged"]


@pytest.mark.parametrize("lams", [None, ["a"], [1j], [0.0], []])
def test_invalid_lams(lams):
    for call in (bmrm.path, bmrm.select):
        with pytest.raises(ParameterError, match="lam"):
            call(np.eye(4), [1, -1, 1, -1], lams=lams)
