"""Random functions of two points, and a plain double loop that runs their text as it is.

Coordinates and marks are multiples of 1/4 with small absolute values, and only sums, differences, products
and comparisons occur. So no operation rounds, and every result is the same bit for bit in whatever order it
is computed.
"""

import linecache
import random

import numpy as np

from bmrm.pairs import Statistic, squared_distance

ARGUMENTS = (
    'p: "k", c: ("k", "d"), w, v: int, own: "rows", votes: ("rows", "k"), near: "rows", who: "rows", '
    'most: "rows", total, low, high, bits, count: "k", sums: ("k", 2), best, where'
)
NAMES = [
    each.split(":")[0].strip() for each in ARGUMENTS.replace('("k", "d")', "").split(", ") if ":" in each
]
NUMBERS = ("total", "low", "high", "bits", "best", "where")


class Point:
    """A point as the plain loop sees it."""

    def __init__(self, coordinates, index, marks):
        self.coordinates, self.index = coordinates, index
        vars(self).update(marks)

    def __len__(self):
        return len(self.coordinates)

    def __getitem__(self, f):
        return self.coordinates[f]


class Writer:
    def __init__(self, seed):
        self.random, self.lines = random.Random(seed), []
        self.reals, self.counters, self.names = [], [], 0

    def pick(self, options):
        return self.random.choice(options)

    def real(self, depth=2):
        point, f = self.pick("xy"), self.pick([*self.counters, "0", "len(x) - 1"])
        options = [f"{point}[{f}]", f"{point}.z", "w", str(self.random.randint(-8, 8) / 4), *self.reals]
        if depth:
            a, b = self.real(depth - 1), self.real(depth - 1)
            options += [f"({a} - {b})", f"({a} + {b})", f"{self.real(0)} * {self.real(0)}", f"abs({a})"]
            options += [f"min({a}, {b})", f"(x[{f}] - y[{f}]) ** 2", "squared_distance(x, y)"]
            options += [f"({a} if {self.test(0)} else {b})", f"p[{self.bin(0)}]", f"c[{self.bin(0)}, {f}]"]
        return self.pick(options)

    def whole(self, depth=1):
        options = ["x.index", "y.index", "x.label", "y.label", "v", "3", f"int({self.real(depth)})"]
        return self.pick(options)

    def bin(self, depth=1):
        a, b = self.whole(depth), self.whole(depth)
        return self.pick([f"({a} + {b}) % len(p)", f"min(max({a}, 0), 2)"])

    def test(self, depth=1):
        one = f"{self.real(depth)} {self.pick(['<', '<=', '>', '=='])} {self.real(0)}"
        other = f"x.label {self.pick(['==', '!=', '<'])} y.label"
        return self.pick([one, other, f"({one} and {other})", f"not {other}"][: None if depth else 2])

    def put(self, depth, text):
        self.lines.append("    " * depth + text)

    def combine(self, depth):
        k, e = self.bin(), self.real()
        texts = [
            f"own[x.index] += {e}",
            f"own[x.index] -= {e}",
            f"votes[x.index, {k}] += {self.whole()}",
            f"votes[x.index][{k}] += {self.test()}",
            f"most[x.index] = max(most[x.index], {e})",
            f"total += {e}",
            f"low = min(low, {e})",
            f"high = max({e}, high)",
            f"bits |= {self.whole()} & 255",
            f"count[{k}] += 1",
            f"count[{k}] += {self.whole()}",
            f"sums[{k}, 1] += {e}",
        ]
        self.put(depth, self.pick(texts))
        if self.random.random() < 0.3:
            self.names += 1
            self.put(depth, f"e{self.names} = {e}")
            self.put(depth, f"if e{self.names} < near[x.index]:")
            self.put(depth + 1, f"near[x.index], who[x.index] = e{self.names}, y.index")

    def statement(self, depth):
        kind = self.pick(["local", "combine", "combine", *["for", "if"] * (depth < 3)])
        known = len(self.reals)
        if kind == "local":
            self.names += 1
            self.put(depth, f"a{self.names} = {self.real()}")
            self.reals.append(f"a{self.names}")
        elif kind == "for":
            self.names += 1
            self.put(depth, f"for f{self.names} in range(len({self.pick('xy')})):")
            self.counters.append(f"f{self.names}")
            self.body(depth + 1)
            self.counters.pop()
            del self.reals[known:]
        elif kind == "if":
            self.put(depth, f"if {self.test()}:")
            self.body(depth + 1)
            del self.reals[known:]
        else:
            self.combine(depth)

    def body(self, depth):
        for _ in range(self.random.randint(1, 3)):
            self.statement(depth)

    def text(self):
        self.put(0, f"def pair(x, y, {ARGUMENTS}):")
        for _ in range(self.random.randint(2, 6)):
            self.statement(1)
        self.put(1, "own[x.index] += x.z")  # each result occurs
        self.put(1, "votes[x.index, 0] += y.label")
        self.put(1, "if y.z < near[x.index]:")
        self.put(2, "near[x.index], who[x.index] = y.z, y.index")
        self.put(1, "most[x.index] = max(most[x.index], y.z)")
        self.put(1, "total += w")
        self.put(1, "low = min(low, y.z)")
        self.put(1, "high = max(high, y.z)")
        self.put(1, "bits |= 1")
        self.put(1, "count[0] += v")
        self.put(1, "sums[0, 0] += p[0] + c[0, 0]")
        self.put(1, "if x.z - y.z < best:")
        self.put(2, "best, where = x.z - y.z, 7")
        return "\n".join(self.lines) + "\n"


def random_statistic(seed):
    """Return a random statistic, its text, and the same text as a function that returns its numbers."""
    text, name = Writer(seed).text(), f"<statistic {seed}>"
    linecache.cache[name] = (len(text), None, text.splitlines(True), name)
    scope = {"squared_distance": squared_distance}
    exec(compile(text, name, "exec"), scope)
    plain = {"squared_distance": lambda x, y: sum((x[f] - y[f]) ** 2 for f in range(len(x)))}
    exec(text + f"    return {', '.join(NUMBERS)}\n", plain)
    return Statistic(scope["pair"]), text, plain["pair"]


def quarters(rng, *shape):
    return rng.integers(-8, 9, shape) / 4


def random_call(seed, n, m=None):
    """Return points, their marks and the parameters of a call; m points y, or none."""
    rng, d = np.random.default_rng(seed), 1 + seed % 4
    sets = [quarters(rng, each, d) for each in (n, *([] if m is None else [m]))]
    marks = [{"z": quarters(rng, len(x)), "label": rng.integers(0, 4, len(x))} for x in sets]
    words = {"p": quarters(rng, 3), "c": quarters(rng, 3, d), "w": 0.75, "v": 5}
    return sets, marks, words


def double_loop(plain, sets, marks, words, ordered):
    """Run the text for each pair that counts; return the results by name."""
    n, k = len(sets[0]), len(words["p"])
    arrays = {"own": np.zeros(n), "votes": np.zeros((n, k), int), "near": np.full(n, np.inf)}
    arrays |= {"who": np.full(n, -1), "most": np.full(n, -np.inf)}
    shared = {"count": np.zeros(k, int), "sums": np.zeros((k, 2))}
    numbers = {"total": 0.0, "low": np.inf, "high": -np.inf, "bits": 0, "best": np.inf, "where": -1}
    points = [
        [Point(row, i, {each: values[i].item() for each, values in mark.items()}) for i, row in enumerate(x)]
        for x, mark in zip(sets, marks, strict=True)
    ]
    for x in points[0]:
        for y in points[-1]:
            if len(points) == 1 and x.index == y.index:
                continue
            both = len(points) == 2 or ordered or x.index < y.index
            given = {**numbers, **shared} if both else {**numbers, **{a: b.copy() for a, b in shared.items()}}
            back = plain(x, y, **words, **arrays, **given)
            if both:
                numbers = dict(zip(NUMBERS, back, strict=True))
    return arrays | shared | numbers
