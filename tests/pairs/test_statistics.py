"""Functions of two points: results of each x and of all pairs, symmetry, boxes, reach and bad input."""

# ruff: noqa: F821 (sizes are names in quotes)

import pickle

import numpy as np
import pytest
import scipy.sparse

from bmrm import pairs
from bmrm.errors import BmrmError, DataError, HostMemoryError, ParameterError, ReductionError
from bmrm.formulas.analysis import counters
from bmrm.formulas.cpu import native
from bmrm.formulas.run import cpu
from bmrm.pairs import Points, dot, exp, neighbours, sqrt, squared_distance, statistic, statistic_calls
from bmrm.reductions import local

compiled = pytest.mark.skipif(not native.can_compile(), reason="llvmlite is not installed")


@statistic
def density(x, y, h, total: "rows"):
    total[x.index] += exp(-squared_distance(x, y) / (2 * h * h))


@statistic
def distances(x, y, scale, count: "bins"):
    b = int(sqrt(squared_distance(x, y)) * scale)
    count[min(b, len(count) - 1)] += 1


@statistic
def both(x, y, n: int, apart, near: "rows", who: "rows", energy: "rows"):
    n += 1
    apart += 0.5 * (x.z - y.z) ** 2
    d = squared_distance(x, y)
    if d < near[x.index]:
        near[x.index], who[x.index] = d, y.index
    energy[x.index] += x.q * y.q / sqrt(d)


@statistic
def within(x, y, n: int, degree: "rows"):
    n += 1
    degree[x.index] += 1


@statistic
def product(x, y, out: "rows"):
    out[x.index] += dot(x, y) * len(y)


def points_of(n, d=3, seed=0, kind=np.float64):
    return np.random.default_rng(seed).random((n, d)).astype(kind)


def squares_of(x, y, box=None):
    apart = x[:, None].astype(np.float64) - y[None]
    if box is not None:
        apart -= box * np.rint(apart / box)
    found = np.zeros(apart.shape[:2])
    for f in range(apart.shape[2]):
        found += apart[:, :, f] ** 2
    return found


@compiled
@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_a_sum_of_each_x_is_that_of_numpy_in_float64(kind):
    x, y = points_of(700, kind=kind), points_of(500, seed=1, kind=kind)
    terms = np.exp(-squares_of(x, x) / 0.02)
    np.fill_diagonal(terms, 0.0)
    found = density(x, h=0.1, device="cpu").total
    assert found.dtype == np.float64
    np.testing.assert_allclose(found, terms.sum(axis=1), rtol=3e-7 if kind == np.float32 else 1e-13)
    other = np.exp(-squares_of(x, y) / 0.02).sum(axis=1)
    np.testing.assert_allclose(density(x, y, h=0.1).total, other, rtol=3e-7 if kind == np.float32 else 1e-13)


@compiled
@pytest.mark.parametrize("n", [0, 1, 2, 31, 33, 64, 65, 2100])
def test_each_unordered_pair_counts_once(n):
    x = points_of(n)
    i, j = np.triu_indices(n, 1)
    bins = np.minimum((np.sqrt(squares_of(x, x)[i, j]) * 50).astype(int), 79)
    for threads in (1, 2, 3):
        found = distances(x, scale=50.0, bins=80, threads=threads, device="cpu").count
        assert found.dtype == np.int64
        assert (found == np.bincount(bins, minlength=80)).all()
    assert (distances(x, scale=50.0, bins=80, ordered=True).count == 2 * found).all()


@compiled
def test_counts_are_those_of_the_histogram_of_distances_also_in_a_box():
    x, edges = points_of(500), np.linspace(0.0, 0.5, 33)
    for box in (None, 1.0, (0.0, 1.0, 2.0)):
        p = Points(x, box=box)
        found = distances(p, scale=64.0, bins=200).count
        expected = pairs.histogram(p, edges=edges, closed="left", images=None if box is None else "one")
        assert (found[:32] == expected.counts).all()


@compiled
def test_results_of_both_kinds_in_one_function():
    x, rng = points_of(200), np.random.default_rng(3)
    z, q = rng.random(200), rng.random(200)
    found = both(x, z=z, q=q)
    d2 = squares_of(x, x)
    np.fill_diagonal(d2, np.inf)
    assert found.n == 199 * 100
    np.testing.assert_allclose(found.apart, 0.25 * ((z[:, None] - z) ** 2).sum())
    assert (found.who == d2.argmin(axis=1)).all()
    assert (found.near == d2.min(axis=1)).all()
    np.testing.assert_allclose(found.energy, (q[:, None] * q / np.sqrt(d2)).sum(axis=1))
    for threads in (2, 3):
        again = both(x, z=z, q=q, threads=threads)
        assert all(
            np.asarray(a).tobytes() == np.asarray(b).tobytes() for a, b in zip(found, again, strict=True)
        )


@compiled
def test_of_equal_neighbours_the_first_one_counts():
    x = np.array([[0.0], [1.0], [1.0], [0.0], [2.0]])
    assert both(x, z=np.ones(5), q=np.ones(5)).who.tolist() == [3, 2, 1, 0, 1]


@compiled
@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize("box", [None, 1.0])
@pytest.mark.parametrize("d", [1, 3, 5])
def test_exactly_the_pairs_within_a_reach_count(kind, box, d):
    x = (points_of(300, d) * 8).round().astype(kind) / 8  # many distances equal the reach
    near = np.sqrt(squares_of(x, x, box)) <= 0.375
    np.fill_diagonal(near, False)
    found = within(Points(x, box=box), reach=0.375)
    assert found.n == near.sum() // 2
    assert (found.degree == near.sum(axis=1)).all()
    assert within(x, reach=np.inf).n == 300 * 299 // 2
    assert within(x, reach=0.0).n == (np.triu(squares_of(x, x), 1)[np.triu_indices(300, 1)] == 0).sum()


@compiled
@pytest.mark.parametrize("box", [None, 1.0])
@pytest.mark.parametrize("d", [1, 3])
@pytest.mark.parametrize("m", [None, 200])
def test_pairs_within_a_reach_that_are_listed_give_the_same_bits(monkeypatch, box, d, m):
    x = (points_of(300, d) * 16).round() / 16
    sets = [Points(x, box=box), *([] if m is None else [Points(x[:m], box=box)])]
    near = np.sqrt(squares_of(x, x[:m], box)) <= 0.1875
    np.fill_diagonal(near, near.diagonal() & (m is not None))
    z, price = (x[:, 0], x[:, 0]) if m is None else ((x[:, 0], x[:m, 0]), (x[:, 0], x[:m, 0]))
    calls = [
        lambda: within(*sets, reach=0.1875),
        lambda: both(*sets, z=z, q=z, reach=0.1875),
        lambda: distances(*sets, scale=40.0, bins=8, reach=0.1875),
        lambda: band_join(*sets, width=0.05, price=price, reach=0.1875),
    ]
    found = [call() for call in calls]
    monkeypatch.setattr(neighbours, "MIN_LISTED_PAIRS", 0)
    monkeypatch.setattr(neighbours, "MAX_LISTED_SHARE", 1.0)
    listed = [call() for call in calls]
    assert "those within it are listed" in within.explain(*sets, reach=0.1875)
    assert (listed[0].degree == near.sum(axis=1)).all()
    for one, other in zip(found[:3], listed[:3], strict=True):
        assert all(np.array(a).tobytes() == np.array(b).tobytes() for a, b in zip(one, other, strict=True))
    assert (found[3].found != listed[3].found).nnz == 0
    assert found[3].found.nnz == listed[3].found.nnz > 0


@compiled
def test_two_sets_have_numbers_of_their_own():
    x, y = points_of(40), points_of(30, seed=1)
    z, q = (x[:, 0], y[:, 0]), (x[:, 1], y[:, 1])
    found = both(x, y, z=z, q=q)
    assert found.n == 1200
    assert (found.who == squares_of(x, y).argmin(axis=1)).all()
    none = both(x, y[:0], z=(z[0], z[1][:0]), q=(q[0], q[1][:0]))
    assert none.n == 0
    assert (none.who == -1).all()
    assert np.isinf(none.near).all()
    np.testing.assert_allclose(product(x, y).out, 3 * (x @ y.T).sum(axis=1))


@statistic
def gram(x, y, gamma, K: float):
    K[x.index, y.index] = exp(-gamma * squared_distance(x, y))


@statistic
def band_join(x, y, width, found: float, degree: "rows"):
    if abs(x.price - y.price) <= width:
        found[x.index, y.index] = x.price - y.price
        degree[x.index] += 1


@compiled
@pytest.mark.parametrize("sizes", [(70, 50), (1, 1), (0, 3), (3, 0), (40, None)])
def test_a_result_of_each_pair_is_a_matrix_or_a_sparse_one(sizes):
    n, m = sizes
    sets = [points_of(n), *([] if m is None else [points_of(m, seed=1)])]
    a, b = sets[0], sets[-1]
    expected = np.exp(-2.0 * squares_of(a, b))
    price = [(each[:, 0] * 16).round() / 16 for each in sets]  # some differences are 0, and are stored
    difference = price[0][:, None] - price[-1]
    near = np.abs(difference) <= 0.125
    if m is None:
        np.fill_diagonal(expected, 0.0)
        np.fill_diagonal(near, False)
    np.testing.assert_allclose(gram(*sets, gamma=2.0).K, expected, rtol=1e-14)
    price = price[0] if m is None else tuple(price)
    for run in (band_join, band_join.python):
        found = run(*sets, width=0.125, price=price)
        assert found._fields == ("found", "degree")
        assert isinstance(found.found, scipy.sparse.csr_array)
        assert found.found.nnz == near.sum()
        assert found.found.has_sorted_indices
        assert (found.found.toarray() == np.where(near, difference, 0.0)).all()
        assert (found.degree == near.sum(axis=1)).all()


@compiled
@pytest.mark.parametrize("m", [None, 50])
def test_blocks_of_rows_are_those_of_the_whole(m):
    x, y = points_of(300), () if m is None else (points_of(m, seed=1),)
    price = x[:, 0] if m is None else (x[:, 0], y[0][:, 0])
    whole, sparse = gram(x, *y, gamma=2.0).K, band_join(x, *y, width=0.1, price=price)
    blocks = list(gram(x, *y, gamma=2.0, blocks="60 kB"))
    assert [rows.start for rows, _ in blocks][1:] == [rows.stop for rows, _ in blocks][:-1]
    assert len(blocks) > 2
    for rows, part in blocks:
        assert part.K.nbytes <= 60_000
        assert (whole[rows] == part.K).all()
    blocks = list(band_join(x, *y, width=0.1, price=price, blocks=10_000, threads=2))
    assert len(blocks) > 2
    for rows, part in blocks:
        assert (part.found != sparse.found[rows]).nnz == 0
        assert part.found.nnz == sparse.degree[rows].sum()
        assert (part.degree == sparse.degree[rows]).all()


@compiled
def test_long_rows_make_no_room_in_others(monkeypatch):
    monkeypatch.setattr(statistic_calls, "FILLED_BYTES", 1000)
    price = np.where(np.arange(200) < 3, np.linspace(0, 9, 200), 100 + 9 * np.arange(200.0))
    price[3:50] = 0.0
    found = band_join(points_of(200), width=1.0, price=price).found
    near = np.abs(price[:, None] - price) <= 1.0
    np.fill_diagonal(near, False)
    assert (found.toarray() == np.where(near, price[:, None] - price, 0)).all()
    assert found.nnz == near.sum()


@compiled
@pytest.mark.parametrize("d", [0, 2])
@pytest.mark.parametrize("sizes", [(0, None), (1, None), (2, None), (0, 3), (3, 0), (1, 3)])
def test_few_points_and_those_without_coordinates(sizes, d):
    sets = [np.ones((each, d)) for each in sizes if each is not None]
    each = sizes[0] - 1 if len(sets) == 1 else sizes[1]
    for reach in (None, 0.5):
        for run in (within, within.python):
            found = run(*sets, reach=reach)
            assert found.n == sizes[0] * each // (2 if len(sets) == 1 else 1)
            assert found.degree.tolist() == [each] * sizes[0]
    assert product(*sets).out.tolist() == [d * len(sets[0][0]) * each for _ in sets[0]]


@compiled
@pytest.mark.parametrize("room", [64, 100, 129, 10_000])
def test_counters_of_32_bits_are_emptied_before_they_overflow(monkeypatch, room):
    x, q = points_of(300), points_of(70, seed=1)
    expected = np.bincount(
        np.minimum(np.floor(np.sqrt(squares_of(x, q)) * 20.0).astype(int), 9).ravel(), minlength=10
    )
    monkeypatch.setattr(counters, "COUNTER_LIMIT", 13 * len(q) * room)
    find, rooms = cpu.find_counters, []
    monkeypatch.setattr(cpu, "find_counters", lambda *words: rooms.append(find(*words)) or rooms[-1])

    @statistic
    def sevens(x, y, scale, count: "bins", first):
        b = min(int(sqrt(squared_distance(x, y)) * scale), len(count) - 1)
        count[b] += 7
        if b % 2 == 0:
            count[b] += -6
        first += 1

    for threads in (1, 2):
        found = sevens(x, q, scale=20.0, bins=10, device="cpu", threads=threads)
        assert found.count.tolist() == [n * (1 if b % 2 == 0 else 7) for b, n in enumerate(expected)]
        assert found.first == 300 * 70
    assert rooms == [{"count": room}]


@compiled
@pytest.mark.parametrize("sign", [1, -1])
def test_counters_whose_sum_has_more_than_32_bits(sign):
    @statistic
    def steps(x, y, count: "bins"):
        count[int(min(abs(x[0] - y[0]), 1.0))] += 1048576

    @statistic
    def back(x, y, count: "bins"):
        count[int(min(abs(x[0] - y[0]), 1.0))] += -1048576

    x, q = points_of(20_000), np.ones((20, 3))
    found = (steps if sign > 0 else back)(x, q, bins=2, device="cpu", threads=1)
    assert found.count.tolist() == [sign * 20_000 * 20 * 1048576, 0]


@compiled
def test_numbers_without_a_bound_have_no_counters():
    @statistic
    def large(x, y, n: int, count: "bins"):
        count[min(int(squared_distance(x, y)), len(count) - 1)] += n

    x = points_of(100)
    found = large(x, n=2**40, bins=3, device="cpu").count
    assert found.sum() == 2**40 * 4950


@compiled
@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_real_numbers_of_all_sizes_become_whole_ones(kind):
    @statistic
    def whole(x, y, out: "rows"):
        out[x.index] += int(y[0])

    values = [0.0, -0.9, 1.5, -1.5, 2.0**31, -(2.0**40), 2.0**62, 2.0**63, -(2.0**63), 1e30, -1e30]
    for value in values:
        expected = max(-(2**63), min(2**63 - 1, int(kind(value))))
        found = whole(np.zeros((65, 1), kind), np.full((1, 1), value, kind), device="cpu").out
        assert (found == expected).all(), value


def shown(function):
    """Return whether a function of x and y is known to give the same for y and x."""
    return "a pair with exchanged points gives the same" in statistic(function).explain()


def apart(a, b):
    return abs(a[0] - b[0])


def test_symmetry_is_shown_on_the_tree():
    def scaled(x, y, w, out):
        out += w * x.q * y.q * exp(-squared_distance(x, y))

    def by_loops(x, y, out: "k"):
        total = 0.0
        odd = 1.0
        for f in range(len(x)):
            e = x[f] - y[f]
            total += e * e
            odd *= e * e
        if x.label == y.label and dot(x, y) > 0.0:
            out[min(int(total), len(out) - 1)] += odd

    def by_names(x, y, out):
        a, b = x.price, y.price
        out += abs(a - b) + max(a, b) + apart(x, y)

    for function in (scaled, by_loops, by_names):
        assert shown(function), function.__name__


def test_what_is_not_symmetric_is_found():
    def one_sided(x, y, out):
        out += x.q

    def by_sign(x, y, out):
        out += x[0] - y[0]

    def under_condition(x, y, out):
        if x.q < y.q:
            out += 1

    def by_branch(x, y, out):
        a = 1.0
        if x.q < 0:
            a = 2.0
        out += a

    def in_a_loop(x, y, out):
        total = 0.0
        for f in range(len(x)):
            total = 0.5 * total + x[f]
        out += total

    def in_bins(x, y, out: "k"):
        out[y.label] += 1

    def together(x, y, low, who):
        if squared_distance(x, y) < low:
            low, who = squared_distance(x, y), x.index  # noqa: F841

    for function in (one_sided, by_sign, under_condition, by_branch, in_a_loop, in_bins, together):
        assert not shown(function), function.__name__


@compiled
def test_a_function_that_is_not_symmetric_needs_a_word():
    @statistic
    def later(x, y, out):
        out += x.q

    x, q = points_of(5), np.arange(5.0)
    with pytest.raises(ReductionError, match=r"later, line \d+: .* expected ordered=True .* or False"):
        later(x, q=q)
    assert later(x, q=q, ordered=True).out == 40
    assert later(x, q=q, ordered=False).out == 0 * 4 + 1 * 3 + 2 * 2 + 3 * 1
    assert later(x, x, q=(q, q)).out == 50


def test_without_a_compiler_it_is_a_plain_loop(monkeypatch):
    monkeypatch.setattr(native, "can_compile", lambda: False)
    x = points_of(20)
    assert distances(x, scale=1.0, bins=2).count.sum() == 190
    with pytest.raises(
        BmrmError, match="density: found no compiler, and the plain Python loop would take about"
    ):
        density(points_of(100_000), h=1.0)


@compiled
def test_the_code_and_what_is_explained():
    x = points_of(50)
    assert "contract" not in distances.source("cpu", x, scale=1.0, bins=5)
    assert "__global__" in density.source("cuda", x, h=1.0)
    text = both.explain(x, z=x[:, 0], q=x[:, 0])
    assert "result of each row, sum" in text
    assert "predicted on the CPU" in text
    assert pickle.loads(pickle.dumps(density)) is density
    assert repr(both) == "<statistic both: n, apart, near, who, energy>"


def one_point(x):
    pass


def no_result(x, y, h):
    a = x[0] + h  # noqa: F841


def assigned(x, y, out: "rows"):
    out[x.index] = x[0]


def wrong_index(x, y, out: "rows"):
    out[y.index] += x[0]


def no_index(x, y, out: "rows"):
    out += x[0]


def bare_point(x, y, out):
    out += y + 1


def changed_point(x, y, out):
    y[0] = 1
    out += 1


def changed_mark(x, y, out):
    x.price = 1
    out += 1


def own_array(x, y, out):
    q = local(3)
    out += q[0]


def name_of_option(x, y, reach, out):
    out += reach


def name_of_mark(x, y, price, out):
    out += price * x.price


def stored(x, y, out):
    for _, v in y.stored():
        out += v


def of_pairs(x, y, found: float):
    found[x.index, y.index] += x[0] - y[0]


def twice(x, y, found: float):
    found[x.index, y.index] = x[0]
    if x[0] < y[0]:
        found[x.index, y.index] = y[0]


def in_a_loop(x, y, found: float):
    for f in range(len(x)):
        if x[f] < y[f]:
            found[x.index, y.index] = x[f]


def mixed(x, y, own: "rows", pairs_of_all):
    own[x.index], pairs_of_all = own[x.index] + 1, pairs_of_all + 1


@pytest.mark.parametrize(
    ("function", "text"),
    [
        (one_point, "found no second point"),
        (no_result, "found no result"),
        (assigned, "'out' is assigned, expected one that combines"),
        (wrong_index, r"'out' has its own numbers for each x, expected out\[x.index\]"),
        (no_index, r"'out' has its own numbers for each x, expected out\[x.index\]"),
        (bare_point, r"'y' is a point: read its coordinates, as y\[f\]"),
        (changed_point, "'y' is a point: it can only be read"),
        (changed_mark, "'x' is a point: it can only be read"),
        (own_array, r"local\(...\) is not available in a function of two points"),
        (name_of_option, "'reach' is an option of the call"),
        (name_of_mark, "'price' is an argument, and a number of each point"),
        (stored, "found 'stored'"),
        (of_pairs, "'found' has a number of each pair, expected one assignment, by ="),
        (twice, "'found' is assigned above, expected one place"),
        (in_a_loop, "found a result of each pair in a loop"),
    ],
)
def test_a_function_that_is_no_statistic_is_one_line(function, text):
    with pytest.raises(ReductionError, match=rf"^{function.__name__}, line \d+: .*{text}") as error:
        statistic(function)
    assert "\n" not in str(error.value)


@compiled
def test_bad_arguments_are_one_line():
    x, z = points_of(20), np.ones(20)
    many = statistic(mixed)
    with pytest.raises(ReductionError, match=r"mixed, line .*: found results of x and of all pairs"):
        many(x)
    for words, error, text in (
        ({"q": z}, ReductionError, "both: found no 'z', expected a number of each point"),
        ({"q": z, "z": z[:3]}, ReductionError, r"both: z: found shape \(3,\), expected \(20,\)"),
        ({"q": z, "z": z * np.nan}, DataError, "both: z: found nan for point 0, expected finite numbers"),
        ({"q": z, "z": z, "h": 1}, ReductionError, "both: found the argument 'h', expected one of d, q, z"),
        ({"q": z, "z": z, "reach": -1}, ParameterError, "both: reach: found -1, expected at least 0"),
        ({"q": z, "z": z, "ordered": 2}, ParameterError, "both: ordered: found 2, expected True or False"),
    ):
        with pytest.raises(error, match=text):
            both(x, **words)
    with pytest.raises(ReductionError, match=r"both: z: found one array for two sets, expected a tuple"):
        both(x, x, z=z, q=(z, z))
    with pytest.raises(ParameterError, match="ordered: found True with two sets"):
        both(x, x, z=(z, z), q=(z, z), ordered=True)
    with pytest.raises(
        ParameterError,
        match=r"density: ordered: found True, expected it only for results that all pairs share",
    ):
        density(x, h=1.0, ordered=True)
    with pytest.raises(ReductionError, match=r"density: h: found shape \(20,\), expected one number"):
        density(x, h=np.ones(20))
    large = np.zeros((1_000_000, 0))
    for run, text in (
        (lambda: gram(large, gamma=1.0), "GB for the matrix of gram, .* blocks='1 GB' gives it in blocks"),
        (lambda: gram(x, gamma=1.0, blocks="2 gb"), "gram: blocks: found '2 gb', expected bytes"),
        (lambda: gram(x, gamma=1.0, blocks=0), "blocks: found 0, expected bytes, or a size"),
        (lambda: gram(x, gamma=1.0, blocks=9), "gram: blocks: found 9 bytes, expected at least 160"),
        (lambda: density(x, h=1.0, blocks=9), "density: blocks: found no result of each pair"),
        (lambda: within(x, blocks=9), "within: blocks: found 'n', which all pairs share"),
    ):
        with pytest.raises((ParameterError, HostMemoryError), match=text):
            run()


@compiled
def test_an_index_outside_names_the_line_and_the_row():
    @statistic
    def outside(x, y, count: "bins"):
        count[int(10 * squared_distance(x, y))] += 1

    with pytest.raises(
        ReductionError, match=r"outside, line \d+: row 0: count: found the index \d+, expected 0 to 1"
    ):
        outside(points_of(50), bins=2)
