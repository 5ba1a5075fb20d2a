"""What a row function means, run by Python alone: whole numbers wrap at 64 bits, and no index is below 0.

The text of the function runs on numbers of Python, one row after the other, with each operation on whole
numbers followed by the wrap. It shares nothing with the package, neither its front end nor its plain loop.
Real numbers are Python's own, so rows and parameters are float64.
"""

import ast
import math
import textwrap

import numpy as np

LEAST, GREATEST = -(2**63), 2**63 - 1


class OutsideError(Exception):
    """A row has an index outside of an array, shifts by less than 0 or more than 63 bits, or divides by 0."""


def wrapped(value):
    """A whole number as 64 bits hold it; any other value as it is."""
    if isinstance(value, bool) or not isinstance(value, int):
        return value
    return (value - LEAST) % 2**64 + LEAST


def whole(value):
    """The value of ``int(value)``: NaN is the least whole number, and large numbers are the nearest one."""
    if not isinstance(value, float):
        return int(value)
    if math.isnan(value):
        return LEAST
    return GREATEST if value >= 2.0**63 else LEAST if value < -(2.0**63) else int(value)


def binary(sign, a, b):
    if sign in ("//", "%") and b == 0 and not isinstance(a, float) and not isinstance(b, float):
        raise OutsideError("division by 0")
    if sign in ("<<", ">>") and not 0 <= b < 64:
        raise OutsideError(f"a shift by {b}")
    return wrapped(OPERATIONS[sign](a, b))


OPERATIONS = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "/": lambda a, b: a / b,
    "//": lambda a, b: a // b,
    "%": lambda a, b: a % b,
    "**": lambda a, b: a**b,
    "<<": lambda a, b: a << b,
    ">>": lambda a, b: a >> b,
    "&": lambda a, b: a & b,
    "|": lambda a, b: a | b,
    "^": lambda a, b: a ^ b,
}
SIGNS = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.FloorDiv: "//", ast.Mod: "%",
    ast.Pow: "**", ast.LShift: "<<", ast.RShift: ">>", ast.BitAnd: "&", ast.BitOr: "|", ast.BitXor: "^",
}  # fmt: skip


class Cells:
    """An array of numbers of Python; an index below 0 counts from the end only if it is a literal."""

    def __init__(self, values, shape):
        self.values, self.shape = list(values), shape

    def __len__(self):
        return self.shape[0]

    def place(self, index, literal):
        at = 0
        for each, is_literal, size in zip(index, literal, self.shape, strict=True):
            each = each + size if is_literal and each < 0 else each
            if not 0 <= each < size:
                raise OutsideError(f"index {each} of {size}")
            at = at * size + each
        return at


class Row(Cells):
    def stored(self):
        return enumerate(self.values)


class Rewriter(ast.NodeTransformer):
    def visit_BinOp(self, node):
        self.generic_visit(node)
        return call("binary", ast.Constant(SIGNS[type(node.op)]), node.left, node.right)

    def visit_UnaryOp(self, node):
        self.generic_visit(node)
        return node if isinstance(node.op, ast.Not) else call("wrapped", node)

    def visit_Call(self, node):
        self.generic_visit(node)
        if isinstance(node.func, ast.Name) and node.func.id == "abs":
            return call("wrapped", node)
        return node

    def visit_Subscript(self, node):
        name, *index = self.element(node)
        return call("read", name, *index)

    def visit_Assign(self, node):
        (target,), value = node.targets, node.value
        if isinstance(target, ast.Tuple):  # of results, whose values read none of them
            pairs = zip(target.elts, value.elts, strict=True)
            return [self.store(one, self.visit(what)) for one, what in pairs]
        return self.store(target, self.visit(value))

    def visit_AugAssign(self, node):
        read = ast.parse(ast.unparse(node.target), mode="eval").body
        value = call("binary", ast.Constant(SIGNS[type(node.op)]), self.visit(read), self.visit(node.value))
        return self.store(node.target, value)

    def store(self, target, value):
        if isinstance(target, ast.Name):
            return ast.Assign([target], value)
        name, *index = self.element(target)
        return ast.Expr(call("write", name, value, *index))

    def element(self, node):
        """The array, the parts of the index, and which of them are literals."""
        index = []
        while isinstance(node, ast.Subscript):
            index = (node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]) + index
            node = node.value
        literal = tuple(not any(isinstance(n, (ast.Name, ast.Call)) for n in ast.walk(i)) for i in index)
        return node, ast.Tuple([self.visit(each) for each in index], ast.Load()), ast.Constant(literal)


def call(name, *words):
    return ast.Call(ast.Name(name, ast.Load()), list(words), [])


def read(cells, index, literal):
    """An element, or a row."""
    rest = cells.shape[len(index) :]
    first = Cells((), cells.shape[: len(index)]).place(index, literal) * math.prod(rest)
    return Cells(cells.values[first : first + math.prod(rest)], rest) if rest else cells.values[first]


def write(cells, value, index, literal):
    cells.values[cells.place(index, literal)] = value


def run(text, X, words, results, shapes, sizes):
    """Run a row function.

    ``results`` are the values of no rows by name; ``shapes`` are those of arrays by name, with "rows" first
    if each row has its own, and ``sizes`` those of the call. Returns the results by name.
    """
    of_rows = {name for name, shape in shapes.items() if shape[0] == "rows"}
    shapes = {name: shape[1:] if name in of_rows else shape for name, shape in shapes.items()}

    tree = ast.parse(textwrap.dedent(text))
    function = tree.body[-1]
    names = [each.arg for each in function.args.args]
    for argument in function.args.args:
        argument.annotation = None
    for each in tree.body:  # functions that the last one calls come before it
        parts = [Rewriter().visit(statement) for statement in each.body]
        each.body = [one for part in parts for one in (part if isinstance(part, list) else [part])]
    numbers = [name for name in results if not shapes.get(name)]
    function.body.append(ast.Return(ast.Tuple([ast.Name(name, ast.Load()) for name in numbers], ast.Load())))
    scope = {
        "binary": binary, "wrapped": wrapped, "read": read, "write": write, "int": whole,
        "local": lambda size: Cells([0] * sizes.get(size, size), (sizes.get(size, size),)),
        "squared_distance": lambda row, p: sum(
            (a - b) ** 2 for a, b in zip(row.values, p.values, strict=True)
        ),
    }  # fmt: skip
    exec(compile(ast.fix_missing_locations(tree), "<wrapping>", "exec"), scope)

    def start(name):
        return (
            results[name]
            if name in numbers
            else Cells([results[name]] * math.prod(shapes[name]), shapes[name])
        )

    def value(name):
        return state[name] if name in numbers else np.reshape(state[name].values, shapes[name])

    state = {name: start(name) for name in results}
    outputs = {name: [] for name in results if name in of_rows}
    for at, values in enumerate(np.asarray(X).tolist()):
        row = Row(values, (len(values),))
        row.index = at
        state |= {name: start(name) for name in outputs}
        given = [
            state[n] if n in state else parameter(words[n], shapes.get(n), at, n in of_rows)
            for n in names[1:]
        ]
        state |= zip(numbers, scope[function.name](row, *given), strict=True)
        for name, values in outputs.items():
            values.append(value(name))
    rows = len(X)
    return {
        name: np.reshape(outputs[name], (rows, *shapes[name])) if name in outputs else np.asarray(value(name))
        for name in results
    }


def parameter(value, shape, row, own):
    value = np.asarray(value)[row] if own else np.asarray(value)
    if shape:
        return Cells(value.reshape(-1).tolist(), shape)
    return value[row].item() if value.ndim else value.item()
