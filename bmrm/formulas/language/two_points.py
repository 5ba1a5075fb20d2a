"""Lowering of a function of two points to a row function: the second point is a row of a parameter.

A statistic is written for a point x and a point y. Its row function has x as its row, and visits all y:

    @statistic
    def density(x, y, h, total: "rows"):
        k = exp(-squared_distance(x, y) / h)
        total[x.index] += x.mass * y.mass * k

    def density(x, y, h, total: "rows"):
        for j in range(len(y)):
            k = exp(-squared_distance(x, y[j]) / h)
            total += x.mass * y.mass[j] * k

So the front end, all that is found out about a row function, both printers, the plain loop and the runners
serve statistics as they are. Lines stay those of the author. How a result is written says its kind:
``[x.index]`` has a place for each x, which the row keeps; all others are shared by all pairs.

Of one set of points each unordered pair counts once for results that all share, from the point x with the
smaller index. A result of each x has all y other than x.
"""

from __future__ import annotations

import ast
import copy
import functools
import re
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

from bmrm.errors import ReductionError
from bmrm.formulas.language.expressions import END, FIRST
from bmrm.formulas.language.function_table import KNOWN
from bmrm.formulas.language.functions import rint, squared_distance
from bmrm.formulas.language.source import (
    FunctionSource,
    find_roles,
    match_extremum,
    pairs_of,
    read_arguments,
    read_definition,
    target_name,
)
from bmrm.formulas.language.tree import Size

OPTIONS = ("blocks", "device", "ordered", "reach", "threads")
"""Names of the options of a call, which no argument may have."""

AT = ".y"
"""The counter of the loop over y, which no user can write."""

NEAR_AT = ".near"
"""The counter of the loop over the y near an x."""

NEAR, NEAR_FIRST, NEAR_END = "points near each x", "first point near", "end of the points near"
"""Parameters of functions that visit lists: the y near all x, those of one x by index, and where they are."""

BOX, PERIOD, REACH = "box of the points", "period of the points", "squared reach"
"""Parameters that only lowered functions have: lengths, 0 for open axes; these or infinity; a bound."""

N = TypeVar("N", bound=ast.AST)


class PairRule(NamedTuple):
    """Which pairs a lowered function visits, and how it measures them.

    Attributes
    ----------
    pairs : {"all", "other", "once"}
        All, of two sets; all but a point with itself; or of each unordered pair the one with x before y.
    boxed : bool
        Whether `squared_distance` is that of the nearest images in a periodic box.
    within : bool
        Whether only pairs within a reach count.
    listed : bool
        Whether a call lists the pairs that count, so that no distance is needed to find them.
    fills : bool
        Whether sparse results of each pair are written, for which there is room; else they are counted.
    """

    pairs: str = "other"
    boxed: bool = False
    within: bool = False
    listed: bool = False
    fills: bool = False


class PairSource(NamedTuple):
    """A lowered function, and what a call gives it.

    Attributes
    ----------
    source : FunctionSource
    y : str
        Name of the second point.
    marks : dict of str to tuple of str
        Names of the numbers of each point, with the parameters that have them: ``x.NAME`` and ``y.NAME``.
    shared : tuple of str
        Results that all pairs share.
    own : tuple of str
        Results of each x.
    full, sparse : tuple of str
        Results of each pair: of all, and of those under a condition. For the latter a row counts its pairs,
        or has their values, and their y in the result `columns_of`; there is room for `most_of` pairs.
    """

    source: FunctionSource
    y: str
    marks: dict[str, tuple[str, ...]]
    shared: tuple[str, ...]
    own: tuple[str, ...]
    full: tuple[str, ...]
    sparse: tuple[str, ...]


def columns_of(name: str) -> str:
    """Return the result with the y of a sparse result of each pair."""
    return f"columns_of_{name}"


def most_of(name: str) -> str:
    """Return the size of a row of a sparse result of each pair."""
    return f"most_of_{name}"


def periodic_distance(x: Any, y: Any, box: Any, period: Any) -> Any:
    """Return the squared distance of x and the nearest image of y; an open axis has the period infinity."""
    total = 0.0
    for f in range(len(x)):
        apart = x[f] - y[f]
        apart -= box[f] * rint(apart / period[f])
        total += apart * apart
    return total


def lower(function: Callable[..., Any], rule: PairRule) -> PairSource:
    """Read a function of two points, and lower it to a row function.

    Raises
    ------
    ReductionError
        If it is not one that can be a statistic.
    """
    source = read_definition(function, "statistic")
    try:
        return _lower(source, rule)
    except RecursionError:
        raise ReductionError(
            f"{source.name}: found code nested too deeply, expected shorter expressions"
        ) from None


def _lower(source: FunctionSource, rule: PairRule) -> PairSource:
    read_arguments(source, OPTIONS)
    if not source.names or source.dims[source.names[0]] not in (None, (source.width,)):
        source.fail(source.tree, "found no second point, expected two points before the other arguments")
    y = source.names[0]
    source.dims[y], source.is_of_points = (f"{y}.rows", source.width), True
    source.reworded = functools.partial(_as_written, y)
    source.may_be_empty = (f"{y}.rows", source.width)
    source.words |= {
        "__range": range,
        "__len": len,
        "__min": min,
        "__squared_distance": squared_distance,
        "__in_box": periodic_distance,
    }
    reader = _Lowering(source, y, rule)
    reader.find_pair_results()
    body = reader.lowered([each for each in source.tree.body if not _is_bare_return(each)])
    for name in sorted(reader.marks):
        if name in source.roles:
            source.fail(source.tree, f"{name!r} is an argument, and a number of each point; rename one")
        _add_parameters(source, reader, name)
    if rule.boxed:
        _add_parameter(source, BOX, (source.width,))
        _add_parameter(source, PERIOD, (source.width,))
    if rule.within:
        _add_parameter(source, REACH, ())
    if rule.listed:
        _add_parameter(source, NEAR, (NEAR,))
        source.may_be_empty += (NEAR,)
        for name in (NEAR_FIRST, NEAR_END):
            _add_parameter(source, name, (), of_x=True)
    source.tree.body = body
    find_roles(source)
    written = [name for name in source.names if source.roles[name] != "parameter"]
    for name in written:
        if source.roles[name] == "output" and name not in reader.written_of_pairs:
            source.fail(
                reader.lines.get(name, 1),
                f"{name!r} is assigned, expected one that combines what all pairs give, as {name} += ...",
            )
    own = tuple(name for name in written if name in source.axes)
    shared = tuple(name for name in written if name not in source.axes)
    source.tree.body = [*reader.starts(), *reader.loops(body, bool(own), set(shared))]
    vars(source).pop("own", None)  # there is a counter now
    marks = {name: tuple(sides) for name, sides in reader.marks.items()}
    return PairSource(source, y, marks, shared, own, tuple(reader.full), tuple(reader.sparse))


def _as_written(y: str, text: str) -> str:
    """Return a message in the words of the function that was lowered.

    Examples
    --------
    >>> _as_written("y", "'max(y.mass[.y], y[.y, 0]).z' is not available in a row function, nor is .y")
    "'max(y.mass, y[0]).z' is not available in a function of two points, nor is y.index"
    """
    point, at = re.escape(y), re.escape(AT)
    text = re.sub(rf"\b({point}(\.\w+)?)\[{at}\]", r"\1", text)
    text = re.sub(rf"\b{point}\[{at}, ", f"{y}[", text)
    text = re.sub(rf"(?<!\w){at}\b", f"{y}.index", text)
    text = text.replace("a row function", "a function of two points").replace(
        "takes the row", "takes the point"
    )
    return re.sub(r"\bthe row function\b", "the function", text)


def _is_bare_return(node: ast.stmt) -> bool:
    return isinstance(node, ast.Return) and node.value is None


def _add_parameters(source: FunctionSource, reader: _Lowering, name: str) -> None:
    """Make the numbers of each point parameters: of x, of which each row has one; and of all y."""
    for each in reader.marks[name]:
        of_x = each == f"{source.row}.{name}"
        _add_parameter(source, each, () if of_x else (f"{reader.y}.rows",), of_x=of_x)


def _add_parameter(source: FunctionSource, name: str, dims: tuple[Size, ...], *, of_x: bool = False) -> None:
    source.names.append(name)
    source.roles[name], source.dims[name] = "parameter", dims
    if of_x:
        source.axes[name] = (source.row,)


class _Lowering(ast.NodeTransformer):
    """Replaces what a function says of its two points by what a row function says."""

    def __init__(self, source: FunctionSource, y: str, rule: PairRule) -> None:
        self.source, self.x, self.y, self.rule = source, source.row, y, rule
        self.marks: dict[str, dict[str, None]] = {}
        self.lines: dict[str, ast.AST] = {}
        self.full: list[str] = []
        self.sparse: list[str] = []
        self.written_of_pairs: set[str] = set()

    # --- results of each pair

    def find_pair_results(self) -> None:
        """Find the results of each pair: those under a condition are sparse."""
        source = self.source
        for node in ast.walk(source.tree):
            name = self.pair_result(node)
            if name is None:
                continue
            if name in (*self.full, *self.sparse):
                source.fail(node, f"{name!r} is assigned above, expected one place where a pair is")
            is_full = node in source.tree.body
            (self.full if is_full else self.sparse).append(name)
            source.types.pop(name, None)
            source.axes[name] = (source.row,)
            if is_full or self.rule.fills:
                self.written_of_pairs.add(name)
            source.dims[name] = (f"{self.y}.rows",) if is_full else (most_of(name),) * self.rule.fills
            if not is_full and self.rule.fills:
                columns = columns_of(name)
                source.names.append(columns)
                source.roles[columns], source.axes[columns] = "parameter", (source.row,)
                source.dims[columns] = (most_of(name),)
                self.written_of_pairs.add(columns)
        for loop in ast.walk(source.tree):
            if isinstance(loop, (ast.For, ast.While)) and any(map(self.pair_result, ast.walk(loop))):
                source.fail(loop, "found a result of each pair in a loop, expected it after the loop")

    def pair_result(self, node: ast.AST) -> str | None:
        """Return the name of a result of each pair that a statement assigns."""
        if not (isinstance(node, ast.Assign) and len(node.targets) == 1):
            return None
        target = node.targets[0]
        if not (isinstance(target, ast.Subscript) and isinstance(target.value, ast.Name)):
            return None
        both = isinstance(target.slice, ast.Tuple) and ast.unparse(target.slice).strip("()")
        is_own = both == f"{self.x}.index, {self.y}.index" and target.value.id in self.source.roles
        return target.value.id if is_own else None

    def starts(self) -> list[ast.stmt]:
        """Return statements before the loops: no pair is written yet."""
        if not self.rule.fills:
            return []
        zero = [ast.Assign([ast.Name(f".{name}", ast.Store())], ast.Constant(0)) for name in self.sparse]
        return [_placed(each, self.source.tree) for each in zero]

    def lowered(self, body: list[ast.stmt]) -> list[ast.stmt]:
        """Return statements as a row function has them."""
        found: list[ast.stmt] = []
        for statement in body:
            made = self.visit(statement)
            found += made if isinstance(made, list) else [made]
        return found

    def visit_Assign(self, node: ast.Assign) -> ast.AST | list[ast.stmt]:
        name = self.pair_result(node)
        if name is None:
            return self.generic_visit(node)
        if name in self.full:
            return _placed(_assigned(name, ast.Name(AT, ast.Load()), self.visit(node.value)), node)
        if not self.rule.fills:
            return _placed(ast.AugAssign(ast.Name(name, ast.Store()), ast.Add(), ast.Constant(1)), node)
        at, count = ast.Name(f".{name}", ast.Load()), ast.Name(f".{name}", ast.Store())
        return [
            _placed(each, node)
            for each in (
                _assigned(name, at, self.visit(node.value)),
                _assigned(columns_of(name), at, ast.Name(AT, ast.Load())),
                ast.AugAssign(count, ast.Add(), ast.Constant(1)),
            )
        ]

    # --- loops

    def loops(self, body: list[ast.stmt], has_own: bool, shared: set[str]) -> list[ast.stmt]:
        """Return the loops over y: of one set before, among and after the rows that run side by side.

        Only those meet themselves, so only there a condition costs time.
        """
        rule, count = self.rule, _called("len", ast.Name(self.y, ast.Load()))
        only_later = rule.pairs == "once" and not has_own
        if rule.listed:
            if rule.pairs == "once":
                later = [_Once(self, shared, drop=False).visit(each) for each in body]
                body = [ast.If(self.compared(ast.Gt()), body, [])] if only_later else later
            return [self.near_loop([_placed(each, self.source.tree) for each in body])]
        if rule.within:
            near = ast.Compare(self.distance(body[0]), [ast.Lt()], [ast.Name(REACH, ast.Load())])
            body = [_placed(ast.If(near, body, []), body[0])]
        if rule.pairs == "all":
            return [self.loop(body, count)]
        first, end = (ast.Attribute(ast.Name(self.x, ast.Load()), name, ast.Load()) for name in (FIRST, END))
        before, among = body, body
        if rule.pairs == "once" and has_own:
            before, among = (
                [_Once(self, shared, drop).visit(each) for each in copy.deepcopy(body)]
                for drop in (True, False)
            )
        test = self.compared(ast.Gt() if only_later else ast.NotEq())
        return [
            *([] if only_later else [self.loop(before, _called("min", first, count))]),
            self.loop([_placed(ast.If(test, among, []), body[0])], first, _called("min", end, count)),
            self.loop(body, end, count),
        ]

    def loop(self, body: list[ast.stmt], *bounds: ast.expr) -> ast.stmt:
        """Return a loop over some y."""
        made = ast.For(ast.Name(AT, ast.Store()), _called("range", *bounds), body, [])
        return _placed(copy.deepcopy(made), self.source.tree)

    def near_loop(self, body: list[ast.stmt]) -> ast.stmt:
        """Return the loop over the listed y near an x."""
        at = ast.Subscript(ast.Name(NEAR, ast.Load()), ast.Name(NEAR_AT, ast.Load()), ast.Load())
        bounds = (ast.Name(name, ast.Load()) for name in (NEAR_FIRST, NEAR_END))
        body = [ast.Assign([ast.Name(AT, ast.Store())], at), *body]
        return _placed(
            ast.For(ast.Name(NEAR_AT, ast.Store()), _called("range", *bounds), body, []), self.source.tree
        )

    def compared(self, sign: ast.cmpop) -> ast.expr:
        """Return the test of the index of y against that of x."""
        index = ast.Attribute(ast.Name(self.x, ast.Load()), "index", ast.Load())
        return ast.Compare(ast.Name(AT, ast.Load()), [sign], [index])

    def distance(self, at: ast.AST) -> ast.Call:
        """Return the squared distance of the two points."""
        points: list[ast.expr] = [ast.Name(self.x, ast.Load()), self.point(at)]
        if not self.rule.boxed:
            return _placed(_called("squared_distance", *points), at)
        return _placed(_called("in_box", *points, *(ast.Name(n, ast.Load()) for n in (BOX, PERIOD))), at)

    def point(self, at: ast.AST, *index: ast.expr) -> ast.Subscript:
        """Return the point y, or a coordinate of it."""
        where: list[ast.expr] = [ast.Name(AT, ast.Load()), *index]
        slice_ = where[0] if len(where) == 1 else ast.Tuple(where, ast.Load())
        return _placed(ast.Subscript(ast.Name(self.y, ast.Load()), slice_, ast.Load()), at)

    # --- what a function says

    def visit_Name(self, node: ast.Name) -> ast.AST:
        if node.id == self.y:
            if isinstance(node.ctx, ast.Load):
                self.source.fail(node, f"{node.id!r} is a point: read its coordinates, as {node.id}[f]")
            self.source.fail(node, f"{node.id!r} is a point: it can only be read")
        if node.id in self.source.axes:
            self.fail_own(node, node.id)
        return node

    def fail_own(self, node: ast.AST, name: str) -> None:
        self.source.fail(node, f"{name!r} has its own numbers for each x, expected {name}[{self.x}.index]")

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        owner = node.value.id if isinstance(node.value, ast.Name) else ""
        if owner not in (self.x, self.y):
            return self.generic_visit(node)
        if not isinstance(node.ctx, ast.Load):
            self.source.fail(node, f"{owner!r} is a point: it can only be read")
        if node.attr == "index":
            return node if owner == self.x else _placed(ast.Name(AT, ast.Load()), node)
        if node.attr in ("stored", "shape"):
            self.source.fail(node, f"a point has coordinates, index and numbers by name, found {node.attr!r}")
        name = f"{owner}.{node.attr}"
        self.marks.setdefault(node.attr, {})[name] = None
        if owner == self.x:
            return _placed(ast.Name(name, ast.Load()), node)
        where = ast.Subscript(ast.Name(name, ast.Load()), ast.Name(AT, ast.Load()), ast.Load())
        return _placed(where, node)

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        name = node.value.id if isinstance(node.value, ast.Name) else ""
        parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        if name == self.y:
            if not isinstance(node.ctx, ast.Load):
                self.source.fail(node, f"{name!r} is a point: it can only be read")
            return self.point(node, *(self.visit(each) for each in parts))
        if [ast.unparse(each) for each in parts] == [f"{self.x}.index", f"{self.y}.index"]:
            self.source.fail(node, f"{name!r} has a number of each pair, expected one assignment, by =")
        if name not in self.source.axes:
            self.lines.setdefault(name, node)
            return self.generic_visit(node)
        first, *others = parts
        if ast.unparse(first) != f"{self.x}.index":
            self.fail_own(node, name)
        self.lines.setdefault(name, node)
        if not others:
            return _placed(ast.Name(name, node.ctx), node)
        index = [self.visit(each) for each in others]
        slice_ = index[0] if len(index) == 1 else ast.Tuple(index, ast.Load())
        return _placed(ast.Subscript(ast.Name(name, ast.Load()), slice_, node.ctx), node)

    def visit_Call(self, node: ast.Call) -> ast.AST:
        word = KNOWN.get(id(self.source.called(node)))
        if word == "local":
            self.source.fail(node, "local(...) is not available in a function of two points")
        given = sorted(each.id for each in node.args if isinstance(each, ast.Name))
        if word == "squared_distance" and given == sorted((self.x, self.y)):
            return self.distance(node)
        is_y = [isinstance(each, ast.Name) and each.id == self.y for each in node.args]
        if self.rule.boxed and any(is_y) and word is None:
            self.source.fail(
                node, "found a function that is given a point in a box, expected squared_distance here"
            )
        node.args = [
            self.point(each) if yes else self.visit(each) for each, yes in zip(node.args, is_y, strict=True)
        ]
        if isinstance(node.func, ast.Attribute):
            node.func = self.visit(node.func) if _is_point(node.func, self.x, self.y) else node.func
        return node


class _Once(ast.NodeTransformer):
    """Lets statements that combine shared results run for one order of a pair, or for none."""

    def __init__(self, reader: _Lowering, shared: set[str], drop: bool) -> None:
        self.reader, self.shared, self.drop = reader, shared, drop

    def once(self, node: ast.stmt, names: set[str | None]) -> ast.stmt:
        """Return a statement with a condition if it combines shared results."""
        if not names & self.shared:
            return node
        if names - self.shared:
            self.reader.source.fail(
                node, "found results of x and of all pairs, expected a statement for each"
            )
        if self.drop:
            return _placed(ast.Pass(), node)
        return _placed(ast.If(self.reader.compared(ast.Gt()), [node], []), node)

    def visit_AugAssign(self, node: ast.AugAssign) -> ast.AST:
        return self.once(node, {target_name(node.target)})

    def visit_Assign(self, node: ast.Assign) -> ast.AST:
        return self.once(node, {target_name(target) for target, _ in pairs_of(node)})

    def visit_If(self, node: ast.If) -> ast.AST:
        found = match_extremum(self.reader.source, node)
        leader = None if found is None else target_name(found.target)
        if leader not in self.reader.source.operators:
            return self.generic_visit(node)
        return self.once(node, {leader})


def _is_point(function: ast.Attribute, *points: str) -> bool:
    return isinstance(function.value, ast.Name) and function.value.id in points


def _assigned(array: str, index: ast.expr, value: ast.expr) -> ast.Assign:
    """Return a statement that assigns an element."""
    return ast.Assign([ast.Subscript(ast.Name(array, ast.Load()), index, ast.Store())], value)


def _called(name: str, *args: ast.expr) -> ast.Call:
    """Return a call of one of the words that only lowered functions have."""
    return ast.Call(ast.Name(f"__{name}", ast.Load()), list(args), [])


def _placed(node: N, at: ast.AST) -> N:
    """Give a node, and all in it that have none, the line of another."""
    for each in ast.walk(node):
        if not hasattr(each, "lineno") and isinstance(each, (ast.expr, ast.stmt)):
            ast.copy_location(each, at)
    return node
