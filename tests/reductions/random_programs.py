"""Random row functions: text that Python runs as it is, and that the compiler takes.

Rows and parameters are multiples of 1/4 with small absolute values, and only sums, differences, products and
comparisons occur. So no operation rounds, and every result is the same bit for bit in whatever order it is
computed. With functions and divisions, results agree up to rounding.
"""

from __future__ import annotations

import linecache
import random
from typing import Any

import numpy as np

from bmrm.reductions import Reduction, exp, local, squared_distance

SCOPE = {"local": local, "exp": exp, "squared_distance": squared_distance}
HEAD = (
    'def row(x, p: "k", c: ("k", "d"), n: "k", w, v: int, total, low, high, bits, best: "k", who: "k", '
    'count: ("k", "d"), sums: "k", moved: ("k", "d"), least: ("k", 3), out, whole):'
)


class Writer:
    """Writes one function."""

    def __init__(self, seed: int, *, exact: bool) -> None:
        self.random, self.exact = random.Random(seed), exact
        self.lines = [HEAD]
        self.reals: list[str] = []
        self.wholes: list[str] = []
        self.counters: list[tuple[str, str]] = []
        self.names = 0

    def pick(self, options: list[str]) -> str:
        return self.random.choice(options)

    def index(self, size: str, depth: int = 1) -> str:
        """Return a whole number from 0 to the size - 1."""
        limit = {"k": "len(p)", "d": "len(x)"}.get(size, size)
        options = [name for name, of in self.counters if of == size]
        options += ["0", "-1"]
        if depth:
            options += [f"{self.whole(depth - 1)} % {limit}"]
            options += [f"min(max({self.whole(depth - 1)}, 0), {limit} - 1)"]
        return self.pick(options)

    def whole(self, depth: int = 2) -> str:
        options = [str(self.random.randint(-3, 9)), "v", "x.index", "n[0]"]
        options += self.wholes + [name for name, _ in self.counters]
        if depth:
            a, b = self.whole(depth - 1), self.whole(depth - 1)
            options += [f"n[{self.index('k', depth - 1)}]", f"({a} + {b})", f"({a} - {b})"]
            options += [f"({a} // {self.random.choice([-3, 2, 5])})"]
            options += [f"({a} % 7)", f"int({self.real(0)})", f"abs({a})", f"({a} & 6)", f"max({a}, {b})"]
            options += [f"({a} if {self.test(0)} else {b})", f"({a} ^ 5)", f"((1 << ({a} % 5)) | 1)", f"-{a}"]
        return self.pick(options)

    def real(self, depth: int = 2) -> str:
        options = [str(self.random.randint(-8, 8) / 4), "w", "x[0]"]
        options += self.reals
        if depth:
            options += [f"p[{self.index('k', depth - 1)}]", f"x[{self.index('d', depth - 1)}]"]
            options += [f"c[{self.index('k', depth - 1)}, {self.index('d', depth - 1)}]"]
            a, b = self.real(depth - 1), self.real(depth - 1)
            options += [f"({a} + {b})", f"({a} - {b})", f"({a} * {self.real(0)})", f"max({a}, {b})"]
            options += [f"min({a}, {b}, w)", f"-{a}", f"abs({a})", f"({a} if {self.test(0)} else {b})"]
            options += [f"({self.real(0)}) ** 2", f"({a} + {self.whole(0)})"]
            if not self.exact:
                options += [f"({a} / (abs({b}) + 1))", f"exp(-abs({a}))", f"({a} // 0.75)"]
        return self.pick(options)

    def test(self, depth: int = 1) -> str:
        sign = self.pick(["<", "<=", ">", ">=", "==", "!="])
        one = self.pick(
            [f"{self.real(depth)} {sign} {self.real(0)}", f"{self.whole(depth)} {sign} {self.whole(0)}"]
        )
        if depth:
            word = self.pick(["and", "or"])
            return self.pick(
                [one, f"not {one}", f"({one} {word} {self.test(0)})", f"-1.0 < {self.real(0)} <= 1.5"]
            )
        return f"({one})"

    def put(self, depth: int, text: str) -> None:
        self.lines.append("    " * depth + text)

    def statement(self, depth: int) -> None:
        kinds = ["local", "local", "set", "reduce", "reduce", "reduce", "reduce", "array", "columns"]
        if depth < 3:
            kinds += ["for", "if", "for", "if"]
        kind = self.pick(kinds)
        before = len(self.reals), len(self.wholes)
        if kind == "local":
            self.names += 1
            if self.random.random() < 0.5:
                self.put(depth, f"a{self.names} = {self.real()}")
                self.reals.append(f"a{self.names}")
            else:
                self.put(depth, f"b{self.names} = {self.whole()} % 1000")
                self.wholes.append(f"b{self.names}")
        elif kind == "set" and self.reals:
            # Halves and limits, so that numbers do not grow from loop to loop.
            self.put(depth, f"{self.pick(self.reals)} = max(min({self.real()}, 8.0), -8.0)")
        elif kind == "array":
            self.put(depth, f"q[{self.index('k')}] = {self.real()}")
            self.put(depth, f"r[{self.index('3')}] += {self.whole(1)} % 11")
        elif kind == "columns":
            self.columns(depth)
        elif kind == "for":
            self.names += 1
            name, size = f"i{self.names}", self.pick(["k", "d", "3"])
            limit = {"k": "len(c)", "d": "len(x)"}.get(size, size)
            bounds = self.pick(
                [limit, f"{limit} - 1, -1, -1", f"0, {limit}, 2", f"{self.whole(0)} % {limit}"]
            )
            self.put(depth, f"for {name} in range({bounds}):")
            self.counters.append((name, size))
            for _ in range(self.random.randint(1, 3)):
                self.statement(depth + 1)
            self.counters.pop()
            del self.reals[before[0] :], self.wholes[before[1] :]
        elif kind == "if":
            self.put(depth, f"if {self.test()}:")
            for _ in range(self.random.randint(1, 2)):
                self.statement(depth + 1)
            del self.reals[before[0] :], self.wholes[before[1] :]
            if self.random.random() < 0.5:
                self.put(depth, "else:")
                self.statement(depth + 1)
                del self.reals[before[0] :], self.wholes[before[1] :]
        else:
            self.reduce(depth)

    def columns(self, depth: int) -> None:
        """Write a loop of sums into a row of a result that the data choose."""
        self.names += 1
        f, e = f"f{self.names}", f"e{self.names}"
        first = self.pick(["0", "1", "v % 2", "len(x) - 1"])
        self.put(depth, f"for {f} in range({first}, len(x)):")
        self.put(depth + 1, f"{e} = max(x[{f}] - c[{self.index('k')}, {f}], {self.real(0)})")
        self.put(depth + 1, f"moved[{self.index('k')}, {f}] += {self.real(1)} * {e}")
        if self.random.random() < 0.5:
            value = self.pick([self.whole(1), f"-{e} + {self.whole(0)}", f"abs({e}) * x[{f}]"])
            target = "count" if value.startswith("(") else "moved"
            self.put(depth + 1, f"{target}[{self.index('k')}, {f}] += {value}")

    def reduce(self, depth: int) -> None:
        k, d, third = self.index("k"), self.index("d"), self.index("3")
        self.put(
            depth,
            self.pick(
                [
                    f"total += {self.real()}",
                    f"low = min(low, {self.real()})",
                    f"high = max(high, {self.whole()})",
                    f"bits |= {self.whole(1)} & 1023",
                    f"count[{k}, {d}] += {self.whole(1)}",
                    f"count[{k}, {d}] += {self.test(0)}",
                    f"sums[{k}] += {self.real()}",
                    f"least[{k}, {third}] = min(least[{k}, {third}], {self.real(1)})",
                    f"out = {self.real()}",
                    f"whole = {self.whole()}",
                    f"sums[{k}] += squared_distance(x, c[{k}])",
                ]
            ),
        )
        if self.random.random() < 0.2:
            value = f"held{self.names}"
            self.put(depth, f"{value} = {self.real()}")
            self.put(depth, f"if {value} < best[{k}]:")
            self.put(depth + 1, f"best[{k}], who[{k}] = {value}, x.index")

    def text(self) -> str:
        self.put(1, "q = local('k')")
        self.put(1, "r = local(3)")
        for _ in range(self.random.randint(3, 7)):
            self.statement(1)
        # Each result occurs, whatever was drawn.
        self.put(1, "total += q[0] + r[1]")
        self.put(1, "low = min(low, x[0])")
        self.put(1, "high = max(high, v)")
        self.put(1, "bits |= 1")
        self.put(1, "if x[0] < best[0]:")
        self.put(2, "best[0], who[0] = x[0], x.index")
        self.put(1, "count[0, 0] += 1")
        self.put(1, "sums[-1] += w")
        self.put(1, "moved[0, 0] += w")
        self.put(1, "least[0, 0] = min(least[0, 0], w)")
        self.put(1, "out = q[-1]")
        self.put(1, "whole = r[2]")
        return "\n".join(self.lines) + "\n"


def random_reduction(seed: int, *, exact: bool) -> tuple[Reduction, str]:
    """Return a random reduction and its text."""
    text = Writer(seed, exact=exact).text()
    name = f"<random program {seed}>"
    linecache.cache[name] = (len(text), None, text.splitlines(True), name)
    scope = dict(SCOPE)
    exec(compile(text, name, "exec"), scope)
    return Reduction(scope["row"]), text


def random_arguments(seed: int, rows: int) -> tuple[np.ndarray, dict[str, Any]]:
    """Return rows and parameters for them."""
    rng = np.random.default_rng(seed)
    k, d = int(rng.integers(1, 5)), int(rng.integers(1, 6))
    return rng.integers(-8, 9, (rows, d)) / 4, {
        "p": rng.integers(-8, 9, k) / 4,
        "c": rng.integers(-8, 9, (k, d)) / 4,
        "n": rng.integers(-9, 10, k),
        "w": rng.integers(-8, 9, rows) / 4 if rng.random() < 0.5 else 0.75,
        "v": rng.integers(-5, 6, rows) if rng.random() < 0.5 else 3,
    }
