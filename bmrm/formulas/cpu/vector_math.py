"""exp and log of all lanes at once, as LLVM text: the C library would be called lane by lane.

exp: x = n ln 2 + r with |r| <= ln(2)/2, where the product of n and the leading part of ln 2 is exact. Then
Taylor's polynomial of r, and the factor 2^n in two halves, so that results below the smallest normal number
are right too.

log: x = 2^e m with m from sqrt(1/2) to sqrt(2); log m = 2 artanh s with s = (m - 1) / (m + 1), by its series.

The tests bound the error by 2 units in the last place.

References
----------
W. J. Cody and W. Waite, Software Manual for the Elementary Functions, 1980, chapters 5 and 6.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from bmrm.formulas.cpu.llvm_text import Writer


class Format(NamedTuple):
    """A floating-point format, and the constants that suit it."""

    integer: str
    mantissa_bits: int
    bias: int
    ln2_high: float
    """Leading part of ln 2, with so few bits that products with exponents are exact."""
    ln2_low: float
    exp_range: tuple[float, float]
    """Beyond these, exp is 0 or infinity."""
    exp_terms: int
    log_terms: int
    smallest_normal: float
    up: int
    """Power of two that makes smaller numbers normal."""


FORMATS = {
    "double": Format(
        "i64", 52, 1023, float.fromhex("0x1.62e42feep-1"), float.fromhex("0x1.a39ef35793c76p-33"),
        (-746.0, 710.0), 13, 10, 2.0**-1022, 54,
    ),
    "float": Format(
        "i32", 23, 127, 0.693359375, -2.12194440054690583e-4, (-104.0, 89.0), 7, 5, 2.0**-126, 25
    ),
}  # fmt: skip


class VectorMath:
    """Prints functions of vectors of a printer's real numbers."""

    def __init__(self, printer: Writer) -> None:
        self.printer, self.W = printer, printer.W
        self.format = FORMATS[printer.real]
        self.real = f"<{self.W} x {printer.real}>"
        self.whole = f"<{self.W} x {self.format.integer}>"
        self.bits = f"<{self.W} x i1>"

    def number(self, value: float) -> str:
        return self.printer.splat_real(value, True)

    def integer(self, value: int) -> str:
        return f"splat ({self.format.integer} {value})"

    def real_op(self, op: str, a: str, b: str) -> str:
        return self.printer.new(f"{op} contract {self.real} {a}, {b}")

    def choose(self, test: str, a: str, b: str, kind: str | None = None) -> str:
        kind = kind or self.real
        return self.printer.new(f"select {self.bits} {test}, {kind} {a}, {kind} {b}")

    def test(self, sign: str, a: str, b: str) -> str:
        return self.printer.new(f"fcmp {sign} {self.real} {a}, {b}")

    def horner(self, x: str, coefficients: list[float]) -> str:
        """Evaluate a polynomial, the highest coefficient first."""
        found = self.number(coefficients[0])
        for each in coefficients[1:]:
            found = self.real_op("fadd", self.real_op("fmul", found, x), self.number(each))
        return found

    def power_of_two(self, exponent: str) -> str:
        printer, format_ = self.printer, self.format
        biased = printer.new(f"add {self.whole} {exponent}, {self.integer(format_.bias)}")
        shifted = printer.new(f"shl {self.whole} {biased}, {self.integer(format_.mantissa_bits)}")
        return printer.new(f"bitcast {self.whole} {shifted} to {self.real}")

    def exp(self, x: str) -> str:
        printer, format_ = self.printer, self.format
        low, high = format_.exp_range
        inside = self.choose(self.test("ogt", x, self.number(high)), self.number(high), x)
        inside = self.choose(self.test("olt", inside, self.number(low)), self.number(low), inside)
        nan = self.test("uno", x, x)
        inside = self.choose(nan, self.number(0.0), inside)
        name = f"llvm.roundeven.v{self.W}{'f64' if printer.real == 'double' else 'f32'}"
        printer.need(f"declare {self.real} @{name}({self.real})")
        scaled = printer.new(f"fmul {self.real} {inside}, {self.number(1 / math.log(2))}")
        n = printer.new(f"call {self.real} @{name}({self.real} {scaled})")
        r = self.real_op("fsub", inside, self.real_op("fmul", n, self.number(format_.ln2_high)))
        r = self.real_op("fsub", r, self.real_op("fmul", n, self.number(format_.ln2_low)))
        p = self.horner(r, [1 / math.factorial(k) for k in range(format_.exp_terms, -1, -1)])
        whole = printer.new(f"fptosi {self.real} {n} to {self.whole}")
        half = printer.new(f"ashr {self.whole} {whole}, {self.integer(1)}")
        rest = printer.new(f"sub {self.whole} {whole}, {half}")
        found = printer.new(f"fmul {self.real} {p}, {self.power_of_two(half)}")
        found = printer.new(f"fmul {self.real} {found}, {self.power_of_two(rest)}")
        return self.choose(nan, x, found)

    def log(self, x: str) -> str:
        printer, format_ = self.printer, self.format
        small = self.test("olt", x, self.number(format_.smallest_normal))
        raised = printer.new(f"fmul {self.real} {x}, {self.number(2.0**format_.up)}")
        normal = self.choose(small, raised, x)
        bits = printer.new(f"bitcast {self.real} {normal} to {self.whole}")
        exponent = printer.new(f"lshr {self.whole} {bits}, {self.integer(format_.mantissa_bits)}")
        exponent = printer.new(f"sub {self.whole} {exponent}, {self.integer(format_.bias - 1)}")
        lowered = printer.new(f"sub {self.whole} {exponent}, {self.integer(format_.up)}")
        exponent = self.choose(small, lowered, exponent, self.whole)
        mantissa = printer.new(f"and {self.whole} {bits}, {self.integer((1 << format_.mantissa_bits) - 1)}")
        half = (format_.bias - 1) << format_.mantissa_bits
        mantissa = printer.new(f"or {self.whole} {mantissa}, {self.integer(half)}")
        m = printer.new(f"bitcast {self.whole} {mantissa} to {self.real}")
        below = self.test("olt", m, self.number(math.sqrt(0.5)))
        m = self.choose(below, self.real_op("fadd", m, m), m)
        less = printer.new(f"sub {self.whole} {exponent}, {self.integer(1)}")
        exponent = self.choose(below, less, exponent, self.whole)
        e = printer.new(f"sitofp {self.whole} {exponent} to {self.real}")
        f = printer.new(f"fsub {self.real} {m}, {self.number(1.0)}")
        s = printer.new(f"fdiv {self.real} {f}, {printer.new(f'fadd {self.real} {m}, {self.number(1.0)}')}")
        z = printer.new(f"fmul {self.real} {s}, {s}")
        series = self.horner(z, [2 / (2 * k + 1) for k in range(format_.log_terms, 0, -1)])
        tail = self.real_op("fmul", self.real_op("fmul", series, z), s)
        tail = self.real_op("fadd", tail, self.real_op("fmul", e, self.number(format_.ln2_low)))
        found = printer.new(f"fadd {self.real} {printer.new(f'fadd {self.real} {s}, {s}')}, {tail}")
        found = self.real_op("fadd", self.real_op("fmul", e, self.number(format_.ln2_high)), found)
        infinite = self.test("oeq", x, self.number(math.inf))
        found = self.choose(infinite, x, found)
        found = self.choose(self.test("oeq", x, self.number(0.0)), self.number(-math.inf), found)
        return self.choose(self.test("ult", x, self.number(0.0)), self.number(math.nan), found)
