"""Graphs from files."""

from __future__ import annotations

import gzip

import numpy as np
import pytest
from scipy import io, sparse

from bmrm.errors import DataError, ParameterError
from bmrm.graph import Graph, pagerank, read_graph

A = np.array([[0, 2.0, 0], [1, 0, 4], [0, 0, 3]])


def write(tmp_path, text, name="graph.txt"):
    path = tmp_path / name
    path.write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())
    return path


@pytest.mark.parametrize("name", ["g.txt", "g.txt.gz"])
def test_edge_text(tmp_path, name):
    G = read_graph(write(tmp_path, "# a comment\n% another\n7\t9\n9 12\n\n12,7\n9 12\n", name))
    assert (G.labels.to_list(), G.n_edges, G.directed) == ([7, 9, 12], 3, True)


def test_weights_and_names(tmp_path):
    path = write(tmp_path, "a b 2\nb c .5\na b 1\n")
    G = read_graph(path, weights=True)
    assert G.labels.to_list() == ["a", "b", "c"]
    assert G.to_scipy().toarray().tolist() == [[0, 3, 0], [0, 0, 0.5], [0, 0, 0]]
    assert not read_graph(path).weighted
    assert read_graph(path, directed=False).n_edges == 4


def test_bad_text_has_file_line_and_column(tmp_path):
    path = write(tmp_path, "1 2\n3 x\n")
    with pytest.raises(DataError, match=r'graph\.txt:2:3: found "x", expected an id'):
        read_graph(path)


def test_matrix_market_and_npz(tmp_path):
    io.mmwrite(tmp_path / "g.mtx", sparse.coo_array(A))
    sparse.save_npz(tmp_path / "g.npz", sparse.csr_array(A))
    for name in ("g.mtx", "g.npz"):
        G = read_graph(tmp_path / name, weights=True)
        assert G.to_scipy().toarray().tolist() == A.tolist()
        assert read_graph(tmp_path / name).weighted  # as `Graph(A)`
        assert not read_graph(tmp_path / name, weights=False).weighted


def test_npy(tmp_path):
    np.save(tmp_path / "g.npy", np.array([[4, 5], [5, 6]]))
    assert read_graph(tmp_path / "g.npy").labels.to_list() == [4, 5, 6]
    np.save(tmp_path / "g.npy", np.ones((3, 3)))
    with pytest.raises(DataError, match=r"found \(3, 3\) of float64"):
        read_graph(tmp_path / "g.npy")


@pytest.mark.parametrize("kind", ["parquet", "arrow"])
def test_arrow_files(tmp_path, kind):
    pyarrow = pytest.importorskip("pyarrow")
    table, path = pyarrow.table({"s": ["a", "b"], "t": ["b", "c"], "w": [2.0, 3.0]}), tmp_path / "g"
    if kind == "parquet":
        pytest.importorskip("pyarrow.parquet").write_table(table, path)
    else:
        with pyarrow.OSFile(str(path), "wb") as file, pyarrow.ipc.new_file(file, table.schema) as writer:
            writer.write_table(table)
    assert read_graph(path, weights=True).weighted
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(DataError, match=f"found a damaged {kind} file"):
        read_graph(path)


METIS = "% a comment\n3 2\n2\n1 3\n2\n"


@pytest.mark.parametrize("name", ["g.metis", "g.graph", "g.graph.gz"])
def test_metis(tmp_path, name):
    G = read_graph(write(tmp_path, METIS, name))
    assert not G.directed
    assert G.to_scipy().toarray().tolist() == [[0, 1, 0], [1, 0, 1], [0, 1, 0]]


@pytest.mark.parametrize(
    ("text", "weights"),
    [
        ("2 1 1\n2 7\n1 7\n", True),
        ("2 1 011\n9 2 7\n8 1 7\n", True),
        ("2 1 110 2\n5 1 1 2\n5 1 1 1\n", False),
    ],
)
def test_metis_with_weights(tmp_path, text, weights):
    G = read_graph(write(tmp_path, text, "g.metis"), weights=True)
    w = 7 if weights else 1
    assert G.to_scipy().toarray().tolist() == [[0, w], [w, 0]]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("3 2\n2\n1 3\n", "g.metis: found 2 lines of nodes|found 2 lines of nodes, expected 3"),
        ("2 1\n2\n1\n1\n", "4: found a line after the 2 nodes"),
        ("2 1\n3\n1\n", "2: found the neighbour 3, expected 1 to 2"),
        ("2 1\n0\n1\n", "2: found the neighbour 0"),
        ("2 1\n2 x\n1\n", '2:3: found "x", expected an integer'),
        ("2 5\n2\n1\n", "found 2 neighbours, expected 10"),
        ("2\n", "1: found a header of 1 numbers"),
        ("2 1 2\n", "1: found another header"),
        ("2 1 1\n2\n1\n", "2: found a neighbour without a weight"),
        ("", "found a header of 0 numbers"),
        ("99999999999999999999 1\n", "expected an integer of 64 bits"),
        ("-1 1\n", "found another header"),
    ],
)
def test_bad_metis_files(tmp_path, text, message):
    with pytest.raises(DataError, match=message):
        read_graph(write(tmp_path, text, "g.metis"))


def test_unknown_formats(tmp_path):
    with pytest.raises(ParameterError, match="format: found 'gml'"):
        read_graph(write(tmp_path, "1 2\n"), format="gml")


def test_published_graphs_agree_with_igraph(real_data):
    igraph = pytest.importorskip("igraph")
    path = real_data / "graphs" / "wiki-Vote.txt.gz"
    if not path.exists():
        pytest.skip("no published graphs")
    G = read_graph(path)
    assert (G.n_nodes, G.n_edges) == (7115, 103_689)
    matrix = G.to_scipy().tocoo()
    peer = igraph.Graph(edges=list(zip(matrix.row.tolist(), matrix.col.tolist(), strict=True)), directed=True)
    found = pagerank(G, tol=1e-12)
    assert np.abs(np.array(peer.pagerank()) - found.scores).max() <= 1e-10
    assert isinstance(G, Graph)
