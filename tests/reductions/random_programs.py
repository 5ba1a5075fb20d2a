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
import pytest
import wrapping_python

from bmrm.errors import ReductionError
from bmrm.reductions import Reduction, exp, local, squared_distance

SCOPE = {"local": local, "exp": exp, "squared_distance": squared_distance}
HEAD = (
    'def row(x, p: "k", c: ("k", "d"), n: "k", w, v: int, total, low, high, bits, best: "k", who: "k", '
    'count: ("k", "d"), sums: "k", moved: ("k", "d"), least: ("k", 3), out, whole, g: ("rows", "k"), '
    'kept: ("rows", "k"), mine: ("rows", "k"), tally: ("rows", 3), soft: "rows", near: ("rows", "k"), '
    'which: ("rows", "k"), peak: ("rows",), sign: "rows"):'
)


class Writer:
    """Writes one function."""

    head, more = HEAD, ""
    """The first line of the row function, and its arguments that others get besides those of `helper`."""

    def __init__(self, seed: int, *, exact: bool) -> None:
        self.random, self.exact = random.Random(seed), exact
        self.lines: list[str] = []
        self.reals: list[str] = []
        self.wholes: list[str] = []
        self.counters: list[tuple[str, str]] = []
        self.names = self.open_loops = 0
        self.helpers: list[tuple[str, str]] = []
        """Functions that the row function may call: their names, and what they return."""
        self.in_helper = False

    def pick(self, options: list[str]) -> str:
        return self.random.choice(options)

    def index(self, size: str, depth: int = 1) -> str:
        """Return an integer from 0 to the size - 1."""
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
            options += self.calls("whole", depth)
            options += [f"n[{self.index('k', depth - 1)}]", f"({a} + {b})", f"({a} - {b})"]
            options += [f"({a} // {self.random.choice([-3, 2, 5])})"]
            options += [f"({a} % 7)", f"int({self.real(0)})", f"abs({a})", f"({a} & 6)", f"max({a}, {b})"]
            options += [f"({a} if {self.test(0)} else {b})", f"({a} ^ 5)", f"((1 << ({a} % 5)) | 1)", f"-{a}"]
        return self.pick(options)

    def real(self, depth: int = 2) -> str:
        options = [str(self.random.randint(-8, 8) / 4), "w", "x[0]"]
        options += self.reals
        if depth:
            options += self.calls("real", depth)
            options += [f"p[{self.index('k', depth - 1)}]", f"x[{self.index('d', depth - 1)}]"]
            if not self.in_helper:
                options += [f"{self.pick(['g', 'kept'])}[{self.index('k', depth - 1)}]"]
            options += [f"z[{self.whole(depth - 1)} % len(z)]"] * self.in_helper
            options += [f"c[{self.index('k', depth - 1)}, {self.index('d', depth - 1)}]"]
            a, b = self.real(depth - 1), self.real(depth - 1)
            options += [f"({a} + {b})", f"({a} - {b})", f"({a} * {self.real(0)})", f"max({a}, {b})"]
            options += [f"min({a}, {b}, w)", f"-{a}", f"abs({a})", f"({a} if {self.test(0)} else {b})"]
            options += [f"({self.real(0)}) ** 2", f"({a} + {self.whole(0)})"]
            if not self.exact:
                options += [f"({a} / (abs({b}) + 1))", f"exp(-abs({a}))", f"({a} // 0.75)"]
        return self.pick(options)

    def calls(self, kind: str, depth: int) -> list[str]:
        """Return calls of functions that return a kind of number."""
        names = [name for name, of in self.helpers if of == kind]
        if not names or self.random.random() < 0.5:
            return []
        row = self.pick(["p", "x", "c[0]", "c[-1]", f"c[{self.index('k', depth - 1)}]"])
        given = f"{row}, w, {self.whole(0)}, {self.real(depth - 1)}, {self.whole(depth - 1)}{self.more}"
        return [f"{self.pick(names)}(x, p, c, n, {given})"]

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
        kind = self.pick(self.kinds(depth))
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
            limited = f"max(min({self.real()}, 8.0), -8.0)"
            limited = f"int({limited}) * 0.5" if self.exact and self.open_loops else limited
            self.put(depth, f"{self.pick(self.reals)} = {limited}")
        elif kind == "array":
            self.put(depth, f"q[{self.index('k')}] = {self.real()}")
            self.put(depth, f"r[{self.index('3')}] += {self.whole(1)} % 11")
        elif kind == "own":
            self.own(depth)
        elif kind == "columns":
            self.columns(depth)
        elif kind == "wild":
            self.wild(depth)
            del self.reals[before[0] :], self.wholes[before[1] :]
        elif kind == "for":
            self.names += 1
            name, size = f"i{self.names}", self.pick(["k", "d", "3"])
            limit = {"k": "len(c)", "d": "len(x)"}.get(size, size)
            bounds = self.pick(
                [limit, f"{limit} - 1, -1, -1", f"0, {limit}, 2", f"{self.whole(0)} % {limit}"]
            )
            self.put(depth, f"for {name} in range({bounds}):")
            self.counters.append((name, size))
            self.turn(depth + 1)
            self.counters.pop()
            del self.reals[before[0] :], self.wholes[before[1] :]
        elif kind == "while":
            self.while_loop(depth)
            del self.reals[before[0] :], self.wholes[before[1] + 1 :]
        elif kind == "leave":
            self.put(depth, f"if {self.test()}:")
            self.put(depth + 1, self.pick(["break", "continue"]))
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

    def kinds(self, depth: int) -> list[str]:
        kinds = ["local", "local", "set", *["leave"] * 2 * (self.open_loops > 0)]
        if not self.in_helper:
            kinds += ["reduce", "reduce", "reduce", "reduce", "array", "columns", "own", "own"]
        return [*kinds, "for", "if", "for", "if", "while", "while"] if depth < 3 else kinds

    def turn(self, depth: int) -> None:
        """Write the statements of a loop."""
        self.open_loops += 1
        for _ in range(self.random.randint(1, 3)):
            self.statement(depth)
        self.open_loops -= 1

    def while_loop(self, depth: int) -> None:
        """Write a loop with some turns at most; what counts them is an integer after it."""
        self.names += 1
        left = f"w{self.names}"
        self.put(depth, f"{left} = {self.whole()} % 6")
        self.wholes.append(left)
        if self.random.random() < 0.3:
            self.put(depth, "while True:")
            self.put(depth + 1, f"if {left} < 1 or {self.test()}:")
            self.put(depth + 2, "break")
        else:
            self.put(depth, f"while {self.pick([left, f'{left} > 0 and {self.test()}', f'0 < {left}'])}:")
        self.put(depth + 1, f"{left} -= 1")
        self.turn(depth + 1)

    def helper(self) -> None:
        """Write a function that the row function, and functions after it, may call."""
        self.names += 1
        name, kind = f"helper{self.names}", self.pick(["real", "whole"])
        self.put(0, f"def {name}(x, p, c, n, z, w, v, a, b{self.more}):")
        self.in_helper, self.reals, self.wholes = True, ["a"], ["b"]
        for _ in range(self.random.randint(0, 3)):
            self.statement(1)
            if self.random.random() < 0.5:
                self.put(1, f"if {self.test()}:")
                self.returned(2, kind)
        self.returned(1, kind)
        self.in_helper, self.reals, self.wholes = False, [], []
        self.helpers.append((name, kind))

    def returned(self, depth: int, kind: str) -> None:
        real = f"max(min({self.real(1)}, 99.0), -99.0)"
        real = f"int({real}) * 0.25" if self.exact else real
        self.put(depth, f"return {real if kind == 'real' else f'{self.whole(1)} % 1000'}")

    def wild(self, depth: int) -> None:
        """Write what `WildWriter` adds."""

    def columns(self, depth: int) -> None:
        """Write a loop of sums into a row of a result that the data choose."""
        self.names += 1
        f, e = f"f{self.names}", f"e{self.names}"
        first = self.pick(["0", "1", "v % 2", "len(x) - 1"])
        self.put(depth, f"for {f} in range({first}, len(x)):")
        self.put(depth + 1, f"{e} = max(x[{f}] - c[{self.index('k')}, {f}], {self.real(0)})")
        self.put(depth + 1, f"moved[{self.index('k')}, {f}] += {self.real(1)} * {e}")
        if self.random.random() < 0.5:
            whole = self.whole(1)
            value = self.pick([whole, f"-{e} + {self.whole(0)}", f"abs({e}) * x[{f}]"])
            target = "count" if value == whole else "moved"
            self.put(depth + 1, f"{target}[{self.index('k')}, {f}] += {value}")

    def own(self, depth: int) -> None:
        """Write a result of which each row has its own."""
        k, third = self.index("k"), self.index("3")
        self.put(
            depth,
            self.pick(
                [
                    f"kept[{k}] = max(min({self.real()}, 8.0), -8.0)",
                    f"kept[{k}] = max(min({self.real()}, 8.0), -8.0)",
                    f"mine[{k}] += {self.real()}",
                    f"mine[{k}] = mine[{k}] - {self.real()}",
                    f"tally[{third}] += {self.whole()} % 11",
                    f"tally[{third}] -= {self.test(0)}",
                    f"soft += {self.real()}",
                    f"peak = max(peak, {self.real()})",
                    f"peak = max({self.whole(0)}, peak)",
                    f"sign = {self.test()}",
                ]
            ),
        )
        if self.random.random() < 0.4:
            self.names += 1
            value = f"held{self.names}"
            self.put(depth, f"{value} = {self.real()}")
            self.put(depth, f"if {value} < near[{k}]:")
            self.put(depth + 1, f"near[{k}], which[{k}] = {value}, {self.whole(1)}")

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
                    f"total -= {self.real()}",
                    f"total = total - {self.real(1)}",
                    f"sums[{k}] = {self.real()} + sums[{k}]",
                    f"count[{k}, {d}] -= {self.whole(1)}",
                    f"low = min({self.real()}, low)",
                    f"high = max({self.whole()}, high)",
                    f"bits = {self.whole(1)} & 1023 | bits",
                ]
            ),
        )
        if self.random.random() < 0.2:
            value = f"held{self.names}"
            self.put(depth, f"{value} = {self.real()}")
            self.put(depth, f"if {value} < best[{k}]:")
            self.put(depth + 1, f"best[{k}], who[{k}] = {value}, x.index")

    def text(self) -> str:
        for _ in range(self.random.choice([0, 0, 1, 2])):
            self.helper()
        self.lines.append(self.head)
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
        self.put(1, "kept[0] = kept[-1] + g[0]")
        self.put(1, "mine[0] += kept[0]")
        self.put(1, "tally[0] += 1")
        self.put(1, "soft += g[-1]")
        self.put(1, "if x[0] < near[0]:")
        self.put(2, "near[0], which[0] = x[0], x.index")
        self.put(1, "peak = max(peak, w)")
        self.put(1, "sign = x[0] > 0")
        return "\n".join(self.lines) + "\n"


class WildWriter(Writer):
    """Writes a function with integers that wrap, indices that only a condition keeps inside, truth
    values as numbers, and strides and counters near the end of 64 bits.

    Most indices are inside, by luck or by a condition. If one is not, the compiled function must say so.
    """

    head, more = HEAD.replace("v: int,", "v: int, far: int, edge: int, lucky: bool,"), ", far, edge, lucky"

    def __init__(self, seed: int) -> None:
        super().__init__(seed, exact=True)
        self.wrapping: list[str] = []

    def kinds(self, depth: int) -> list[str]:
        return [*super().kinds(depth), *["wild"] * 8 * (not self.in_helper)]

    def whole(self, depth: int = 2) -> str:
        if not depth or self.random.random() < 0.6:
            return super().whole(depth)
        a = self.pick([*self.wrapping, "far", "edge", super().whole(depth - 1)])
        by = self.pick(["far", "3", "v", "x.index", "4611686018427387904", "-9223372036854775807"])
        return self.pick(
            [f"({a} + {by})", f"({a} - {by})", f"({a} * {by})", f"abs({a} * {by})", f"-({a} + {by})",
             f"({a} << {self.random.randint(0, 63)})", f"({a} >> ({by} & 63))", f"({a} // -1)", f"({a} % -7)",
             self.truth(), f"({a} + {self.truth()})", f"int({self.pick(['x[0] * 1e300', 'w * 1e18', 'w'])})",
             f"min({a}, {by})", f"({a} if {self.test(0)} else {by})", f"(~{a} ^ {by})"]
        )  # fmt: skip

    def truth(self) -> str:
        """Return a sum of truth values."""
        one, other = self.test(0), self.test(0)
        return self.pick(
            [f"({one} + {other})", f"-{one}", f"({one} - {other})", f"({one} * 2 + lucky)", f"int({one})",
             f"abs({one} - {other})", f"max({one}, lucky)", f"({one} & {other})", "(lucky + 0)"]
        )  # fmt: skip

    def stray(self) -> str:
        """Return an integer that may be anything, the same for all rows or not."""
        j = self.pick(["0", "1", *(name for name, _ in self.counters)])
        return self.pick(
            ["far", "edge", "(far + v)", f"(far * v + {j})", f"({j} * far + 1)", f"(far + {j})", "(v - 2)",
             self.whole(1), "(len(x) - len(p))", f"min({self.whole(1)}, len(p) - 1)", *self.wrapping]
        )  # fmt: skip

    def element(self, index: str) -> tuple[str, str]:
        """Return an element with this index, and the size that it must stay below."""
        other = self.index("d", 0)
        return self.pick(
            [(f"p[{index}]", "len(p)"), (f"x[{index}]", "len(x)"), (f"q[{index}]", "len(p)"),
             (f"c[{index}, {other}]", "len(c)"), (f"c[{self.index('k', 0)}, {index}]", "len(x)"),
             (f"(n[{index}] * 0.25)", "len(n)"), (f"(r[{index}] * 0.25)", "3"),
             (f"g[{index}]", "len(g)"), (f"kept[{index}]", "len(kept)")]
        )  # fmt: skip

    def wild(self, depth: int) -> None:
        self.pick([self.count, self.guard, self.guard, self.guard, self.far_loop, self.place])(depth)

    def count(self, depth: int) -> None:
        """Write a counter that may wrap."""
        self.names += 1
        h, i = f"h{self.names}", f"i{self.names}"
        self.put(depth, f"{h} = {self.pick(['0', '1', '-1', 'v', 'far', 'x.index'])}")
        self.put(depth, f"for {i} in range({self.pick(['64', '70', '9', 'v % 40', '80 - len(x)'])}):")
        step = self.pick(
            [f"{h} + {h} + 1", f"{h} * 3 + {i}", f"{h} - far", f"{h} << 1", f"-{h} - 1", f"abs({h} * 5)",
             f"{h} * {h} - 1", f"{h} + (x[0] > 0) * edge", f"max({h}, 0) * 6 + 1", f"{h} % 1000 + edge"]
        )  # fmt: skip
        self.put(depth + 1, f"{h} = {step}")
        if depth == 1:
            self.wrapping.append(h)
        self.put(depth, f"high = max(high, {h})")
        if self.random.random() < 0.3:
            self.put(depth, f"sums[min({h}, len(sums) - 1)] += 1")
        elif self.random.random() < 0.5:
            self.put(depth, f"if {h} >= 0:")
            self.put(depth + 1, f"sums[min({h}, len(sums) - 1)] += p[min({h} + 1, len(p)) - 1]")
        self.put(depth, f"sums[{h} % len(sums)] += 1")

    def guard(self, depth: int) -> None:
        """Write an index that is inside only if a condition holds."""
        index, real = self.stray(), self.real(0)
        item, size = self.element(index)
        never = self.pick(["x[0] > 1e9", "w > 99.0", "v > 1000000", "x[0] < -1e9", "x.index < 0"])
        test = self.pick([f"0 <= {index} < {size}", f"0 <= {index} < {size}", never])
        if self.random.random() < 0.1:
            test = self.test(1)
        self.pick(
            [
                lambda: self.put(depth, f"total += {item} if {test} else {real}"),
                lambda: self.put(depth, f"total += {real} if not ({test}) else {item}"),
                lambda: self.put(depth, f"count[0, 0] += ({test}) and {item} > {real}"),
                lambda: self.put(depth, f"count[0, 0] += not ({test}) or {item} > {real}"),
                lambda: self.put(depth, f"count[0, 0] += ({test}) and 0.0 < {item} < {real}"),
                lambda: self.put(depth, f"count[0, 0] += {real} < -9.0 < {item}"),
                lambda: self.guarded_block(depth, test, item),
                lambda: self.guarded_loop(depth, index, test, item),
                lambda: self.put(depth, f"out = {item} + {real} if {test} else {item} if {test} else {real}"),
            ]
        )()

    def guarded_block(self, depth: int, test: str, item: str) -> None:
        self.names += 1
        self.put(depth, f"g{self.names} = 0.25")
        self.put(depth, f"if {test}:")
        self.put(depth + 1, f"g{self.names} = {item} + {self.real(0)}")
        if self.random.random() < 0.4:
            self.put(depth + 1, f"{self.pick(['total', 'sums[0]', 'moved[0, -1]'])} += {item}")
        self.put(depth, f"total += g{self.names}")

    def guarded_loop(self, depth: int, index: str, test: str, item: str) -> None:
        self.names += 1
        j = f"j{self.names}"
        self.put(depth, f"for {j} in range({self.pick(['0', 'v % 3', '-1'])}, {self.pick(['2', 'len(x)'])}):")
        self.put(depth + 1, f"total += {item} if {test} else 0.5")
        if self.random.random() < 0.5:
            self.put(depth + 1, f"if 0 <= {j} + ({index}) < len(p):")
            self.put(depth + 2, f"sums[{j} + ({index})] += p[{j} + ({index})]")

    def far_loop(self, depth: int) -> None:
        """Write a loop whose counter comes near the end of 64 bits."""
        self.names += 1
        i = f"i{self.names}"
        turns = self.pick(["v % 5", "3", "x.index % 4", "far % 6"])
        step = self.random.choice([2, 3, 7, 2**40, 2**61])
        self.put(
            depth,
            self.pick(
                [
                    f"for {i} in range(9223372036854775807 - ({turns}), 9223372036854775807, {step}):",
                    f"for {i} in range(-9223372036854775807 + ({turns}) * 3, -9223372036854775807, -{step}):",
                    f"for {i} in range(0, edge, 4611686018427387904):",
                    f"for {i} in range(edge - ({turns}), edge):",
                    f"for {i} in range(edge, {turns}, -3074457345618258603):",
                ]
            ),
        )
        self.counters.append((i, "far"))
        self.put(depth + 1, f"count[0, 0] += 1 + ({i} > {self.pick(['far', '0', 'edge - 3'])})")
        self.statement(depth + 1)
        self.counters.pop()

    def place(self, depth: int) -> None:
        """Write a result, or a local array, with an index that a remainder or a condition keeps inside."""
        index = self.stray()
        self.put(
            depth,
            self.pick(
                [
                    f"sums[({index}) % len(sums)] += 1",
                    f"count[({index}) % len(c), {self.index('d', 0)}] += {self.truth()}",
                    f"q[({index}) % len(p)] = {self.real(0)}",
                    f"kept[({index}) % len(p)] = {self.real(0)}",
                    f"mine[({index}) % len(mine)] += {self.real(0)}",
                    f"r[({self.test(0)}) + {self.test(0)}] += {self.whole(1)} % 11",
                    f"total += r[{self.test(0)}] * 0.25",
                    f"moved[({index}) & 0, ({index}) % len(x)] += {self.real(0)}",
                ]
            ),
        )


def random_reduction(seed: int, *, exact: bool) -> tuple[Reduction, str]:
    """Return a random reduction and its text."""
    return made(Writer(seed, exact=exact).text(), f"<random program {seed}>")


def wild_reduction(seed: int) -> tuple[Reduction, str]:
    """Return a random reduction with the kinds of `WildWriter`, and its text."""
    return made(WildWriter(seed).text(), f"<wild program {seed}>")


def made(text: str, name: str) -> tuple[Reduction, str]:
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
        "g": rng.integers(-8, 9, (rows, k)) / 4,
    }


def wild_arguments(seed: int, rows: int) -> tuple[np.ndarray, dict[str, Any]]:
    """Return rows and parameters for what `WildWriter` writes."""
    X, words = random_arguments(seed, rows)
    draw = random.Random(seed)
    far = [10**11, -1, 2**62, 2**63 - 1, -(2**63), 2**61 + 1, 3, 2**32, -(2**62) - 1]
    edge = [2**63 - 1, 2**63 - 2, 2**63 - 4]
    return X, words | {"far": draw.choice(far), "edge": draw.choice(edge), "lucky": draw.random() < 0.5}


NEUTRAL = {
    "total": 0.0, "low": np.inf, "high": -(2**63), "bits": 0, "best": np.inf, "who": -1, "count": 0,
    "sums": 0.0, "moved": 0.0, "least": np.inf, "out": 0, "whole": 0,
    "kept": 0.0, "mine": 0.0, "tally": 0, "soft": 0.0, "near": np.inf, "which": -1, "peak": -np.inf,
    "sign": False,
}  # fmt: skip


def expected(text: str, X: np.ndarray, words: dict[str, Any]) -> dict[str, np.ndarray] | None:
    """Return what a function gives by `wrapping_python`; None if a row has an index outside of an array."""
    k, d = words["c"].shape
    shapes = {"p": (k,), "c": (k, d), "n": (k,), "best": (k,), "who": (k,), "count": (k, d), "sums": (k,)}
    shapes |= {"moved": (k, d), "least": (k, 3), "tally": ("rows", 3)}
    shapes |= dict.fromkeys(("g", "kept", "mine", "near", "which"), ("rows", k))
    shapes |= dict.fromkeys(("out", "whole", "soft", "peak", "sign"), ("rows",))
    try:
        return wrapping_python.run(text, X, words, NEUTRAL, shapes, {"k": k, "d": d})
    except wrapping_python.OutsideError:
        return None


def compare_wild(seed: int, rows: int, run: Any) -> bool:
    """Compare a function with `wrapping_python`; return whether all indices were inside."""
    reduction, text = wild_reduction(seed)
    X, words = wild_arguments(seed, rows)
    theirs = expected(text, X, words)
    if theirs is None:
        with pytest.raises(ReductionError):
            run(reduction, X, words)
        return False
    mine = run(reduction, X, words)
    for name, value in zip(mine._fields, mine, strict=True):
        assert np.array_equal(np.asarray(value), theirs[name]), (seed, name, value, theirs[name], text)
    return True
