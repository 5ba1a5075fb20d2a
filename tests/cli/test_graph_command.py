"""The command bmrm-graph."""

from __future__ import annotations

import json
import os

import numpy as np
import pytest
from commands import start_python

from bmrm.cli.graph import main
from bmrm.graph import pagerank, read_graph


@pytest.fixture
def edges(tmp_path):
    path = tmp_path / "edges.txt"
    path.write_text("# a graph\na b\nb c\nc b\nd c\nc d\n")
    return str(path)


def run(capsys, *words):
    code = main(words)
    streams = capsys.readouterr()
    return code, streams.out, streams.err


def test_pagerank_prints_the_first_with_their_error(edges, capsys):
    code, out, _ = run(capsys, "pagerank", edges, "--top", "2")
    lines = out.splitlines()
    assert code == 0
    assert lines[0].split() == ["rank", "node", "score", "error"]
    assert lines[1].split()[1] == "c"
    assert lines[2].split()[1] == "b"
    assert lines[3].startswith("converged: the scores are within")


def test_a_line_stands_under_the_last_proven_rank(tmp_path, capsys):
    path = tmp_path / "star.txt"
    path.write_text("1 0\n2 0\n0 1\n0 2\n")
    out = run(capsys, "pagerank", str(path))[1].splitlines()
    assert out[1].split()[1] == "0"
    assert out[2].endswith("order not proven below")


def test_pagerank_as_json(edges, capsys):
    code, out, _ = run(capsys, "pagerank", edges, "--json", "-d", "0.5", "--tol", "1e-10", "--seeds", "a,b")
    report = json.loads(out)
    assert code == 0
    assert report["status"] == "converged"
    assert report["error_bound"] <= 1e-10
    assert (report["nodes"], report["edges"]) == (4, 5)


def test_walks_take_queries_from_words_or_a_file(edges, tmp_path, capsys):
    (tmp_path / "queries").write_text("a\nb\n")
    one = json.loads(run(capsys, "rwr", edges, "--queries", "a,b", "--json")[1])
    other = json.loads(run(capsys, "rwr", edges, "--queries", str(tmp_path / "queries"), "--json")[1])
    assert [each["query"] for each in one["queries"]] == ["a", "b"]
    assert one["queries"] == other["queries"]
    assert "from a: converged: the order is proven\n" in run(capsys, "rwr", edges, "--queries", "a")[1]
    assert one["queries"][0]["stopped"] == "the order is proven"


def test_seeds_of_a_file_may_have_weights(tmp_path, capsys):
    path, seeds = tmp_path / "g.txt", tmp_path / "seeds"
    path.write_text("1 2\n2 3\n3 1\n4 1\n")
    expected = dict(pagerank(read_graph(path), personalization={1: 3, 2: 1}).top(4))
    for text in ("1 3\n2 1\n", "\ufeff1\t3\r\n2\t1\r\n", "1,3\n\n2\n", "1 3.0\n2 1e0"):
        seeds.write_bytes(text.encode())
        top = json.loads(run(capsys, "pagerank", str(path), "--seeds", str(seeds), "--json")[1])["top"]
        assert dict(top) == pytest.approx(expected)
    for text, message in {
        "1 3 2\n": ":1: found '1 3', expected a node",
        "1\n2 x\n": ":2: found '2 x', expected a node",
        "1 2\n1 3\n": ":2: found 1 twice, expected each node once",
    }.items():
        seeds.write_text(text)
        code, _, err = run(capsys, "pagerank", str(path), "--seeds", str(seeds))
        assert (code, err.count("\n")) == (3, 1)
        assert message in err
    seeds.write_text("1 2\n")
    assert run(capsys, "rwr", str(path), "--queries", str(seeds))[0] == 3
    path.write_text("a b\nb 1\n1 a\n")
    seeds.write_text("a b\n")
    report = json.loads(run(capsys, "rwr", str(path), "--queries", str(seeds), "--json")[1])
    assert [each["query"] for each in report["queries"]] == ["a", "b"]
    path.write_text("New York,Rome\nRome,New York\n")
    seeds.write_text("New York 2\nRome\n")
    assert run(capsys, "pagerank", str(path), "--seeds", str(seeds))[0] == 0


def test_notes_and_columns(tmp_path, capsys):
    path = tmp_path / "g.csv"
    path.write_text("1,2,5\n2,3,6\n")
    code, _, err = run(capsys, "info", str(path))
    assert (code, err.count("bmrm-graph: note: ")) == (0, 2)
    assert "--weighted" in err
    assert "--undirected" in err
    code, out, err = run(capsys, "info", str(path), "--json")
    assert (code, len(json.loads(out)["notes"]), err) == (0, 2, "")
    assert run(capsys, "info", str(path), "--directed", "--weighted")[2] == ""
    assert run(capsys, "info", str(path), "--undirected", "--no-weighted")[2] == ""
    path.write_text("time,b,a\n7,1,2\n8,2,1\n")
    report = json.loads(run(capsys, "info", str(path), "--columns", "a,b", "--json")[1])
    assert (report["edges"], report["notes"]) == (2, [])
    code, _, err = run(capsys, "info", str(path))
    assert code == 3
    assert "found the columns 'time', 'b', 'a', expected some named source and target" in err


def test_hits(edges, capsys):
    code, out, _ = run(capsys, "hits", edges)
    assert code == 0
    assert out.splitlines()[0].split() == ["rank", "authority", "score", "hub", "score"]
    report = json.loads(run(capsys, "hits", edges, "--json")[1])
    assert report["authorities"][0][0] == "b"


def test_info(edges, capsys):
    assert "nodes" in run(capsys, "info", edges)[1]
    assert json.loads(run(capsys, "info", edges, "--json")[1])["edges"] == 5


def test_scores_and_a_picture_are_written(edges, tmp_path, capsys):
    pytest.importorskip("matplotlib")
    out, picture = tmp_path / "scores.npz", tmp_path / "picture.png"
    code, _, _ = run(capsys, "pagerank", edges, "-o", str(out), "--plot", str(picture))
    assert code == 0
    with np.load(out) as arrays:
        assert arrays["node"].tolist()[0] == "c"
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_a_picture_has_a_title_and_the_names_of_the_first_nodes(tmp_path, capsys):
    pytest.importorskip("matplotlib")
    path, picture = tmp_path / "g.txt", tmp_path / "picture.svg"
    path.write_text("a $x^{\nb $x^{\n$x^{ <b>\n")  # a name that is no formula
    assert run(capsys, "pagerank", str(path), "--plot", str(picture))[0] == 0
    text = picture.read_text()
    for shown in ("PageRank of 4 nodes", "$x^{", "&lt;b&gt;"):
        assert f"<!-- {shown} -->" in text


@pytest.mark.parametrize("name", ["picture", "picture.txt"])
def test_a_picture_of_no_known_format_is_refused_before_the_work(name, tmp_path, capsys):
    pytest.importorskip("matplotlib")
    code, out, err = run(capsys, "pagerank", str(tmp_path / "missing"), "--plot", str(tmp_path / name))
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert f"{name}: found suffix {'txt' if '.' in name else ''!r}, expected one of" in err


def test_a_cache_is_kept_next_to_the_text(edges, capsys):
    plain = run(capsys, "hits", edges, "--json")[1]
    for _ in range(2):
        report = json.loads(run(capsys, "hits", edges, "--json", "--cache")[1])
        assert report["authorities"] == json.loads(plain)["authorities"]
        assert os.path.exists(f"{edges}.bmrmcache")


def test_a_limit_has_its_exit_code(edges, capsys):
    code, out, _ = run(capsys, "pagerank", edges, "--max-iter", "1")
    assert code == 4
    assert "max_iter: the scores are within" in out
    assert run(capsys, "rwr", edges, "--queries", "a,b", "--max-iter", "1", "--tol", "1e-15")[0] == 4


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["pagerank", "EDGES", "-d", "1"], 2, "expected a number of at least 0 and below 1"),
        (["pagerank", "EDGES", "--queries", "a"], 2, "--queries: found with pagerank"),
        (["hits", "EDGES", "--damping", "0.5"], 2, "--damping: found with hits"),
        (["rwr", "EDGES"], 2, "--queries: found none"),
        (["rwr", "EDGES", "--queries", "x"], 2, "--queries: found 'x', expected a node of the graph"),
        (["pagerank", "EDGES", "--seeds", "x"], 2, "--seeds: found 'x'"),
        (["pagerank", "EDGES", "-o", "scores.csv"], 2, "expected a file *.tsv"),
        (["pagerank", "missing.txt"], 3, "missing.txt: No such file"),
        (["pagerank", "EDGES", "--weighted"], 3, "expected a weight"),
        (["rank", "EDGES"], 2, "found rank, expected one of pagerank, rwr, hits, info"),
    ],
)
def test_errors_are_one_line(edges, capsys, words, code, message):
    found, out, err = run(capsys, *[edges if word == "EDGES" else word for word in words])
    assert found == code
    assert message in err
    assert err.count("\n") == 1
    assert out == ""


CTRL_C_AT_THE_FIFTH_STEP = """
import os, signal, sys
from bmrm.cli import graph

watch = graph._Watch.__call__

def press(self, state):
    watch(self, state)
    if state.iteration == 5:
        os.kill(os.getpid(), signal.SIGINT)

graph._Watch.__call__ = press
sys.exit(graph.main())
"""


def test_ctrl_c_prints_what_was_found(tmp_path):
    path, ring = tmp_path / "ring.txt", np.arange(1000)
    np.savetxt(path, np.column_stack([ring, np.roll(ring, -1)]), "%d")
    words = ["pagerank", path, "--tol", "1e-300", "--json", "--damping", "0.9999999", "--method", "power"]
    words += ["--max-iter", "1000000000", "--seeds", "0"]
    process = start_python(CTRL_C_AT_THE_FIFTH_STEP, *words)
    out, err = process.communicate(timeout=60)
    assert err == ""
    assert process.returncode == 130
    assert json.loads(out)["status"] == "interrupted"
