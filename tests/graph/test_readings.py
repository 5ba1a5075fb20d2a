"""What files say about themselves is used or refused: edge text of all kinds, tables, matrices."""

from __future__ import annotations

import struct

import numpy as np
import pytest
from scipy import io, sparse

from bmrm.errors import DataError, ParameterError
from bmrm.graph import Graph, read_graph


def edges(G):
    matrix = G.to_scipy().tocoo()
    ends = zip(G.labels.take(matrix.row), G.labels.take(matrix.col), matrix.data.tolist(), strict=True)
    return sorted(ends)


@pytest.fixture
def read(tmp_path):
    def read_text(text, name="graph.txt", **options):
        path = tmp_path / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return read_graph(path, **options)

    return read_text


SMALL = [(1, 2, 1.0), (2, 3, 1.0)]
NAMED = [("Ann", "New York", 1.0), ("New York", "Bob", 1.0)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1,2\n2,3\n", SMALL),
        ("1;2\n2;3\n", SMALL),
        ("1\t2\n2 3\n", SMALL),
        ('"1","2"\n"2","3"\n', SMALL),
        ("1\r\n2\r\n".replace("\r\n2", " 2").replace("1 2\r\n", "1 2\r\n2 3\r\n"), SMALL),
        ("1 2\r2 3\r", SMALL),
        ("1 2\r2 3", SMALL),
        ("# c\r1 2\r\r2 3\r", SMALL),
        ("1,2,Paris in May\n2,3,\n", SMALL),
        ("1\t2\t2013-12-31 16:39:58\t1,2\n2\t3\t2014-01-01 00:00:00\t3\n", SMALL),
        ("source,target\n1,2\n2,3\n", SMALL),
        ("target,source\n2,1\n3,2\n", SMALL),
        ("id;src;dst;what\n9;1;2;a b\n8;2;3;\n", SMALL),
        ("from\tto\ttime\n1\t2\t7\n2\t3\t8\n", SMALL),
        ("source,target,weight\n1,2,2.5\n2,3,4\n", [(1, 2, 2.5), (2, 3, 4.0)]),
        ("Weight;Target;Source\n2.5;2;1\n4;3;2\n", [(1, 2, 2.5), (2, 3, 4.0)]),
        ("Ann,New York\nNew York,Bob\n", NAMED),
        ("Ann\tNew York\t5\nNew York\tBob\t6\n", NAMED),
        ('"Ann" "New York"\n"New York" "Bob"\n', NAMED),
        ('Source,Target\n"Ann",New York\n"New York",Bob\n', NAMED),
        ('"a ""b""",c\nc,"d,e"\n', [('a "b"', "c", 1.0), ("c", "d,e", 1.0)]),
        ("ann bob {}\nbob cat {}\n", [("ann", "bob", 1.0), ("bob", "cat", 1.0)]),
        ("1 2 {'weight': 3, 'x': \"it's\"}\n2 3 {'x': {'weight': 9}}\n", [(1, 2, 3.0), (2, 3, 1.0)]),
        ("% asym positive\n1 2 3 1082008561\n2 3 1 7\n", [(1, 2, 3.0), (2, 3, 1.0)]),
        ("% asym unweighted\n1 2 1 1082008561\n2 3 1 7\n", SMALL),
    ],
)
def test_edge_text_as_people_have_it(read, text, expected):
    G = read(text)
    assert (edges(G), G.directed) == (expected, True)


@pytest.mark.parametrize(
    "text",
    [
        "# Undirected graph: ../../data/output/amazon.ungraph.txt\n1\t2\n2\t3\n",
        "% sym unweighted\n1 2\n2 3\n",
        "Source,Target,Type\n1,2,Undirected\n2,3,Undirected\n",
    ],
)
def test_text_that_says_that_it_is_undirected(read, text):
    G = read(text)
    assert (edges(G), G.directed, G.notes) == (sorted([*SMALL, *((v, u, w) for u, v, w in SMALL)]), False, ())
    assert read(text, directed=True).directed


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        ("0 1 2 3\n1 2\n", {}, ":2:4: found the end of the line, expected 4 columns"),
        ("Ann Bob\nNew York Bob\n", {}, ':2:10: found "Bob", expected 2 columns'),
        ("a,b,c\n1,2,3\n", {}, "found the columns 'a', 'b', 'c', expected some named source and target"),
        ("source,target,time\n1,2,3\n", {"weights": True}, "found no column of weights"),
        ("Source,Target,Type\na,b,Directed\nb,c,Undirected\n", {}, ":3:5: found"),
        ('{"edges": [[1, 2]]}\n', {}, "expected two ids"),
        ("<graph> <edge>\n", {}, "expected two ids"),
        ("1 -> 2\n", {}, "found the line '1 -> 2', expected two ids"),
        ("(1, 2)\n", {}, "expected two ids"),
        ("*Vertices 3\n", {}, "expected two ids"),
        ("% bip unweighted\n1 2\n", {}, "found a bipartite graph"),
        ("1 2\n2 3\r3 4\n", {}, ":2:4: found"),
        ("1 2\n", {"columns": ("2", "3")}, "found 2 columns without names, expected columns= from 1 to 2"),
        ("a b\n1 2\n", {"columns": ("a", "c")}, "found no column 'c'"),
    ],
)
def test_what_text_does_not_say_is_refused(read, text, options, message):
    with pytest.raises(DataError) as fault:
        read(text, **options)
    assert "graph.txt" in str(fault.value)
    assert message in str(fault.value)


def test_columns_have_names_or_numbers(read):
    text = "time,a,b,cost\n7,1,2,2.5\n8,2,3,4\n"
    assert edges(read(text, columns=("a", "b", "cost"))) == [(1, 2, 2.5), (2, 3, 4.0)]
    assert edges(read(text, columns=("b", "a"))) == [(2, 1, 1.0), (3, 2, 1.0)]
    assert edges(read("7 1 2\n8 2 3\n", columns=("2", "3"))) == SMALL
    for name in ("g.metis", "g.mtx"):
        with pytest.raises((ParameterError, DataError)):
            read("2 1\n2\n1\n", name, columns=("a", "b"))


def test_notes_tell_what_a_file_leaves_open(read):
    assert [note[:8] for note in read("1 2 5\n2 3 6\n").notes] == ["numbers ", "every ed"]
    assert read("1 2 5\n2 1 6\n", weights=True).notes == ()
    assert read("1 2\n2 3\n", directed=True).notes == ()
    assert read("1 1\n2 2\n").notes == ()
    assert read("1 2 5\n2 1 6\n", weights=False).notes == ()
    ring = np.column_stack([np.arange(500), np.roll(np.arange(500), 1)])
    text = "\n".join(f"{u} {v}" for u, v in ring.tolist())
    assert len(read(text).notes) == 1
    assert read(f"{text}\n0 1\n").notes == ()


def test_files_that_networkx_writes(tmp_path):
    networkx = pytest.importorskip("networkx")
    g = networkx.Graph()
    g.add_weighted_edges_from([("ann", "bob", 2.0), ("bob", "cat", 0.5)])
    for name, write in {
        "edges": networkx.write_edgelist,
        "edges.gz": networkx.write_edgelist,
        "weighted": networkx.write_weighted_edgelist,
    }.items():
        for delimiter in (" ", ",", "\t"):
            write(g, tmp_path / name, delimiter=delimiter)
            G = read_graph(tmp_path / name, weights=True, directed=False)
            assert (G.to_scipy().toarray() == networkx.to_numpy_array(g)).all()
    assert not read_graph(tmp_path / "weighted").weighted
    assert read_graph(tmp_path / "edges").weighted
    networkx.write_edgelist(g, tmp_path / "edges", data=False)
    assert edges(read_graph(tmp_path / "edges")) == [("ann", "bob", 1.0), ("bob", "cat", 1.0)]


BODY = b"matrix coordinate pattern symmetric\n3 3 2\n2 1\n3 1\n"


@pytest.mark.parametrize(
    "banner",
    [
        b"%%MatrixMarket ",
        b"%MatrixMarket ",
        b"%%matrixmarket ",
        b"%%MATRIXMARKET\t",
        b"% MatrixMarket ",
        b"\xef\xbb\xbf%%MatrixMarket ",
        b"\n%%MatrixMarket ",
        b"\r\n  %%MatrixMarket  ",
    ],
)
@pytest.mark.parametrize("name", ["g.mtx", "g", "g.txt"])
def test_a_matrix_is_known_however_its_first_line_is_written(read, banner, name):
    G = read(banner + BODY, name)
    assert edges(G) == [(0, 1, 1.0), (0, 2, 1.0), (1, 0, 1.0), (2, 0, 1.0)]
    assert not G.directed


def test_a_file_named_so_must_be_a_matrix(read):
    with pytest.raises(DataError, match="found another first line, expected '%%MatrixMarket"):
        read("% a comment\n3 3 2\n2 1\n3 1\n", "g.mtx")
    assert read("1 2\n2 3\n", "g.mtx", format="edges").n_edges == 2


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "3 2\n2 3\n1\n2\n",
            "found the edge of nodes 1 and 3 in the list of one of them, expected it in both",
        ),
        ("3 2\n2 2\n1 3\n\n", "in the list of one of them"),
        ("2 1 1\n2 5\n1 6\n", "found two weights of the edge of nodes 1 and 2, expected one"),
    ],
)
def test_metis_lists_must_agree(read, text, message):
    with pytest.raises(DataError, match=message):
        read(text, "g.metis")


def test_loops_of_symmetric_weights_count_once(tmp_path):
    A = np.array([[1.0, 1, 0], [1, 0, 2], [0, 2, 0]])
    io.mmwrite(tmp_path / "a.mtx", sparse.coo_array(A), symmetry="symmetric")
    io.mmwrite(tmp_path / "b.mtx", sparse.coo_array(A), symmetry="general")
    matrix = sparse.coo_array(A)
    lines = [f"{u} {v} {w}\n" for u, v, w in zip(*matrix.coords, matrix.data, strict=True)]
    (tmp_path / "a.txt").write_text("".join(lines))
    rounded = A * np.array([[1, 1 + 1e-15, 1], [1, 1, 1], [1, 1, 1]])
    for G in (
        Graph(matrix, directed=False),
        Graph(sparse.csr_array(rounded), directed=False),
        Graph(matrix).undirected(),
        *(read_graph(tmp_path / name, weights=True, directed=False) for name in ("a.mtx", "b.mtx", "a.txt")),
    ):
        assert G.to_scipy().toarray() == pytest.approx(A, rel=1e-12)
    upper = Graph(sparse.coo_array(np.triu(A)), directed=False)
    assert (upper.to_scipy().toarray() == A).all()
    both = Graph(([0, 1], [1, 0], [2.0, 3.0]), directed=False)
    assert both.to_scipy().toarray().tolist() == [[0, 5], [5, 0]]
    twice = Graph(([0, 1], [1, 0], [2.0, 2.0]), directed=False, duplicates="sum")
    assert twice.to_scipy().toarray().tolist() == [[0, 4], [4, 0]]


def test_offsets_of_a_damaged_arrow_file_are_refused(tmp_path):
    pyarrow = pytest.importorskip("pyarrow")
    table = pyarrow.table({"s": ["aaaa", "bbbb", "cccc"], "t": ["bbbb", "cccc", "aaaa"]})
    path = tmp_path / "g.arrow"
    with pyarrow.ipc.new_file(path, table.schema) as writer:
        writer.write_table(table)
    good = path.read_bytes()
    assert read_graph(path).n_edges == 3
    for far in (-4, 3, 40, 4096, 10**9):
        path.write_bytes(good.replace(struct.pack("<4i", 0, 4, 8, 12), struct.pack("<4i", 0, 4, 8, far), 1))
        with pytest.raises(DataError, match="found a damaged arrow file"):
            read_graph(path)
    path.write_bytes(good.replace(b"bbbb", b"b\xffbb"))
    with pytest.raises(DataError, match="found a damaged arrow file"):
        read_graph(path)
    array = pyarrow.StringArray.from_buffers(
        2, pyarrow.py_buffer(struct.pack("<3i", 0, 1, 2)), pyarrow.py_buffer(b"a\xff")
    )
    with pytest.raises(DataError, match="found damaged cells"):
        Graph(pyarrow.table({"s": array, "t": ["a", "b"]}))


@pytest.mark.parametrize("kind", ["parquet", "arrow"])
def test_tables_are_read_by_name(tmp_path, kind):
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    table = pyarrow.table({"time": [7, 8], "target": [2, 3], "source": [1, 2], "weight": [2.5, 4.0]})
    path = tmp_path / "g"
    if kind == "parquet":
        parquet.write_table(table, path)
    else:
        with pyarrow.ipc.new_file(path, table.schema) as writer:
            writer.write_table(table)
    assert edges(read_graph(path)) == [(1, 2, 2.5), (2, 3, 4.0)]
    assert edges(read_graph(path, columns=("target", "source", "time"))) == [(2, 1, 7.0), (3, 2, 8.0)]
    with pytest.raises(DataError, match="found no column 'cost'"):
        read_graph(path, columns=("source", "target", "cost"))
