"""Answers print themselves: as text, for notebooks, as dictionaries and as frames."""

import json
import re
import sys
from html.parser import HTMLParser

import numpy as np
import pytest

import bmrm
from bmrm.base.answers import MAX_COLUMNS, MAX_ROWS, cell
from bmrm.errors import ParameterError
from bmrm.graph import Graph, hits, pagerank, random_walk

HOSTILE = ["<script>alert(1)</script>", "a&b", "\x1b[31mred", "two\nlines", "x" * 1000]
"""Labels and names of columns that must not get into a page or a terminal as they are."""


def hostile_frame():
    pandas = pytest.importorskip("pandas")
    X = np.random.default_rng(0).standard_normal((60, len(HOSTILE)))
    return pandas.DataFrame(X, columns=HOSTILE)


def cycle(labels):
    """A graph of which each node has another score."""
    pairs = [(one, labels[k]) for i, one in enumerate(labels) for k in range(i)]
    return Graph([*pairs, (labels[0], labels[-1])])


def answers():
    """An answer of each kind, from hostile data."""
    frame = hostile_frame()
    X, y, labels = frame.to_numpy(), np.where(frame.iloc[:, 0] > 0, 1, -1), HOSTILE
    edges = np.linspace(0.0, 5.0, 30)
    return {
        "Ranking": pagerank(cycle(labels)),
        "Walks": random_walk(cycle(labels), labels[:2], top=3),
        "Hits": hits(cycle(labels)),
        "Histogram": bmrm.pairs.histogram(X, edges=edges),
        "Density": bmrm.pairs.kde(X, bandwidth=1.0),
        "KMeans": bmrm.KMeans(3, random_state=0).fit(frame),
        "GaussianMixture": bmrm.GaussianMixture(2, random_state=0).fit(frame),
        "PCA": bmrm.PCA(3).fit(frame),
        "TruncatedSVD": bmrm.TruncatedSVD(2).fit(frame),
        "MDS": bmrm.MDS(2).fit(frame),
        "Result": bmrm.solve(frame, y, lam=0.1),
        "classes": bmrm.solve(frame, np.array(HOSTILE)[X[:, :3].argmax(1)], "multiclass", lam=0.1),
        "Path": bmrm.path(frame, y, [1.0, 0.1]),
        "Selection": bmrm.select(frame, y, [1.0, 0.1], 3),
    }


@pytest.fixture(scope="module")
def found():
    return answers()


KINDS = (
    *("Ranking", "Walks", "Hits", "Histogram", "Density", "KMeans", "GaussianMixture"),
    *("PCA", "TruncatedSVD", "MDS", "Result", "classes", "Path", "Selection"),
)


class Page(HTMLParser):
    """The tags and the texts of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.texts: list[str] = []

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        assert attrs == []

    def handle_data(self, data):
        self.texts.append(data)


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_of_the_data_gets_out_unescaped(kind, found):
    text, page = str(found[kind]), Page()
    assert "\x1b" not in text
    assert max(map(len, text.splitlines())) < 400
    page.feed(found[kind]._repr_html_())
    assert page.tags <= {"p", "table", "thead", "tbody", "tr", "th", "td"}
    assert not any("\x1b" in shown or "\n" in shown for shown in page.texts)


@pytest.mark.parametrize("kind", KINDS)
def test_text_and_html_have_the_same_tables(kind, found):
    page = Page()
    page.feed(found[kind]._repr_html_())
    text = " ".join(str(found[kind]).split())
    for shown in page.texts:
        assert " ".join(shown.split()) in text


@pytest.mark.parametrize(
    "kind", sorted(set(KINDS) - {"KMeans", "GaussianMixture", "PCA", "TruncatedSVD", "MDS"})
)
def test_a_shell_shows_what_print_shows(kind, found):
    assert repr(found[kind]) == str(found[kind])


@pytest.mark.parametrize("kind", KINDS)
def test_frames_of_both_libraries_have_the_same_columns(kind, found):
    pytest.importorskip("pandas")
    pytest.importorskip("polars")
    one, other = found[kind].to_frame(), found[kind].to_frame("polars")
    assert list(one.columns) == other.columns
    assert one.shape == other.shape
    for name in other.columns:
        assert one[name].tolist() == other[name].to_list()


@pytest.mark.parametrize("kind", sorted(set(KINDS) - {"Ranking"}))
def test_a_dictionary_holds_facts_and_columns_for_json(kind, found):
    pytest.importorskip("pandas")
    record = json.loads(json.dumps(found[kind].to_dict()))
    frame = found[kind].to_frame()
    for name in frame.columns:
        assert record[name] == frame[name].tolist()
    if kind in ("Hits", "KMeans", "GaussianMixture", "PCA", "TruncatedSVD", "MDS", "Result", "classes"):
        assert record["status"] == "converged"


def test_a_ranking_is_a_dictionary_of_scores(found):
    ranking = found["Ranking"]
    assert ranking.to_dict() == dict(ranking.top(len(HOSTILE)))


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_a_library_that_is_not_there_is_one_line(library, found, monkeypatch):
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(ParameterError) as fault:
        found["Histogram"].to_frame(library)
    assert str(fault.value) == f"a frame of {library} needs {library}: pip install {library}"
    with pytest.raises(ParameterError, match=r"library: found 'panda'; did you mean pandas\?"):
        found["Histogram"].to_frame("panda")


def test_a_large_answer_shows_its_leading_rows():
    n = 200_000
    ranking = pagerank((np.arange(n), np.arange(n) // 2))
    lines = str(ranking).splitlines()
    assert lines[0] == f"PageRank of {n} nodes"
    assert lines[-1] == f"... and {n - MAX_ROWS} more"
    shown = [line.split()[1] for line in lines[-1 - MAX_ROWS : -1]]
    assert shown == [str(label) for label, _ in ranking.top(MAX_ROWS)]
    wide = bmrm.KMeans(2, random_state=0).fit(np.random.default_rng(0).random((9, 50)))
    head = str(wide).split("\n\n")[1].splitlines()[0].split()
    assert head == ["cluster", "total_weight", *(f"x{j}" for j in range(MAX_COLUMNS - 2)), "..."]


def test_walks_say_why_they_stopped():
    G = cycle(list("abcdefgh"))
    assert random_walk(G, ["a"], top=3).stopped(0) == "the order is proven"
    assert random_walk(G, ["a"], top=None).stopped(0) == "the error is below tol"
    limited = random_walk(G, ["a", "b"], top=3, max_iter=1)
    assert limited.stopped(1) == "stopped at the iteration limit"
    lines = str(limited).split("\n\n")[1].splitlines()
    assert re.split("  +", lines[0].strip())[:3] == ["query", "stopped because", "proven"]
    assert [line.split()[0] for line in lines[1:]] == ["a", "b"]


def test_an_estimator_prints_its_parameters_and_then_what_it_has_fitted():
    model = bmrm.KMeans(2, random_state=0)
    assert str(model) == repr(model) == "KMeans(n_clusters=2, random_state=0)"
    with pytest.raises(Exception, match="found no fitted model"):
        model.to_frame()
    model.fit([[0.0], [1.0], [9.0]])
    assert repr(model) == "KMeans(n_clusters=2, random_state=0)"
    assert str(model).startswith(f"{model!r}\nstatus         converged\n")
    named = bmrm.KMeans.of_centers([[0.0, 1.0]])
    assert str(named) == "KMeans(n_clusters=1)\n\ncluster  x0  x1\n      0   0   1"


def test_columns_of_a_frame_that_are_called_as_ours_keep_their_numbers():
    pandas = pytest.importorskip("pandas")
    X = pandas.DataFrame({"cluster": [0.5, 1.5, 9.0], "total_weight": [1.0, 2.0, 3.0]})
    model = bmrm.KMeans(1).fit(X)
    frame = model.to_frame()
    assert list(frame.columns) == ["cluster", "total_weight", "cluster_", "total_weight_"]
    assert frame[["cluster_", "total_weight_"]].to_numpy().tolist() == model.cluster_centers_.tolist()


def test_weights_have_names_and_classes(found):
    pytest.importorskip("pandas")
    result = found["classes"]
    frame = result.to_frame()
    assert list(frame.columns) == ["feature", "name", "class", "weight"]
    assert (frame["weight"].to_numpy().reshape(result.w.shape) == result.w).all()
    assert frame["name"].tolist()[::3] == HOSTILE
    assert frame["class"].tolist()[:3] == list(result.classes)
    first = str(result).split("\n\n")[1].splitlines()[1].split()
    assert float(first[-1]) == pytest.approx(result.w.ravel()[np.abs(result.w).argmax()], rel=1e-5)


def test_a_path_is_one_frame(found):
    pytest.importorskip("pandas")
    frame, path = found["Path"].to_frame(), found["Path"]
    for result in path:
        assert frame.loc[frame["lam"] == result.lam, "weight"].tolist() == result.w.tolist()
    assert str(path[:0]) == "Path of 0 lams, the strongest first"
    assert path[:0].to_frame().shape == (0, 0)


def test_a_density_is_still_a_tuple():
    found = bmrm.pairs.kde([[0.0], [2.0]], bandwidth=1.0)
    values, bound, bandwidth = found
    assert (values is found.values, bound is found.error_bound, bandwidth) == (True, True, 1.0)
    assert type(found._replace(bandwidth=2.0)) is type(found)


def test_a_long_text_is_cut():
    assert cell("x" * 100) == "x" * 40 + "..."
    assert cell(np.float32(0.5)) == "0.5"
