"""The headers of ``src_common/device``, each by the emulator (``tests/emulator/warps.h``), against NumPy."""

import ctypes
import shutil
from math import copysign
from pathlib import Path
from types import SimpleNamespace

import compiled
import numpy as np
import pytest

from bmrm.errors import BmrmError
from bmrm.formulas.gpu import nvrtc

pytestmark = pytest.mark.skipif(shutil.which("g++") is None, reason="there is no g++")
SOURCE, SHIM = "tests/reductions/device_headers.cpp", "tests/emulator/warps.h"
HEADERS = Path(__file__).parents[2] / "src_common" / "device"
LANES = np.arange(32)
OPERATORS = {
    "Sum": np.add,
    "Least": np.minimum,
    "Greatest": np.maximum,
    "Or": np.bitwise_or,
    "And": np.bitwise_and,
}
IDENTITIES = {"Sum": 0.0, "Least": np.inf, "Greatest": -np.inf, "Or": 0, "And": -1}


@pytest.fixture(scope="session")
def library():
    options = [*compiled.FOR_EMULATOR, "-ffp-contract=off", "-include", SHIM]
    return ctypes.CDLL(str(compiled.library([SOURCE], options)))


@pytest.fixture
def run(library):
    def run(name, given, found, *options, threads=32, blocks=1):
        words = (ctypes.c_longlong * max(1, len(options)))(*options)
        given = np.ascontiguousarray(given)
        places = given.ctypes.data_as(ctypes.c_void_p), found.ctypes.data_as(ctypes.c_void_p)
        assert library.run_kernel(name.encode(), blocks, threads, *places, words), name
        return found

    return run


def values_of(op, *shape):
    rng = np.random.default_rng(len(op))
    return rng.integers(-(2**62), 2**62, shape) if op in ("Or", "And") else rng.normal(size=shape)


@pytest.mark.parametrize("widest", [16, 8, 4, 2, 1])
@pytest.mark.parametrize("narrowest", [16, 8, 4, 2, 1])
def test_sums_of_lanes_are_added_from_the_widest_exchange_to_the_narrowest(run, widest, narrowest):
    if narrowest > widest:
        return
    given = values_of("Sum", 32)
    expected, apart = given.copy(), widest
    while apart >= narrowest:
        expected = expected + expected[LANES ^ apart]
        apart //= 2
    assert np.array_equal(run("sum_lanes", given, np.empty(32), widest, narrowest), expected)


@pytest.mark.parametrize("op", OPERATORS)
@pytest.mark.parametrize("count", [1, 2, 4, 8, 16, 32])
def test_a_butterfly_leaves_each_number_with_its_lanes(run, op, count):
    given = values_of(op, count, 32)
    given[count - count // 3 :] = IDENTITIES[op]  # the tail of a batch that is not full
    expected, apart = given, 16
    while apart:
        expected = OPERATORS[op](expected, expected[:, LANES ^ apart])
        apart //= 2
    expected = expected[LANES * count // 32, LANES]
    assert np.array_equal(run(f"butterfly {op}", given, np.empty_like(given[0]), count), expected)


@pytest.mark.parametrize("op", ["Least", "Greatest"])
@pytest.mark.parametrize("width", [32, 16, 4, 1])
def test_the_best_of_some_lanes_is_the_first_of_equal_ones(run, op, width):
    rng = np.random.default_rng(width)
    value, number = rng.integers(0, 3, 32).astype(float), rng.permutation(32).astype(float)
    found = run(f"best {op}", [value, number], np.empty((3, 32)), width)
    for lane in range(32):
        mates = [each for each in range(32) if each // width == lane // width]
        best = min(mates, key=lambda each: (value[each] * (1 if op == "Least" else -1), number[each]))
        assert found[:, lane].tolist() == [value[best], number[best], best]


def test_products_of_blocks_add_every_product_in_order(run):
    rng = np.random.default_rng(0)
    for a, b in (
        (rng.integers(-99, 99, (16, 8)) / 8, rng.integers(-99, 99, (8, 8)) / 4),
        (rng.normal(size=(16, 8)), rng.normal(size=(8, 8))),
    ):
        expected = np.zeros((16, 8))
        for k in range(8):
            expected += a[:, k, None] * b[k]
        found = run("multiply", np.concatenate([a, b]), np.empty((3, 8, 8)))
        assert np.array_equal(found, [expected[:8], expected[8:], expected[8:]])
    assert np.array_equal((a @ b).round(9), expected.round(9))


def test_sums_of_a_column_are_those_of_its_four_lanes(run):
    given = values_of("Sum", 32)
    pairs = given + given[LANES ^ 1]
    assert np.array_equal(run("add_steps", given, np.empty(32)), pairs + pairs[LANES ^ 2])


def test_warps_of_a_block_add_one_after_another(run):
    given = values_of("Sum", 4, 32, 3)
    found = run("join", given, np.full((3, 32), np.nan), threads=128)
    sums = given[0].T
    steps = given[..., 2] + given[:, LANES ^ 1, 2]
    steps = steps + steps[:, LANES ^ 2]
    totals = steps[0]
    for warp in range(1, 4):
        sums, totals = sums + given[warp].T, totals + steps[warp]
    assert np.array_equal(found, [sums[0], sums[1], totals])


@pytest.mark.parametrize("op", ["Sum", "Least", "And"])
@pytest.mark.parametrize("which", ["equal", "different", "some", "none", "half"])
def test_values_are_combined_into_chosen_places_in_the_order_of_lanes(run, op, which):
    rng = np.random.default_rng(1)
    index = {
        "equal": np.full(32, 5),
        "different": rng.permutation(32),
        "some": rng.integers(0, 4, 32),
        "none": np.full(32, -1),
        "half": np.where(LANES % 2, rng.integers(0, 3, 32), -1),
    }[which]
    value = values_of(op, 32)
    expected = np.full(33, IDENTITIES[op], value.dtype)
    combine = OPERATORS[op]
    for place, mine in zip(index, value, strict=True):
        if place >= 0:
            expected[place] = combine(expected[place], mine)
    of_all, apart = value, 16
    while apart:
        of_all = combine(of_all, of_all[LANES ^ apart])
        apart //= 2
    expected[32] = combine(expected[32], of_all[0])
    given = np.concatenate([index.astype(np.int64), value.view(np.int64)])
    found = np.full(33, IDENTITIES[op], value.dtype)
    assert np.array_equal(run(f"bins {op}", given, found), expected)


@pytest.mark.parametrize(("one", "two"), [(0, 2), (1, 1)])
def test_two_values_are_added_to_one_place_or_two(run, one, two):
    expected = np.array([0.1, 0.2, 0.3])
    found = run("two_places", np.array([0.7, 1e-9]), expected.copy(), one, two)
    expected[one] += 0.7
    expected[two] += 1e-9
    assert np.array_equal(found, expected)


@pytest.mark.parametrize("name", ["row float 1", "row float 4", "row double 2", "row short 1"])
def test_a_row_is_read_in_pieces_and_column_by_column(run, name):
    table = (
        np.arange(36).reshape(12, 3).astype({"float": "f4", "double": "f8", "short": "i2"}[name.split()[1]])
    )
    size = table.itemsize
    assert np.array_equal(run(name, table, np.empty(12), 3 * size, 0), table[:, 0])
    assert np.array_equal(run(name, table, np.empty(12), size, 1), table.reshape(-1)[:12])


@pytest.mark.parametrize(
    ("name", "kind", "options", "expected"),
    [
        ("columns float 4", "f4", (4, 1, 4, 0), [4, 5, 6, 7]),
        ("columns float 4", "f4", (8, 0, 4, 0), [8, 10, 12, 14]),
        ("columns float 2", "f4", (4, 1, 2, 0), [2, 3, 4, 5]),
        ("columns double 2", "f8", (8, 1, 2, 0), [2, 3, 4, 5]),
        ("columns double 1", "f8", (8, 0, 1, 18), [1, 9, 17, 18]),
        ("columns short 1", "i2", (2, 0, 3, 0), [3, 11, 19, 27]),
    ],
)
def test_columns_of_a_lane_are_neighbours_or_apart(run, name, kind, options, expected):
    assert run(name, np.arange(40).astype(kind), np.empty(4), *options).tolist() == expected


@pytest.mark.parametrize(("name", "kind"), [("neighbours float", "f4"), ("neighbours double", "f8")])
def test_neighbours_are_read_in_pieces(run, name, kind):
    assert run(name, np.arange(8).astype(kind), np.empty(8)).tolist() == list(range(8))


def parts_in_order(op, given):
    """Elements of parts as 32 groups of every 32nd part combine them, these by halves."""
    groups = np.full((32, given.shape[1]), IDENTITIES[op], given.dtype)
    for part, values in enumerate(given):
        groups[part % 32] = OPERATORS[op](groups[part % 32], values)
    apart = 16
    while apart:
        groups = OPERATORS[op](groups, groups[LANES ^ apart])
        apart //= 2
    return groups[0]


@pytest.mark.parametrize("op", ["Sum", "Greatest", "Or"])
@pytest.mark.parametrize("blocks", [1, 3])
def test_parts_are_combined_in_an_order_that_no_grid_changes(run, op, blocks):
    given = values_of(op, 70, 40)
    identity = np.array(IDENTITIES[op], given.dtype).view(np.int64)
    found = run(
        f"parts {op}", given, np.empty(40, given.dtype), 40, 70, 2, identity, threads=1024, blocks=blocks
    )
    assert np.array_equal(found, parts_in_order(op, given))


def test_parts_of_a_number_are_combined_by_all_threads(run):
    given = np.arange(3000.0)
    assert run("parts Sum", given, np.empty(1), 1, 3000, 0, 0, threads=1024)[0] == given.sum()


@pytest.mark.parametrize("blocks", [1, 2])
def test_extrema_of_parts_are_those_of_the_first_rows(run, blocks):
    rng = np.random.default_rng(2)
    value, rows = rng.integers(0, 3, (50, 35)).astype(float), rng.permutation(1750).reshape(50, 35)
    rows[rng.random((50, 35)) < 0.3] = 2**63 - 1  # no row took part
    rows[:, 3] = 2**63 - 1
    found = np.empty((3, 35))
    run(
        "best_parts", np.concatenate([value, rows.view(float)]), found, 35, 50, 1, threads=1024, blocks=blocks
    )
    for q in range(35):
        least, row, part = min(
            [(value[p, q], rows[p, q], p) for p in range(50) if rows[p, q] < 2**63 - 1],
            default=(np.inf, 2**63 - 1, -1),
        )
        assert (found[0, q], *found[1:].view(np.int64)[:, q]) == (least, row, part)


def test_the_failure_of_the_earliest_row_is_kept(run):
    given = np.array([[3, 4, 1], [0, 1, 5], [9, 4, 0], [4, 4, 2], [-1, 4, 0]])  # row 2 does not take part
    found = np.full(11, 2**62)
    run("failures", given, found, threads=5)
    assert found[0] == 3 * 100 + 7
    assert found[1:6].tolist() == [3, 0, 0, 0, 0]
    assert found[6:].tolist() == [1, 5, 1, 2, 1]


def wrapped(number):
    return (number + 2**63) % 2**64 - 2**63


@pytest.mark.parametrize("a", [0, 7, -7, 2**63 - 1, -(2**63), 123456789012345])
@pytest.mark.parametrize("b", [0, 1, -1, 3, -3, 2**63 - 1, -(2**63)])
def test_whole_numbers_wrap_and_divide_as_those_of_python(run, a, b):
    found = run("whole_numbers", np.array([a, b]), np.empty(7, np.int64)).tolist()
    count = min(max(a + b, -(2**63)), 2**63 - 1)
    divided = [wrapped(a // b), a % b] if b else [0, 0]
    assert found == [wrapped(a + b), wrapped(a - b), wrapped(a * b), count, *divided, wrapped(abs(a))]


@pytest.mark.parametrize("a", [0.0, -0.0, 7.5, -7.5, 1e300, np.inf, np.nan, 9.3e18, -9.3e18])
@pytest.mark.parametrize("b", [0.0, 2.0, -2.0, 0.1, np.inf])
def test_real_numbers_divide_as_those_of_numpy(run, a, b):
    found = run("real_numbers", np.array([a, b]), np.empty(3))
    with np.errstate(all="ignore"):
        expected = [np.floor_divide(a, b), np.mod(a, b)]
    for mine, theirs in zip(found, expected, strict=False):
        assert np.array_equal(mine, theirs, equal_nan=True)
        assert np.isnan(theirs) or copysign(1, mine) == copysign(1, theirs)
    limits = -(2**63), 2**63 - 1
    kept = limits[0] if np.isnan(a) else int(min(max(a, -9.3e18), 9.3e18))
    assert found.view(np.int64)[2] == min(max(kept, limits[0]), limits[1])


def test_what_is_tried_is_rounded_correctly_or_unusual(run):
    rng, n = np.random.default_rng(0), 20_000
    a, b = rng.integers(0, 2**32, (2, n), dtype=np.uint64).astype(np.uint32).view(np.float32)
    a[:6] = 0.0, -0.0, np.inf, -np.inf, np.nan, 1e-42
    a[6:1000], b[6:1000] = rng.normal(size=(2, 994))
    found = run("tried", np.concatenate([a, b]), np.empty(5 * n, np.float32), n, threads=1).reshape(5, n)
    with np.errstate(all="ignore"):
        ratio, square_root = a / b, np.sqrt(a)
    usual = found[3:] == 0
    assert usual[:, 6:1000].mean(1).min() > 0.45
    assert not usual[:, :6].any()
    assert (found[0] == ratio)[usual[0]].all()
    assert (found[1] == square_root)[usual[1]].all()
    assert np.array_equal(found[2], ratio, equal_nan=True)


def test_the_build_has_the_headers_of_this_checkout_and_they_include_no_other():
    found = nvrtc.device_headers()
    assert found == {f"device/{path.name}": path.read_text() for path in HEADERS.iterdir()}
    lines = [line for text in found.values() for line in text.splitlines() if "#include" in line]
    assert {line.removeprefix("#include ").strip('"') for line in lines} <= set(found)


def test_code_is_kept_for_a_text_and_these_headers(monkeypatch):
    library, keys = SimpleNamespace(nvrtcVersion=lambda major, minor: 0), []
    monkeypatch.setattr(nvrtc, "load_nvrtc", lambda: library)
    monkeypatch.setattr(nvrtc, "_choose_target", lambda *_: "sm_90")
    monkeypatch.setattr(nvrtc.object_cache, "load_or_make", lambda key, make: keys.append(key))
    for headers in ({"device/a.cuh": "1"}, {"device/a.cuh": "2"}, {"device/b.cuh": "1"}):
        monkeypatch.setattr(nvrtc, "device_headers", lambda headers=headers: headers)
        nvrtc.compile_cuda("text", (9, 0))
    assert len(set(keys)) == 3


def test_an_installation_without_headers_says_so(monkeypatch, tmp_path):
    monkeypatch.setattr(nvrtc, "HEADERS", tmp_path)
    with pytest.raises(BmrmError, match="found no CUDA headers"):
        nvrtc.device_headers.__wrapped__()
