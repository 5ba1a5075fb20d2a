"""The table of the operators that combine a result over rows: all that is known of one is in its row.

An operator is associative and commutative, and its identity is the result of no rows: each lane, warp, thread
and part begins with it. Real numbers are combined in float64, integers in 64 bits.
"""

from __future__ import annotations

import ast
import types
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from bmrm.errors import ReductionError

LEAST_INT, GREATEST_INT = -(2**63), 2**63 - 1
"""What an integer may be."""


@dataclass(frozen=True, eq=False, kw_only=True)
class ReductionOperator:
    """An operator; what has no text for a type does not combine that type.

    Attributes
    ----------
    name : str
    about : str
        What a result of it is.
    identity : (float, int)
        For real and for integers.
    combine : function
        Combines two arrays of NumPy: what was there, and what is new.
    llvm_real, llvm_whole : tuple of str
        LLVM's instructions for ``{a}`` and ``{b}`` of type ``{type}``; the result is that of the last one.
        ``{0}`` is that of the first, and ``{bits}`` the type of a comparison.
    struct : str
        Name of the class that combines ``a`` and ``b`` in CUDA's text.
    cuda, cuda_whole : str
        Expression of any type, and that of integers if they differ; none if the class is one of
        ``src_common/device/operators.cuh``, which kernels of the estimators use too.
    signs : tuple of type
        The operators of Python by which it is written: ``out += e`` and ``out = out + e``.
    inverse : type, optional
        The operator of Python that means the same with the negative value.
    functions : tuple of function
        The functions by which it is written: ``out = min(out, e)``.
    order : {"", "lt", "gt"}
        Of operators that keep one of their values: how a better value compares with the one that was there.
        They skip NaN, and the result has the type of the rows.
    keeps_row : bool
        Whether it has a payload: other results that are kept with the best value, of equal ones the first.
    """

    name: str
    about: str
    identity: tuple[float, int]
    combine: Callable[[Any, Any], Any]
    llvm_real: tuple[str, ...] = ()
    llvm_whole: tuple[str, ...] = ()
    struct: str = ""
    cuda: str = ""
    cuda_whole: str = ""
    signs: tuple[type[ast.operator], ...] = ()
    inverse: type[ast.operator] | None = None
    functions: tuple[Callable[..., Any], ...] = ()
    order: str = ""
    keeps_row: bool = False

    @property
    def takes_real(self) -> bool:
        """Whether it combines real numbers."""
        return bool(self.llvm_real)

    @property
    def type(self) -> str:
        """The least type of a result."""
        return "int"

    def is_better(self, new: Any, old: Any) -> Any:
        """Return where new values are better than old ones, of an operator that has an order."""
        return new < old if self.order == "lt" else new > old


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class FunctionOperator(ReductionOperator):
    """An operator that is a function of two numbers: the compiler makes of it what other rows say as text.

    Whether it is associative and commutative, and has its identity, is the word of who wrote it. It can be
    called as the function.
    """

    function: types.FunctionType
    init: float

    @property
    def takes_real(self) -> bool:
        return self.type == "real"

    @property
    def type(self) -> str:
        return "real" if isinstance(self.init, float) else "int"

    def __repr__(self) -> str:
        return f"<operator {self.function.__name__}, of no rows {self.init}>"

    def __call__(self, a: Any, b: Any) -> Any:
        return self.function(a, b)


def operator_of(
    function: Callable[[Any, Any], Any],
    init: float,
    name: str = "",
    about: str = "",
    functions: tuple[Callable[..., Any], ...] = (),
) -> FunctionOperator:
    """Make an operator of a function; ``init`` is its identity, and says the type of its results."""
    if not isinstance(function, types.FunctionType):
        kind = type(function).__name__
        raise ReductionError(f"operator: found an object of type {kind}, expected a function defined by def")
    word = function.__name__
    return FunctionOperator(
        name=name or f"operator {word}",
        about=about or f"combined by {word}",
        identity=(float(init), 0 if isinstance(init, float) else init),
        combine=function,
        functions=functions,
        function=function,
        init=init,
    )


def row(
    *functions: Callable[..., Any], init: float, name: str, about: str
) -> Callable[[Callable[[Any, Any], Any]], FunctionOperator]:
    """Add a function of two numbers to the table; ``functions`` are others that mean the same."""

    def add(function: Callable[[Any, Any], Any]) -> FunctionOperator:
        made = OPERATORS[name] = operator_of(function, init, name, about, functions)
        return made

    return add


def _extremum(name: str, about: str, order: str, struct: str, **more: Any) -> ReductionOperator:
    """Return the row of an operator that keeps the least or the greatest value."""
    end = np.inf if order == "lt" else -np.inf
    select = "select {bits} {0}, {type} {b}, {type} {a}"
    return ReductionOperator(
        name=name,
        about=about,
        identity=(end, GREATEST_INT if order == "lt" else LEAST_INT),
        combine=lambda old, new: np.where(new < old if order == "lt" else new > old, new, old),
        llvm_real=(f"fcmp o{order} {{type}} {{b}}, {{a}}", select),
        llvm_whole=(f"icmp s{order} {{type}} {{b}}, {{a}}", select),
        struct=struct,
        order=order,
        **more,
    )


OPERATORS: dict[str, ReductionOperator] = {
    row.name: row
    for row in (
    ReductionOperator(
        name="sum", about="sum", identity=(0.0, 0), combine=np.add, signs=(ast.Add,), inverse=ast.Sub,
        llvm_real=("fadd {type} {a}, {b}",), llvm_whole=("add {type} {a}, {b}",),
        struct="Sum",
    ),
    ReductionOperator(
        name="product", about="product", identity=(1.0, 1), combine=np.multiply, signs=(ast.Mult,),
        llvm_real=("fmul {type} {a}, {b}",), llvm_whole=("mul {type} {a}, {b}",),
        struct="Product", cuda="a * b", cuda_whole="wrap_mul(a, b)",
    ),
    ReductionOperator(
        name="or", about="bitwise or", identity=(np.nan, 0), combine=np.bitwise_or, signs=(ast.BitOr,),
        llvm_whole=("or {type} {a}, {b}",), struct="Or",
    ),
    ReductionOperator(
        name="and", about="bitwise and", identity=(np.nan, -1), combine=np.bitwise_and, signs=(ast.BitAnd,),
        llvm_whole=("and {type} {a}, {b}",), struct="And",
    ),
    ReductionOperator(
        name="xor", about="bitwise exclusive or", identity=(np.nan, 0), combine=np.bitwise_xor,
        signs=(ast.BitXor,), llvm_whole=("xor {type} {a}, {b}",), struct="Xor", cuda_whole="a ^ b",
    ),
    _extremum("min", "minimum", "lt", "Least", functions=(min,)),
    _extremum("max", "maximum", "gt", "Greatest", functions=(max,)),
    _extremum("argmin", "minimum; ties go to the least row", "lt", "Least", keeps_row=True),
    _extremum("argmax", "maximum; ties go to the least row", "gt", "Greatest", keeps_row=True),
    )
}  # fmt: skip
"""The operators by name; `functions.py` adds those that are written in Python."""


def find_sign(sign: ast.operator) -> tuple[ReductionOperator, bool] | None:
    """Return the operator that is written by a sign of Python, and whether of the negative value."""
    for row in OPERATORS.values():
        if type(sign) in row.signs:
            return row, False
        if type(sign) is row.inverse:
            return row, True
    return None


def find_function(function: object) -> ReductionOperator | None:
    """Return the operator that is written by a function, if it is not itself one."""
    if isinstance(function, ReductionOperator):
        return function
    return next((row for row in OPERATORS.values() if any(function is f for f in row.functions)), None)


def find_extremum(order: str, keeps_row: bool) -> ReductionOperator:
    """Return the operator that keeps the best value, with or without a payload."""
    return next(r for r in OPERATORS.values() if (r.order, r.keeps_row) == (order, keeps_row))


def sign_text(sign: ast.operator) -> str:
    """Return a sign as it is written."""
    return ast.unparse(ast.BinOp(ast.Name("a"), sign, ast.Name("b"))).split()[1]


def all_signs() -> str:
    """Return the signs by which results are written, for messages."""
    *most, last = (
        f"{sign_text(sign())}="
        for row in OPERATORS.values()
        for sign in (*row.signs, *([row.inverse] if row.inverse else []))
    )
    return f"{', '.join(most)} or {last}"
