"""Histograms: sums, files, and files that are damaged or of another kind."""

import dataclasses
import io
import zipfile

import numpy as np
import pytest

from bmrm.errors import DataError, ParameterError
from bmrm.pairs import Histogram, PairPlan, Points, histogram

X = np.random.default_rng(0).random((60, 3))
EDGES = np.linspace(0, 0.5, 6)


def counted(box=1.0, **words):
    return histogram(Points(X, box=box), **{"edges": EDGES, **words})


@pytest.mark.parametrize(
    "found",
    [counted(), counted(None), counted(images="all", closed="right"), counted() + counted(plan="float64")],
)
def test_a_file_has_everything(found, tmp_path):
    path = tmp_path / "h.npz"
    found.save(path)
    read = Histogram.load(str(path))
    for field in dataclasses.fields(Histogram):
        mine, theirs = getattr(found, field.name), getattr(read, field.name)
        assert np.array_equal(mine, theirs), field.name
        assert type(mine) is type(theirs)
    with np.load(path, allow_pickle=False) as arrays:
        assert {"edges", "counts"} <= set(arrays.files)


def test_the_sum_of_two():
    one, two = counted(plan="brute"), counted(plan="float64")
    both = one + two
    assert both.counts.tolist() == (2 * one.counts).tolist()
    assert (both.pairs, both.candidates, both.plan) == (2 * one.pairs, one.candidates + two.candidates, None)
    assert both.rechecked == pytest.approx((one.rechecked + two.rechecked) / 2)
    assert (one + one).plan == one.plan


@pytest.mark.parametrize(
    ("other", "what"),
    [
        (counted(edges=EDGES[:-1]), "edges"),
        (counted(closed="left"), "closed"),
        (counted(None), "box"),
        (counted(images="one"), "images"),
    ],
)
def test_unlike_histograms_have_no_sum(other, what):
    with pytest.raises(ParameterError, match=rf"\+: found histograms with other {what}, expected the same"):
        _ = counted() + other
    with pytest.raises(TypeError):
        _ = counted() + 3


def rewritten(path, **changed):
    """Write the arrays of a file again, some of them changed or, with None, left out."""
    with np.load(path) as arrays:
        members = {**arrays, **changed}
    np.savez(path, **{name: value for name, value in members.items() if value is not None})


CHANGES = [
    {"counts": None},
    {"counts": np.zeros(4, np.int64)},
    {"counts": np.full(5, -1)},
    {"counts": np.zeros(5)},
    {"counts": np.zeros((5, 1), np.int64)},
    {"edges": EDGES[::-1]},
    {"edges": np.full(6, np.nan)},
    {"edges": EDGES.astype(np.float32)},
    {"totals": np.zeros(2)},
    {"totals": np.full(3, np.inf)},
    {"pairs": np.array(-3)},
    {"pairs": np.array(3.0)},
    {"words": np.array(["both", "one"])},
    {"words": np.array(["last", "some"])},
    {"words": np.array([1, 2])},
    {"box": np.array([-1.0, 1.0, 1.0])},
    {"box": np.array(1.0)},
    {"plan": np.array("{")},
    {"plan": np.array('{"device": "cpu"}')},
    {"plan": np.array("[" * 100_000)},
    {"plan": np.array(["a"])},
]


@pytest.mark.parametrize("changed", CHANGES, ids=str)
def test_other_arrays_are_refused(changed, tmp_path):
    path = tmp_path / "h.npz"
    counted().save(path)
    rewritten(path, **changed)
    with pytest.raises(DataError, match=r"h\.npz: found .*, expected "):
        Histogram.load(path)


def test_damaged_files_are_refused(tmp_path):
    path = tmp_path / "h.npz"
    counted().save(path)
    whole = path.read_bytes()
    rng = np.random.default_rng(1)
    for cut in (0, 1, 30, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:cut])
        with pytest.raises(DataError):
            Histogram.load(path)
    for _ in range(60):
        damaged = bytearray(whole)
        damaged[rng.integers(len(whole))] ^= int(rng.integers(1, 256))
        path.write_bytes(damaged)
        try:
            found = Histogram.load(path)
        except DataError as error:
            text = str(error)
            assert text.startswith(str(path))
            assert "\n" not in text
        else:
            assert found.counts.dtype == np.int64


def test_objects_are_not_unpickled(tmp_path):
    path = tmp_path / "h.npz"
    counted().save(path)
    buffer = io.BytesIO()
    np.save(buffer, np.array([print], object), allow_pickle=True)
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("more.npy", buffer.getvalue())
    assert Histogram.load(path).pairs == 60 * 59 // 2
    with np.load(path) as arrays:
        members = {name: arrays[name] for name in arrays.files if name not in ("plan", "more")}
    np.savez(path, plan=np.array(PairPlan, object), **members)
    with pytest.raises(DataError):
        Histogram.load(path)


def test_other_kinds_of_files(tmp_path):
    np.save(tmp_path / "x.npy", X)
    with pytest.raises(DataError, match="found npy, expected an npz file of a histogram"):
        Histogram.load(tmp_path / "x.npy")
    with pytest.raises(FileNotFoundError):
        Histogram.load(tmp_path / "none.npz")
    with pytest.raises(OSError, match="no such"):
        counted().save(tmp_path / "no such folder" / "h.npz")


def test_a_failing_write_leaves_the_file_before(tmp_path, monkeypatch):
    path = tmp_path / "h.npz"
    counted().save(path)
    before = path.read_bytes()
    monkeypatch.setattr(np, "savez", lambda file, **_: file.write(b"half") and 1 / 0)
    with pytest.raises(ZeroDivisionError):
        counted().save(path)
    assert [each.name for each in tmp_path.iterdir()] == ["h.npz"]
    assert path.read_bytes() == before
