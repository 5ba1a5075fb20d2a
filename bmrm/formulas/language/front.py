"""The front end: from Python's syntax tree to the typed tree.

Types of locals are found by repetition: the tree is built until no type grows any more. A function is read
again for the types that the arguments of a call have, and for dense or sparse rows.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping

from bmrm.errors import ReductionError
from bmrm.formulas.language.expressions import Given, word_of
from bmrm.formulas.language.inlining import InlineReader
from bmrm.formulas.language.leaving import enclosed, ends, is_true
from bmrm.formulas.language.operators import ReductionOperator, find_sign, sign_text
from bmrm.formulas.language.source import (
    ROWS,
    Extremum,
    FunctionSource,
    as_loaded,
    match_extremum,
    match_update,
    negated,
    pairs_of,
    target_name,
)
from bmrm.formulas.language.tree import (
    RANKS,
    Apply,
    Argument,
    Combine,
    Const,
    Expr,
    For,
    ForStored,
    If,
    Leave,
    Load,
    Local,
    Program,
    RowItem,
    Set,
    SetItem,
    Size,
    SizeOf,
    Statement,
    Var,
    While,
    join_types,
    targets_left,
)


def read_program(
    source: FunctionSource, given: Mapping[str, Given] | None = None, *, sparse: bool = False
) -> Program:
    """Build the typed tree of a row function.

    Parameters
    ----------
    source : FunctionSource
    given : dict of str to Given, optional
        What a call gives for each parameter; default: not known yet.
    sparse : bool, default False
        Whether rows are sparse.

    Raises
    ------
    ReductionError
        For whatever a row function cannot have, with its line.
    """
    reader = Reader(source, given or {}, sparse)
    try:
        before = None
        while before != reader.state():  # each type can grow three times, and mostly all do in one pass
            before = reader.state()
            body = reader.read_all()
        return reader.program(body)
    except RecursionError:
        raise ReductionError(
            f"{source.name}: found code nested too deeply, expected shorter expressions"
        ) from None


class Reader(InlineReader):
    """Reads the statements of a row function; see `read_program`."""

    def begin(self) -> None:
        super().begin()
        self.open_loops: list[_Scope] = []

    def read_all(self) -> tuple[Statement, ...]:
        self.begin()
        return self.block(self.source.tree.body)

    def program(self, body: tuple[Statement, ...]) -> Program:
        source = self.source
        arguments = {}
        for name in source.names:
            role, dims = source.roles[name], self.dims.get(name, ())
            kind = self.types.get(name, source.types.get(name, "any"))
            axes = source.axes.get(name, self.axes if role == "output" else ())
            if role == "parameter" and name in self.given:
                axes, kind = self.given[name]
            elif name in self.arrays:
                kind = self.arrays[name].type
            leader, operator = source.leaders.get(name, ""), source.operators.get(name)
            found = Argument(name, role, dims, kind, leader, operator, axes)
            arguments[name] = found
            if axes and role != "parameter" and (role != "output" or dims):
                self.arrays[name] = Local(dims, kind, found.identity, found.wide)
        if not any(a.role != "parameter" for a in arguments.values()):
            self.fail(source.tree, "found no result, expected an argument that the function writes")
        locals_ = {n: t for n, t in self.types.items() if n not in arguments}
        return Program(
            source.name,
            self.axes,
            source.width,
            arguments,
            locals_,
            dict(self.arrays),
            body,
            tuple(self.squares),
        )

    # --- statements

    def block(self, body: list[ast.stmt]) -> tuple[Statement, ...]:
        found: list[Statement] = []
        for statement in body:
            outer, self.pending = self.pending, []
            made = list(self.statement(statement))
            if not ends(tuple(found)):
                found += [*self.pending, *made]
            self.pending = outer
        return tuple(found)

    def statement(self, node: ast.stmt) -> Iterator[Statement]:
        match node:
            case ast.Expr(value=ast.Constant()) | ast.Pass():
                return
            case ast.Assign():
                yield from self.assign(node)
            case ast.AnnAssign(target=ast.Name() as target, value=ast.expr() as value):
                yield from self.assign(ast.copy_location(ast.Assign([target], value), node))
            case ast.AugAssign():
                yield from self.augment(node)
            case ast.If():
                yield from self.condition(node)
            case ast.For():
                yield from self.loop(node)
            case ast.While():
                yield from self.while_loop(node)
            case ast.Break():
                self.open_loops[-1].breaks.append(set(self.ready))
                yield Leave(self.open_loops[-1].name)
            case ast.Continue():
                yield Leave(self.open_loops[-1].iteration)
            case ast.Return() if self.calls:
                yield from self.returned(node)
            case ast.Return(value=None) if node is self.source.tree.body[-1]:
                return
            case ast.Expr():
                self.fail(node, "found a value that nothing uses, expected an assignment")
            case _:
                self.fail(node, f"{word_of(node)} is not available in a row function")

    def assign(self, node: ast.Assign) -> Iterator[Statement]:
        for target in node.targets:
            if isinstance(target, (ast.Tuple, ast.List)) and not (
                isinstance(node.value, ast.Tuple) and len(node.value.elts) == len(target.elts)
            ):
                self.fail(node, f"found {len(target.elts)} targets, expected the same number of values")
        pairs = list(pairs_of(node))
        if len(pairs) == 1:
            yield from self.assign_one(node, *pairs[0])
            return
        # All values are computed before any is assigned, as in `a, b = b, a`.
        written = [target_name(target) for target, _ in pairs]
        held: list[tuple[ast.expr, ast.expr, Expr | None]] = []
        for target, value in pairs:
            name = target_name(target)
            plain = name not in self.source.roles or self.source.roles[name] == "output"
            if plain and not self.is_local_call(value):
                made = self.expr(value)
                if any(isinstance(n, ast.Name) and n.id in written for n in ast.walk(value)):
                    made = self.hold(made)
                held.append((target, value, made))
            else:
                held.append((target, value, None))
        for target, value, found in held:
            if found is None:
                yield from self.assign_one(node, target, value)
            else:
                yield self.store(node, target, found)

    def assign_one(self, node: ast.stmt, target: ast.expr, value: ast.expr) -> Iterator[Statement]:
        name = target_name(target)
        if self.is_local_call(value):
            self.make_array(node, target, value)
            return
        if name in self.source.roles and self.source.roles[name] != "output":
            found = match_update(self.source, target, value)
            if found is None:
                self.fail(
                    node, f"{name!r} is a result combined by {self.source.roles[name]}, found an assignment"
                )
            yield self.combine(node, found[0], target, found[1])
            return
        yield self.store(node, target, self.expr(value))

    def store(self, node: ast.stmt, target: ast.expr, value: Expr) -> Statement:
        if isinstance(target, ast.Name):
            name = target.id
            if name in self.counters:
                self.fail(node, f"{name!r} counts a loop: it cannot be assigned inside it")
            if name in self.arrays:
                kind = "a result with an index" if name in self.source.roles else "a local array"
                self.fail(node, f"{name!r} is {kind}: its elements can be assigned")
            known = self.source.types.get(name) if name in self.source.roles else None
            kind = join_types(self.types.get(name, known or "bool"), value.type)
            if known and kind != known and kind != "any":
                self.fail(node, f"{name!r} has type {known}, found a value of type {kind}")
            self.types[name] = kind
            self.ready.add(name)
            return Set(name, self.cast(node, kind, value))
        if isinstance(target, ast.Subscript):
            name, index = self.subscripts(target)
            if name in self.source.roles and name not in self.arrays:
                self.fail(node, f"{name!r} is one number for each row, found an index")
            if name not in self.arrays:
                what = "is not a local array" if name in self.own else "is not known here"
                self.fail(node, f"{name!r} {what}; local(...) makes one")
            array = self.arrays[name]
            index = self.placed(node, name, index, array.dims)
            kind = join_types(array.type, value.type)
            self.arrays[name] = Local(array.dims, kind)
            return SetItem(name, index, self.cast(node, kind, value), self.source.line(node))
        self.fail(node, f"found the target {ast.unparse(target)}, expected a name or an element")

    def augment(self, node: ast.AugAssign) -> Iterator[Statement]:
        name = target_name(node.target)
        role = self.source.roles.get(name or "", "parameter")
        if name in self.source.roles and role != "output":
            found = find_sign(node.op)
            given = negated(node.value) if found and found[1] else node.value
            yield self.combine(node, self.source.operators[name], node.target, given)
            return
        read = ast.copy_location(as_loaded(node.target), node.target)
        value = self.binary(node, node.op, self.expr(read), self.expr(node.value))
        yield self.store(node, node.target, value)

    def combine(
        self,
        node: ast.stmt,
        op: ReductionOperator,
        target: ast.expr,
        value: ast.expr,
        others: tuple[tuple[ast.expr, ast.expr], ...] = (),
    ) -> Statement:
        name, index = self.result(node, target)
        found = self.expr(value)
        if found.type == "real" and not op.takes_real:
            how = f"{sign_text(op.signs[0]())}=" if op.signs else op.about.removeprefix("combined by ")
            self.fail(node, f"{name!r}: {how} combines integers")
        self.types[name] = join_types(self.types.get(name, op.type), found.type)
        said = self.source.types.get(name)
        if said and RANKS[self.types[name]] > RANKS[said] and self.types[name] != "any":
            self.fail(node, f"{name!r} has type {said}, found a value of type {self.types[name]}")
        if said:
            self.types[name] = said
        along: list[tuple[str, Expr]] = []
        for one, what in others:
            other, _ = self.result(node, one)
            shapes = [(self.source.axes.get(each), self.dims[each]) for each in (other, name)]
            if _index_text(one) != _index_text(target) or shapes[0] != shapes[1]:
                self.fail(node, f"{other!r} has another index or shape than {name!r}, expected the same")
            made = self.expr(what)
            self.types[other] = join_types(self.types.get(other, "int"), made.type)
            along.append((other, self.cast(node, self.types[other], made)))
        made, line = self.cast(node, self.types[name], found), self.source.line(node)
        if name not in self.source.axes:
            return Combine(name, op, index, made, tuple(along), line)
        if not along:
            return SetItem(name, index, made, line, op)
        held = self.hold(made)
        better = Apply(op.order, (held, Load(name, index, held.type, line)), "bool", line)
        kept = [(name, held), *along]
        return If(better, tuple(SetItem(each, index, what, line) for each, what in kept), ())

    def result(self, node: ast.stmt, target: ast.expr) -> tuple[str, tuple[Expr, ...]]:
        """Return the name and the index of a result."""
        index: tuple[Expr, ...] = ()
        if isinstance(target, ast.Name):
            name = target.id
        else:
            name, index = self.subscripts(target)
        dims = self.source.dims[name]
        if dims is None:
            if index:
                self.fail(
                    node,
                    f"{name!r} is a result with an index: its annotation must give its shape, "
                    f'as {name}: "k" or {name}: ("k", "d")',
                )
            dims = ()
        self.dims[name] = dims
        return name, self.placed(node, name, index, dims)

    def condition(self, node: ast.If) -> Iterator[Statement]:
        found = match_extremum(self.source, node)
        if found is not None and self.is_result(found):
            yield self.combine(node, found.op, found.target, found.value, found.others)
            return
        test = self.truth(node, self.expr(node.test))
        before = set(self.ready)
        body = self.block(node.body)
        after, self.ready = self.ready, before
        orelse = self.block(node.orelse)
        if ends(orelse):
            self.ready = after
        elif not ends(body):
            self.ready &= after
        yield If(test, body, orelse)

    def is_result(self, found: Extremum) -> bool:
        name = target_name(found.target)
        return name is not None and self.source.operators.get(name) is found.op

    def loop(self, node: ast.For) -> Iterator[Statement]:
        if node.orelse:
            self.fail(node, "else of a loop is not available in a row function")
        call = node.iter
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute):
            yield from self.stored_loop(node, call)
            return
        if not (isinstance(call, ast.Call) and self.function_of(call) == "range"):
            self.fail(node, f"a loop runs over range(...) or {self.source.row}.stored() here")
        if not isinstance(node.target, ast.Name):
            self.fail(node, "found several loop variables, expected one")
        if call.keywords or not 1 <= len(call.args) <= 3:
            self.fail(node, "range takes one to three integers")
        bounds = [self.expr(each) for each in call.args]
        if any(bound.type not in ("int", "bool", "any") for bound in bounds):
            self.fail(node, "range takes integers; int(...) converts to one")
        bounds = [self.cast(node, "int", bound) for bound in bounds]
        start = bounds[0] if len(bounds) > 1 else Const(0, "int")
        stop = bounds[min(1, len(bounds) - 1)]
        step = bounds[2] if len(bounds) > 2 else Const(1, "int")
        if not (isinstance(step, Const) and step.value):
            self.fail(node, "the step of range must be a constant other than 0")
        with _Scope(self, node, node.target.id) as scope:
            body = enclosed(scope.iteration, self.block(node.body))
        yield For(scope.name, start, stop, int(step.value), body)

    def while_loop(self, node: ast.While) -> Iterator[Statement]:
        if node.orelse:
            self.fail(node, "else of a loop is not available in a row function")
        outer, self.pending = self.pending, []
        test = self.truth(node, self.expr(node.test))
        before, self.pending = tuple(self.pending), outer
        with _Scope(self, node) as scope:
            body = enclosed(scope.iteration, self.block(node.body))
        made = While(scope.name, before, test, body, self.source.line(node))
        if is_true(test):
            if not targets_left((made,)) and not scope.breaks:
                self.fail(node, "found a loop that never ends, expected a break in it")
            # What has a value at each break has one. On a GPU a pass that is to end leaves without.
            known = set.intersection(*scope.breaks) - self.ready if scope.breaks else set()
            known = {name for name in known if "." not in name.removeprefix(self.source.prefix)}
            for name in sorted(known):
                yield Set(name, self.cast(node, self.types[name], Const(False, "bool")))
            self.ready |= known
        yield made

    def stored_loop(self, node: ast.For, call: ast.Call) -> Iterator[Statement]:
        function = call.func
        assert isinstance(function, ast.Attribute)
        row = self.source.row
        if not (isinstance(function.value, ast.Name) and function.value.id == row):
            self.fail(node, f"a loop runs over range(...) or {row}.stored() here")
        if function.attr != "stored" or call.args or call.keywords:
            self.fail(node, f"a loop runs over range(...) or {row}.stored() here")
        names = node.target.elts if isinstance(node.target, ast.Tuple) else []
        if len(names) != 2 or not all(isinstance(each, ast.Name) for each in names):
            self.fail(node, f"found one loop variable, expected two: for f, v in {row}.stored()")
        index, value = (each.id for each in names if isinstance(each, ast.Name))
        if value in self.source.roles or value in self.counters or value == index:
            self.fail(node, f"{value!r} has another meaning here, expected a new name")
        if self.types.get(value, "real") != "real" or value in self.arrays:
            self.fail(node, f"{value!r} has another meaning here, expected a new name")
        self.types[value] = "real"
        known = value in self.ready
        with _Scope(self, node, index) as scope:
            self.ready.add(value)
            body = enclosed(scope.iteration, self.block(node.body))
        if not known:
            self.ready.discard(value)
        yield self.visit_stored(scope.name, value, body)

    def visit_stored(self, index: str, value: str, body: tuple[Statement, ...]) -> Statement:
        """Loop over what is stored of a sparse row, or over all of a dense one."""
        if self.sparse:
            return ForStored(self.source.row, index, value, body)
        item = Set(value, RowItem(self.source.row, Var(index, "int"), 0))
        return For(index, Const(0, "int"), SizeOf(self.source.width), 1, (item, *body))

    # --- local arrays and subscripts

    def make_array(self, node: ast.stmt, target: ast.expr, call: ast.expr) -> None:
        assert isinstance(call, ast.Call)
        if not isinstance(target, ast.Name) or target.id in self.source.roles:
            self.fail(node, "local(...) makes an array of the row's own: assign it to a new name")
        if self.calls:
            self.fail(node, "local(...) is not available in a function that a row function calls")
        if node not in self.source.tree.body:
            self.fail(node, "local(...) must be outside of loops and branches")
        if call.keywords or not call.args:
            self.fail(node, 'local takes sizes: numbers, or names in quotes, as local("k")')
        dims: list[Size] = []
        for each in call.args:
            if isinstance(each, ast.Constant) and each.value == ROWS:
                self.fail(node, f"{ROWS!r} is the number of rows: no local array has this size")
            if isinstance(each, ast.Constant) and isinstance(each.value, str) and each.value.isidentifier():
                dims.append(each.value)
                continue
            found = self.expr(each)
            if isinstance(found, SizeOf):
                dims.append(found.size)
            elif isinstance(found, Const) and type(found.value) is int and 1 <= found.value < 2**31:
                dims.append(found.value)
            else:
                self.fail(node, 'local takes sizes: numbers, or names in quotes, as local("k")')
        name = target.id
        if name in self.ready or name in self.counters or name in self.types:
            self.fail(node, f"{name!r} has another meaning above, expected a new name")
        self.arrays[name] = Local(tuple(dims), self.arrays[name].type if name in self.arrays else "bool")
        self.ready.add(name)


class _Scope:
    """The body of a loop: its variable has a value, and what the body assigns may have none after it.

    Attributes
    ----------
    name, iteration : str
        What `break` and `continue` leave.
    breaks : list of set of str
        Locals that have a value, at each break.
    """

    def __init__(self, reader: Reader, node: ast.AST, counter: str = "") -> None:
        if counter in reader.source.roles or counter == reader.source.row:
            reader.fail(node, f"{counter!r} is an argument: it cannot count a loop")
        if counter in reader.arrays:
            reader.fail(node, f"{counter!r} is a local array: it cannot count a loop")
        if counter in reader.counters:
            reader.fail(node, f"{counter!r} counts a loop around this one already")
        self._reader, self._counter, self.breaks = reader, counter, list[set[str]]()

    def __enter__(self) -> _Scope:
        reader = self._reader
        reader.loops += 1
        self._ready = set(reader.ready)
        self.name = f"{self._counter or 'while'}.{reader.loops}"
        self.iteration = f"{self.name}.iteration"
        if self._counter:
            reader.counters[self._counter] = self.name
        reader.open_loops.append(self)
        return self

    def __exit__(self, *_: object) -> None:
        self._reader.open_loops.pop()
        self._reader.counters.pop(self._counter, None)
        self._reader.ready = self._ready


def _index_text(target: ast.expr) -> str:
    """Return the text of an element without the name of its array."""
    return ast.unparse(target).removeprefix(target_name(target) or "")
