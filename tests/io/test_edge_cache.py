"""The cache of edge text: used if it matches and is valid, else rebuilt, and never a reason to fail."""

from __future__ import annotations

import gzip
import json
import os
from pathlib import Path

import numpy as np
import pytest

from bmrm.errors import ParameterError
from bmrm.graph import read_graph
from bmrm.io import _svmlight, read_data
from bmrm.io.cache import SUFFIX
from bmrm.io.edges import read_edges

NAMES = "ann bob 1\nbob,näme 2.5\nann cy-7 3\n"
TEXTS = {
    "numbers": "0 1\n1 2\n2 0\n",
    "ids": "# a comment\n-7 20 0.5\n20\t9007199254740993 2\n",
    "names": NAMES,
    "header": "from to weight\n10 30 1\n30 20 2\n",
    "nothing": "# no edge\n",
}


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "edges"
    path.write_text(NAMES)
    return path


def cache_of(path):
    return Path(f"{path}{SUFFIX}")


def assert_same(edges, other):
    assert (edges.n_nodes, edges.has_header) == (other.n_nodes, other.has_header)
    for name in ("sources", "targets", "weights", "labels"):
        mine, theirs = getattr(edges, name), getattr(other, name)
        assert (mine is None) == (theirs is None), name
        if mine is not None:
            assert mine.dtype == theirs.dtype
            assert mine.tolist() == theirs.tolist()


@pytest.mark.parametrize(
    ("name", "options"),
    [
        *((name, {}) for name in TEXTS),
        *((name, {"weights": True}) for name in TEXTS if name != "numbers"),
        ("numbers", {"labels": "string"}),
        ("ids", {"labels": "integer"}),
    ],
)
def test_second_reading_comes_from_the_cache(path, name, options):
    path.write_text(TEXTS[name])
    plain = read_edges(path, **options)
    first, second = (read_edges(path, cache=True, **options) for _ in range(2))
    assert (plain.from_cache, first.from_cache, second.from_cache) == (False, False, True)
    assert_same(first, plain)
    assert_same(second, plain)
    assert set(second.seconds) == {"cache"}


def test_other_options_or_another_text_read_the_text_again(path):
    read_edges(path, cache=True)
    assert not read_edges(path, cache=True, labels="string").from_cache
    assert not read_edges(path, cache=True, weights=True).from_cache
    assert read_edges(path, cache=True, weights=True).from_cache
    status = path.stat()
    path.write_text(NAMES.replace("2.5", "3.5"))
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    found = read_edges(path, cache=True, weights=True)
    assert not found.from_cache
    assert found.weights.tolist() == [1, 3.5, 3]


def test_a_cache_of_rows_is_none_of_edges(path):
    path.write_text("1 2:3\n")
    read_data(path, cache=True)
    path.write_text("1 2\n")
    read_edges(path, cache=True)
    assert read_edges(path, cache=True).from_cache


def test_graphs_are_read_with_a_cache_or_without(path, tmp_path):
    plain = read_graph(path, weights=True)
    assert not cache_of(path).exists()
    for _ in range(2):
        G = read_graph(path, weights=True, cache=True)
        assert G.labels.to_list() == plain.labels.to_list()
        assert (G.to_scipy() != plain.to_scipy()).nnz == 0
    assert cache_of(path).exists()
    packed = tmp_path / "packed.gz"
    packed.write_bytes(gzip.compress(NAMES.encode()))
    assert read_graph(packed, cache=True).n_edges == 3
    assert not cache_of(packed).exists()
    with pytest.raises(ParameterError, match="cache: found 'yes'"):
        read_graph(path, cache="yes")


def test_every_damaged_byte_is_noticed(path):
    plain = read_edges(path, weights=True)
    read_edges(path, cache=True, weights=True)
    whole = cache_of(path).read_bytes()
    rng = np.random.default_rng(0)
    meaningful = np.flatnonzero(np.frombuffer(whole, np.uint8))
    for at in [*rng.choice(meaningful, 60), 0, len(whole) - 1]:
        damaged = bytearray(whole)
        damaged[at] ^= 1 << int(rng.integers(8))
        cache_of(path).write_bytes(damaged)
        edges = read_edges(path, cache=True, weights=True)
        assert not edges.from_cache, at
        assert_same(edges, plain)
        assert cache_of(path).read_bytes() == whole


@pytest.mark.parametrize("length", [0, 7, 23, 100, 4096, -1])
def test_a_truncated_cache_is_rebuilt(path, length):
    read_edges(path, cache=True)
    whole = cache_of(path).read_bytes()
    cache_of(path).write_bytes(whole[:length])
    assert not read_edges(path, cache=True).from_cache
    assert cache_of(path).read_bytes() == whole


def rewrite(path, change):
    """Change header and arrays of a cache, and update all checksums."""
    whole = cache_of(path).read_bytes()
    length = int.from_bytes(whole[8:16], "little")
    header = json.loads(whole[24 : 24 + length])
    body = bytearray(whole[24 + length :])
    arrays = {}
    for name, section in header["arrays"].items():
        start, dtype = section["offset"] - 24 - length, np.dtype(section["dtype"])
        arrays[name] = np.frombuffer(body, dtype, section["count"], start)
    change(header, arrays)
    for name, section in header["arrays"].items():
        section["checksum"] = _svmlight.checksum(arrays[name].tobytes())
    text = json.dumps(header).encode().ljust(length)
    assert len(text) == length
    checksum = _svmlight.checksum(text).to_bytes(8, "little")
    cache_of(path).write_bytes(whole[:16] + checksum + text + bytes(body))


def put(name, at, value):
    def change(header, arrays):
        arrays[name][at] = value

    return change


CHANGES = {
    "version": lambda header, arrays: header.update(version=0),
    "few nodes": lambda header, arrays: header.update(n_nodes=2),
    "many nodes": lambda header, arrays: header.update(n_nodes=5),
    "nodes": lambda header, arrays: header.update(n_nodes=-1),
    "no number": lambda header, arrays: header.update(n_nodes="4"),
    "header": lambda header, arrays: header.update(has_header=0),
    "no targets": lambda header, arrays: header["arrays"].pop("targets"),
    "type": lambda header, arrays: header["arrays"]["targets"].update(dtype="<f4"),
    "target": put("targets", 0, 4),
    "negative": put("sources", 0, -1),
    "weight": put("weights", 1, np.nan),
    "the same name": put("names", slice(4, 7), list(b"ann")),
    "tab": put("names", 1, ord("\t")),
    "delete": put("names", 1, 0x7F),
    "two ends": put("names", slice(4, 6), list(b"\n\n")),
    "encoding": put("names", 1, 0xFF),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_content_is_checked_even_with_right_checksums(path, change):
    read_edges(path, cache=True, weights=True)
    rewrite(path, lambda header, arrays: None)
    assert read_edges(path, cache=True, weights=True).from_cache
    rewrite(path, change)
    assert not read_edges(path, cache=True, weights=True).from_cache
    assert read_edges(path, cache=True, weights=True).from_cache


def test_integer_ids_must_ascend_and_nodes_have_edges(path):
    path.write_text("5 7\n7 9\n")
    read_edges(path, cache=True)
    rewrite(path, put("ids", 1, 5))
    assert not read_edges(path, cache=True).from_cache
    path.write_text("0 1\n")
    read_edges(path, cache=True)
    rewrite(path, lambda header, arrays: header.update(n_nodes=3))
    assert not read_edges(path, cache=True).from_cache


def test_a_link_with_the_name_of_the_cache_is_left_alone(path, tmp_path, caplog):
    victim = tmp_path / "victim"
    victim.write_text("precious")
    cache_of(path).symlink_to(victim)
    assert not read_edges(path, cache=True).from_cache
    assert victim.read_text() == "precious"
    assert "no cache written" in caplog.text
